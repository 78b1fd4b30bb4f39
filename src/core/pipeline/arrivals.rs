//! The one place between connections and sessions where something waits for what other connections may still bring.
//!
//! ```text
//!  connections ── heads, texts, events, ends ──► arrivals ──► tracker ──► rules ──► Event
//!                                                  ▲   │ lacks?
//!                        holes, order, clock ──────┘   └ unplaced: it is not known whose a text is
//!                                                        unasked:  the request that a text follows was not captured so far
//!                                                        ended:    exchanges and connections of which texts are held
//! ```
//!
//! In an orderly capture nothing is ever held, and a text passes without being copied. A text is held only while it lacks something
//! that may still come ([`Tracker::lacks_session`], [`Tracker::lacks_request`]), and no longer than [`MESSAGES`] messages or [`PATIENCE`] of capture time. What
//! comes later on the exchange of an unplaced text waits behind it, and an exchange or a connection ends after its last text, so that the
//! rules find everything about the exchange of a message, whenever that is released.

pub mod held;
mod holes;
mod order;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use self::held::{Ended, Held, HeldText, Item};
use self::holes::Holes;
use self::order::Order;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::Kind;
use crate::decode::stack::{Connected, Text};
use crate::decode::tcp::{Delivery, SegmentFact};
use crate::decode::{ConnectionId, Direction, Endpoints};
use crate::mcp::places::Place;
use crate::mcp::session::are_between;
use crate::mcp::tracker::{Moment, Outlook, Reading, Tracker};
use crate::mcp::{Message, Transport, facts, pairing};

/// Messages after which nothing is held any longer. What changes places in a capture are packets close to each other, and few of them complete a
/// message, but one may complete a batch.
const MESSAGES: u64 = 1_024;

/// Capture time, in nanoseconds, after which nothing is held any longer. A window of packets that change places may hold a pause.
const PATIENCE: i64 = 10_000_000_000;

/// Bytes of texts held at once. Beyond, those held longest are released.
const BYTES: usize = 16 << 20;

/// Texts, and events behind them, held because it is not known whose they are: few requests overtake the response without which their client cannot have sent them. They are
/// looked at again for every text.
const UNPLACED: usize = 256;

/// Texts held for their requests: where one clock is ahead, any number of responses may come before the requests.
const UNASKED: usize = 16_384;

/// Connections that ended while texts of them are held. A store holds [`crate::capture::Limits::undecided`] bytes of packets for each.
const CLOSED: usize = 256;

/// What is held, and what tells how long that is worth while.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Texts of which it is not known whose they are, and what came behind them on their exchanges, in order.
    unplaced: VecDeque<Held>,
    /// Texts whose requests were not captured so far, in order.
    unasked: VecDeque<Held>,
    /// Exchanges and connections that are over but for such texts, in order.
    ended: VecDeque<Ended>,
    /// Items of each exchange in the two lists.
    counts: FxHashMap<ExchangeNumber, u32>,
    bytes: usize,
    /// Requests told since the unasked texts were last looked at.
    requests: VecDeque<Request>,
    /// Nanoseconds by which packets may stand behind what was captured after them.
    late: i64,
    holes: Holes,
    order: Order,
}

/// A request, as far as texts may wait for it.
#[derive(Debug)]
struct Request {
    id: String,
    /// `_meta.progressToken`.
    token: Option<String>,
}

impl Request {
    fn is_named(&self, held: &HeldText) -> bool {
        held.names.iter().any(|name| {
            pairing::is_same_id(name, &self.id)
                || self.token.as_deref().is_some_and(|token| pairing::is_same_id(name, token))
        })
    }
}

/// Tells the ends of a TCP connection that is open.
pub(super) type Ends<'e> = dyn Fn(ConnectionId) -> Option<Endpoints> + 'e;

/// What may still come, as the tracker asks for it.
struct View<'a> {
    unplaced: &'a VecDeque<Held>,
    holes: &'a Holes,
    ends: &'a Ends<'a>,
}

