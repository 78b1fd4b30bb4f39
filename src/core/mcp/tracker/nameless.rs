//! What names a session by an id before the answer that assigned the id, as where packets of several connections change places.
//!
//! As long as a session that began between the same two waits for its id, it may be the one. Which, the answers to `initialize` say: until then the texts of
//! such an exchange wait. Where no answer comes, as it was not captured, they are read as they are.
//!
//! What came on a stream whose request was not seen waits too, while the beginning of another connection between the same two is looked for: what is asked
//! there first, on a stream of HTTP+SSE, was sent before its answer, and tells that it is one.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::kept::Kept;
use super::midway::is_midway;
use super::{Sink, Tracker};
use crate::capture::Time;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::stack::{Connected, Text};
use crate::decode::{ConnectionId, Direction, Endpoints};
use crate::mcp::places::Place;
use crate::mcp::session::are_between;

/// Texts that wait at once: few requests overtake the answer without which their client cannot have sent them.
const KEPT: usize = 256;

/// Bytes of them. Beyond, those that wait for longest go first.
const BYTES: usize = 4 << 20;

/// Texts that wait for their session, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// Connections whose beginning is looked for, and their ends.
    beginning: Vec<(ConnectionId, Endpoints)>,
    /// Exchanges that are over apart from such texts.
    over: FxHashSet<ExchangeNumber>,
    /// Whether any was read since that was last asked.
    released: bool,
}

impl Nameless {
    fn holds(&self, exchange: ExchangeNumber) -> bool {
        self.kept.iter().any(|kept| kept.exchange == exchange)
    }

    /// Whether the beginning of another connection between the same two is looked for.
    fn is_beginning(&self, place: &Place, apart: ConnectionId) -> bool {
        let mut others = self.beginning.iter().filter(|(id, _)| *id != apart);
        others.any(|(_, ends)| are_between(*ends, place.client, place.server))
    }

    /// Whether what came earlier between the same two may be told later: a text waits, or a connection does.
    pub(super) fn waits_beside(&self, place: &Place, connection: ConnectionId) -> bool {
        let mut ends = self.kept.iter().filter_map(|kept| kept.connected.endpoints);
        self.is_beginning(place, connection) || ends.any(|ends| are_between(ends, place.client, place.server))
    }
}

impl Tracker {
    /// Keeps a text back where what comes next may say whose it is. Says whether it is kept.
    pub(super) fn waits_for_id(&mut self, exchange: ExchangeNumber, text: &Text<'_>, connected: &Connected) -> bool {
        let Some(place) = self.exchanges.get(&exchange) else { return false };
        if !self.lacks_name(place, text.direction, text.connection) && !self.nameless.holds(exchange) {
            return false;
        }
        let since = self.early.now(text.time);
        let Some(kept) = Kept::new(text, connected, since) else { return false };
        self.nameless.bytes += kept.size();
        self.nameless.kept.push_back(kept);
        true
    }

    /// Whether what comes next may say which session a text belongs to.
    fn lacks_name(&self, place: &Place, direction: Direction, connection: ConnectionId) -> bool {
        self.places.may_be_assigned(place)
            || is_midway(place, direction) && self.nameless.is_beginning(place, connection)
    }

    /// The beginning of these connections is looked for, or not all was told that came meanwhile.
    pub fn beginning(&mut self, connections: Vec<(ConnectionId, Endpoints)>) {
        self.nameless.beginning = connections;
    }

    /// A session got its id, or will have none, or a connection began: what waited for that is read.
    pub(super) fn name_known(&mut self, sink: &mut Sink<'_>) {
        while let Some(position) = self.nameless.kept.iter().position(|kept| {
            let place = self.exchanges.get(&kept.exchange);
            place.is_none_or(|place| !self.lacks_name(place, kept.direction, kept.connection))
        }) {
            self.name(position, sink);
        }
    }

    /// What has waited for long enough, or is too much, is read as it is.
    pub(super) fn name_due(&mut self, clock: Time, sink: &mut Sink<'_>) {
        while let Some(first) = self.nameless.kept.front()
            && (self.nameless.kept.len() > KEPT || self.nameless.bytes > BYTES || self.early.is_due(first.since, clock))
        {
            self.name(0, sink);
            self.name_known(sink);
        }
    }

    /// Whether something on a connection waits, for which the connection is needed yet when it is over.
    pub fn waits_on(&self, connection: ConnectionId) -> bool {
        self.nameless.kept.iter().any(|kept| kept.connection == connection)
    }

    /// Whether something that waited was read since this was last asked.
    pub fn released(&mut self) -> bool {
        std::mem::take(&mut self.nameless.released)
    }

    /// A connection is needed no longer: what waits on it is read as it is.
    pub fn name_on(&mut self, connection: ConnectionId, sink: &mut Sink<'_>) {
        while let Some(position) = self.nameless.kept.iter().position(|kept| kept.connection == connection) {
            self.name(position, sink);
            self.name_known(sink);
        }
    }

    /// The capture is over: no answer comes any more.
    pub(super) fn name_all(&mut self, sink: &mut Sink<'_>) {
        while !self.nameless.kept.is_empty() {
            self.name(0, sink);
            self.name_known(sink);
        }
    }

    /// Whether texts of this exchange, which is over, still wait: then it will be over with the last of them.
    pub(super) fn is_over_later(&mut self, exchange: ExchangeNumber) -> bool {
        let holds = self.nameless.holds(exchange);
        if holds {
            self.nameless.over.insert(exchange);
        }
        holds
    }

    fn name(&mut self, position: usize, sink: &mut Sink<'_>) {
        let Some(kept) = self.nameless.kept.remove(position) else { return };
        self.nameless.bytes -= kept.size();
        self.nameless.released = true;
        let exchange = kept.exchange;
        self.read(kept.text(), &kept.connected, true, sink);
        if !self.nameless.holds(exchange) && self.nameless.over.remove(&exchange) {
            self.exchange_over(exchange, sink);
        }
    }
}
