//! Stored packets as a source: they are delivered in the order in which they were captured.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::chunk::StoredPacket;
use super::merge::Merge;
use super::record::packet;
use super::{CaptureId, DatabaseFile, migrate};
use crate::mcp::SessionNumber;
use crate::source::{Item, Source};

/// The packets to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those of the connections of a session.
    Session(SessionNumber),
    /// All stored packets of a capture.
    Capture(CaptureId),
}

/// The stored packets of a session or a capture, with their numbers and times, to be decoded again.
/// Secrets are masked.
pub struct StoredPackets {
    // Declared before the file, so that it is closed before a temporary file is removed.
    db: Connection,
    _place: DatabaseFile,
    merge: Merge,
    total: u64,
    current: Option<StoredPacket>,
    /// Stored TLS secrets, until they are delivered, which is before the packets.
    keys: Option<String>,
    /// TLS secrets that were delivered.
    given: String,
}

impl StoredPackets {
    /// Opens a database to read these packets.
    pub fn open(place: impl Into<DatabaseFile>, selection: Selection) -> anyhow::Result<StoredPackets> {
        let place = place.into();
        let db = migrate::open_reader(&place, Duration::from_secs(5))?;
        let (which, value) = match selection {
            Selection::Session(session) => {
                ("connection IN (SELECT connection FROM session_connection WHERE session = ?)", session.0)
            }
            Selection::Capture(capture) => ("capture = ?", capture.0),
        };
        let sql = format!("SELECT {} FROM packet_chunk WHERE {which} ORDER BY first_number, id", packet::ID_COLUMNS);
        let chunks = db.prepare(&sql)?.query_map(params![value], packet::read_id)?.collect::<Result<_, _>>()?;
        let sql = format!("SELECT coalesce(sum(length(data)), 0) FROM packet_chunk WHERE {which}");
        let total: i64 = db.query_row(&sql, params![value], |row| row.get(0))?;
        let sql = format!("SELECT coalesce(group_concat(lines, ''), '') FROM key_log WHERE {which}");
        let keys: String = db.query_row(&sql, params![value], |row| row.get(0))?;
        let keys = Some(keys).filter(|keys| !keys.is_empty());
        let (merge, total) = (Merge::new(chunks), total as u64);
        Ok(StoredPackets { db, _place: place, merge, total, current: None, keys, given: String::new() })
    }
}

impl Source for StoredPackets {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if let Some(keys) = self.keys.take() {
            self.given = keys;
            return Ok(Some(Item::Secrets(self.given.as_bytes())));
        }
        self.current = self.merge.next(&self.db)?;
        Ok(self.current.as_ref().map(|packet| Item::Packet(packet.packet())))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.merge.bytes_read, Some(self.total))
    }
}
