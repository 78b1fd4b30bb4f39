//! The records that wait for the next transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Connection as Database, OptionalExtension, params};
use rustc_hash::FxBuildHasher;

use super::chunk::Chunk;
use super::order::UnorderedSessions;
use super::record::figures::SessionFigures;
use super::record::message::DerivedColumns;
use super::record::{connection, exchange, finding, message, note, packet, provenance, session};
use super::text::Text;
use super::{CaptureId, RowKey};
use crate::capture::{StreamId, StreamPart};
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::event::{Connection, Event, Stream};
use crate::findings::Finding;
use crate::mcp::link::Link;
use crate::mcp::note::NoteKind;
use crate::mcp::{Message, MessageNumber, Note, Session, SessionNumber};

/// Bytes that may wait while the database is locked or its disk is full. Further
/// records are discarded.
const MOST: usize = 64 << 20;

/// Records of a list for which memory is retained: as many as one transaction has.
const LISTED: usize = 8 << 10;

/// Records that were emitted and not yet written. Of a record that was emitted again only the
/// last state waits.
#[derive(Debug, Default)]
pub(super) struct Pending {
    sessions: BTreeMap<SessionNumber, Session>,
    connections: BTreeMap<ConnectionId, Connection>,
    exchanges: BTreeMap<ExchangeNumber, Exchange>,
    /// The sessions of exchanges, written before or not.
    sessions_of_exchanges: Vec<(SessionNumber, ExchangeNumber)>,
    streams: Vec<Stream>,
    /// The origins of the bytes of streams; those of one stream in order.
    parts: Vec<(StreamId, StreamPart)>,
    messages: Vec<(Message, DerivedColumns, Text)>,
    late_links: Vec<(MessageNumber, Link)>,
    findings: Vec<Finding>,
    notes: Vec<Note>,
    chunks: Vec<Chunk>,
    plaintext: Vec<(StreamId, u64, Vec<u8>)>,
    keys: Vec<(ConnectionId, String)>,
    bytes: usize,
    rows: usize,
    /// Records discarded so far.
    pub(super) lost: u64,
    unordered: UnorderedSessions,
    /// The last exchange that was written. Later ones have no earlier state in the database
    /// to be deleted.
    exchanged: ExchangeNumber,
    /// The last stream that was written. Later ones have no row in the database.
    streamed: StreamId,
}

/// Results of earlier transactions that would otherwise be read from the database. Cleared when
/// a transaction fails.
#[derive(Debug, Default)]
pub(super) struct WrittenRows {
    sessions: HashMap<SessionNumber, WrittenSession, FxBuildHasher>,
    rules: HashSet<&'static str>,
}

/// A session with messages in the database.
#[derive(Clone, Copy, Debug)]
struct WrittenSession {
    id: i64,
    /// The position of its last message.
    last: i64,
    /// The latest time of a message, unless the session is known to be unordered.
    time: i64,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Numbers of rows and bytes that wait, approximately.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    /// Adds a record, unless there is no room. The bytes of `Plaintext` are compressed already.
    pub(super) fn add(&mut self, record: Event) {
        let Some(size) = size_of_record(&record) else { return };
        // The later state of a record takes the place of the one that waits.
        let replaces = match &record {
            Event::Session(record) => self.sessions.contains_key(&record.number),
            Event::Connection(record) => self.connections.contains_key(&record.id),
            _ => false,
        };
        if !replaces && !self.has_room(size) {
            return;
        }
        match record {
            Event::Session(record) => drop(self.sessions.insert(record.number, *record)),
            Event::Connection(record) => drop(self.connections.insert(record.id, *record)),
            Event::Exchange(record) | Event::Head(record) => drop(self.exchanges.insert(record.number, *record)),
            Event::Belongs(exchange, session) => self.sessions_of_exchanges.push((session, exchange)),
            Event::Stream(stream) => self.streams.push(stream),
            Event::Part(stream, part) => self.parts.push((stream, part)),
            Event::Plaintext(stream, start, frame) => self.plaintext.push((stream, start, frame)),
            Event::Keys(connection, lines) => self.keys.push((connection, lines)),
            Event::Linked(_, message, link) => self.late_links.push((message, link)),
            Event::Finding(record) => self.findings.push(*record),
            Event::Note(record) => self.notes.push(*record),
            _ => {}
        }
    }

