//! Reading: pages of records, whether others write or not.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection as Database, OptionalExtension, Params, Row, params};

use super::chunk::{OpenChunk, StoredPacket};
use super::codec::Damaged;
use super::maintenance::HIDDEN;
use super::merge::Merge;
use super::page::{ALL, PAGE_BYTES};
use super::record::capture::{self, Capture};
use super::record::finding::{self, FindingRow};
use super::record::note::{self, NoteRow};
use super::record::{Columns, connection, exchange, packet, provenance, session};
use super::text_index::CandidateCache;
use super::{CaptureId, DatabaseFile, Page, RowKey, Scope, migrate, spill};
use crate::capture::{
    Limits, Origin, PacketNumber, PacketRange, Span, StreamId, StreamPart, Time, provenance as ground,
};
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::{Connection, Stream};
use crate::mcp::{Session, SessionNumber};

/// The time for which a reader waits in the rare case that SQLite makes it wait: when it opens a
/// file that the last user is closing.
const BUSY: Duration = Duration::from_secs(5);

/// Instructions of a query between two looks at whether it is to stop: some 20 µs.
const STOP_INTERVAL: i32 = 1_000;

/// The largest number of steps of one walk down the provenance. The largest message
/// has 100,000 packets.
const STEPS: usize = 4 << 20;

/// Reads a database. Every call sees everything that was committed before it. No call
/// delays a writer.
pub struct StoreReader {
    // Declared before the file, so that it is closed before a temporary file is removed.
    pub(super) db: Database,
    place: DatabaseFile,
    pub(super) limits: Limits,
    pub(super) candidates: CandidateCache,
    last_chunk: RefCell<Option<LastChunk>>,
}

/// The chunk of the packet that was read last. Most often the next packet is later in it.
struct LastChunk {
    id: i64,
    /// The version of the data, because masking and deletion change chunks.
    version: i64,
    /// The number of the packet.
    packet: PacketNumber,
    /// What follows the packet.
    rest: OpenChunk,
}

impl StoreReader {
    /// Opens a database to read. What waits in files beside it is first written to it, if possible.
    pub fn open(place: impl Into<DatabaseFile>) -> anyhow::Result<StoreReader> {
        let place = place.into();
        if !place.is_temporary() && place.path().exists() {
            spill::bring_in_all(&place);
        }
        let db = migrate::open_reader(&place, BUSY)?;
        Ok(StoreReader {
            db,
            place,
            limits: Limits::default(),
            candidates: CandidateCache::default(),
            last_chunk: RefCell::default(),
        })
    }

    /// Until the result is dropped, all reads see the same state, and none needs a lock of its own.
    /// A recording in the same database cannot shorten its log meanwhile.
    pub fn snapshot(&self) -> anyhow::Result<impl Sized> {
        Ok(self.db.unchecked_transaction()?)
    }

    /// Lets the queries of this reader fail once `stop` is set.
    pub fn until(mut self, stop: Arc<AtomicBool>) -> anyhow::Result<StoreReader> {
        self.db.progress_handler(STOP_INTERVAL, Some(move || stop.load(Ordering::Relaxed)))?;
        Ok(self)
    }

    /// The file that is read.
    pub fn place(&self) -> &DatabaseFile {
        &self.place
    }

