//! The packets that one connection buffers, and the state of its two sides.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::FxHasher;

use super::Output;
use super::line_compressor::LineCompressor;
use super::spilled::{self, SpilledPackets};
use crate::capture::PacketNumber;
use crate::decode::mask::{MASK, Mask};
use crate::decode::{ConnectionId, Side};
use crate::source::overflow::Overflow;
use crate::store::chunk::{Builder, StoredPacket};
use crate::store::mask::{self, Log, Secrets};

/// Bytes of packets that are moved to disk together.
const SPILL: usize = 256 << 10;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct BufferedPacket {
    pub(super) packet: StoredPacket,
    pub(super) side: Side,
    /// The bytes of the sender's stream that it carries: their offset in the stream, and their
    /// range in the packet.
    pub(super) carries: Vec<(u64, Range<usize>)>,
    /// Whether it repeats earlier bytes of the stream with a content that may differ from the one
    /// that the decoder searches.
    pub(super) is_copy: bool,
}

/// Payloads and holes of a side that are remembered, to recognise exact copies and late packets. A
/// sender repeats the segments of a window, at first ten (RFC 6928). A capture of several
/// interfaces repeats each packet at once.
const REMEMBERED: usize = 64;

/// The bytes that one side sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The end of the bytes received so far.
    received_end: u64,
    /// Ranges below this end that were not received.
    holes: VecDeque<Range<u64>>,
    /// Offsets and hashes of the payloads received last.
    payloads: VecDeque<(u64, u64)>,
    /// The end of the bytes that the decoder has searched.
    pub(super) cleared: u64,
    pub(super) secrets: Secrets,
    /// Used if the connection is a pipe.
    line: LineCompressor,
}

impl Sent {
    /// Takes bytes at an offset of the stream. Returns whether they repeat earlier ones, perhaps
    /// with another content. An exact copy has the same secrets as the first one.
    fn receive(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        let mut hasher = FxHasher::default();
        bytes.hash(&mut hasher);
        let payload = (offset, hasher.finish());
        if !self.is_new(offset..end) {
            return !self.payloads.contains(&payload);
        }
        if offset > self.received_end {
            push_bounded(&mut self.holes, self.received_end..offset);
        }
        self.received_end = self.received_end.max(end);
        push_bounded(&mut self.payloads, payload);
        false
    }

    /// Whether none of these bytes was received before. If they fill a part of a hole, the
    /// rest of it remains.
    fn is_new(&mut self, range: Range<u64>) -> bool {
        let around = |hole: &Range<u64>| hole.start <= range.start && range.end <= hole.end;
        let Some(hole) = self.holes.iter().position(around).and_then(|at| self.holes.remove(at)) else {
            return range.start >= self.received_end;
        };
        for rest in [hole.start..range.start, range.end..hole.end].into_iter().filter(|rest| !rest.is_empty()) {
            push_bounded(&mut self.holes, rest);
        }
        true
    }
}

/// Appends an item. Above the limit, the oldest is discarded.
fn push_bounded<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() >= REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

/// The packets of one connection, from capture to chunk.
#[derive(Debug, Default)]
pub(super) struct ConnectionPackets {
    pub(super) is_stored: bool,
    /// Whether a session claims the connection.
    pub(super) is_claimed: bool,
    /// Whether the user redacts values. Then bytes that nobody searched are blanked.
    pub(super) redacts: bool,
    /// The state of the process's log, to redact it.
    pub(super) log: Log,
    /// Packets discarded while the connection was undecided, and their bytes.
    pub(super) discarded: (u64, u64),
    /// The number of the packet under which the connection is listed as undecided.
    pub(super) listed: Option<PacketNumber>,
    pub(super) sides: [Sent; 2],
    pub(super) chunk: Builder,
    /// Packets on disk, which precede those in memory.
    spilled: VecDeque<SpilledPackets>,
    buffered: VecDeque<BufferedPacket>,
    bytes: usize,
}

impl ConnectionPackets {
    /// Bytes of the buffered packets.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the first buffered packet.
    pub(super) fn oldest(&self) -> Option<PacketNumber> {
        self.buffered.front().map(|buffered| buffered.packet.number)
    }

    /// Buffers a packet, in order of number. A fragment is recognised only after the packets
    /// between it and the last fragment.
    pub(super) fn buffer(&mut self, packet: StoredPacket, side: Side, carries: Vec<(u64, Range<usize>)>) {
        let sent = &mut self.sides[side.index()];
        let mut is_copy = false;
        for (offset, range) in &carries {
            is_copy |= sent.receive(*offset, &packet.data[range.clone()]);
        }
        self.bytes += packet.size();
        let later = self.buffered.iter().rev().take_while(|other| other.packet.number > packet.number).count();
        self.buffered.insert(self.buffered.len() - later, BufferedPacket { packet, side, carries, is_copy });
    }

    /// Moves packets to disk, oldest first, until at most `most` bytes are in memory. Those for
    /// which the disk has no room are discarded.
    pub(super) fn spill(&mut self, most: usize, overflow: &mut Overflow) {
        while self.bytes > most {
            let mut bytes = 0;
            let is_in_block = |buffered: &&BufferedPacket| {
                let before = bytes;
                bytes += buffered.packet.size();
                before < SPILL
            };
            let count = self.buffered.iter().take_while(is_in_block).count();
            let block: Vec<BufferedPacket> = self.buffered.drain(..count).collect();
            let bytes = block.iter().map(|buffered| buffered.packet.size()).sum::<usize>();
            self.bytes -= bytes;
            match SpilledPackets::write(&block, overflow) {
                Ok(spilled) => self.spilled.push_back(spilled),
                Err(_) => self.discard(block.len() as u64, spilled::data_bytes(&block)),
            }
        }
    }

