//! The step table, fed row by row: which steps there are is known from an index that grows with the session; what a step says is read when it
//! is looked at.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use anyhow::Result;

use super::super::data::{PAGE, Rows, STEPS};
use super::TURN;
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::Connection;
use crate::mcp::{Carrier, Message, MessageNumber, Peers, Session, SessionNumber};
use crate::store::{CaptureId, Key, MessageRow, Page, Reader, Scope};
use crate::view::steps::{self, Place, Step};

/// Messages, exchanges or connections that are read at once.
const SLICE: usize = 2_000;

/// Connections whose steps may still change: those that came last.
const YOUNG: usize = 256;

/// Exchanges that are asked for again until their response is complete.
const OPEN: usize = 4_096;

/// Messages of one body that a step names.
const NAMED: u64 = 256;

/// Where a step comes from. What shares its first packet stands in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    /// The `nth` step of a connection by itself.
    Connection { at: u32, nth: u16 },
    /// The request of an exchange.
    Request(u64),
    /// The response.
    Response(u64),
    /// A message that is an event.
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
pub(super) struct Index {
    session: SessionNumber,
    connections: Vec<ConnectionId>,
    /// By exchange.
    bodies: Vec<(u64, Bodies)>,
    /// Those of connections are set anew each time.
    order: Vec<Entry>,
    open: BTreeSet<u64>,
    next_exchange: u64,
    /// Position of the first message that was not looked at.
    next: u64,
    complete: bool,
}

impl Index {
    pub(super) fn new(session: SessionNumber) -> Index {
        Index {
            session,
            connections: Vec::new(),
            bodies: Vec::new(),
            order: Vec::new(),
            open: BTreeSet::new(),
            next_exchange: 0,
            next: 1,
            complete: false,
        }
    }

    pub(super) fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// A page of the table, as far as it is known.
    pub(super) fn page(&mut self, reader: &Reader, page: usize) -> Result<Rows<Step>> {
        let nothing = Rows { rows: Vec::new(), total: 0, complete: true };
        let Some(record) = reader.session(self.session)? else { return Ok(nothing) };
        let Some(capture) = reader.capture_of(self.session)? else { return Ok(nothing) };
        if matches!(record.peers, Peers::Process { .. }) {
            return lines(reader, &record, page);
        }
        self.grow(reader, &record, capture)?;
        let mut made = Made { reader, record: &record, capture, places: HashMap::new() };
        let first = page * PAGE;
        let mut rows = Vec::new();
        for (at, entry) in self.order.iter().enumerate().skip(first).take(PAGE) {
            let bodies = |exchange| self.place_of(exchange).map_or(Bodies::default(), |at| self.bodies[at].1);
            let step = match entry.from() {
                From::Connection { at, nth } => made.connection(self.connections.get(at as usize), nth.into())?,
                From::Request(exchange) => made.exchange(exchange, Carrier::RequestBody, bodies(exchange))?,
                From::Response(exchange) => made.exchange(exchange, Carrier::ResponseBody, bodies(exchange))?,
                From::Event(message) => made.event(message)?,
            };
            rows.extend(step.map(|step| Step { number: at + 1, ..step }));
        }
        Ok(Rows { rows, total: self.order.len(), complete: self.complete })
    }

    /// Takes in what came since.
    fn grow(&mut self, reader: &Reader, record: &Session, capture: CaptureId) -> Result<()> {
        let old = self.connections.len().saturating_sub(YOUNG);
        self.order.retain(|entry| !matches!(entry.from(), From::Connection { at, .. } if at as usize >= old));
        self.connections.truncate(old);
        let is_full = self.order.len() >= STEPS;
        // What is left is taken in when the page is asked for again. Of each kind there is some, or none would ever be done.
        let until = Instant::now() + TURN;
        let more_connections = !is_full && self.add_connections(reader, record, until)?;
        let more_exchanges = !is_full && self.add_exchanges(reader, capture, until)?;
        let more_messages = !is_full && self.add_messages(reader, until)?;
        self.complete = !(more_connections || more_exchanges || more_messages);
        // Nearly sorted already: what is new came last.
        self.order.sort();
        Ok(())
    }

