//! The step table, one page at a time.
//!
//! An index of all steps grows with the session. The text of a step is read from the store only
//! when the step is shown.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;

use super::{ConnectionRoles, Step, of_connection, of_frame, of_line, of_request, of_response};
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::Connection;
use crate::mcp::{Carrier, Peers, Session, SessionNumber};
use crate::store::{CaptureId, MessageRow, Page, RowKey, Scope, StoreReader};

/// Number of messages, exchanges or connections read at once.
const SLICE: usize = 2_000;

/// Number of connections, the last ones, whose steps may still change.
const YOUNG: usize = 256;

/// Maximum number of exchanges without a response that are read again each time the table grows.
const OPEN: usize = 4_096;

/// Maximum number of messages of one body that a step names.
const NAMED: u16 = 10_000;

/// The record that a step is made from.
///
/// Steps with the same first packet are in the order of these variants, then of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepOrigin {
    /// The `nth` step (from 0) of a connection's own: its handshakes. `at` is its index in
    /// [`StepTable::connections`].
    Connection { at: u32, nth: u16 },
    /// The request of the exchange with this number.
    Request(u64),
    /// The response of the exchange with this number.
    Response(u64),
    /// The message with this number: a server-sent event, or a frame of a WebSocket.
    Event(u64),
}

/// The sort key of a step: its first packet (0 where it has none), then its origin.
type StepKey = (PacketNumber, StepOrigin);

/// The messages of one body: the number of the first, and how many there are.
///
/// Members of a batch have consecutive numbers, so no list of them is needed.
#[derive(Clone, Copy, Debug, Default)]
struct BodyMessages {
    first: u64,
    count: u16,
}

impl BodyMessages {
    fn add(&mut self, message: u64) {
        if self.count == 0 {
            self.first = message;
        }
        // A step names no more than this.
        self.count = (self.count + 1).min(NAMED);
    }
}

/// The messages that the bodies of an exchange carried, and which steps of it exist.
#[derive(Clone, Copy, Debug, Default)]
struct Bodies {
    request: BodyMessages,
    response: BodyMessages,
    has_events: bool,
    is_request_known: bool,
    is_response_known: bool,
}

/// The step table of one session.
pub struct StepTable {
    session: SessionNumber,
    /// Maximum number of steps.
    most: usize,
    connections: Vec<ConnectionId>,
    /// The bodies of each exchange, in order of the exchange numbers.
    bodies: Vec<(u64, Bodies)>,
    /// The sorted index. The steps of young connections are made anew each time it grows.
    order: Vec<StepKey>,
    /// Exchanges without a response so far.
    open_exchanges: BTreeSet<u64>,
    next_exchange: u64,
    /// The position of the first message that is not in the index yet.
    next_position: u64,
    /// For a session over pipes: the steps of its connections, and the number of lines that follow.
    pipes: Option<(Vec<Step>, usize)>,
}

impl StepTable {
    /// Makes an empty table for a session. It will have at most `most` steps.
    pub fn new(session: SessionNumber, most: usize) -> StepTable {
        StepTable {
            session,
            most,
            connections: Vec::new(),
            bodies: Vec::new(),
            order: Vec::new(),
            open_exchanges: BTreeSet::new(),
            next_exchange: 0,
            next_position: 1,
            pipes: None,
        }
    }

    /// Whether this is the table of the session.
    pub fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// The number of steps in the index.
    pub fn total(&self) -> usize {
        self.pipes.as_ref().map_or(self.order.len(), |(above, lines)| above.len() + lines)
    }