    /// Discards the oldest packets on disk beyond `most` bytes.
    pub(super) fn limit_disk(&mut self, most: usize) {
        let mut bytes = self.spilled.iter().map(|spilled| spilled.bytes).sum::<usize>();
        while bytes > most
            && let Some(oldest) = self.spilled.pop_front()
        {
            bytes -= oldest.bytes;
            self.discard(oldest.packets, oldest.data);
        }
    }

    fn discard(&mut self, packets: u64, bytes: u64) {
        self.discarded = (self.discarded.0 + packets, self.discarded.1 + bytes);
    }

    /// Reads the oldest packets on disk back and writes those that may be written; returns whether
    /// there were any.
    pub(super) fn restore(&mut self, most: usize, out: &mut Output, id: ConnectionId) -> std::io::Result<bool> {
        let Some(spilled) = self.spilled.pop_front() else { return Ok(false) };
        let mut later = std::mem::take(&mut self.buffered);
        let later_bytes = later.iter().map(|buffered| buffered.packet.size()).sum::<usize>();
        self.bytes -= later_bytes;
        let (packets, data) = (spilled.packets, spilled.data);
        match spilled.read(id) {
            Ok(packets) => {
                self.bytes += packets.iter().map(|buffered| buffered.packet.size()).sum::<usize>();
                self.buffered.extend(packets);
            }
            Err(_) => self.discard(packets, data),
        }
        let released = self.release(most, out);
        self.buffered.append(&mut later);
        self.bytes += later_bytes;
        released.map(|()| true)
    }

    /// Writes the packets at the front that may be written. While more than `most` bytes wait, also
    /// writes those that may not, with their payload blanked.
    pub(super) fn release(&mut self, most: usize, out: &mut Output) -> std::io::Result<()> {
        while let Some(mut front) = self.buffered.pop_front() {
            let sent = &mut self.sides[front.side.index()];
            if front.is_cleared(sent.cleared) {
                front.mask(&sent.secrets, self.redacts);
            } else if self.bytes > most {
                front.blank();
                out.counts.blanked += 1;
            } else {
                self.buffered.push_front(front);
                break;
            }
            self.bytes -= front.packet.size();
            out.push(&front.packet, &mut sent.line, &mut self.chunk)?;
            out.reuse(front.packet.data);
        }
        Ok(())
    }

    /// The connection has ended. Bytes that the decoder never searched are searched here for
    /// possible secrets, and all packets are written.
    pub(super) fn finish(&mut self, out: &mut Output) -> std::io::Result<()> {
        if self.redacts {
            self.release(0, out)?;
        }
        for side in [Side::First, Side::Second] {
            self.search(side);
            self.sides[side.index()].cleared = u64::MAX;
        }
        self.release(usize::MAX, out)
    }

    /// Marks possible secrets in the bytes of `side` that were not cleared, joined over packets.
    fn search(&mut self, side: Side) {
        let Sent { cleared, secrets, .. } = &mut self.sides[side.index()];
        let mut pieces: Vec<(u64, &[u8])> = Vec::new();
        for buffered in self.buffered.iter_mut().filter(|buffered| buffered.side == side) {
            if !buffered.is_cleared(*cleared) {
                buffered.is_copy = true;
                pieces.extend(buffered.carries.iter().map(|(at, range)| (*at, &buffered.packet.data[range.clone()])));
            }
        }
        pieces.sort_by_key(|(offset, _)| *offset);
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (offset, bytes) in pieces {
            match runs.last_mut().map(|(start, run)| (start.saturating_add(run.len() as u64), run)) {
                Some((end, run)) if offset <= end => {
                    run.extend_from_slice(bytes.get((end - offset) as usize..).unwrap_or_default());
                }
                _ => runs.push((offset, bytes.to_vec())),
            }
        }
        for (start, run) in runs {
            let mut lines = mask::secret_lines(&run);
            if start > *cleared {
                // The bytes before this run were never seen, so its first line may be the end of a
                // line with a secret.
                lines.push(0..mask::line_end(&run, 0));
            }
            for line in lines {
                let end = start.saturating_add(line.end as u64);
                secrets.insert(start.saturating_add(line.start as u64)..end, Mask::PLAIN);
            }
        }
    }
}

impl BufferedPacket {
    fn is_cleared(&self, cleared: u64) -> bool {
        self.carries.iter().all(|(offset, range)| offset.saturating_add(range.len() as u64) <= cleared)
    }

    fn mask(&mut self, secrets: &Secrets, redacts: bool) {
        // A copy may have another content than the one that was searched.
        if self.is_copy && redacts {
            return self.blank();
        }
        for (offset, range) in &self.carries {
            let payload = &mut self.packet.data[range.clone()];
            self.packet.masked |= secrets.mask(*offset, payload);
            if self.is_copy {
                for line in mask::secret_lines(payload) {
                    payload[line].fill(MASK);
                    self.packet.masked = true;
                }
            }
        }
    }

    fn blank(&mut self) {
        for (_, range) in &self.carries {
            self.packet.data[range.clone()].fill(MASK);
        }
        self.packet.masked = true;
    }
}