    pub(super) fn message(&mut self, record: Message, mut derived: DerivedColumns, text: Text) {
        let size = size_of::<Message>() + text.len() + size_of_val(&*record.packets);
        if !self.has_room(size) {
            return;
        }
        if let Some((request, asked)) = record.answers.and_then(|request| self.find_message(request)) {
            // Request and response wait together, so each completes the other before it is written.
            // The first response counts.
            if request.answered_by.is_none() {
                (request.answered_by, request.latency) = (Some(record.number), record.latency);
                asked.status = derived.status;
            }
            derived.subject = derived.subject.or_else(|| asked.subject.clone());
            derived.request = None;
        }
        self.messages.push((record, derived, text));
    }

    /// A message that waits. Messages come in order of number; one that did not is found
    /// in the database.
    fn find_message(&mut self, number: MessageNumber) -> Option<(&mut Message, &mut DerivedColumns)> {
        let at = self.messages.binary_search_by_key(&number, |(message, ..)| message.number).ok()?;
        self.messages.get_mut(at).map(|(message, derived, _)| (message, derived))
    }

    pub(super) fn chunk(&mut self, chunk: Chunk) {
        if self.has_room(size_of::<Chunk>() + chunk.number_list.len() + chunk.data.len()) {
            self.chunks.push(chunk);
        }
    }

    /// Forgets which sessions are unordered, because they were in another database.
    pub(super) fn forget_order(&mut self) {
        self.unordered = UnorderedSessions::default();
    }

    /// Frees memory that was retained to be used again.
    pub(super) fn rest(&mut self) {
        self.streams.shrink_to_fit();
        self.parts.shrink_to_fit();
        self.messages.shrink_to_fit();
    }

    /// Counts a record of this size as waiting, or as lost if there is no room for it; returns
    /// whether there is room.
    fn has_room(&mut self, size: usize) -> bool {
        let room = self.bytes < MOST;
        if room {
            self.bytes += size;
            self.rows += 1;
        } else {
            self.lost += 1;
        }
        room
    }

    /// Removes all records, because they were written.
    pub(super) fn clear(&mut self) {
        let exchanged = self.exchanges.last_key_value().map_or(self.exchanged, |(last, _)| self.exchanged.max(*last));
        let streamed = self.streams.last().map_or(self.streamed, |last| self.streamed.max(last.id));
        // The longest lists will be filled again. Growing from nothing would move them
        // a dozen times.
        let (streams, parts, messages) =
            (emptied(&mut self.streams), emptied(&mut self.parts), emptied(&mut self.messages));
        let mut unordered = std::mem::take(&mut self.unordered);
        unordered.written();
        *self =
            Pending { lost: self.lost, exchanged, streamed, streams, parts, messages, unordered, ..Pending::default() };
    }

