//! Turns events into rows, and writes them when enough are collected.
//!
//! Its memory follows what is open: rows of one file for each table, and maps of open sessions and
//! exchanges.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use anyhow::Result;

use super::keys::{self, Keys};
use super::tables::{ExchangeRow, FindingRow, SessionRow, TableRow};
use super::write::Dataset;
use crate::capture::{StreamId, Time};
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::{Event, Stream, StreamKind};
use crate::export::parquet::{Key, MessageRow, Place, SessionFacts};
use crate::findings::Finding;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// Rows of a table, and bytes of memory that they take, after which they are written. Messages and
/// exchanges wait at the same time. Compaction merges the files.
const ROWS: usize = 65_536;
const BYTES: usize = 12 << 20;

/// Messages of a session whose rows wait until the server introduced itself: those of a handshake.
const HANDSHAKE: u32 = 64;

/// Bytes of waiting rows, of all sessions.
const WAITING_BYTES: usize = 8 << 20;

/// Messages whose keys are remembered, for their responses and findings.
const REMEMBERED: usize = 1 << 16;

/// Findings about the whole capture that wait for its first message.
const EARLY: usize = 1 << 10;

/// Exchanges that are remembered until they end.
const EXCHANGES: usize = 1 << 16;

/// Exchanges that are remembered after their end because a session can still be found for them.
/// Most carry no MCP. The tracker of sessions remembers fewer.
const ENDED: usize = 1 << 10;

/// Rows of a table that are not written yet.
struct Rows<R> {
    rows: Vec<R>,
    bytes: usize,
}

impl<R: TableRow> Rows<R> {
    fn new() -> Rows<R> {
        Rows { rows: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, row: R, dataset: &mut Dataset) -> Result<()> {
        self.bytes += row.size();
        self.rows.push(row);
        if self.rows.len() >= ROWS || self.bytes >= BYTES { self.write(dataset) } else { Ok(()) }
    }

    fn write(&mut self, dataset: &mut Dataset) -> Result<()> {
        self.bytes = 0;
        dataset.write(&mut self.rows)
    }
}

/// A row that waits for the name of its server.
enum Waiting {
    Message(MessageRow),
    Exchange(ExchangeRow),
    Finding(FindingRow, u64),
}

/// An open session.
struct OpenSession {
    facts: Arc<SessionFacts>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    messages: u32,
}

impl OpenSession {
    /// Whether rows have to wait.
    fn is_new(&self) -> bool {
        self.facts.session.server.is_none() && self.messages < HANDSHAKE
    }
}

/// An open exchange.
#[derive(Default)]
struct OpenExchange {
    connection: Option<ConnectionId>,
    session: Option<SessionNumber>,
    /// It ended before its session was known.
    ended: Option<Box<Exchange>>,
}

/// A message as its response and its findings refer to it.
struct Remembered {
    key: Key,
    time: Time,
    method: Option<Arc<str>>,
    tool: Option<Arc<str>>,
}

/// Collects the rows of one run.
pub struct Collector {
    dataset: Dataset,
    place: Arc<Place>,
    has_text: bool,
    ends: HashMap<ConnectionId, Arc<[u8]>>,
    pipes: HashMap<StreamId, ConnectionId>,
    exchanges: BTreeMap<ExchangeNumber, OpenExchange>,
    /// Exchanges that ended without a session, in the order of their ends.
    ended: VecDeque<ExchangeNumber>,
    sessions: HashMap<SessionNumber, OpenSession>,
    keys: Keys,
    remembered: BTreeMap<MessageNumber, Remembered>,
    waiting_bytes: usize,
    /// The time of a finding about the whole capture. It is the time of the last finding about a
    /// message, or of the first message. The time of the last message is not used: a database
    /// returns the findings in the same order, but between other messages.
    finding_time: Option<Time>,
    /// Findings about the whole capture that came before its first message. The number is the
    /// offset of its bytes.
    early: Vec<(FindingRow, u64)>,
    messages: Rows<MessageRow>,
    session_rows: Rows<SessionRow>,
    exchange_rows: Rows<ExchangeRow>,
    findings: Rows<FindingRow>,
}

impl Collector {
    /// Collects rows of a place. Without `has_text`, payloads are left out.
    pub fn new(mut dataset: Dataset, place: Place, has_text: bool) -> Collector {
        dataset.set_host(place.host.as_deref());
        Collector {
            dataset,
            place: Arc::new(place),
            has_text,
            ends: HashMap::new(),
            pipes: HashMap::new(),
            exchanges: BTreeMap::new(),
            ended: VecDeque::new(),
            sessions: HashMap::new(),
            keys: Keys::default(),
            remembered: BTreeMap::new(),
            waiting_bytes: 0,
            finding_time: None,
            early: Vec::new(),
            messages: Rows::new(),
            session_rows: Rows::new(),
            exchange_rows: Rows::new(),
            findings: Rows::new(),
        }
    }