    /// Adds what has been stored since the last call, until `stop` returns true. The next call adds
    /// the rest. Returns whether that was all.
    pub fn grow(&mut self, reader: &StoreReader, stop: &dyn Fn() -> bool) -> Result<bool> {
        let Some((record, capture)) = self.stored(reader)? else { return Ok(true) };
        if matches!(record.peers, Peers::Process { .. }) {
            let pipes = reader.connections(self.session, Page::<ConnectionId>::first(SLICE))?;
            let above = pipes.iter().flat_map(|connection| of_connection(&record, connection, false)).collect();
            self.pipes = Some((above, reader.message_count(Scope::Session(self.session))? as usize));
            return Ok(true);
        }
        let old = self.connections.len().saturating_sub(YOUNG);
        self.order.retain(|entry| !matches!(entry.1, StepOrigin::Connection { at, .. } if at as usize >= old));
        self.connections.truncate(old);
        let is_full = self.order.len() >= self.most;
        // A part of each kind is added in every call, so that each of them gets done.
        let more_connections = !is_full && self.add_connections(reader, &record, stop)?;
        let more_exchanges = !is_full && self.add_exchanges(reader, capture, stop)?;
        let more_messages = !is_full && self.add_messages(reader, stop)?;
        // Nearly sorted already, because new steps were added at the end.
        self.order.sort();
        Ok(!(more_connections || more_exchanges || more_messages))
    }

    /// The steps of a page: at most `limit`, beginning with the row `first` (from 0).
    pub fn steps(&self, reader: &StoreReader, first: usize, limit: usize) -> Result<Vec<Step>> {
        let Some((record, capture)) = self.stored(reader)? else { return Ok(Vec::new()) };
        if let Some((above, _)) = &self.pipes {
            return lines(reader, &record, above, first, limit);
        }
        let is_made_up = reader.is_made_up(capture)?;
        let mut page =
            PageReader { reader, record: &record, capture, is_made_up, roles: HashMap::new(), exchange: None };
        let mut rows = Vec::new();
        for (at, entry) in self.order.iter().enumerate().skip(first).take(limit) {
            let bodies = |exchange| self.position_of(exchange).map_or(Bodies::default(), |at| self.bodies[at].1);
            let step = match entry.1 {
                StepOrigin::Connection { at, nth } => page.connection(self.connections.get(at as usize), nth.into())?,
                StepOrigin::Request(exchange) => page.exchange(exchange, Carrier::RequestBody, bodies(exchange))?,
                StepOrigin::Response(exchange) => page.exchange(exchange, Carrier::ResponseBody, bodies(exchange))?,
                StepOrigin::Event(message) => page.event(message)?,
            };
            rows.extend(step.map(|step| Step { number: at + 1, ..step }));
        }
        Ok(rows)
    }

    /// The record of the session, and its capture.
    fn stored(&self, reader: &StoreReader) -> Result<Option<(Session, CaptureId)>> {
        Ok(reader.session(self.session)?.zip(reader.capture_of(self.session)?))
    }

