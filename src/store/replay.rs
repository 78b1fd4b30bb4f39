//! A saved session is a source too: its packets come back in the order in which they were captured.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::chunk::{KeptPacket, OpenChunk};
use super::record::packet::{self, ChunkId};
use super::{CaptureId, Place, migrate};
use crate::capture::PacketNumber;
use crate::mcp::SessionNumber;
use crate::source::{Item, Source};

/// Puts the packets of many chunks in order. Only chunks that overlap are open at once, and those were open at once when they were
/// written, but for what was held back: the writer's bounds hold here too.
pub(super) struct Merge {
    /// Still closed, the one with the smallest number last.
    closed: Vec<ChunkId>,
    open: BinaryHeap<Reverse<Front>>,
    /// Bytes of chunks opened.
    read: u64,
}

/// The next packet of an open chunk.
struct Front {
    packet: KeptPacket,
    rest: OpenChunk,
}

impl Merge {
    /// Over chunks in order of their first packet.
    pub(super) fn new(mut chunks: Vec<ChunkId>) -> Merge {
        chunks.reverse();
        Merge { closed: chunks, open: BinaryHeap::new(), read: 0 }
    }

    /// The next packet.
    pub(super) fn next(&mut self, db: &Connection) -> anyhow::Result<Option<KeptPacket>> {
        while let Some(chunk) = self.closed.last()
            && self.open.peek().is_none_or(|Reverse(front)| chunk.first <= front.packet.number)
        {
            let chunk = packet::open(db, chunk.id)?;
            self.read += chunk.frame_length();
            self.closed.pop();
            self.advance(chunk)?;
        }
        let Some(Reverse(front)) = self.open.pop() else { return Ok(None) };
        self.advance(front.rest)?;
        Ok(Some(front.packet))
    }

    fn advance(&mut self, mut chunk: OpenChunk) -> anyhow::Result<()> {
        if let Some(packet) = chunk.next()? {
            self.open.push(Reverse(Front { packet, rest: chunk }));
        }
        Ok(())
    }
}

impl Front {
    fn order(&self) -> PacketNumber {
        self.packet.number
    }
}

impl PartialEq for Front {
    fn eq(&self, other: &Front) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Front {}

impl PartialOrd for Front {
    fn partial_cmp(&self, other: &Front) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Front {
    fn cmp(&self, other: &Front) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those of the connections of a session.
    Session(SessionNumber),
    /// All that were kept of a capture.
    Capture(CaptureId),
}

/// The packets kept of a session or a capture, with their numbers and times, to be decoded again. Secrets are masked.
pub struct Stored {
    // Closed before the place is given up, which may remove the file.
    db: Connection,
    _place: Place,
    merge: Merge,
    total: u64,
    current: Option<KeptPacket>,
    /// TLS secrets that were kept, until they were given out: before the packets.
    keys: Option<String>,
    given: String,
}

impl Stored {
    /// Opens a database to read these packets.
    ///
    /// # Errors
    /// As for [`super::Reader::open`].
    pub fn open(place: impl Into<Place>, selection: Selection) -> anyhow::Result<Stored> {
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
        Ok(Stored { db, _place: place, merge, total, current: None, keys, given: String::new() })
    }
}

impl Source for Stored {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if let Some(keys) = self.keys.take() {
            self.given = keys;
            return Ok(Some(Item::Secrets(self.given.as_bytes())));
        }
        self.current = self.merge.next(&self.db)?;
        Ok(self.current.as_ref().map(|packet| Item::Packet(packet.packet())))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.merge.read, Some(self.total))
    }
}
