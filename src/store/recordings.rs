//! The facts about stored sessions by which people choose the ones to delete.

use std::collections::{BTreeMap, HashMap};

use rusqlite::params;

use super::record::Columns;
use super::{CaptureId, RowKey, StoreReader};
use crate::capture::Time;
use crate::mcp::SessionNumber;
use crate::source::now;

/// Bytes that a message takes beside its text, and a session beside its messages. Measured with
/// sessions of two and of a million short messages.
const PER_MESSAGE: u64 = 150;
const PER_SESSION: u64 = 1 << 10;

/// A stored session, as a thing that takes space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The number of the session in the database.
    pub session: SessionNumber,
    /// The capture that it belongs to.
    pub capture: CaptureId,
    /// The name that `wrap --name` gave it.
    pub name: Option<String>,
    /// The time of its last message, or of its import if that was later.
    pub last: Time,
    /// No deletion removes it.
    pub is_pinned: bool,
    /// Its capture is still being written.
    pub is_live: bool,
}

impl StoreReader {
    /// All sessions, by number.
    pub fn recordings(&self) -> anyhow::Result<Vec<Recording>> {
        let mut recordings = self.select(
            "SELECT session.id, capture, process_name, max(session.ended, capture.started), pinned, capture.ended IS NULL
             FROM session JOIN capture ON capture.id = session.capture WHERE NOT deleting ORDER BY session.id",
            [],
            |row| {
                let mut columns = Columns::new(row);
                Ok(Recording {
                    session: SessionNumber(columns.get()?),
                    capture: columns.capture()?,
                    name: columns.get()?,
                    last: Time(columns.get()?),
                    is_pinned: columns.get()?,
                    is_live: columns.get()?,
                })
            },
        )?;
        // Few captures have no end: those that are being written, or whose writer was killed.
        let mut live: BTreeMap<CaptureId, bool> = BTreeMap::new();
        for recording in recordings.iter_mut().filter(|recording| recording.is_live) {
            recording.is_live = match live.get(&recording.capture) {
                Some(is_live) => *is_live,
                None => {
                    let is_live = self.capture(recording.capture)?.is_some_and(|capture| capture.is_live(now()));
                    live.insert(recording.capture, is_live);
                    is_live
                }
            };
        }
        Ok(recordings)
    }

    /// Bytes that each of these sessions takes in the file, approximately. What several sessions
    /// use is counted for each of them.
    pub fn stored_sizes<'r>(
        &self,
        recordings: impl Iterator<Item = &'r Recording>,
    ) -> anyhow::Result<HashMap<SessionNumber, u64>> {
        let mut captures: BTreeMap<CaptureId, Vec<SessionNumber>> = BTreeMap::new();
        recordings.for_each(|one| captures.entry(one.capture).or_default().push(one.session));
        let mut sizes = HashMap::new();
        for (capture, sessions) in captures {
            let connections = self.connection_sizes(capture)?;
            for session in sessions {
                let texts: i64 = self
                    .db
                    .prepare_cached(
                        "SELECT coalesce(sum(octet_length(text) + ?2), 0)
                         FROM message JOIN message_text USING (id) WHERE session = ?1",
                    )?
                    .query_row(params![session.0, PER_MESSAGE as i64], |row| row.get(0))?;
                let used = "SELECT connection FROM session_connection WHERE session = ?";
                let used = self.select(used, [session.0], |row| Ok(Columns::new(row).key()?))?;
                let used: u64 = used.iter().filter_map(|connection| connections.get(&connection.0)).sum();
                sizes.insert(session, PER_SESSION + texts as u64 + used);
            }
        }
        Ok(sizes)
    }

    /// Bytes that the connections of a capture take, by key: packets, decrypted bytes, exchanges.
    fn connection_sizes(&self, capture: CaptureId) -> anyhow::Result<HashMap<i64, u64>> {
        let (first, last) = RowKey::all(capture);
        let mut sizes: HashMap<i64, u64> = HashMap::new();
        for sql in [
            "SELECT connection, sum(length(numbers) + length(data)) FROM packet_chunk
             WHERE connection BETWEEN ? AND ? GROUP BY connection",
            "SELECT connection, sum(length(data)) FROM plaintext JOIN stream ON stream.id = plaintext.stream
             WHERE plaintext.stream BETWEEN ? AND ? GROUP BY connection",
            "SELECT connection, sum(octet_length(request_fields) + octet_length(response_fields)
                 + length(request) + length(response)) FROM exchange WHERE id BETWEEN ? AND ? GROUP BY connection",
        ] {
            let rows = self.select(sql, [first, last], |row| {
                let mut columns = Columns::new(row);
                Ok((columns.key()?.0, columns.u64()?))
            })?;
            rows.into_iter().for_each(|(connection, size)| *sizes.entry(connection).or_default() += size);
        }
        Ok(sizes)
    }

    /// Bytes of the database file, and how many of them are free for new recordings.
    pub fn space(&self) -> anyhow::Result<(u64, u64)> {
        let number = |pragma: &str| self.db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let page = number("page_size")?;
        Ok(((number("page_count")? * page) as u64, (number("freelist_count")? * page) as u64))
    }
}
