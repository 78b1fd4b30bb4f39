//! The step table, row by row: which steps there are is known from an index that grows with the session; what a step says is read when it
//! is looked at.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;

use super::{Place, Step, of_connection, of_frame, of_line, of_request, of_response};
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::Connection;
use crate::mcp::{Carrier, Peers, Session, SessionNumber};
use crate::store::{CaptureId, MessageRow, Page, RowKey, Scope, StoreReader};

/// Messages, exchanges or connections that are read at once.
const SLICE: usize = 2_000;

/// Connections whose steps may still change: those that came last.
const YOUNG: usize = 256;

/// Exchanges that are asked for again until their response is complete.
const OPEN: usize = 4_096;

/// Messages of one body that a step names.
const NAMED: u64 = 10_000;

/// Where a step comes from. What shares its first packet stands in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    /// The `nth` step of a connection by itself.
    Connection { at: u32, nth: u16 },
    /// The request of an exchange.
    Request(u64),
    /// The response.
    Response(u64),
    /// A message that is an event, or a frame of a WebSocket.
    Event(u64),
}

/// A step in the order of the table: its first packet (0: none), and where it comes from, both as numbers. A session of a million messages
/// has a million of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    packet: u64,
    from: u64,
}

impl Entry {
    /// The kind stands in the upper two bits: entries are in the order of [`From`].
    fn new(packet: Option<PacketNumber>, from: From) -> Entry {
        let (kind, number) = match from {
            From::Connection { at, nth } => (0, u64::from(at) << 16 | u64::from(nth)),
            From::Request(exchange) => (1, exchange),
            From::Response(exchange) => (2, exchange),
            From::Event(message) => (3, message),
        };
        Entry { packet: packet.map_or(0, |packet| packet.0), from: kind << 62 | number }
    }

    fn from(self) -> From {
        let number = self.from & (u64::MAX >> 2);
        match self.from >> 62 {
            0 => From::Connection { at: (number >> 16) as u32, nth: number as u16 },
            1 => From::Request(number),
            2 => From::Response(number),
            _ => From::Event(number),
        }
    }
}

/// Messages of a body: the number of the first and, in the lower 16 bits, how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Carried(u64);

impl Carried {
    fn add(&mut self, message: u64) {
        match self.0 {
            0 => self.0 = message << 16 | 1,
            // More than are ever named are not counted.
            _ if self.count() < NAMED => self.0 += 1,
            _ => {}
        }
    }

    fn first(self) -> u64 {
        self.0 >> 16
    }

    fn count(self) -> u64 {
        self.0 & 0xFFFF
    }
}

/// What bodies of an exchange carried.
#[derive(Clone, Copy, Debug, Default)]
struct Bodies {
    request: Carried,
    response: Carried,
    events: bool,
    is_request_known: bool,
    is_response_known: bool,
}

/// The steps of one session.
pub struct Index {
    session: SessionNumber,
    /// Steps that are listed at most.
    most: usize,
    connections: Vec<ConnectionId>,
    /// By exchange.
    bodies: Vec<(u64, Bodies)>,
    /// Those of connections are set anew each time.
    order: Vec<Entry>,
    open: BTreeSet<u64>,
    next_exchange: u64,
    /// Position of the first message that was not looked at.
    next: u64,
    /// Of a session of pipes: what its connections are by themselves, and how many lines follow.
    pipes: Option<(Vec<Step>, usize)>,
}

impl Index {
    /// Of this session, with so many steps at most.
    pub fn new(session: SessionNumber, most: usize) -> Index {
        Index {
            session,
            most,
            connections: Vec::new(),
            bodies: Vec::new(),
            order: Vec::new(),
            open: BTreeSet::new(),
            next_exchange: 0,
            next: 1,
            pipes: None,
        }
    }

    /// Whether it is that of this session.
    pub fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// Steps that are known.
    pub fn total(&self) -> usize {
        self.pipes.as_ref().map_or(self.order.len(), |(above, lines)| above.len() + lines)
    }

    /// Takes in what came since, until it is told to stop; what is left is taken in the next time. Says whether that was all.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged; so for what follows.
    pub fn grow(&mut self, reader: &StoreReader, stop: &dyn Fn() -> bool) -> Result<bool> {
        let Some((record, capture)) = self.place(reader)? else { return Ok(true) };
        if matches!(record.peers, Peers::Process { .. }) {
            let pipes = reader.connections(self.session, Page::<ConnectionId>::first(SLICE))?;
            let above = pipes.iter().flat_map(|connection| of_connection(&record, connection, false)).collect();
            self.pipes = Some((above, reader.message_count(Scope::Session(self.session))? as usize));
            return Ok(true);
        }
        let old = self.connections.len().saturating_sub(YOUNG);
        self.order.retain(|entry| !matches!(entry.from(), From::Connection { at, .. } if at as usize >= old));
        self.connections.truncate(old);
        let is_full = self.order.len() >= self.most;
        // Of each kind there is some, or none would ever be done.
        let more_connections = !is_full && self.add_connections(reader, &record, stop)?;
        let more_exchanges = !is_full && self.add_exchanges(reader, capture, stop)?;
        let more_messages = !is_full && self.add_messages(reader, stop)?;
        // Nearly sorted already: what is new came last.
        self.order.sort();
        Ok(!(more_connections || more_exchanges || more_messages))
    }