    /// Writes everything, inside a transaction. May be called again, with a new `written`, if the
    /// transaction was rolled back. `is_end`: nothing follows.
    pub(super) fn write(
        &mut self,
        db: &Database,
        capture: CaptureId,
        written: &mut WrittenRows,
        is_end: bool,
    ) -> anyhow::Result<()> {
        for (number, record) in &self.sessions {
            let id = written.session(db, capture, *number)?.id;
            session::update(db, id, record)?;
            session::write_connections(db, capture, id, &record.connections)?;
        }
        let mut statement = db.prepare_cached(connection::REPLACE)?;
        for record in self.connections.values() {
            connection::write(&mut statement, capture, record)?;
        }
        let mut delete = db.prepare_cached(exchange::DELETE)?;
        let mut statement = db.prepare_cached(exchange::INSERT)?;
        for record in self.exchanges.values() {
            if record.number <= self.exchanged {
                delete.execute([RowKey::new(capture, record.number.0)])?;
            }
            exchange::write(&mut statement, capture, record)?;
        }
        let mut statement = db.prepare_cached(exchange::INSERT_SESSION)?;
        for (number, exchange) in &self.sessions_of_exchanges {
            let session = written.session(db, capture, *number)?.id;
            statement.execute(params![session, RowKey::new(capture, exchange.0)])?;
        }
        self.write_streams(db, capture)?;
        self.write_messages(db, capture, written)?;
        self.unordered.put_in_order(db, is_end)?;
        for (message, link) in &self.late_links {
            message::write_late_link(db, (capture, *message), link)?;
        }
        let mut found: BTreeMap<i64, [u64; 3]> = BTreeMap::new();
        for record in &self.findings {
            if written.rules.insert(record.rule.id) {
                finding::write_rule(db, record.rule)?;
            }
            let session = record.session.map(|number| written.session(db, capture, number)).transpose()?;
            let session = session.map(|session| session.id);
            finding::write(db, capture, session, record)?;
            if let Some(session) = session {
                found.entry(session).or_default()[record.severity as usize] += record.repeated.max(1);
            }
        }
        for (session, added) in found {
            session::count_findings(db, session, added)?;
        }
        let mut refused = db.prepare_cached(message::REFUSED)?;
        for record in &self.notes {
            let session = record.session.map(|number| written.session(db, capture, number)).transpose()?;
            note::write(db, capture, session.map(|session| session.id), record)?;
            if let NoteKind::Refused(http) = &record.kind {
                for number in &http.requests {
                    refused.execute([RowKey::new(capture, number.0)])?;
                }
            }
        }
        let mut statement = db.prepare_cached(provenance::INSERT_PLAINTEXT)?;
        for (stream, start, frame) in &self.plaintext {
            statement.execute(params![RowKey::new(capture, stream.0.into()), *start as i64, frame])?;
        }
        let mut statement = db.prepare_cached("INSERT OR REPLACE INTO key_log (connection, lines) VALUES (?, ?)")?;
        for (connection, lines) in &self.keys {
            statement.execute(params![RowKey::new(capture, connection.0.into()), lines])?;
        }
        let mut statement = db.prepare_cached(packet::INSERT)?;
        for chunk in &self.chunks {
            packet::write(&mut statement, capture, chunk)?;
        }
        Ok(())
    }

    fn write_streams(&mut self, db: &Database, capture: CaptureId) -> rusqlite::Result<()> {
        // The sort is stable, so the parts of a stream stay in order.
        self.streams.sort_by_key(|stream| stream.id);
        self.streams.dedup_by_key(|stream| stream.id);
        self.parts.sort_by_key(|(stream, _)| *stream);
        let mut streams = self.streams.iter().copied().peekable();
        let (mut whole, mut later) = (Vec::new(), Vec::new());
        for parts in self.parts.chunk_by(|(one, _), (other, _)| one == other) {
            let id = parts[0].0;
            whole.extend(std::iter::from_fn(|| streams.next_if(|stream| stream.id < id)).map(|stream| (stream, None)));
            let mut runs = parts.chunks(provenance::PARTS);
            // Most bodies are complete when they are written. Then the stream and its parts
            // are one row.
            if let Some(stream) = streams.next_if(|stream| stream.id == id) {
                let row = (stream, runs.next());
                if id > self.streamed {
                    whole.push(row);
                } else if provenance::STREAM_ROWS.all(db, &[row], |row| provenance::stream_row(capture, *row))? == 0 {
                    runs = parts.chunks(provenance::PARTS);
                }
            }
            later.extend(runs.map(|run| (RowKey::new(capture, id.0.into()), run)));
        }
        whole.extend(streams.map(|stream| (stream, None)));
        provenance::STREAM_ROWS.all(db, &whole, |row| provenance::stream_row(capture, *row))?;
        provenance::PART_ROWS.all(db, &later, |row| provenance::part_row(*row))?;
        Ok(())
    }

