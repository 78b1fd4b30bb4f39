//! Erasing the rows of sessions that are marked, and what belongs to no other session.
//!
//! Packets, exchanges and streams belong to connections. A connection that a remaining session uses
//! stays as it is. The others go, with everything of theirs. With its last session a capture goes.

use rusqlite::{Connection, params};

use super::Steps;
use crate::store::record::{finding, note};
use crate::store::{CaptureId, RowKey, text_index};

/// Rows that one statement deletes. A chunk of packets has up to 128 KiB.
const ROWS: usize = 16;

/// Sessions of capture `?1` that stay.
const REMAINING: &str = "SELECT id FROM session WHERE capture = ?1 AND NOT deleting";

/// What belongs to the streams from `?1` to `?2`, in order: a table and the key of its rows.
const OF_STREAMS: [(&str, &str, &str); 3] =
    [("part", "stream, start", "stream"), ("plaintext", "stream, start", "stream"), ("stream", "id", "id")];

/// The same for connections.
const OF_CONNECTIONS: [(&str, &str, &str); 4] = [
    ("packet_chunk", "id", "connection"),
    ("exchange", "id", "connection"),
    ("key_log", "connection", "connection"),
    ("connection", "id", "id"),
];

/// Erases the marked sessions of a capture. May run in several programs at once, and again.
pub(super) fn erase(db: &Connection, capture: CaptureId) -> anyhow::Result<()> {
    let marked = numbers(db, "SELECT id FROM session WHERE capture = ? AND deleting", capture)?;
    let mut steps = Steps::new(db);
    // The sections of the index hold parts of the texts.
    steps.run(|db| text_index::forget_one(db, capture))?;
    for session in &marked {
        steps.run(|db| delete_messages(db, *session))?;
        steps.run(|db| finding::delete_some(db, "session = ?", *session, ROWS))?;
        steps.run(|db| note::delete_some(db, "session = ?", *session, ROWS))?;
    }
    steps.finish()?;
    let (streams, connections) = if numbers(db, REMAINING, capture)?.is_empty() {
        steps.run(|db| finding::delete_some(db, "capture = ?", capture.0.into(), ROWS))?;
        steps.run(|db| note::delete_some(db, "capture = ?", capture.0.into(), ROWS))?;
        (vec![RowKey::all(capture)], vec![RowKey::all(capture)])
    } else {
        unused(db, capture)?
    };
    for (tables, ranges) in [(&OF_STREAMS[..], streams), (&OF_CONNECTIONS[..], connections)] {
        for range in ranges {
            for (table, key, column) in tables {
                let sql = format!(
                    "DELETE FROM {table} WHERE ({key}) IN
                         (SELECT {key} FROM {table} WHERE {column} BETWEEN ? AND ? LIMIT {ROWS})"
                );
                steps.run(|db| Ok(db.prepare_cached(&sql)?.execute(params![range.0, range.1])?))?;
            }
        }
    }
    steps.run(|db| {
        // A section that was made since then may hold texts that are gone now.
        while text_index::forget_one(db, capture)? > 0 {}
        for session in &marked {
            db.prepare_cached("DELETE FROM session_connection WHERE session = ?")?.execute([session])?;
            db.prepare_cached("DELETE FROM session_exchange WHERE session = ?")?.execute([session])?;
            db.prepare_cached("DELETE FROM session WHERE id = ?")?.execute([session])?;
        }
        // Another program may have marked the others meanwhile. Then that one erases their rows.
        let empty = "DELETE FROM capture WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM session WHERE capture = ?1)";
        db.prepare_cached(empty)?.execute([capture.0])?;
        Ok(0)
    })?;
    steps.finish()
}

fn numbers(db: &Connection, sql: &str, capture: CaptureId) -> rusqlite::Result<Vec<i64>> {
    db.prepare_cached(sql)?.query_map([capture.0], |row| row.get(0))?.collect()
}

/// Deletes some messages of a session, with what is about them; returns their number.
fn delete_messages(db: &Connection, session: i64) -> anyhow::Result<usize> {
    let some = format!("(SELECT id FROM message WHERE session = ? ORDER BY position LIMIT {ROWS})");
    for about in ["message_text WHERE id", "link WHERE message", "finding_message WHERE message"] {
        db.prepare_cached(&format!("DELETE FROM {about} IN {some}"))?.execute([session])?;
    }
    Ok(db.prepare_cached(&format!("DELETE FROM message WHERE id IN {some}"))?.execute([session])?)
}

type Ranges = Vec<(i64, i64)>;

/// The keys of the streams and of the connections that no remaining session of a capture uses.
fn unused(db: &Connection, capture: CaptureId) -> anyhow::Result<(Ranges, Ranges)> {
    db.execute_batch("CREATE TEMP TABLE IF NOT EXISTS used (connection INTEGER PRIMARY KEY); DELETE FROM temp.used")?;
    // The list of a session is bounded, so messages name further connections.
    for (from, connection) in [
        ("session_connection", "connection"),
        ("message JOIN stream ON stream.id = (?1 << 40 | message.stream)", "stream.connection"),
    ] {
        let sql = format!(
            "INSERT OR IGNORE INTO temp.used (connection) SELECT {connection} FROM {from} WHERE session IN ({REMAINING})"
        );
        db.prepare_cached(&sql)?.execute([capture.0])?;
    }
    Ok((unused_keys(db, capture, "stream", "connection")?, unused_keys(db, capture, "connection", "id")?))
}

/// The rows of a table whose connection is not used, as ranges of keys.
fn unused_keys(db: &Connection, capture: CaptureId, table: &str, connection: &str) -> rusqlite::Result<Ranges> {
    let sql = format!(
        "SELECT id, {connection} IN (SELECT connection FROM temp.used) FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id"
    );
    let mut select = db.prepare_cached(&sql)?;
    let (first, last) = RowKey::all(capture);
    let mut rows = select.query([first, last])?;
    let (mut ranges, mut is_open): (Ranges, bool) = (Vec::new(), false);
    while let Some(row) = rows.next()? {
        let (id, used): (i64, bool) = (row.get(0)?, row.get(1)?);
        match ranges.last_mut().filter(|_| is_open) {
            Some(range) if !used => range.1 = id,
            None if !used => ranges.push((id, id)),
            _ => {}
        }
        is_open = !used;
    }
    Ok(ranges)
}
