//! Spill files: what is recorded while the database is locked by another program.
//!
//! ```text
//!  mcptap.db                          the database
//!  mcptap.db-spill-PROCESS-STARTED    a database with one capture, locked by its writer
//! ```
//!
//! A writer that cannot write goes on in a spill file. As soon as the database can be written, the
//! rows of the spill file are moved to it in one transaction. If the writer ends before, the next
//! program that opens the database does that.
//!
//! The capture is the same in both files if its process and its start are the same. All its numbers
//! are the same too, so rows are moved without decoding anything again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::record::capture::{self, CaptureInfo};
use super::record::figures;
use super::{CaptureId, DatabaseFile, NUMBER_BITS, migrate};

/// The time for which a program that opens a database waits for another one that writes to it,
/// before it leaves a spill file to the next program.
const PATIENCE: Duration = Duration::from_millis(100);

/// A spill file that a writer fills. The file is locked as long as the connection is open.
pub(super) struct Spill {
    pub(super) place: DatabaseFile,
}

impl Spill {
    /// Creates the spill file of a capture, and begins the capture there.
    pub(super) fn create(place: &DatabaseFile, info: &CaptureInfo) -> anyhow::Result<(Spill, Connection, CaptureId)> {
        let place = DatabaseFile::file(format!("{}{}-{}", prefix(place), info.process, info.started.0));
        let db = migrate::open_alone(&place, PATIENCE)?;
        let capture = capture::insert(&db, info)?;
        Ok((Spill { place }, db, capture))
    }

    /// Bytes of the file, with those that SQLite has not moved to it yet.
    pub(super) fn size(&self) -> u64 {
        let size =
            |suffix| fs::metadata(format!("{}{suffix}", self.place.path().display())).map_or(0, |file| file.len());
        size("") + size("-wal")
    }

    /// Removes the file, whose rows are in the database.
    pub(super) fn remove(self) {
        remove(self.place);
    }
}

/// The spill files beside a database.
pub fn spill_files(place: &DatabaseFile) -> Vec<PathBuf> {
    let prefix = prefix(place);
    let is_spill = |path: &PathBuf| {
        let rest = path.to_str().and_then(|path| path.strip_prefix(&prefix));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    let Ok(entries) = fs::read_dir(place.folder()) else { return Vec::new() };
    let names = entries.flatten().map(|entry| place.path().with_file_name(entry.file_name()));
    let mut files: Vec<PathBuf> = names.filter(is_spill).collect();
    files.sort();
    files
}

/// Moves the rows of all spill files beside a database to it. A file that is still written stays,
/// and so does one that cannot be moved now.
pub(super) fn bring_in_all(place: &DatabaseFile) {
    for path in spill_files(place) {
        let spill = DatabaseFile::file(path);
        let Ok(db) = migrate::open_alone(&spill, Duration::ZERO) else { continue };
        if let Ok(Some(_)) = bring_in(&db, place, PATIENCE) {
            drop(db);
            remove(spill);
        }
    }
}

fn prefix(place: &DatabaseFile) -> String {
    format!("{}-spill-", place.path().display())
}

fn remove(place: DatabaseFile) {
    // A file that stays is recognised later: its rows are in the database already.
    let _ = fs::remove_file(place.path());
}

/// Copies the rows of a spill file to the database, in one transaction, unless they are there.
/// Returns the number of the capture there; `None` if the spill file has no capture.
pub(super) fn bring_in(
    spill: &Connection,
    place: &DatabaseFile,
    busy_timeout: Duration,
) -> anyhow::Result<Option<CaptureId>> {
    // Creates the database, or brings it to the newest version.
    drop(migrate::open_writer(place, busy_timeout)?);
    spill.busy_timeout(busy_timeout)?;
    figures::register(spill)?;
    let path = place.path().to_str().context("the path of the database is not UTF-8")?;
    spill.execute("ATTACH ? AS target", [path])?;
    let copied = copy(spill);
    spill.execute("DETACH target", [])?;
    copied
}

/// The state of a capture in one of the files.
#[derive(Clone, Copy, Debug)]
struct CaptureState {
    capture: i64,
    packets: i64,
    last_alive: i64,
    has_ended: bool,
}

impl CaptureState {
    const COLUMNS: &str = "id, packets, last_alive, ended IS NOT NULL";

    fn read(row: &Row<'_>) -> rusqlite::Result<CaptureState> {
        let (capture, packets) = (row.get(0)?, row.get(1)?);
        Ok(CaptureState { capture, packets, last_alive: row.get(2)?, has_ended: row.get(3)? })
    }

    /// Whether this state includes everything of the other one.
    fn includes(self, other: CaptureState) -> bool {
        self.packets >= other.packets && self.last_alive >= other.last_alive && self.has_ended >= other.has_ended
    }
}

fn copy(db: &Connection) -> anyhow::Result<Option<CaptureId>> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let sql = format!("SELECT {}, kind, process, started FROM main.capture", CaptureState::COLUMNS);
    let own = db
        .query_row(&sql, [], |row| {
            let key: (i64, i64, i64) = (row.get(4)?, row.get(5)?, row.get(6)?);
            Ok((CaptureState::read(row)?, key))
        })
        .optional()?;
    let Some((own, (kind, process, started))) = own else { return Ok(None) };
    let sql =
        format!("SELECT {} FROM target.capture WHERE kind = ? AND process = ? AND started = ?", CaptureState::COLUMNS);
    let there = db.query_row(&sql, params![kind, process, started], CaptureState::read).optional()?;
    let capture = match there {
        Some(there) if there.includes(own) => return Ok(Some(CaptureId(u32::try_from(there.capture)?))),
        Some(there) => there.capture,
        None => {
            db.execute(
                "INSERT INTO target.capture (kind, source, process, started, last_alive)
                 SELECT kind, source, process, started, last_alive FROM main.capture",
                [],
            )?;
            db.last_insert_rowid()
        }
    };
    let finding: i64 = db.query_row("SELECT coalesce(max(id), 0) FROM target.finding", [], |row| row.get(0))?;
    let values = [
        ("$capture", capture),
        ("$first", capture << NUMBER_BITS),
        ("$shift", (capture - own.capture) << NUMBER_BITS),
        ("$finding", finding),
    ];
    let script = values.iter().fold(COPY.to_owned(), |sql, (name, value)| sql.replace(name, &format!("({value})")));
    db.execute_batch(&script)?;
    transaction.commit()?;
    Ok(Some(CaptureId(u32::try_from(capture)?)))
}