    fn write_messages(&mut self, db: &Database, capture: CaptureId, written: &mut WrittenRows) -> anyhow::Result<()> {
        let mut insert = db.prepare_cached(message::INSERT)?;
        let mut texts = Vec::with_capacity(self.messages.len());
        let mut insert_link = db.prepare_cached(message::INSERT_LINK)?;
        let mut answered = db.prepare_cached(message::ANSWERED)?;
        let mut figures: HashMap<i64, SessionFigures, FxBuildHasher> = HashMap::default();
        for (record, derived, text) in &self.messages {
            let session = written.session(db, capture, record.session)?;
            if !message::write(&mut insert, (capture, session.id, session.last + 1), record, derived)? {
                continue;
            }
            session.last += 1;
            figures.entry(session.id).or_default().add(record);
            if record.time.0 < session.time {
                self.unordered.add(session.id);
            }
            session.time = session.time.max(record.time.0);
            if let Some(link) = &record.link {
                message::write_link(&mut insert_link, (capture, record.number), link)?;
            }
            texts.push((RowKey::new(capture, record.number.0), text));
            if let Some(request) = derived.request {
                let request = RowKey::new(capture, request.0);
                let status = super::codec::Code::code(derived.status);
                answered.execute(params![record.number.0 as i64, record.latency, status, request])?;
            }
        }
        message::TEXT_ROWS.all(db, &texts, |(key, text)| [key.0.into(), text.column()])?;
        figures.iter().try_for_each(|(session, figures)| figures.write(db, *session))
    }
}

/// The memory that a record takes while it waits; `None` if it is none of those that
/// [`Pending::add`] stores.
fn size_of_record(record: &Event) -> Option<usize> {
    const SMALL: usize = 1 << 10;
    let half = |half: &Half| half.fields.size() + size_of_val(&*half.packets) + size_of_val(&*half.head_packets);
    Some(match record {
        Event::Session(_) => SMALL,
        Event::Connection(record) => SMALL + record.tls.iter().map(|step| size_of_val(&*step.packets)).sum::<usize>(),
        Event::Exchange(record) | Event::Head(record) => {
            size_of::<Exchange>() + half(&record.request) + half(&record.response)
        }
        Event::Belongs(..) => size_of::<(SessionNumber, ExchangeNumber)>(),
        Event::Stream(_) => size_of::<Stream>(),
        Event::Part(..) => size_of::<(StreamId, StreamPart)>(),
        Event::Plaintext(.., frame) => size_of::<(StreamId, u64, Vec<u8>)>() + frame.len(),
        Event::Keys(_, lines) => lines.len(),
        Event::Linked(..) => size_of::<(MessageNumber, Link)>(),
        Event::Finding(record) => {
            let about = size_of_val(&*record.messages) + size_of_val(&*record.packets);
            size_of::<Finding>() + record.text.len() + about
        }
        Event::Note(record) if note::is_stored(record) => size_of::<Note>() + SMALL,
        _ => return None,
    })
}

/// Takes the emptied list with its memory, unless it grew too much while nothing could be written.
fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
    list.clear();
    list.shrink_to(LISTED);
    std::mem::take(list)
}

impl WrittenRows {
    /// A session of the capture.
    fn session(
        &mut self,
        db: &Database,
        capture: CaptureId,
        number: SessionNumber,
    ) -> rusqlite::Result<&mut WrittenSession> {
        // A capture may have any number of sessions, but only few are active at the same time.
        if self.sessions.len() > 65_536 {
            self.sessions.clear();
        }
        match self.sessions.entry(number) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let id = session::ensure(db, capture, number)?;
                let (last, time) = db
                    .prepare_cached(
                        "SELECT position, time FROM message WHERE session = ? ORDER BY position DESC LIMIT 1",
                    )?
                    .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?
                    .unwrap_or((0, i64::MIN));
                Ok(unknown.insert(WrittenSession { id, last, time }))
            }
        }
    }
}