    /// A number that changes whenever somebody else commits. A view that follows a recording
    /// checks it first.
    pub fn data_version(&self) -> anyhow::Result<i64> {
        Ok(self.db.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    /// A page of the captures, by number.
    pub fn captures(&self, page: Page<CaptureId>) -> anyhow::Result<Vec<Capture>> {
        let (first, last) = page.range(ALL, |id| id.0.into());
        let (columns, order) = (capture::COLUMNS, page.order.sql());
        let sql = format!("SELECT {columns} FROM capture WHERE id BETWEEN ? AND ? ORDER BY id {order} LIMIT ?");
        self.select(&sql, params![first, last, page.limit()], capture::read)
    }

    /// The capture with this number.
    pub fn capture(&self, id: CaptureId) -> anyhow::Result<Option<Capture>> {
        let sql = format!("SELECT {} FROM capture WHERE id = ?", capture::COLUMNS);
        Ok(self.select(&sql, [id.0], capture::read)?.pop())
    }

    /// Whether the packets of a capture are invented, see `CaptureKind::is_made_up`.
    pub fn is_made_up(&self, id: CaptureId) -> anyhow::Result<bool> {
        Ok(self.capture(id)?.is_some_and(|capture| capture.info.kind.is_made_up()))
    }

    /// The capture of a session.
    pub fn capture_of(&self, session: SessionNumber) -> anyhow::Result<Option<CaptureId>> {
        let mut statement = self.db.prepare_cached("SELECT capture FROM session WHERE id = ?")?;
        Ok(statement.query_row([session.0], |row| row.get(0)).map(CaptureId).optional()?)
    }

    /// A page of the sessions, by their number in the database.
    pub fn sessions(&self, page: Page<SessionNumber>) -> anyhow::Result<Vec<Session>> {
        let (first, last) = page.range(ALL, |number| number.0.into());
        let (columns, order) = (session::COLUMNS, page.order.sql());
        let sql = format!(
            "SELECT {columns} FROM session WHERE id BETWEEN ? AND ? AND NOT deleting ORDER BY id {order} LIMIT ?"
        );
        let mut sessions = Vec::new();
        for (_, mut session) in self.select(&sql, params![first, last, page.limit()], session::read)? {
            let connections = session::read_connections(&self.db, session.number)?;
            session.connections = connections.into_iter().map(|key| ConnectionId(key.number() as u32)).collect();
            sessions.push(session);
        }
        Ok(sessions)
    }

    /// The session with this number in the database.
    pub fn session(&self, number: SessionNumber) -> anyhow::Result<Option<Session>> {
        Ok(self.sessions(Page::from(number, 1))?.pop().filter(|session| session.number == number))
    }

    /// The session that began last.
    pub fn latest_session(&self) -> anyhow::Result<Option<Session>> {
        Ok(self.sessions(Page::last(1))?.pop())
    }

    /// A page of the HTTP exchanges of a session, with and without messages, in the order of
    /// their first heads.
    pub fn exchanges(&self, session: SessionNumber, page: Page<ExchangeNumber>) -> anyhow::Result<Vec<Exchange>> {
        let Some(capture) = self.capture_of(session)? else { return Ok(Vec::new()) };
        let (first, last) = page.range(RowKey::all(capture), |number| RowKey::new(capture, number.0).0);
        let (columns, order) = (exchange::COLUMNS, page.order.sql());
        let sql = format!(
            "SELECT {columns} FROM session_exchange JOIN exchange ON exchange.id = session_exchange.exchange
             WHERE session_exchange.session = ? AND session_exchange.exchange BETWEEN ? AND ?
             ORDER BY session_exchange.exchange {order} LIMIT ?"
        );
        self.select(&sql, params![session.0, first, last, page.limit()], exchange::read)
    }

    /// The HTTP exchange with this number.
    pub fn exchange(&self, capture: CaptureId, number: ExchangeNumber) -> anyhow::Result<Option<Exchange>> {
        let sql = format!("SELECT {} FROM exchange WHERE id = ?", exchange::COLUMNS);
        Ok(self.select(&sql, [RowKey::new(capture, number.0)], exchange::read)?.pop())
    }

    /// A page of the connections of a session, by number.
    pub fn connections(&self, session: SessionNumber, page: Page<ConnectionId>) -> anyhow::Result<Vec<Connection>> {
        let Some(capture) = self.capture_of(session)? else { return Ok(Vec::new()) };
        let (first, last) = page.range(RowKey::all(capture), |id| RowKey::new(capture, id.0.into()).0);
        let (columns, order) = (connection::COLUMNS, page.order.sql());
        let sql = format!(
            "SELECT {columns} FROM connection
             WHERE id IN (SELECT connection FROM session_connection WHERE session = ?) AND id BETWEEN ? AND ?
             ORDER BY id {order} LIMIT ?"
        );
        self.select(&sql, params![session.0, first, last, page.limit()], connection::read)
    }

    /// The connection with this number.
    pub fn connection(&self, capture: CaptureId, id: ConnectionId) -> anyhow::Result<Option<Connection>> {
        let sql = format!("SELECT {} FROM connection WHERE id = ?", connection::COLUMNS);
        Ok(self.select(&sql, [RowKey::new(capture, id.0.into())], connection::read)?.pop())
    }

    /// A page of findings, in the order in which they were made. For a session: those that
    /// belong to it.
    pub fn findings(&self, scope: Scope, page: Page<u64>) -> anyhow::Result<Vec<FindingRow>> {
        let (first, last) = page.range(ALL, |number| *number as i64);
        let (which, value) = finding_scope(scope);
        let (columns, order) = (finding::COLUMNS, page.order.sql());
        let sql = format!(
            "SELECT {columns} FROM finding JOIN rule ON rule.id = finding.rule
             WHERE {which} AND finding.id BETWEEN ?2 AND ?3 ORDER BY finding.id {order} LIMIT ?4"
        );
        self.select(&sql, params![value, first, last, page.limit()], finding::read)
    }

    /// A page of the notes of a session, or of those that belong to none, in order of time.
    pub fn notes(&self, scope: Scope, after: Option<(Time, u64)>, limit: usize) -> anyhow::Result<Vec<NoteRow>> {
        let (which, value) = match scope {
            Scope::All => ("session IS NULL AND ?1 = 0", 0),
            Scope::Capture(capture) => ("session IS NULL AND capture = ?1", i64::from(capture.0)),
            Scope::Session(session) => ("session = ?1", i64::from(session.0)),
        };
        let (time, id) = after.map_or((i64::MIN, i64::MIN), |(time, id)| (time.0, id as i64));
        let columns = note::COLUMNS;
        let sql =
            format!("SELECT {columns} FROM note WHERE {which} AND (time, id) > (?2, ?3) ORDER BY time, id LIMIT ?4");
        self.select(&sql, params![value, time, id, limit as i64], note::read)
    }

    /// The findings about a message.
    pub fn message_findings(&self, message: RowKey) -> anyhow::Result<Vec<FindingRow>> {
        let columns = finding::COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM finding JOIN rule ON rule.id = finding.rule
             WHERE finding.id IN (SELECT finding FROM finding_message WHERE message = ?) ORDER BY finding.id LIMIT ?"
        );
        self.select(&sql, params![message, Page::<u64>::first(usize::MAX).limit()], finding::read)
    }

    /// Packets stored for a connection, from number `from` on, each with its segment. Ends early
    /// after 16 MiB.
    pub fn packets(
        &self,
        capture: CaptureId,
        connection: ConnectionId,
        from: PacketNumber,
        limit: usize,
    ) -> anyhow::Result<Vec<StoredPacket>> {
        let columns = packet::ID_COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM packet_chunk WHERE connection = ? AND last_number >= ? ORDER BY first_number"
        );
        let key = RowKey::new(capture, connection.0.into());
        let chunks = self.select(&sql, params![key, from.0 as i64], |row| Ok(packet::read_id(row)?))?;
        let mut merge = Merge::new(chunks);
        let mut packets = Vec::new();
        let mut bytes = 0;
        while packets.len() < limit && bytes < PAGE_BYTES {
            let Some(packet) = merge.next(&self.db)? else { break };
            if packet.number >= from {
                bytes += packet.data.len();
                packets.push(packet);
            }
        }
        Ok(packets)
    }

