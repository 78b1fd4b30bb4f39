//! Merging chunks: their packets in the order in which they were captured.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::chunk::{OpenChunk, StoredPacket};
use super::record::packet::{self, ChunkId};
use crate::capture::PacketNumber;

/// Merges the packets of many chunks in order of number. Only chunks that overlap are open at the
/// same time. They were open at the same time when they were written, except for packets that were
/// held. So the writer's bounds on memory hold here too.
pub(super) struct Merge {
    /// Chunks not opened yet, the one with the smallest number last.
    closed: Vec<ChunkId>,
    /// The next packet of each open chunk, by its number and the row of the chunk.
    open: BTreeMap<(PacketNumber, i64), (StoredPacket, OpenChunk)>,
    /// Bytes of the chunks opened so far.
    pub(super) bytes_read: u64,
}

impl Merge {
    /// Merges chunks that are given in order of their first packet.
    pub(super) fn new(mut chunks: Vec<ChunkId>) -> Merge {
        chunks.reverse();
        Merge { closed: chunks, open: BTreeMap::new(), bytes_read: 0 }
    }

    /// The next packet; `None` at the end.
    pub(super) fn next(&mut self, db: &Connection) -> anyhow::Result<Option<StoredPacket>> {
        while let Some(closed) = self.closed.last().copied()
            && self.open.first_key_value().is_none_or(|((next, _), _)| closed.first <= *next)
        {
            let chunk = packet::open(db, closed.id)?;
            self.bytes_read += chunk.frame_length;
            self.closed.pop();
            self.advance(closed.id, chunk)?;
        }
        let Some(((_, id), (packet, chunk))) = self.open.pop_first() else { return Ok(None) };
        self.advance(id, chunk)?;
        Ok(Some(packet))
    }

    fn advance(&mut self, id: i64, mut chunk: OpenChunk) -> anyhow::Result<()> {
        if let Some(packet) = chunk.next()? {
            self.open.insert((packet.number, id), (packet, chunk));
        }
        Ok(())
    }
}