    /// The steps from this row on (from 0), as far as they are known.
    pub fn steps(&self, reader: &StoreReader, first: usize, limit: usize) -> Result<Vec<Step>> {
        let Some((record, capture)) = self.place(reader)? else { return Ok(Vec::new()) };
        if let Some((above, _)) = &self.pipes {
            return lines(reader, &record, above, first, limit);
        }
        let is_made_up = reader.is_made_up(capture)?;
        let mut made = Made { reader, record: &record, capture, is_made_up, places: HashMap::new(), exchange: None };
        let mut rows = Vec::new();
        for (at, entry) in self.order.iter().enumerate().skip(first).take(limit) {
            let bodies = |exchange| self.place_of(exchange).map_or(Bodies::default(), |at| self.bodies[at].1);
            let step = match entry.from() {
                From::Connection { at, nth } => made.connection(self.connections.get(at as usize), nth.into())?,
                From::Request(exchange) => made.exchange(exchange, Carrier::RequestBody, bodies(exchange))?,
                From::Response(exchange) => made.exchange(exchange, Carrier::ResponseBody, bodies(exchange))?,
                From::Event(message) => made.event(message)?,
            };
            rows.extend(step.map(|step| Step { number: at + 1, ..step }));
        }
        Ok(rows)
    }

    fn place(&self, reader: &StoreReader) -> Result<Option<(Session, CaptureId)>> {
        Ok(reader.session(self.session)?.zip(reader.capture_of(self.session)?))
    }

    /// Says whether there are more; so for those that follow.
    fn add_connections(&mut self, reader: &StoreReader, record: &Session, stop: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            let page = match self.connections.last() {
                Some(last) => Page::from(ConnectionId(last.0 + 1), SLICE),
                None => Page::first(SLICE),
            };
            let connections = reader.connections(self.session, page)?;
            if connections.is_empty() {
                return Ok(false);
            }
            for connection in connections {
                let at = self.connections.len() as u32;
                self.connections.push(connection.id);
                // Which there are, and where, is the same where they are made up.
                let own = of_connection(record, &connection, false);
                let entry = |(nth, step): (u16, &Step)| Entry::new(first(&step.packets), From::Connection { at, nth });
                self.order.extend((0..).zip(&own).map(entry));
            }
            if stop() {
                return Ok(true);
            }
        }
    }

    fn add_exchanges(&mut self, reader: &StoreReader, capture: CaptureId, stop: &dyn Fn() -> bool) -> Result<bool> {
        for number in self.open.clone() {
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
            self.order.push(Entry::new(first(&exchange.request.packets), From::Request(number)));
        }
        if is_new_response {
            let response = &exchange.response;
            let packet = first(&response.head_packets).or(first(&response.packets));
            self.order.push(Entry::new(packet, From::Response(number)));
        }
        if exchange.response.complete || exchange.status.is_some() {
            self.open.remove(&number);
        } else {
            self.open.insert(number);
            if self.open.len() > OPEN {
                self.open.pop_first();
            }
        }
    }

    /// Where the bodies of an exchange are kept.
    fn place_of(&self, exchange: u64) -> Option<usize> {
        self.bodies.binary_search_by_key(&exchange, |(number, _)| *number).ok()
    }

    fn bodies(&mut self, exchange: u64) -> &mut Bodies {
        // Nearly always the last one, or one behind it.
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
            let rows = reader.message_rows_at(self.session, self.next, SLICE)?;
            let Some(last) = rows.last() else { return Ok(false) };
            self.next = last.position + 1;
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
                bodies.events = true;
                self.order.push(Entry::new(first(&row.packets), From::Event(row.number.0)));
            }
            Carrier::Line => {}
        }
    }
}

fn first(packets: &[PacketNumber]) -> Option<PacketNumber> {
    packets.iter().min().copied()
}