    /// The packet with this number, if it was stored.
    pub fn packet(&self, capture: CaptureId, number: PacketNumber) -> anyhow::Result<Option<StoredPacket>> {
        let Some(chunk) = self.chunk_of(capture, number)? else { return Ok(None) };
        let version = self.data_version()?;
        let is_same = |last: &LastChunk| last.id == chunk && last.version == version && last.packet < number;
        let mut rest = match self.last_chunk.take().filter(is_same) {
            Some(last) => last.rest,
            None => packet::open(&self.db, chunk)?,
        };
        while let Some(packet) = rest.next()? {
            if packet.number == number {
                self.last_chunk.replace(Some(LastChunk { id: chunk, version, packet: number, rest }));
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    /// The stream with this number.
    pub fn stream(&self, capture: CaptureId, id: StreamId) -> anyhow::Result<Option<Stream>> {
        let sql = format!("SELECT {} FROM stream WHERE id = ?", provenance::STREAM_COLUMNS);
        Ok(self.select(&sql, [RowKey::new(capture, id.0.into())], provenance::read_stream)?.pop())
    }

    /// Passes every stream of a capture to `take`, in order.
    pub fn streams(&self, capture: CaptureId, mut take: impl FnMut(Stream)) -> anyhow::Result<()> {
        let sql = format!("SELECT {} FROM stream WHERE id BETWEEN ? AND ? ORDER BY id", provenance::STREAM_COLUMNS);
        let mut select = self.db.prepare_cached(&sql)?;
        let (first, last) = RowKey::all(capture);
        let mut rows = select.query([first, last])?;
        while let Some(row) = rows.next()? {
            take(provenance::read_stream(row)?);
        }
        Ok(())
    }

    /// One layer down: the parts that make up `span`, cut to it, in
    /// order, like `Provenance::parents`.
    pub fn parts(&self, capture: CaptureId, span: Span) -> anyhow::Result<Vec<StreamPart>> {
        let key = RowKey::new(capture, span.stream.0.into());
        let rows = self.select(
            "SELECT 0, parts FROM stream WHERE id = ?1 AND parts IS NOT NULL
             UNION ALL SELECT * FROM (
                 SELECT start, parts FROM part WHERE stream = ?1 AND start < ?3 AND start >= coalesce(
                     (SELECT max(start) FROM part WHERE stream = ?1 AND start <= ?2), 0) ORDER BY start)",
            params![key, span.start as i64, span.end as i64],
            |row| {
                let mut columns = Columns::new(row);
                let start = columns.u64()?;
                Ok(provenance::read_parts(start, columns.bytes("where bytes came from")?)?)
            },
        )?;
        let inside = |part: &StreamPart| part.end > span.start && part.start < span.end;
        let cut = |part| ground::clip(part, span.start, span.end);
        let mut parts: Vec<StreamPart> = rows.into_iter().flatten().filter(inside).map(cut).collect();
        // If a stream's row was written after some of its parts, the parts in that row are
        // not the first.
        parts.sort_by_key(|part| part.start);
        Ok(parts)
    }

    /// The bytes that TLS carried in `span`, in order: offset and bytes, secrets masked. Empty for
    /// streams that were not decrypted from TLS.
    pub fn plaintext(&self, capture: CaptureId, span: Span) -> anyhow::Result<Vec<(u64, Vec<u8>)>> {
        let key = RowKey::new(capture, span.stream.0.into());
        let mut pieces: Vec<(u64, Vec<u8>)> = self.select(
            "SELECT start, data FROM plaintext WHERE stream = ?1 AND start < ?3 AND start >= coalesce(
                 (SELECT max(start) FROM plaintext WHERE stream = ?1 AND start <= ?2), 0) ORDER BY start",
            params![key, span.start as i64, span.end as i64],
            |row| {
                let mut columns = Columns::new(row);
                let start = columns.u64()?;
                Ok((start, super::text::unpack(columns.bytes("what TLS carried")?, self.limits.message)?))
            },
        )?;
        for (start, bytes) in &mut pieces {
            let (length, base) = (bytes.len(), *start);
            let inside = |offset: u64| (offset.saturating_sub(base) as usize).min(length);
            let (from, to) = (inside(span.start), inside(span.end));
            bytes.truncate(to);
            bytes.drain(..from);
            *start += from as u64;
        }
        pieces.retain(|(_, bytes)| !bytes.is_empty());
        Ok(pieces)
    }

    /// All the way down: the bytes of packets that make up `span`, in stream
    /// order, like `Provenance::packet_ranges`.
    pub fn packet_ranges(&self, capture: CaptureId, span: Span) -> anyhow::Result<Vec<PacketRange>> {
        const DAMAGED: Damaged = Damaged("where bytes came from");
        let mut ranges = Vec::new();
        let mut open = vec![span];
        let mut below: Vec<Span> = Vec::new();
        let mut steps = 0;
        while let Some(span) = open.pop() {
            for part in self.parts(capture, span)? {
                steps += 1;
                let length = part.end - part.start;
                match part.origin {
                    Origin::Packet { packet, offset } => {
                        ranges.push(PacketRange { packet, start: offset, end: offset + length as u32 });
                    }
                    Origin::Copied { stream, offset } => {
                        below.push(Span { stream, start: offset, end: offset + length });
                    }
                    Origin::Derived(from) if below.last() == Some(&from) => {}
                    Origin::Derived(from) => below.push(from),
                    Origin::Missing => {}
                }
            }
            // A stream is made only of streams that existed before it. In a damaged file that
            // violates this the walk might never end.
            if steps > STEPS || below.iter().any(|from| from.stream >= span.stream) {
                return Err(DAMAGED.into());
            }
            open.extend(below.drain(..).rev());
        }
        Ok(ranges)
    }

    /// The rows of a query, converted by `read`.
    pub(super) fn select<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        self.db.prepare_cached(sql)?.query_and_then(parameters, read)?.collect()
    }
}

/// A condition on `finding` for a part of the database, and the value of its parameter 1.
fn finding_scope(scope: Scope) -> (String, u32) {
    let visible = |which: &str| format!("{which} AND coalesce(finding.session, 0) NOT IN {HIDDEN}");
    match scope {
        Scope::All => (visible("?1 IS NOT NULL"), 0),
        Scope::Capture(capture) => (visible("finding.capture = ?1"), capture.0),
        Scope::Session(session) => ("finding.session = ?1".to_owned(), session.0),
    }
}