    /// Says whether there are more; so for those that follow.
    fn add_connections(&mut self, reader: &Reader, record: &Session, until: Instant) -> Result<bool> {
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
                let own = steps::of_connection(record, &connection);
                let entry = |(nth, step): (u16, &Step)| Entry::new(first(&step.packets), From::Connection { at, nth });
                self.order.extend((0..).zip(&own).map(entry));
            }
            if Instant::now() >= until {
                return Ok(true);
            }
        }
    }

    fn add_exchanges(&mut self, reader: &Reader, capture: CaptureId, until: Instant) -> Result<bool> {
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
            if Instant::now() >= until {
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

    fn add_messages(&mut self, reader: &Reader, until: Instant) -> Result<bool> {
        loop {
            let rows = reader.message_rows_at(self.session, self.next, SLICE)?;
            let Some(last) = rows.last() else { return Ok(false) };
            self.next = last.position + 1;
            rows.iter().for_each(|row| self.add_message(row));
            if Instant::now() >= until {
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
            Carrier::SseEvent => {
                bodies.events = true;
                self.order.push(Entry::new(first(&row.packets), From::Event(row.number.0)));
            }
            Carrier::Line | Carrier::WebSocket => {}
        }
    }
}

fn first(packets: &[PacketNumber]) -> Option<PacketNumber> {
    packets.iter().min().copied()
}

/// A session of pipes: no network, then its lines in their order.
fn lines(reader: &Reader, record: &Session, page: usize) -> Result<Rows<Step>> {
    let pipes = reader.connections(record.number, Page::<ConnectionId>::first(PAGE))?;
    let above: Vec<Step> = pipes.iter().flat_map(|connection| steps::of_connection(record, connection)).collect();
    let total = above.len() + reader.message_count(Scope::Session(record.number))? as usize;
    let start = page * PAGE;
    let mut rows: Vec<Step> = above.iter().skip(start).take(PAGE).cloned().collect();
    let position = (start + rows.len()).saturating_sub(above.len()) as u64 + 1;
    for row in reader.message_rows_at(record.number, position, PAGE - rows.len())? {
        rows.extend(reader.message(row.key())?.iter().map(steps::of_line));
    }
    rows.iter_mut().enumerate().for_each(|(at, step)| step.number = start + at + 1);
    Ok(Rows { rows, total, complete: true })
}

/// What the steps of a page are made from.
struct Made<'r> {
    reader: &'r Reader,
    record: &'r Session,
    capture: CaptureId,
    places: HashMap<ConnectionId, Option<Place>>,
}

impl Made<'_> {
    fn connection(&mut self, id: Option<&ConnectionId>, nth: usize) -> Result<Option<Step>> {
        let Some(connection) = id.map(|id| self.reader.connection(self.capture, *id)).transpose()?.flatten() else {
            return Ok(None);
        };
        Ok(steps::of_connection(self.record, &connection).into_iter().nth(nth))
    }

    fn place(&mut self, id: ConnectionId) -> Result<Option<Place>> {
        if !self.places.contains_key(&id) {
            let connection: Option<Connection> = self.reader.connection(self.capture, id)?;
            let place = connection.and_then(|connection| Place::new(self.record.number, &connection));
            self.places.insert(id, place);
        }
        Ok(self.places.get(&id).cloned().flatten())
    }

    fn exchange(&mut self, number: u64, carrier: Carrier, bodies: Bodies) -> Result<Option<Step>> {
        let Some(exchange) = self.reader.exchange(self.capture, ExchangeNumber(number))? else { return Ok(None) };
        let Some(place) = self.place(exchange.connection)? else { return Ok(None) };
        let carried = if carrier == Carrier::RequestBody { bodies.request } else { bodies.response };
        let mut messages: Vec<Message> = Vec::new();
        // Members of a batch are complete at the same time, so that their numbers follow one another.
        for number in carried.first()..carried.first() + carried.count() {
            let message = self.reader.message(Key::new(self.capture, number))?;
            messages.extend(
                message.filter(|message| (message.exchange, message.carrier) == (Some(exchange.number), carrier)),
            );
        }
        let messages: Vec<&Message> = messages.iter().collect();
        Ok(match carrier {
            Carrier::RequestBody => steps::of_request(&place, &exchange, &messages),
            _ => steps::of_response(&place, &exchange, &messages, bodies.events),
        })
    }

    fn event(&mut self, number: u64) -> Result<Option<Step>> {
        let message = self.reader.message_of(self.record.number, MessageNumber(number))?;
        let Some((message, exchange)) =
            message.and_then(|message| message.exchange.map(|exchange| (message, exchange)))
        else {
            return Ok(None);
        };
        let Some(exchange) = self.reader.exchange(self.capture, exchange)? else { return Ok(None) };
        Ok(self.place(exchange.connection)?.map(|place| steps::of_event(&place, &message)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::store::Place as StorePlace;
    use crate::tui::import::{Decoding, Import};
    use crate::view::steps::Told;

    /// All steps at once, as the command line makes them.
    fn whole(reader: &Reader, record: &Session) -> Vec<Step> {
        let all = 1_000_000;
        let connections = reader.connections(record.number, Page::<ConnectionId>::first(all)).unwrap();
        let exchanges = reader.exchanges(record.number, Page::<ExchangeNumber>::first(all)).unwrap();
        let messages = reader.messages(Scope::Session(record.number), Page::<Key>::first(all)).unwrap();
        let told = Told { session: record, connections: &connections, exchanges: &exchanges, messages: &messages };
        steps::steps(&told)
    }

    fn paged(index: &mut Index, reader: &Reader) -> Vec<Step> {
        let mut rows = Vec::new();
        loop {
            let page = index.page(reader, rows.len() / PAGE).unwrap();
            let is_last = page.rows.len() < PAGE;
            rows.extend(page.rows);
            if is_last {
                assert_eq!(rows.len(), page.total);
                return rows;
            }
        }
    }

    fn captures() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let samples = ["weather", "helpdesk", "hosted-redirect", "polluted-stdout", "tls"];
        let samples = samples.map(|name| root.join("samples").join(name).join("capture.pcapng"));
        samples.into_iter().filter(|path| path.is_file()).collect()
    }

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
        (most..most + 2 * NAMED).for_each(|message| carried.add(message));
        assert_eq!((carried.first(), carried.count()), (most, NAMED));
    }

    #[test]
    fn pages_are_the_whole_table_also_where_it_grew_in_between() {
        for capture in captures() {
            let place = StorePlace::temporary().unwrap();
            let import = Import::new(&[capture], place.clone(), Decoding::default()).unwrap();
            let mut growing: Option<(Reader, Vec<Index>)> = None;
            import.run(
                &mut |_| {
                    // As far as the store is by now.
                    let (reader, indexes) =
                        growing.get_or_insert_with(|| (Reader::open(place.clone()).unwrap(), Vec::new()));
                    for session in reader.sessions(Page::<SessionNumber>::first(10)).unwrap() {
                        if !indexes.iter().any(|index| index.is_of(session.number)) {
                            indexes.push(Index::new(session.number));
                        }
                    }
                    indexes.iter_mut().for_each(|index| drop(paged(index, reader)));
                },
                &AtomicBool::new(false),
            );
            let (reader, mut indexes) = growing.unwrap();
            assert!(!indexes.is_empty());
            for index in &mut indexes {
                let record = reader.session(index.session).unwrap().unwrap();
                let whole = whole(&reader, &record);
                assert_eq!(paged(index, &reader), whole);
                assert_eq!(paged(&mut Index::new(record.number), &reader), whole);
            }
        }
    }
}