impl Outlook for View<'_> {
    fn may_begin(&self, place: &Place, apart: ConnectionId) -> bool {
        let mut others = self.holes.beginning().filter(|id| *id != apart).filter_map(self.ends);
        others.any(|ends| are_between(ends, place.client, place.server))
    }

    fn holds_between(&self, place: &Place) -> bool {
        self.unplaced.iter().any(|held| match &held.item {
            Item::Text(text) if !text.reading.begins_session() => {
                text.connected.endpoints.is_some_and(|ends| are_between(ends, place.client, place.server))
            }
            _ => false,
        })
    }
}

/// Whether and where a text is to be held.
enum Verdict {
    Pass,
    Unplaced,
    Unasked,
}

impl Arrivals {
    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.ended.is_empty()
    }

    /// A segment arrived.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.holes.segment(fact);
        self.order.segment(fact);
        self.late = self.late.max(fact.late);
    }

    /// Bytes were delivered, or given up.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) {
        self.holes.delivered(delivery);
    }

    /// TCP is done with a connection.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.holes.closed(connection);
    }

    /// Whether what was sent before a message may be told behind it: packets of several connections changed places, or bytes are waited for on
    /// a connection of which `may_carry` says that it is or may be of the same session.
    pub(super) fn is_ahead(&self, may_carry: impl FnMut(ConnectionId) -> bool) -> bool {
        self.order.is_doubtful() || self.holes.are_many() || self.holes.iter().any(may_carry)
    }

    /// Whether something since then was held for long enough.
    pub(super) fn is_due(&self, (told, time): Moment, now: Moment) -> bool {
        let waited = now.1.since(time).saturating_sub(self.late);
        now.0.0 - told.0 >= MESSAGES && waited >= 0 || waited >= PATIENCE
    }

    /// Holds a text that lacks something. Gives it back where nothing is lacking.
    pub(super) fn admit<'t>(
        &mut self,
        text: Text<'t>,
        reading: Reading,
        connected: &Connected,
        tracker: &Tracker,
        ends: &Ends<'_>,
    ) -> Option<(Text<'t>, Reading)> {
        let list = match self.verdict(&text, &reading, connected, tracker, ends) {
            Verdict::Pass => return Some((text, reading)),
            Verdict::Unplaced => &mut self.unplaced,
            Verdict::Unasked => &mut self.unasked,
        };
        let text = HeldText::new(&text, reading, connected)?;
        let held = Held { item: Item::Text(Box::new(text)), since: tracker.now() };
        *self.counts.entry(held.exchange()).or_default() += 1;
        self.bytes += held.size();
        list.push_back(held);
        debug_assert!(self.is_bounded());
        None
    }

    fn verdict(
        &self,
        text: &Text<'_>,
        reading: &Reading,
        connected: &Connected,
        tracker: &Tracker,
        ends: &Ends<'_>,
    ) -> Verdict {
        let Some(exchange) = text.exchange() else { return Verdict::Pass };
        let view = View { unplaced: &self.unplaced, holes: &self.holes, ends };
        if self.is_behind(exchange) || tracker.lacks_session(text, reading, &view) {
            return Verdict::Unplaced;
        }
        match tracker.lacks_request(text, reading, connected, &view, false) {
            true => Verdict::Unasked,
            false => Verdict::Pass,
        }
    }

    /// Whether what comes on an exchange stands behind an unplaced text.
    pub(super) fn is_behind(&self, exchange: ExchangeNumber) -> bool {
        self.unplaced.iter().any(|held| held.exchange() == exchange)
    }

    /// Holds an event behind an unplaced text of its exchange.
    pub(super) fn hold_event(&mut self, event: held::HeldEvent, now: Moment) {
        let held = Held { item: Item::Event(Box::new(event)), since: now };
        *self.counts.entry(held.exchange()).or_default() += 1;
        self.bytes += held.size();
        self.unplaced.push_back(held);
        debug_assert!(self.is_bounded());
    }

    /// One item may be too much until the next that is due is taken.
    fn is_bounded(&self) -> bool {
        self.unplaced.len() <= UNPLACED + 1 && self.unasked.len() <= UNASKED + UNPLACED + 1
    }

    /// Whether texts of an exchange are held.
    pub(super) fn holds(&self, exchange: ExchangeNumber) -> bool {
        self.counts.contains_key(&exchange)
    }

    /// Whether a connection is needed yet for texts that are held.
    pub(super) fn holds_on(&self, connection: ConnectionId) -> bool {
        let is_on = |held: &Held| matches!(&held.item, Item::Text(text) if text.connection == connection);
        !self.counts.is_empty() && self.unplaced.iter().chain(&self.unasked).any(is_on)
            || self
                .ended
                .iter()
                .any(|ended| matches!(ended, Ended::Exchange(exchange) if exchange.connection == connection))
    }

    /// Holds an end behind the texts of its exchange or connection.
    pub(super) fn hold_end(&mut self, ended: Ended) {
        self.ended.push_back(ended);
    }

    /// A message was told: texts may wait for it.
    pub(super) fn told(&mut self, message: &Message) {
        if message.kind == Kind::Request
            && !self.unasked.is_empty()
            && let Some(id) = &message.id
        {
            let token = facts::body(message).object("_meta").get("progressToken").map(str::to_owned);
            self.requests.push_back(Request { id: id.as_ref().to_owned(), token });
        }
    }

    /// The next item that lacks nothing any more.
    pub(super) fn next_complete(&mut self, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        self.next_asked(tracker, ends).or_else(|| self.next_placed(tracker, ends))
    }

    /// What waited for a request comes right behind it. A second response waits for another request with the same id.
    fn next_asked(&mut self, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        while let Some(request) = self.requests.front() {
            let view = View { unplaced: &self.unplaced, holes: &self.holes, ends };
            let position = self.unasked.iter().position(|held| match &held.item {
                Item::Text(held) => {
                    let HeldText { reading, connected, .. } = &**held;
                    request.is_named(held) && !tracker.lacks_request(&held.text(), reading, connected, &view, true)
                }
                Item::Event(_) => false,
            });
            if let Some(position) = position {
                return self.take_unasked(position);
            }
            self.requests.pop_front();
        }
        None
    }

    /// A session got its id, or will have none, or a connection began: what waited for that is released, or waits for its request from now on.
    fn next_placed(&mut self, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        loop {
            let view = View { unplaced: &self.unplaced, holes: &self.holes, ends };
            let mut behind: Vec<ExchangeNumber> = Vec::new();
            let position = self.unplaced.iter().position(|held| {
                let exchange = held.exchange();
                let lacks = behind.contains(&exchange)
                    || matches!(&held.item, Item::Text(text) if tracker.lacks_session(&text.text(), &text.reading, &view));
                if lacks {
                    behind.push(exchange);
                }
                !lacks
            });
            let held = self.unplaced.remove(position?)?;
            if let Some(item) = self.placed(held, tracker, ends) {
                return Some(item);
            }
        }
    }

    /// A text of which it is known whose it is, or asked no longer; it may still lack its request.
    fn placed(&mut self, held: Held, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        let view = View { unplaced: &self.unplaced, holes: &self.holes, ends };
        if let Item::Text(text) = &held.item
            && tracker.lacks_request(&text.text(), &text.reading, &text.connected, &view, false)
        {
            self.unasked.push_back(Held { since: tracker.now(), ..held });
            return None;
        }
        Some(self.released(held))
    }

    fn released(&mut self, held: Held) -> Item {
        let exchange = held.exchange();
        self.bytes -= held.size();
        if let Some(count) = self.counts.get_mut(&exchange) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&exchange);
            }
        }
        held.item
    }

    /// The next end behind which nothing is held any more.
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        let position = self.ended.iter().position(|ended| match ended {
            Ended::Exchange(exchange) => !self.holds(exchange.number),
            Ended::Connection(connection, ..) => !self.holds_on(*connection),
        });
        self.ended.remove(position?)
    }

    /// The next item that was held for long enough, or is too much.
    pub(super) fn next_due(&mut self, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        let now = tracker.now();
        while let Some(first) = self.unplaced.front()
            && (self.unplaced.len() > UNPLACED || self.bytes > BYTES || self.is_due(first.since, now))
        {
            let held = self.unplaced.pop_front()?;
            if let Some(item) = self.placed(held, tracker, ends) {
                return Some(item);
            }
        }
        let first = self.unasked.front()?;
        let is_due = self.unasked.len() > UNASKED || self.bytes > BYTES || self.is_due(first.since, now);
        if is_due { self.take_unasked(0) } else { None }
    }

    /// The next text for which nothing comes any more, since its exchange is over: an `initialize` without a response, and what the response carried
    /// before its request. Responses on the stream of HTTP+SSE, and those of the client, may wait on.
    pub(super) fn next_of_exchange(&mut self, exchange: ExchangeNumber, tracker: &Tracker) -> Option<Item> {
        if !self.holds(exchange) {
            return None;
        }
        let begins = |held: &Held| match &held.item {
            Item::Text(text) => held.exchange() == exchange && text.reading.begins_session(),
            Item::Event(_) => false,
        };
        if let Some(position) = self.unplaced.iter().position(begins) {
            return self.take_unplaced(position);
        }
        let answers_here = |held: &Held| match &held.item {
            Item::Text(text) if held.exchange() == exchange && text.direction == Direction::ServerToClient => {
                let home = tracker.session_of_text(&text.text(), &text.reading, &text.connected);
                home.is_none_or(|(_, transport)| transport != Transport::HttpSse)
            }
            _ => false,
        };
        self.take_unasked(self.unasked.iter().position(answers_here)?)
    }

    fn take_unplaced(&mut self, position: usize) -> Option<Item> {
        let held = self.unplaced.remove(position)?;
        Some(self.released(held))
    }

    fn take_unasked(&mut self, position: usize) -> Option<Item> {
        let held = self.unasked.remove(position)?;
        Some(self.released(held))
    }

    /// The next text of a session that is about to end.
    pub(super) fn next_of_sessions(
        &mut self,
        tracker: &Tracker,
        is_ending: impl Fn(crate::mcp::SessionNumber) -> bool,
    ) -> Option<Item> {
        let position = self.unasked.iter().position(|held| match &held.item {
            Item::Text(text) => tracker
                .session_of_text(&text.text(), &text.reading, &text.connected)
                .is_some_and(|(session, _)| is_ending(session)),
            Item::Event(_) => false,
        })?;
        self.take_unasked(position)
    }

    /// The next text of the connection that ended first, where too many ended connections wait.
    pub(super) fn next_of_closed(&mut self) -> Option<Item> {
        let mut closed = self.ended.iter().filter_map(|ended| match ended {
            Ended::Connection(connection, ..) => Some(*connection),
            Ended::Exchange(_) => None,
        });
        let oldest = closed.next().filter(|_| closed.count() >= CLOSED)?;
        let is_on = |held: &Held| matches!(&held.item, Item::Text(text) if text.connection == oldest);
        match self.unplaced.iter().position(is_on) {
            Some(position) => self.take_unplaced(position),
            None => self.take_unasked(self.unasked.iter().position(is_on)?),
        }
    }

    /// The next item at the end of the capture, when nothing comes any more: what begins sessions first.
    pub(super) fn next_at_end(&mut self, tracker: &Tracker, ends: &Ends<'_>) -> Option<Item> {
        let begins = |held: &Held| matches!(&held.item, Item::Text(text) if text.reading.begins_session());
        while let Some(held) = {
            let first = self.unplaced.iter().position(begins).unwrap_or_default();
            self.unplaced.remove(first)
        } {
            if let Some(item) = self.placed(held, tracker, ends) {
                return Some(item);
            }
        }
        self.take_unasked(0)
    }
}
