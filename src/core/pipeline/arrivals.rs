//! The arrivals stage, between connections and sessions. It holds a text while something that it
//! needs may still arrive on another connection.
//!
//! ```text
//!  connections ── heads, texts, SSE, ends ─────► arrivals ──► tracker ──► rules ──► Event
//!                                                 ▲   │ lacks something?
//!                       holes, order, clock ──────┘   ├ no_session: texts of unknown sessions
//!                                                     ├ no_request: texts of unknown requests
//!                                                     └ ends: of exchanges with held texts
//! ```
//!
//! In an orderly capture a text passes without a copy. Only texts that refer to a request which
//! does not exist are held there. A text is held only while it lacks something that may still
//! arrive ([`Tracker::lacks_session`], [`Tracker::lacks_request`]). It waits at most [`MESSAGES`]
//! messages or [`PATIENCE`] of capture time for its session, then as long again for its request. If
//! packets arrive late, each wait is longer by the largest delay so far.
//!
//! While the session of a text is not known, later texts and events of its exchange are held too.
//! The end of an exchange or a connection is held until its last text is released. Therefore the
//! rules know everything about the exchange of a message, whenever the message is released.

pub mod held;

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use self::held::{HeldEnd, HeldItem, Item};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::Kind;
use crate::decode::stack::{ServerSentEvent, Text};
use crate::decode::{ConnectionId, Direction, Endpoints};
use crate::mcp::session::are_between;
use crate::mcp::session_index::ExchangeEvidence;
use crate::mcp::tracker::{ExpectedInput, Moment, Tracker};
use crate::mcp::{Message, Transport, content, pairing};

/// Messages after which a text is released. Packets are reordered over short distances, so few
/// messages pass meanwhile. The number is large because every member of a batch counts.
const MESSAGES: u64 = 1_024;

/// Nanoseconds of capture time after which a text is released. Packets may be out of order
/// across a pause.
const PATIENCE: i64 = 10_000_000_000;

/// Bytes of held texts and events. Above, the oldest are released.
const MOST_BYTES: usize = 16 << 20;

/// Texts and events held because their session is not known. A client cannot send a request before
/// it receives its session id, so few requests precede that response. All are checked
/// again for every text.
const MOST_NO_SESSION: usize = 256;

/// Texts held for their requests. If the clock of one capture point is ahead, any number of
/// responses may precede their requests.
const MOST_NO_REQUEST: usize = 16_384;

/// Connections that ended while texts of them are held. The store buffers
/// [`crate::capture::Limits::undecided`] bytes of packets for each.
const MOST_CLOSED: usize = 256;

/// Connections with holes that are checked one by one for each message. If there are more, anything
/// may still arrive.
const MANY_HOLES: usize = 256;

/// Held texts, events and ends, and the information that decides how long they are held.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Texts whose session is not known, and everything that arrived later on
    /// their exchanges, oldest first.
    no_session: VecDeque<HeldItem>,
    /// Texts whose requests were not captured so far, oldest first.
    no_request: VecDeque<HeldItem>,
    /// Ends of exchanges and connections that still have held texts, oldest first.
    ends: VecDeque<HeldEnd>,
    /// The number of held texts and events of each exchange.
    counts: FxHashMap<ExchangeNumber, u32>,
    bytes: usize,
    /// Requests that were emitted since the texts in `no_request` were last checked.
    requests: VecDeque<EmittedRequest>,
    /// The largest delay, in nanoseconds, of packets behind others that were captured later.
    late: i64,
    /// The connections with holes, and whether the beginning of a stream is or was missing.
    holes: BTreeMap<ConnectionId, bool>,
    /// Whether packets of several connections are out of order.
    is_doubtful: bool,
}

/// A request that was emitted, with the values by which a held text may refer to it.
#[derive(Debug)]
struct EmittedRequest {
    id: String,
    /// Its `_meta.progressToken`.
    token: Option<String>,
}

impl EmittedRequest {
    fn is_referenced_by(&self, held: &HeldItem) -> bool {
        held.references.iter().any(|name| {
            pairing::is_same_id(name, &self.id)
                || self.token.as_deref().is_some_and(|token| pairing::is_same_id(name, token))
        })
    }
}

/// Returns the endpoints of an open TCP connection.
pub(super) type EndpointLookup<'e> = dyn Fn(ConnectionId) -> Option<Endpoints> + 'e;