    /// Adds connections. Returns whether there are more. The functions below do the same for
    /// exchanges and messages.
    fn add_connections(&mut self, reader: &StoreReader, record: &Session, stop: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            let page = match self.connections.last().map(|last| last.0.checked_add(1)) {
                Some(Some(next)) => Page::from(ConnectionId(next), SLICE),
                Some(None) => return Ok(false),
                None => Page::first(SLICE),
            };
            let connections = reader.connections(self.session, page)?;
            if connections.is_empty() {
                return Ok(false);
            }
            for connection in connections {
                let at = self.connections.len() as u32;
                self.connections.push(connection.id);
                // For packets that are made up, the steps and their packets are the same.
                let own = of_connection(record, &connection, false);
                let entry = |(nth, step): (u16, &Step)| (first(&step.packets), StepOrigin::Connection { at, nth });
                self.order.extend((0..).zip(&own).map(entry));
            }
            if stop() {
                return Ok(true);
            }
        }
    }

    fn add_exchanges(&mut self, reader: &StoreReader, capture: CaptureId, stop: &dyn Fn() -> bool) -> Result<bool> {
        for number in self.open_exchanges.clone() {
            if let Some(exchange) = reader.exchange(capture, ExchangeNumber(number))? {
                self.add_exchange(&exchange);
            }
        }
        loop {
            let exchanges = reader.exchanges(self.session, Page::from(ExchangeNumber(self.next_exchange), SLICE))?;
            let Some(last) = exchanges.last() else { return Ok(false) };
            self.next_exchange = last.number.0 + 1;
            exchanges.iter().for_each(|exchange| self.add_exchange(exchange));
            if stop() {
                return Ok(true);
            }
        }
    }

    fn add_exchange(&mut self, exchange: &Exchange) {
        let number = exchange.number.0;
        let bodies = self.bodies(number);
        let is_new_request = exchange.method.is_some() && !std::mem::replace(&mut bodies.is_request_known, true);
        let is_new_response = exchange.status.is_some() && !std::mem::replace(&mut bodies.is_response_known, true);
        if is_new_request {
            self.order.push((first(&exchange.request.packets), StepOrigin::Request(number)));
        }
        if is_new_response {
            let response = &exchange.response;
            let head = &response.head_packets;
            let packets = if head.is_empty() { &response.packets } else { head };
            self.order.push((first(packets), StepOrigin::Response(number)));
        }
        if exchange.response.complete || exchange.status.is_some() {
            self.open_exchanges.remove(&number);
        } else {
            self.open_exchanges.insert(number);
            if self.open_exchanges.len() > OPEN {
                self.open_exchanges.pop_first();
            }
        }
    }

    /// The position of an exchange in `bodies`.
    fn position_of(&self, exchange: u64) -> Option<usize> {
        self.bodies.binary_search_by_key(&exchange, |(number, _)| *number).ok()
    }

    fn bodies(&mut self, exchange: u64) -> &mut Bodies {
        // Nearly always the last exchange or the one behind it.
        let at = match self.bodies.binary_search_by_key(&exchange, |(number, _)| *number) {
            Ok(at) => at,
            Err(at) => {
                self.bodies.insert(at, (exchange, Bodies::default()));
                at
            }
        };
        &mut self.bodies[at].1
    }

    fn add_messages(&mut self, reader: &StoreReader, stop: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            let rows = reader.message_rows_at(self.session, self.next_position, SLICE)?;
            let Some(last) = rows.last() else { return Ok(false) };
            self.next_position = last.position + 1;
            rows.iter().for_each(|row| self.add_message(row));
            if stop() {
                return Ok(true);
            }
        }
    }

    fn add_message(&mut self, row: &MessageRow) {
        let Some(exchange) = row.exchange else { return };
        let bodies = self.bodies(exchange.0);
        match row.carrier {
            Carrier::RequestBody => bodies.request.add(row.number.0),
            Carrier::ResponseBody => bodies.response.add(row.number.0),
            Carrier::SseEvent | Carrier::WebSocket => {
                bodies.has_events = true;
                self.order.push((first(&row.packets), StepOrigin::Event(row.number.0)));
            }
            Carrier::Line => {}
        }
    }
}

fn first(packets: &[PacketNumber]) -> PacketNumber {
    packets.iter().min().copied().unwrap_or_default()
}

/// A page of a session over pipes: the steps of its connections, then its lines in order.
fn lines(reader: &StoreReader, record: &Session, above: &[Step], first: usize, limit: usize) -> Result<Vec<Step>> {
    let mut rows: Vec<Step> = above.iter().skip(first).take(limit).cloned().collect();
    let position = (first + rows.len()).saturating_sub(above.len()) as u64 + 1;
    rows.extend(reader.message_rows_at(record.number, position, limit - rows.len())?.iter().map(of_line));
    rows.iter_mut().enumerate().for_each(|(at, step)| step.number = first + at + 1);
    Ok(rows)
}

/// Reads the steps of one page, and remembers what several of them need.
struct PageReader<'r> {
    reader: &'r StoreReader,
    record: &'r Session,
    capture: CaptureId,
    /// The packets are made up, see
    /// [`CaptureKind::is_made_up`](crate::store::CaptureKind::is_made_up).
    is_made_up: bool,
    roles: HashMap<ConnectionId, Option<ConnectionRoles>>,
    /// The last exchange that was read: its request, its response and its events mostly
    /// follow one another.
    exchange: Option<Exchange>,
}