/// A session of pipes: no network, then its lines in their order.
fn lines(reader: &StoreReader, record: &Session, above: &[Step], first: usize, limit: usize) -> Result<Vec<Step>> {
    let mut rows: Vec<Step> = above.iter().skip(first).take(limit).cloned().collect();
    let position = (first + rows.len()).saturating_sub(above.len()) as u64 + 1;
    rows.extend(reader.message_rows_at(record.number, position, limit - rows.len())?.iter().map(of_line));
    rows.iter_mut().enumerate().for_each(|(at, step)| step.number = first + at + 1);
    Ok(rows)
}

/// What the steps of a page are made from.
struct Made<'r> {
    reader: &'r StoreReader,
    record: &'r Session,
    capture: CaptureId,
    /// There was no network, see [`CaptureKind::is_made_up`](crate::store::CaptureKind::is_made_up).
    is_made_up: bool,
    places: HashMap<ConnectionId, Option<Place>>,
    /// The one that was asked for last: its request, its response and its events mostly follow one another.
    exchange: Option<Exchange>,
}

impl Made<'_> {
    fn connection(&mut self, id: Option<&ConnectionId>, nth: usize) -> Result<Option<Step>> {
        let Some(connection) = id.map(|id| self.reader.connection(self.capture, *id)).transpose()?.flatten() else {
            return Ok(None);
        };
        Ok(of_connection(self.record, &connection, self.is_made_up).into_iter().nth(nth))
    }

    fn place(&mut self, id: ConnectionId) -> Result<Option<Place>> {
        if !self.places.contains_key(&id) {
            let connection: Option<Connection> = self.reader.connection(self.capture, id)?;
            let place = connection.and_then(|connection| Place::new(self.record.number, &connection));
            self.places.insert(id, place);
        }
        Ok(self.places.get(&id).cloned().flatten())
    }

    /// An exchange, and who is who on its connection.
    fn within(&mut self, number: ExchangeNumber) -> Result<Option<(&Exchange, Place)>> {
        if self.exchange.as_ref().is_none_or(|exchange| exchange.number != number) {
            self.exchange = self.reader.exchange(self.capture, number)?;
        }
        let Some(connection) = self.exchange.as_ref().map(|exchange| exchange.connection) else { return Ok(None) };
        let place = self.place(connection)?;
        Ok(self.exchange.as_ref().zip(place))
    }

    fn exchange(&mut self, number: u64, carrier: Carrier, bodies: Bodies) -> Result<Option<Step>> {
        let (reader, capture) = (self.reader, self.capture);
        let Some((exchange, place)) = self.within(ExchangeNumber(number))? else { return Ok(None) };
        let carried = if carrier == Carrier::RequestBody { bodies.request } else { bodies.response };
        // Members of a batch are complete at the same time, so that their numbers follow one another.
        let page = Page::from(RowKey::new(capture, carried.first()), carried.count() as usize);
        let messages = match carried.count() {
            0 => Vec::new(),
            _ => reader.message_rows(Scope::Capture(capture), page)?,
        };
        let own = |message: &&MessageRow| (message.exchange, message.carrier) == (Some(exchange.number), carrier);
        let messages: Vec<&MessageRow> = messages.iter().filter(own).collect();
        Ok(match carrier {
            Carrier::RequestBody => of_request(&place, exchange, &messages),
            _ => of_response(&place, exchange, &messages, bodies.events),
        })
    }

    fn event(&mut self, number: u64) -> Result<Option<Step>> {
        let page = Page::from(RowKey::new(self.capture, number), 1);
        let own = |message: &MessageRow| (message.session, message.number.0) == (self.record.number, number);
        let message = self.reader.message_rows(Scope::Capture(self.capture), page)?.pop().filter(own);
        let Some((message, exchange)) =
            message.and_then(|message| message.exchange.map(|exchange| (message, exchange)))
        else {
            return Ok(None);
        };
        Ok(self.within(exchange)?.map(|(_, place)| of_frame(&place, &message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_the_order_of_what_they_stand_for() {
        let most = (1 << 40) - 1;
        let all = [
            From::Connection { at: 0, nth: 0 },
            From::Connection { at: 0, nth: u16::MAX },
            From::Connection { at: u32::MAX, nth: 7 },
            From::Request(0),
            From::Request(most),
            From::Response(3),
            From::Event(most),
        ];
        for pair in all.windows(2) {
            assert!(Entry::new(None, pair[0]) < Entry::new(None, pair[1]), "{pair:?}");
            assert!(Entry::new(None, pair[1]) < Entry::new(Some(PacketNumber(1)), pair[0]), "{pair:?}");
        }
        assert_eq!(all.map(|from| Entry::new(None, from).from()), all);
        let mut carried = Carried::default();
        (most..most + NAMED + 2).for_each(|message| carried.add(message));
        assert_eq!((carried.first(), carried.count()), (most, NAMED));
    }
}