/// The answers of this stage to the tracker's question what may still arrive.
struct StageView<'a> {
    no_session: &'a VecDeque<HeldItem>,
    holes: &'a BTreeMap<ConnectionId, bool>,
    lookup: &'a EndpointLookup<'a>,
}

impl ExpectedInput for StageView<'_> {
    fn may_begin(&self, evidence: &ExchangeEvidence, except: ConnectionId) -> bool {
        let lacking_beginning = self.holes.iter().take(MANY_HOLES).filter(|(_, lacks_beginning)| **lacks_beginning);
        let mut others = lacking_beginning.map(|(id, _)| *id).filter(|id| *id != except).filter_map(self.lookup);
        others.any(|ends| are_between(ends, evidence.client, evidence.server))
    }

    fn holds_between(&self, evidence: &ExchangeEvidence) -> bool {
        self.no_session.iter().any(|held| match &held.item {
            Item::Text(text) if !text.parsed.begins_session => {
                text.connected.endpoints.is_some_and(|ends| are_between(ends, evidence.client, evidence.server))
            }
            _ => false,
        })
    }
}

/// The decision on a new text.
enum Verdict {
    Pass,
    HoldForSession,
    HoldForRequest,
}

impl Arrivals {
    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.ends.is_empty()
    }

    /// Records that bytes of a connection are missing that may still arrive.
    pub(super) fn has_holes(&mut self, connection: ConnectionId, lacks_beginning: bool) {
        self.holes.insert(connection, lacks_beginning);
    }

    /// Records the order of the packets so far.
    pub(super) fn order(&mut self, is_doubtful: bool, late: i64) {
        (self.is_doubtful, self.late) = (is_doubtful, late);
    }

    /// Forgets the holes of a connection: they were filled or lost, or the connection ended.
    pub(super) fn has_no_holes(&mut self, connection: ConnectionId) {
        self.holes.remove(&connection);
    }

    /// Whether a message that was sent earlier may be emitted later. That is so if packets of
    /// several connections are out of order, or if bytes are missing on a connection that is or may
    /// be of the same session (`may_carry`).
    pub(super) fn may_be_out_of_order(&self, may_carry: impl FnMut(ConnectionId) -> bool) -> bool {
        self.is_doubtful || self.holes.len() > MANY_HOLES || self.holes.keys().copied().any(may_carry)
    }

    /// Whether something held since `since` was held for long enough.
    pub(super) fn is_due(&self, (messages, time): Moment, now: Moment) -> bool {
        let waited = now.1.since(time).saturating_sub(self.late);
        now.0.0 - messages.0 >= MESSAGES && waited >= 0 || waited >= PATIENCE
    }

    /// Holds a text that lacks something. Returns a text that lacks nothing.
    pub(super) fn admit(
        &mut self,
        text: Box<Text>,
        tracker: &Tracker,
        lookup: &EndpointLookup<'_>,
    ) -> Option<Box<Text>> {
        let list = match self.verdict(&text, tracker, lookup) {
            Verdict::Pass => return Some(text),
            Verdict::HoldForSession => &mut self.no_session,
            Verdict::HoldForRequest => &mut self.no_request,
        };
        let held = HeldItem::new(Item::Text(text), tracker.now())?;
        *self.counts.entry(held.exchange).or_default() += 1;
        self.bytes += held.size();
        list.push_back(held);
        debug_assert!(self.is_bounded());
        None
    }

    fn verdict(&self, text: &Text, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Verdict {
        let Some(exchange) = text.exchange() else { return Verdict::Pass };
        let view = StageView { no_session: &self.no_session, holes: &self.holes, lookup };
        if self.holds_for_session(exchange) || tracker.lacks_session(text, &view) {
            return Verdict::HoldForSession;
        }
        match tracker.lacks_request(text, &view, false) {
            true => Verdict::HoldForRequest,
            false => Verdict::Pass,
        }
    }

    /// Whether a text of this exchange is held because its session is not known. Then later events
    /// of the exchange have to be held too.
    pub(super) fn holds_for_session(&self, exchange: ExchangeNumber) -> bool {
        self.no_session.iter().any(|held| held.exchange == exchange)
    }

    /// Holds an event of an exchange with a held text.
    pub(super) fn hold_event(&mut self, event: Box<ServerSentEvent>, now: Moment) {
        let Some(held) = HeldItem::new(Item::Event(event), now) else { return };
        *self.counts.entry(held.exchange).or_default() += 1;
        self.bytes += held.size();
        self.no_session.push_back(held);
        debug_assert!(self.is_bounded());
    }

    /// Until [`Self::next_due`] is called, `no_session` may exceed its limit by one item. All its
    /// items may then move to `no_request`.
    fn is_bounded(&self) -> bool {
        self.no_session.len() <= MOST_NO_SESSION + 1 && self.no_request.len() <= MOST_NO_REQUEST + MOST_NO_SESSION + 1
    }

    /// Whether texts or events of an exchange are held.
    pub(super) fn holds(&self, exchange: ExchangeNumber) -> bool {
        self.counts.contains_key(&exchange)
    }

    /// Whether held texts or ends need a connection.
    pub(super) fn holds_on(&self, connection: ConnectionId) -> bool {
        let is_on = |held: &HeldItem| matches!(&held.item, Item::Text(text) if text.connection == connection);
        !self.counts.is_empty() && self.no_session.iter().chain(&self.no_request).any(is_on)
            || self
                .ends
                .iter()
                .any(|end| matches!(end, HeldEnd::Exchange(exchange) if exchange.connection == connection))
    }

    /// Holds the end of an exchange or a connection until its texts are released.
    pub(super) fn hold_end(&mut self, end: HeldEnd) {
        self.ends.push_back(end);
    }

    /// Takes note of a message that was emitted: held texts may refer to it.
    pub(super) fn emitted(&mut self, message: &Message) {
        if message.kind == Kind::Request
            && !self.no_request.is_empty()
            && let Some(id) = &message.id
        {
            let token = content::body(message).object("_meta").get("progressToken").map(str::to_owned);
            self.requests.push_back(EmittedRequest { id: id.as_ref().to_owned(), token });
        }
    }

    /// Releases the next text or event that lacks nothing any more.
    pub(super) fn next_complete(&mut self, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Option<Item> {
        self.next_with_request(tracker, lookup).or_else(|| self.next_with_session(tracker, lookup))
    }

    /// Releases the next text that refers to a request emitted just now. A second response with the
    /// same id waits for another request.
    fn next_with_request(&mut self, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Option<Item> {
        while let Some(request) = self.requests.front() {
            let view = StageView { no_session: &self.no_session, holes: &self.holes, lookup };
            let position = self.no_request.iter().position(|held| match &held.item {
                Item::Text(text) => request.is_referenced_by(held) && !tracker.lacks_request(text, &view, true),
                Item::Event(_) => false,
            });
            if let Some(position) = position {
                return self.release_no_request(position);
            }
            self.requests.pop_front();
        }
        None
    }

    /// Releases the next text or event whose session is known now, or cannot become known. A text
    /// that still lacks its request is held for that.
    fn next_with_session(&mut self, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Option<Item> {
        loop {
            let view = StageView { no_session: &self.no_session, holes: &self.holes, lookup };
            let mut blocked: Vec<ExchangeNumber> = Vec::new();
            let position = self.no_session.iter().position(|held| {
                let exchange = held.exchange;
                let lacks = blocked.contains(&exchange)
                    || matches!(&held.item, Item::Text(text) if tracker.lacks_session(text, &view));
                if lacks {
                    blocked.push(exchange);
                }
                !lacks
            });
            let held = self.no_session.remove(position?)?;
            if let Some(item) = self.hold_for_request_or_release(held, tracker, lookup) {
                return Some(item);
            }
        }
    }

    /// Releases a text or event whose session is known, or is waited for no longer. A text that
    /// lacks its request is held for that instead; then the result is `None`.
    fn hold_for_request_or_release(
        &mut self,
        held: HeldItem,
        tracker: &Tracker,
        lookup: &EndpointLookup<'_>,
    ) -> Option<Item> {
        let view = StageView { no_session: &self.no_session, holes: &self.holes, lookup };
        if let Item::Text(text) = &held.item
            && tracker.lacks_request(text, &view, false)
        {
            self.no_request.push_back(HeldItem { since: tracker.now(), ..held });
            return None;
        }
        Some(self.release(held))
    }

    fn release(&mut self, held: HeldItem) -> Item {
        let exchange = held.exchange;
        self.bytes -= held.size();
        if let Some(count) = self.counts.get_mut(&exchange) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&exchange);
            }
        }
        held.item
    }

    /// Releases the next end whose texts were all released.
    pub(super) fn next_ended(&mut self) -> Option<HeldEnd> {
        let position = self.ends.iter().position(|end| match end {
            HeldEnd::Exchange(exchange) => !self.holds(exchange.number),
            HeldEnd::Connection(connection, ..) => !self.holds_on(*connection),
        });
        self.ends.remove(position?)
    }

    /// Releases the next text or event that was held for long enough, or that exceeds a bound.
    pub(super) fn next_due(&mut self, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Option<Item> {
        let now = tracker.now();
        while let Some(first) = self.no_session.front()
            && (self.no_session.len() > MOST_NO_SESSION || self.bytes > MOST_BYTES || self.is_due(first.since, now))
        {
            let held = self.no_session.pop_front()?;
            if let Some(item) = self.hold_for_request_or_release(held, tracker, lookup) {
                return Some(item);
            }
        }
        let first = self.no_request.front()?;
        let is_due =
            self.no_request.len() > MOST_NO_REQUEST || self.bytes > MOST_BYTES || self.is_due(first.since, now);
        if is_due { self.release_no_request(0) } else { None }
    }

    /// Releases the next text that can lack nothing more because its exchange ended: an
    /// `initialize` without a response, or a response that was captured before its request.
    ///
    /// Responses on an HTTP+SSE stream and responses of clients remain held: their requests travel
    /// in other exchanges.
    pub(super) fn next_of_exchange(&mut self, exchange: ExchangeNumber, tracker: &Tracker) -> Option<Item> {
        if !self.holds(exchange) {
            return None;
        }
        let begins = |held: &HeldItem| match &held.item {
            Item::Text(text) => held.exchange == exchange && text.parsed.begins_session,
            Item::Event(_) => false,
        };
        if let Some(position) = self.no_session.iter().position(begins) {
            return self.release_no_session(position);
        }
        let answers_here = |held: &HeldItem| match &held.item {
            Item::Text(text) if held.exchange == exchange && text.direction == Direction::ServerToClient => {
                let session = tracker.session_of_text(text);
                session.is_none_or(|(_, transport)| transport != Transport::HttpSse)
            }
            _ => false,
        };
        self.release_no_request(self.no_request.iter().position(answers_here)?)
    }

    fn release_no_session(&mut self, position: usize) -> Option<Item> {
        let held = self.no_session.remove(position)?;
        Some(self.release(held))
    }

    fn release_no_request(&mut self, position: usize) -> Option<Item> {
        let held = self.no_request.remove(position)?;
        Some(self.release(held))
    }

    /// Releases the next text of a session that is about to end.
    pub(super) fn next_of_sessions(
        &mut self,
        tracker: &Tracker,
        is_ending: impl Fn(crate::mcp::SessionNumber) -> bool,
    ) -> Option<Item> {
        let position = self.no_request.iter().position(|held| match &held.item {
            Item::Text(text) => tracker.session_of_text(text).is_some_and(|(session, _)| is_ending(session)),
            Item::Event(_) => false,
        })?;
        self.release_no_request(position)
    }

    /// Releases the next text of the connection that ended first, if too many ended connections
    /// have held texts.
    pub(super) fn next_of_closed(&mut self) -> Option<Item> {
        let mut closed = self.ends.iter().filter_map(|end| match end {
            HeldEnd::Connection(connection, ..) => Some(*connection),
            HeldEnd::Exchange(_) => None,
        });
        let oldest = closed.next().filter(|_| closed.count() >= MOST_CLOSED)?;
        let is_on = |held: &HeldItem| matches!(&held.item, Item::Text(text) if text.connection == oldest);
        match self.no_session.iter().position(is_on) {
            Some(position) => self.release_no_session(position),
            None => self.release_no_request(self.no_request.iter().position(is_on)?),
        }
    }

    /// Releases the next text or event at the end of the capture. Texts that begin
    /// sessions come first.
    pub(super) fn next_at_end(&mut self, tracker: &Tracker, lookup: &EndpointLookup<'_>) -> Option<Item> {
        let begins = |held: &HeldItem| matches!(&held.item, Item::Text(text) if text.parsed.begins_session);
        while let Some(held) = {
            let first = self.no_session.iter().position(begins).unwrap_or_default();
            self.no_session.remove(first)
        } {
            if let Some(item) = self.hold_for_request_or_release(held, tracker, lookup) {
                return Some(item);
            }
        }
        self.release_no_request(0)
    }
}