impl PageReader<'_> {
    fn connection(&mut self, id: Option<&ConnectionId>, nth: usize) -> Result<Option<Step>> {
        let Some(connection) = id.map(|id| self.reader.connection(self.capture, *id)).transpose()?.flatten() else {
            return Ok(None);
        };
        Ok(of_connection(self.record, &connection, self.is_made_up).into_iter().nth(nth))
    }

    fn roles(&mut self, id: ConnectionId) -> Result<Option<ConnectionRoles>> {
        if !self.roles.contains_key(&id) {
            let connection: Option<Connection> = self.reader.connection(self.capture, id)?;
            let roles = connection.and_then(|connection| ConnectionRoles::new(self.record.number, &connection));
            self.roles.insert(id, roles);
        }
        Ok(self.roles.get(&id).cloned().flatten())
    }

    /// An exchange, and the ends of its connection.
    fn exchange_with_roles(&mut self, number: ExchangeNumber) -> Result<Option<(&Exchange, ConnectionRoles)>> {
        if self.exchange.as_ref().is_none_or(|exchange| exchange.number != number) {
            self.exchange = self.reader.exchange(self.capture, number)?;
        }
        let Some(connection) = self.exchange.as_ref().map(|exchange| exchange.connection) else { return Ok(None) };
        let roles = self.roles(connection)?;
        Ok(self.exchange.as_ref().zip(roles))
    }

    fn exchange(&mut self, number: u64, carrier: Carrier, bodies: Bodies) -> Result<Option<Step>> {
        let (reader, capture) = (self.reader, self.capture);
        let Some((exchange, roles)) = self.exchange_with_roles(ExchangeNumber(number))? else { return Ok(None) };
        let carried = if carrier == Carrier::RequestBody { bodies.request } else { bodies.response };
        // The members of a batch are complete at the same time, so their numbers
        // follow one another.
        let page = Page::from(RowKey::new(capture, carried.first), carried.count.into());
        let messages = match carried.count {
            0 => Vec::new(),
            _ => reader.message_rows(Scope::Capture(capture), page)?,
        };
        let own = |message: &&MessageRow| (message.exchange, message.carrier) == (Some(exchange.number), carrier);
        let messages: Vec<&MessageRow> = messages.iter().filter(own).collect();
        Ok(match carrier {
            Carrier::RequestBody => of_request(&roles, exchange, &messages),
            _ => of_response(&roles, exchange, &messages, bodies.has_events),
        })
    }

    fn event(&mut self, number: u64) -> Result<Option<Step>> {
        let message = self.reader.message_row(RowKey::new(self.capture, number))?;
        let Some(message) = message.filter(|message| message.session == self.record.number) else { return Ok(None) };
        let Some(exchange) = message.exchange else { return Ok(None) };
        Ok(self.exchange_with_roles(exchange)?.map(|(_, roles)| of_frame(&roles, &message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_sorted_by_packet_then_by_origin() {
        let sorted = [
            StepOrigin::Connection { at: 0, nth: 0 },
            StepOrigin::Connection { at: 0, nth: u16::MAX },
            StepOrigin::Connection { at: u32::MAX, nth: 7 },
            StepOrigin::Request(0),
            StepOrigin::Request(9),
            StepOrigin::Response(3),
            StepOrigin::Event(1),
        ];
        assert!(sorted.is_sorted());
        assert!((PacketNumber(0), sorted[6]) < (PacketNumber(1), sorted[0]));
    }

    #[test]
    fn messages_of_a_body_are_counted_up_to_those_that_are_named() {
        let mut messages = BodyMessages::default();
        (5..5 + u64::from(NAMED) + 2).for_each(|message| messages.add(message));
        assert_eq!((messages.first, messages.count), (5, NAMED));
    }
}