    /// Takes an event.
    pub fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Session(session) => self.session(*session),
            Event::Message(message) => self.message(message)?,
            Event::Exchange(exchange) => self.exchange(exchange)?,
            Event::Finding(finding) => self.finding(finding)?,
            Event::Ended(number) => self.end_session(number)?,
            Event::Connection(connection) => {
                let host = self.place.host.as_deref();
                self.ends.entry(connection.id).or_insert_with(|| keys::ends(host, &connection));
            }
            Event::Closed(id) => {
                self.ends.remove(&id);
                self.pipes.retain(|_, connection| *connection != id);
            }
            Event::Stream(stream) => self.stream(stream),
            Event::Belongs(exchange, session) => {
                let open = self.open_exchange(exchange);
                open.session = Some(session);
                if let Some(ended) = open.ended.take() {
                    self.exchange(ended)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the connection of a message is known.
    pub fn knows(&self, message: &Message) -> bool {
        self.connection(message).is_some_and(|connection| self.ends.contains_key(&connection))
    }

    /// Gives a session the key that its first message gives it.
    pub fn introduce(&mut self, session: Session, first: &Message) {
        let key = keys::of_session(&self.ends_of(first), first);
        let number = session.number;
        let facts = Arc::new(SessionFacts::new(session, key));
        self.sessions.insert(number, OpenSession { facts, waiting: Vec::new(), waiting_bytes: 0, messages: HANDSHAKE });
    }

    /// Writes what is collected, and ends all sessions. Returns the dataset.
    pub fn finish(mut self) -> Result<Dataset> {
        let mut open: Vec<SessionNumber> = self.sessions.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().try_for_each(|number| self.end_session(number))?;
        for (row, start) in std::mem::take(&mut self.early) {
            self.push_finding(row, start)?;
        }
        let dataset = &mut self.dataset;
        self.messages.write(dataset)?;
        self.exchange_rows.write(dataset)?;
        self.findings.write(dataset)?;
        // A session that is there has its messages.
        self.session_rows.write(dataset)?;
        Ok(self.dataset)
    }

    fn stream(&mut self, stream: Stream) {
        let exchange = match stream.kind {
            StreamKind::Pipe(_) | StreamKind::Redacted(_) => {
                self.pipes.insert(stream.id, stream.connection);
                return;
            }
            StreamKind::Tcp(_) | StreamKind::Plaintext(_) => return,
            StreamKind::Body(exchange, _)
            | StreamKind::Decoded(exchange, _)
            | StreamKind::EventData(exchange)
            | StreamKind::WebSocket(exchange, _) => exchange,
        };
        self.open_exchange(exchange).connection = Some(stream.connection);
    }

    fn open_exchange(&mut self, number: ExchangeNumber) -> &mut OpenExchange {
        if self.exchanges.len() >= EXCHANGES && !self.exchanges.contains_key(&number) {
            self.exchanges.pop_first();
        }
        self.exchanges.entry(number).or_default()
    }

    fn connection(&self, message: &Message) -> Option<ConnectionId> {
        match message.exchange {
            Some(exchange) => self.exchanges.get(&exchange)?.connection,
            None => self.pipes.get(&message.span.stream).copied(),
        }
    }

    fn ends_of(&self, message: &Message) -> Arc<[u8]> {
        let ends = self.connection(message).and_then(|connection| self.ends.get(&connection));
        ends.map_or_else(|| Arc::from(&[][..]), Arc::clone)
    }

    /// Takes a record of a session. Its key is that of its first message.
    fn session(&mut self, session: Session) {
        let number = session.number;
        match self.sessions.get_mut(&number) {
            Some(open) => open.facts = Arc::new(SessionFacts::new(session, open.facts.key)),
            None => {
                let facts = Arc::new(SessionFacts::new(session, Key::default()));
                self.sessions.insert(number, OpenSession { facts, waiting: Vec::new(), waiting_bytes: 0, messages: 0 });
            }
        }
    }

    fn message(&mut self, message: Box<Message>) -> Result<()> {
        let ends = self.ends_of(&message);
        let key = self.keys.of(keys::of_message(&ends, &message));
        let time = *self.finding_time.get_or_insert(message.time);
        for (row, start) in std::mem::take(&mut self.early) {
            self.push_finding(FindingRow { time, ..row }, start)?;
        }
        if let Some(exchange) = message.exchange {
            self.open_exchange(exchange).session = Some(message.session);
        }
        let answers = message.answers.and_then(|request| self.remembered.get(&request)).map(|request| request.key);
        let about = Remembered { key, time: message.time, method: message.method.clone(), tool: message.tool.clone() };
        self.remembered.insert(message.number, about);
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_first();
        }
        let Some(open) = self.sessions.get_mut(&message.session) else { return Ok(()) };
        if open.messages == 0 {
            open.facts = Arc::new(SessionFacts::new(open.facts.session.clone(), keys::of_session(&ends, &message)));
        }
        open.messages = open.messages.saturating_add(1);
        let row = MessageRow {
            place: Arc::clone(&self.place),
            session: Arc::clone(&open.facts),
            message,
            key,
            answers,
            has_text: self.has_text,
        };
        let (number, size) = (open.facts.session.number, row.size());
        self.wait(number, Waiting::Message(row), size)
    }

    /// Lets a row wait until its session is introduced, or passes it on.
    fn wait(&mut self, number: SessionNumber, row: Waiting, size: usize) -> Result<()> {
        let Some(open) = self.sessions.get_mut(&number) else { return Ok(()) };
        open.waiting.push(row);
        if !open.is_new() {
            return self.release(number);
        }
        open.waiting_bytes += size;
        self.waiting_bytes += size;
        if self.waiting_bytes > WAITING_BYTES {
            let waiting: Vec<SessionNumber> = self.sessions.keys().copied().collect();
            waiting.into_iter().try_for_each(|number| self.release(number))?;
        }
        Ok(())
    }

    /// Passes on the waiting rows of a session, with what is known of it now.
    fn release(&mut self, number: SessionNumber) -> Result<()> {
        let Some(open) = self.sessions.get_mut(&number) else { return Ok(()) };
        self.waiting_bytes -= std::mem::take(&mut open.waiting_bytes);
        let facts = Arc::clone(&open.facts);
        for row in std::mem::take(&mut open.waiting) {
            let session = Arc::clone(&facts);
            match row {
                Waiting::Message(row) => self.messages.push(MessageRow { session, ..row }, &mut self.dataset)?,
                Waiting::Exchange(row) => self.exchange_rows.push(ExchangeRow { session, ..row }, &mut self.dataset)?,
                Waiting::Finding(row, start) => {
                    self.push_finding(FindingRow { session: Some(session), ..row }, start)?;
                }
            }
        }
        Ok(())
    }

    fn end_session(&mut self, number: SessionNumber) -> Result<()> {
        if let Some(open) = self.sessions.get_mut(&number).filter(|open| open.facts.key == Key::default()) {
            // Only its process or its exchanges were captured.
            let session = &open.facts.session;
            let host = self.place.host.as_deref().unwrap_or_default();
            let peers = format!("{:?}", session.peers);
            let parts: [&[u8]; 4] =
                [b"silent session", host.as_bytes(), peers.as_bytes(), &session.started.0.to_le_bytes()];
            open.facts = Arc::new(SessionFacts::new(session.clone(), keys::key(&parts)));
        }
        self.release(number)?;
        let Some(OpenSession { facts, .. }) = self.sessions.remove(&number) else { return Ok(()) };
        self.session_rows.push(SessionRow { place: Arc::clone(&self.place), facts }, &mut self.dataset)
    }

    fn exchange(&mut self, exchange: Box<Exchange>) -> Result<()> {
        let number = exchange.number;
        let open = self.open_exchange(number);
        let Some(session) = open.session else {
            open.ended = Some(exchange);
            self.ended.push_back(number);
            let oldest = if self.ended.len() > ENDED { self.ended.pop_front() } else { None };
            if let Some(oldest) = oldest
                && self.exchanges.get(&oldest).is_some_and(|open| open.ended.is_some())
            {
                self.exchanges.remove(&oldest);
            }
            return Ok(());
        };
        self.exchanges.remove(&exchange.number);
        let (Some(open), Some(ends)) = (self.sessions.get(&session), self.ends.get(&exchange.connection)) else {
            return Ok(());
        };
        let key = self.keys.of(keys::of_exchange(ends, &exchange));
        let (place, facts) = (Arc::clone(&self.place), Arc::clone(&open.facts));
        let row = ExchangeRow { place, session: facts, exchange, key, has_text: self.has_text };
        let size = row.size();
        self.wait(session, Waiting::Exchange(row), size)
    }

    fn finding(&mut self, finding: Box<Finding>) -> Result<()> {
        let number = finding.session.filter(|number| self.sessions.contains_key(number));
        let about: Vec<&Remembered> =
            finding.messages.iter().filter_map(|number| self.remembered.get(number)).collect();
        let messages: Vec<Key> = about.iter().map(|message| message.key).collect();
        let first = about.first();
        let time = first.map(|first| first.time).or(self.finding_time);
        self.finding_time = time;
        let (method, tool) = first.map(|first| (first.method.clone(), first.tool.clone())).unwrap_or_default();
        let start = finding.span.map_or(u64::MAX, |span| span.start);
        let is_early = time.is_none() && self.early.len() < EARLY;
        let (place, has_text, key) = (Arc::clone(&self.place), self.has_text, Key::default());
        let time = time.unwrap_or_default();
        let row = FindingRow { place, session: None, finding, messages, tool, method, time, key, has_text };
        let size = row.size();
        match number {
            Some(number) => self.wait(number, Waiting::Finding(row, start), size)?,
            None if is_early => self.early.push((row, start)),
            None => self.push_finding(row, start)?,
        }
        Ok(())
    }

    fn push_finding(&mut self, mut row: FindingRow, start: u64) -> Result<()> {
        if let (true, Some(facts)) = (row.messages.is_empty(), &row.session) {
            row.time = facts.session.started;
        }
        row.key = self.keys.of(keys::of_finding(&row, start));
        self.findings.push(row, &mut self.dataset)
    }
}
