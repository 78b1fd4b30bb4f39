//! The numbers of all stored packets of a capture, in order: any page of any list is a slice of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::super::data::PacketScope;
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::store::{CaptureId, StoreReader, StoredPacket};

/// Limit of the packets in the index: 64 megabytes of memory.
const PACKETS: usize = 4 << 20;

/// A packet and its chunk, a position in [`PacketIndex::chunks`].
type Entry = (PacketNumber, u32);

/// The index of a capture.
pub(super) struct PacketIndex {
    pub(super) capture: CaptureId,
    entries: Vec<Entry>,
    /// The row and the connection of each chunk.
    chunks: Vec<(i64, ConnectionId)>,
    /// The packets of each connection.
    pub(super) counts: BTreeMap<ConnectionId, u64>,
    /// The entries of the last scope that is not the whole capture, and the number of all entries
    /// at that time.
    selected: Option<(PacketScope, usize, Vec<u32>)>,
}

impl PacketIndex {
    /// An index that is empty until it is updated.
    pub(super) fn new(capture: CaptureId) -> PacketIndex {
        PacketIndex { capture, entries: Vec::new(), chunks: Vec::new(), counts: BTreeMap::new(), selected: None }
    }

    /// Adds what was stored since the last call.
    pub(super) fn update(&mut self, reader: &StoreReader) -> Result<()> {
        if !self.is_complete() {
            return Ok(());
        }
        let before = self.entries.len();
        let after = self.chunks.last().map_or(0, |(chunk, _)| *chunk);
        reader.visit_packet_numbers(self.capture, after, &mut |chunk| {
            let position = self.chunks.len() as u32;
            self.chunks.push((chunk.chunk, chunk.connection));
            *self.counts.entry(chunk.connection).or_default() += chunk.numbers.len() as u64;
            self.entries.extend(chunk.numbers.into_iter().map(|number| (number, position)));
            self.entries.len() < PACKETS
        })?;
        if self.entries.len() > before {
            // Chunks overlap, so the new numbers may belong before some of the others.
            self.entries.sort();
            self.selected = None;
        }
        Ok(())
    }

    /// Whether all packets are in it.
    pub(super) fn is_complete(&self) -> bool {
        self.entries.len() < PACKETS
    }

    /// The number of stored packets of some connections.
    pub(super) fn count(&self, of: &BTreeSet<ConnectionId>) -> u64 {
        of.iter().filter_map(|connection| self.counts.get(connection)).sum()
    }

    /// The number of packets in a scope. `own` are the connections of the session.
    pub(super) fn total(&mut self, scope: PacketScope, own: &BTreeSet<ConnectionId>) -> usize {
        self.select(scope, own);
        self.selected.as_ref().map_or(self.entries.len(), |(.., selected)| selected.len())
    }

    /// The row of a packet in a scope.
    pub(super) fn row(
        &mut self,
        scope: PacketScope,
        own: &BTreeSet<ConnectionId>,
        packet: PacketNumber,
    ) -> Option<usize> {
        self.select(scope, own);
        let entry = self.entries.partition_point(|(number, _)| *number < packet);
        if self.entries.get(entry)?.0 != packet {
            return None;
        }
        match &self.selected {
            Some((.., selected)) => selected.binary_search(&(entry as u32)).ok(),
            None => Some(entry),
        }
    }

    /// The packets in some rows of a scope. Each chunk is read once.
    pub(super) fn packets(
        &mut self,
        reader: &StoreReader,
        scope: PacketScope,
        own: &BTreeSet<ConnectionId>,
        rows: std::ops::Range<usize>,
    ) -> Result<Vec<StoredPacket>> {
        self.select(scope, own);
        let rows = rows.start..rows.end.min(self.total(scope, own));
        let entry = |row: usize| match &self.selected {
            Some((.., selected)) => self.entries[selected[row] as usize],
            None => self.entries[row],
        };
        let mut wanted: BTreeMap<u32, BTreeSet<PacketNumber>> = BTreeMap::new();
        for (number, chunk) in rows.map(entry) {
            wanted.entry(chunk).or_default().insert(number);
        }
        let mut packets = Vec::new();
        for (chunk, numbers) in wanted {
            let (row, _) = self.chunks[chunk as usize];
            packets.extend(reader.chunk_packets(row, &|number| numbers.contains(&number))?);
        }
        packets.sort_by_key(|packet| packet.number);
        Ok(packets)
    }

    /// Makes `selected` the list of a scope, or nothing for the whole capture.
    fn select(&mut self, scope: PacketScope, own: &BTreeSet<ConnectionId>) {
        if scope == PacketScope::Capture {
            self.selected = None;
            return;
        }
        // The session may have got a connection since, so its list is made anew for each page.
        let is_known = |(known, total, _): &(PacketScope, usize, Vec<u32>)| {
            *known == scope && *total == self.entries.len() && scope != PacketScope::Session
        };
        if self.selected.as_ref().is_some_and(is_known) {
            return;
        }
        let is_in: Vec<bool> = self
            .chunks
            .iter()
            .map(|(_, connection)| match scope {
                PacketScope::Connection(one) => *connection == one,
                _ => own.contains(connection),
            })
            .collect();
        let entries = self.entries.iter().enumerate().filter(|(_, (_, chunk))| is_in[*chunk as usize]);
        let selected = entries.map(|(entry, _)| entry as u32).collect();
        self.selected = Some((scope, self.entries.len(), selected));
    }
}