/// `$shift` turns the key of a row in the spill file into its key in the database. A row that was
/// written before the database was locked is completed or replaced by its later state.
const COPY: &str = "
    UPDATE target.capture AS t SET last_alive = s.last_alive, ended = s.ended, packets = s.packets, bytes = s.bytes,
        first_time = s.first_time, last_time = s.last_time, packets_kept = s.packets_kept,
        packets_dropped = s.packets_dropped, packets_blanked = s.packets_blanked, records_lost = s.records_lost,
        skipped = s.skipped, damage = s.damage
    FROM main.capture AS s WHERE t.id = $capture;

    -- A row that is there must not use up a number of a session.
    INSERT INTO target.session (capture, number)
        SELECT $capture, number FROM main.session
        WHERE number NOT IN (SELECT number FROM target.session WHERE capture = $capture) ORDER BY id;
    -- Without a time of its start it is only a row that messages refer to.
    UPDATE target.session AS t SET transport = s.transport, protocol_version = s.protocol_version,
        session_id = s.session_id, client_name = s.client_name, client_version = s.client_version,
        server_name = s.server_name, server_version = s.server_version, client_address = s.client_address,
        server_address = s.server_address, host = s.host, process = s.process, command = s.command,
        process_name = s.process_name, started = s.started, ended = s.ended, messages = s.messages,
        requests = s.requests, ok = s.ok, tool_errors = s.tool_errors, errors = s.errors, cancelled = s.cancelled,
        unanswered = s.unanswered, server_requests = s.server_requests, responses = s.responses,
        notifications = s.notifications, invalid = s.invalid, bytes_seen = s.bytes_seen, bytes_sent = s.bytes_sent,
        exit_code = s.exit_code, exit_signal = s.exit_signal
    FROM main.session AS s WHERE t.capture = $capture AND t.number = s.number AND s.started <> 0;
    CREATE TEMP TABLE place AS
        SELECT s.id AS own, t.id AS session,
               (SELECT coalesce(max(position), 0) FROM target.message WHERE session = t.id) AS position
        FROM main.session AS s JOIN target.session AS t ON t.capture = $capture AND t.number = s.number;
    UPDATE target.session AS t SET latencies = merged_latencies(t.latencies, s.latencies),
        tool_calls = coalesce(t.tool_calls, 0) + coalesce(s.tool_calls, 0),
        slowest_request = iif(s.slowest > coalesce(t.slowest, -1), s.slowest_request, t.slowest_request),
        slowest = iif(s.slowest > coalesce(t.slowest, -1), s.slowest, t.slowest)
    FROM place JOIN main.session AS s ON s.id = place.own WHERE t.id = place.session AND s.latencies IS NOT NULL;
    INSERT OR IGNORE INTO target.session_connection (session, position, connection)
        SELECT place.session, c.position, c.connection + $shift
        FROM main.session_connection AS c JOIN place ON place.own = c.session;

    INSERT OR REPLACE INTO target.connection
        (id, protocol, host, client, first_address, second_address, process, opened, details)
        SELECT id + $shift, protocol, host, client, first_address, second_address, process, opened, details
        FROM main.connection;
    INSERT OR REPLACE INTO target.exchange
        (id, connection, h2_stream, http_version, method, target, status, reason, request_fields, response_fields,
         request, response)
        SELECT id + $shift, connection + $shift, h2_stream, http_version, method, target, status, reason,
               request_fields, response_fields, request, response
        FROM main.exchange;
    INSERT OR IGNORE INTO target.session_exchange (session, exchange)
        SELECT place.session, e.exchange + $shift
        FROM main.session_exchange AS e JOIN place ON place.own = e.session;
    INSERT OR IGNORE INTO target.stream (id, connection, kind, which, exchange, parts)
        SELECT id + $shift, connection + $shift, kind, which, exchange, parts FROM main.stream;
    INSERT OR IGNORE INTO target.part (stream, start, parts) SELECT stream + $shift, start, parts FROM main.part;
    INSERT OR IGNORE INTO target.plaintext (stream, start, data)
        SELECT stream + $shift, start, data FROM main.plaintext;
    INSERT OR REPLACE INTO target.key_log (connection, lines) SELECT connection + $shift, lines FROM main.key_log;
    INSERT INTO target.packet_chunk
        (capture, connection, first_number, last_number, first_time, last_time, packets, numbers, data,
         stderr)
        SELECT $capture, connection + $shift, first_number, last_number, first_time, last_time, packets, numbers, data,
               stderr
        FROM main.packet_chunk ORDER BY id;

    INSERT OR IGNORE INTO target.message
        (id, session, position, time, transport, direction, kind, json_id, method, subject, status, latency, answers,
         answered_by, size, carrier, exchange, batch, batch_index, line, sse_id, redelivered, stream, span_start,
         span_end, packets)
        SELECT m.id + $shift, place.session, m.position + place.position, time, transport, direction, kind, json_id,
               method, subject, status, latency, answers, answered_by, size, carrier, exchange, batch, batch_index,
               line, sse_id, redelivered, stream, span_start, span_end, packets
        FROM main.message AS m JOIN place ON place.own = m.session ORDER BY m.id;
    INSERT OR IGNORE INTO target.message_text (id, text) SELECT id + $shift, text FROM main.message_text;
    INSERT OR IGNORE INTO target.link (message, operation, previous, why)
        SELECT message + $shift, operation + $shift, previous + $shift, why FROM main.link;
    -- Requests that were written before, and responses in the spill file, complete each other.
    UPDATE target.message AS request SET answered_by = m.number, latency = m.latency, status = m.status
        FROM main.message AS m WHERE request.id = m.answers + $first AND request.answered_by IS NULL;
    UPDATE target.message AS response SET subject = request.subject
        FROM main.message AS m, target.message AS request
        WHERE response.id = m.id + $shift AND m.subject IS NULL AND request.id = m.answers + $first;

    INSERT OR IGNORE INTO target.rule (id, severity, title, spec) SELECT id, severity, title, spec FROM main.rule;
    INSERT INTO target.finding
        (id, capture, session, rule, severity, repeated, text, messages, packets, stream, span_start, span_end)
        SELECT f.id + $finding, $capture, place.session, rule, severity, repeated, text, messages, packets, stream,
               span_start, span_end
        FROM main.finding AS f LEFT JOIN place ON place.own = f.session;
    UPDATE target.session AS t SET infos = t.infos + s.infos, warnings = t.warnings + s.warnings,
        severe = t.severe + s.severe
    FROM main.session AS s JOIN place ON place.own = s.id WHERE t.id = place.session;
    INSERT OR IGNORE INTO target.finding_message (message, finding, severity)
        SELECT message + $shift, finding + $finding, severity FROM main.finding_message;
    INSERT INTO target.note (capture, session, time, kind, details, packets)
        SELECT $capture, place.session, time, kind, details, packets
        FROM main.note AS n LEFT JOIN place ON place.own = n.session ORDER BY n.id;
    UPDATE target.message AS request SET status = 2
        FROM main.note AS n, json_each(n.details, '$.requests') AS refused
        WHERE n.kind = 'refused' AND request.id = refused.value + $first AND request.answered_by IS NULL;
    DROP TABLE place;
";
