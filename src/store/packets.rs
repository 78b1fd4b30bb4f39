//! The packets that are stored, and the moment from which their bytes may be written.
//!
//! ```text
//!  Writer::packet ─► last ─Segment─► buffered ─Keep─► waits for Cleared ─► open chunk ─► chunk
//!                     │ no Segment     │ Closed         │ too many waiting:
//!                     ▼                ▼ without Keep   ▼ payload blanked
//!                   recent          discarded         open chunk
//!                   (fragments)
//! ```
//!
//! Packets wait until it is decided whether their connection carries MCP: in memory up to
//! `Limits::undecided`, then on disk. After that they wait, in order of number, until the decoder
//! has searched their payload for secrets.
//!
//! The packets of other connections, and those that belong to none, are stored only for a viewer
//! of capture files, see [`WriteOptions::other_packets`].

mod connection;
mod line_compressor;
mod spilled;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;

use rustc_hash::FxBuildHasher;

use self::connection::ConnectionPackets;
use self::line_compressor::{CompressedLine, LineCompressor};
use super::chunk::{Builder, CHUNK, Chunk, Piece, Spare, StoredPacket};
use super::mask;
use super::text::Packer;
use super::write::WriteOptions;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Limits, LinkType, Packet, PacketNumber};
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::redact::Redaction;
use crate::decode::{ConnectionId, Direction, Side};
use crate::event::Segment;
use crate::mcp::{Carrier, Message};
use crate::source::overflow::Overflow;

/// Bytes of packets that are buffered in memory, over all connections.
const MAX_BUFFERED: usize = 64 << 20;

/// Bytes of packets of one stored connection that wait after a packet that was not cleared. If the
/// decoder has not reached them after a mebibyte, they follow a hole in the stream.
const MAX_UNCLEARED: usize = 1 << 20;

/// Bytes of open chunks, over all connections. Beyond this all are closed, whatever their size.
const MAX_OPEN: usize = 32 << 20;

/// Packets, and their bytes, that belong to no segment yet. They may be fragments of a datagram,
/// which are sent back to back.
const RECENT: (usize, usize) = (1_024, 4 << 20);

/// The connection of packets that belong to none. Numbers of connections begin at 1.
const NO_CONNECTION: ConnectionId = ConnectionId(0);

/// The number of packet buffers that are retained to be used again, and the largest size of each:
/// somewhat more than an Ethernet frame.
const BUFFERS: (usize, usize) = (64, 4 << 10);

/// Numbers of packets, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that were stored.
    pub stored: u64,
    /// Packets of stored connections that were discarded before it was known that they belong
    /// to a session, because neither memory nor the disk had room.
    pub discarded: u64,
    /// Packets stored with their payload blanked, because the decoder had not searched it for
    /// secrets in time.
    pub blanked: u64,
}

/// The packets of all connections on their way to the file.
pub(super) struct Packets {
    limits: Limits,
    keep_secrets: bool,
    mask_key: Option<MaskKey>,
    redaction: Option<&'static Redaction>,
    /// Bytes of packets without a session that may still be stored.
    other: u64,
    last: Option<StoredPacket>,
    recent: VecDeque<StoredPacket>,
    recent_bytes: usize,
    connections: HashMap<ConnectionId, ConnectionPackets, FxBuildHasher>,
    /// Undecided connections, by the oldest packet that each buffers.
    undecided: BTreeMap<PacketNumber, ConnectionId>,
    buffered: usize,
    overflow: Overflow,
    out: Output,
}

/// The chunks to which packets go once they may be written.
struct Output {
    open: usize,
    packer: Packer,
    ready: Vec<Chunk>,
    /// One is enough: chunks are built one at a time, and many are closed at once only
    /// for a commit.
    spare: Option<Spare>,
    /// The memory of packets that were written. Most packets wait only for a moment.
    buffers: Vec<Vec<u8>>,
    /// The long line of a pipe that ended in the last packet.
    line: Option<(Direction, CompressedLine)>,
    counts: PacketCounts,
}

impl Packets {
    /// Packets for which memory has no room wait in files in `folder`, without a name and sealed.
    pub(super) fn new(options: &WriteOptions, folder: &Path) -> std::io::Result<Packets> {
        let out = Output {
            open: 0,
            packer: Packer::new()?,
            ready: Vec::new(),
            spare: None,
            buffers: Vec::new(),
            line: None,
            counts: PacketCounts::default(),
        };
        Ok(Packets {
            limits: options.limits,
            keep_secrets: options.keep_secrets,
            mask_key: options.mask_key,
            redaction: options.redaction,
            // Nobody searches packets without a session.
            other: if options.redaction.is_some() { 0 } else { options.other_packets },
            last: None,
            recent: VecDeque::new(),
            recent_bytes: 0,
            connections: HashMap::default(),
            undecided: BTreeMap::new(),
            buffered: 0,
            overflow: Overflow::new(folder, true),
            out,
        })
    }

    /// Takes a packet. The event that describes it follows.
    pub(super) fn observe(&mut self, packet: &Packet<'_>) {
        self.out.line = None;
        if let Some(unclaimed) =
            self.last.replace(StoredPacket::new(packet, self.out.buffers.pop().unwrap_or_default()))
        {
            self.recent_bytes += unclaimed.size();
            self.recent.push_back(unclaimed);
            while self.recent.len() > RECENT.0 || self.recent_bytes > RECENT.1 {
                let Some(gone) = self.recent.pop_front() else { break };
                self.recent_bytes -= gone.size();
                self.store_other(gone);
            }
        }
    }

    /// Stores a packet that belongs to no connection, as far as these are stored.
    fn store_other(&mut self, packet: StoredPacket) {
        if self.other > 0 {
            self.buffer(NO_CONNECTION, Side::First, packet, Vec::new());
            // An error is reported with the next packet of a connection.
            let _ = self.settle(NO_CONNECTION);
        }
    }

    /// Takes out the packet of a segment, or an earlier fragment of its datagram, if it
    /// is still available.
    fn claim(&mut self, number: PacketNumber) -> Option<StoredPacket> {
        if let Some(packet) = self.last.take_if(|packet| packet.number == number) {
            return Some(packet);
        }
        let at = self.recent.iter().position(|packet| packet.number == number)?;
        let packet = self.recent.remove(at)?;
        self.recent_bytes -= packet.size();
        Some(packet)
    }

    /// The packet turned out to be a TCP segment, or a chunk of a pipe.
    pub(super) fn segment(&mut self, segment: Segment) -> std::io::Result<()> {
        let (id, side) = (segment.connection, segment.side);
        for range in segment.origin.iter().filter(|range| range.packet != segment.packet) {
            if let Some(fragment) = self.claim(range.packet) {
                let carries = self.carries(&fragment, &segment);
                self.buffer(id, side, fragment, carries);
            }
        }
        if let Some(mut packet) = self.claim(segment.packet) {
            let carries = self.carries(&packet, &segment);
            packet.segment = Some(segment);
            self.buffer(id, side, packet, carries);
        }
        self.settle(id)
    }

    fn buffer(&mut self, id: ConnectionId, side: Side, mut packet: StoredPacket, carries: Vec<(u64, Range<usize>)>) {
        packet.connection = id;
        if !self.keep_secrets && packet.link == LinkType::PIPE {
            packet.masked |= mask::mask_log(&mut packet.data, self.mask_key);
        }
        let redacts = self.redaction.is_some();
        if let Some(redaction) = self.redaction.filter(|_| packet.link == LinkType::PIPE) {
            let log = &mut self.connections.entry(id).or_default().log;
            packet.masked |= mask::redact_pipe(&mut packet.data, redaction, log);
        }
        self.buffered += packet.size();
        let connection = self.connections.entry(id).or_default();
        connection.redacts = redacts;
        if !connection.is_claimed {
            connection.is_stored = self.other > 0;
            self.other = self.other.saturating_sub(packet.size() as u64);
        }
        connection.buffer(packet, side, carries);
    }

    /// The bytes of `segment` in the sender's stream that `packet` carries, and their ranges in the
    /// packet. Empty if they need not be searched for secrets.
    fn carries(&self, packet: &StoredPacket, segment: &Segment) -> Vec<(u64, Range<usize>)> {
        // The pipes of a process have no headers, and their messages are stored unchanged unless
        // values are redacted. The log of a server is searched packet by packet.
        let is_pipe = packet.link == LinkType::PIPE;
        if self.keep_secrets || is_pipe && (self.redaction.is_none() || mask::is_log(&packet.data)) {
            return Vec::new();
        }
        let mut carries = Vec::new();
        let mut offset = segment.offset;
        for range in segment.origin.iter() {
            let end = (range.end as usize).min(packet.data.len());
            if range.packet == packet.number && (range.start as usize) < end {
                carries.push((offset, range.start as usize..end));
            }
            offset = offset.saturating_add(range.len().into());
        }
        carries
    }

    /// Writes the packets that may be written, and discards those beyond the limits.
    fn settle(&mut self, id: ConnectionId) -> std::io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let before = connection.bytes();
        if connection.is_stored {
            connection.release(MAX_UNCLEARED, &mut self.out)?;
        } else if before > self.limits.undecided {
            connection.spill(self.limits.undecided / 2, &mut self.overflow);
            // All messages before the first one of MCP, and that one, whatever its headers take.
            connection.limit_disk(2 * self.limits.message);
        }
        self.buffered -= before - connection.bytes();
        self.list(id);
        while self.buffered > MAX_BUFFERED {
            // The undecided connection with the oldest packet goes to disk first. If all buffered
            // packets belong to sessions, those of this connection are blanked.
            let undecided = self.undecided.first_key_value().map(|(_, id)| *id);
            let Some(connection) = self.connections.get_mut(&undecided.unwrap_or(id)) else { break };
            let before = connection.bytes();
            if undecided.is_some() {
                connection.spill(0, &mut self.overflow);
            } else {
                connection.release(0, &mut self.out)?;
            }
            self.buffered -= before - connection.bytes();
            match undecided {
                Some(undecided) => self.list(undecided),
                None => break,
            }
        }
        if self.out.open > MAX_OPEN { self.close_chunks() } else { Ok(()) }
    }

    /// Lists an undecided connection under the oldest packet that it buffers now. Other connections
    /// are not listed.
    fn list(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let oldest = connection.oldest().filter(|_| !connection.is_stored);
        if connection.listed != oldest {
            if let Some(before) = std::mem::replace(&mut connection.listed, oldest) {
                self.undecided.remove(&before);
            }
            if let Some(oldest) = oldest {
                self.undecided.insert(oldest, id);
            }
        }
    }

    /// The connection belongs to a session, so its packets are stored. Call [`Packets::restore`]
    /// next, until it returns false.
    pub(super) fn keep(&mut self, id: ConnectionId) {
        let connection = self.connections.entry(id).or_default();
        (connection.is_claimed, connection.is_stored) = (true, true);
        self.list(id);
    }

    /// Writes packets of a stored connection that waited on disk, then those in memory. Returns
    /// false when none are left on disk.
    pub(super) fn restore(&mut self, id: ConnectionId) -> std::io::Result<bool> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        let before = connection.bytes();
        let restored = connection.restore(MAX_UNCLEARED, &mut self.out, id);
        // Packets that may not be written yet are in memory again.
        self.buffered = (self.buffered + connection.bytes()) - before;
        if restored? {
            return Ok(true);
        }
        self.settle(id).map(|()| false)
    }

    /// Takes the numbers of packets of a stored connection, and of their bytes, that were discarded
    /// while it was undecided.
    pub(super) fn take_discarded(&mut self, id: ConnectionId) -> Option<(u64, u64)> {
        let discarded = std::mem::take(&mut self.connections.get_mut(&id)?.discarded);
        self.out.counts.discarded += discarded.0;
        (discarded.0 > 0).then_some(discarded)
    }

    /// Notes that these bytes of a side's stream are a secret.
    pub(super) fn secret(&mut self, id: ConnectionId, side: Side, range: Range<u64>, mask: Mask) {
        if !self.keep_secrets {
            self.connections.entry(id).or_default().sides[side.index()].secrets.insert(range, mask);
        }
    }

    /// The decoder has searched all bytes below `offset` of a side's stream.
    pub(super) fn cleared(&mut self, id: ConnectionId, side: Side, offset: u64) -> std::io::Result<()> {
        let connection = self.connections.entry(id).or_default();
        let sent = &mut connection.sides[side.index()];
        sent.cleared = sent.cleared.max(offset);
        if connection.is_stored { self.settle(id) } else { Ok(()) }
    }

    /// The connection has ended.
    pub(super) fn closed(&mut self, id: ConnectionId) -> std::io::Result<()> {
        if let Some(mut connection) = self.connections.remove(&id) {
            self.buffered -= connection.bytes();
            if let Some(oldest) = connection.listed {
                self.undecided.remove(&oldest);
            }
            if connection.is_stored {
                connection.finish(&mut self.out)?;
            }
            self.out.close(id, &mut connection.chunk)?;
        }
        Ok(())
    }

    /// The capture has ended, and with it every connection.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        let recent = std::mem::take(&mut self.recent);
        recent.into_iter().chain(self.last.take()).for_each(|packet| self.store_other(packet));
        let open: Vec<_> = self.connections.keys().copied().collect();
        open.into_iter().try_for_each(|id| self.closed(id))
    }

    /// Closes the open chunks, so that they can be committed.
    pub(super) fn close_chunks(&mut self) -> std::io::Result<()> {
        for (id, connection) in &mut self.connections {
            self.out.close(*id, &mut connection.chunk)?;
        }
        Ok(())
    }

    /// Frees memory that was retained to be used again.
    pub(super) fn rest(&mut self) {
        self.out.packer.rest();
        self.out.spare = None;
        self.out.buffers = Vec::new();
        self.out.line = None;
    }

    /// The compressed text of a message, if it is a long line that ended in the last packet.
    pub(super) fn text(&mut self, message: &Message) -> Option<Vec<u8>> {
        if self.redaction.is_some() {
            return None;
        }
        let is_it = |direction| message.carrier == Carrier::Line && message.direction == direction;
        let (_, line) = self.out.line.take_if(|(direction, _)| is_it(*direction))?;
        line.text(message.span).filter(|_| message.raw.len() as u64 == message.span.len())
    }

    /// Removes the complete chunks.
    pub(super) fn take_ready(&mut self) -> impl Iterator<Item = Chunk> + '_ {
        self.out.ready.drain(..)
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.out.counts
    }

    /// Bytes that are buffered and in open chunks, approximately.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffered + self.recent_bytes + self.out.open
    }
}

impl Output {
    /// Appends a packet to its connection's chunk. `line` compresses the long lines of a pipe.
    fn push(&mut self, packet: &StoredPacket, line: &mut LineCompressor, chunk: &mut Builder) -> std::io::Result<()> {
        // A fragment may come after packets with larger numbers were written. A chunk stays in
        // order, and chunks may overlap.
        if !chunk.is_empty() && packet.number <= chunk.last() {
            self.close(packet.connection, chunk)?;
        }
        if chunk.is_empty()
            && let Some(spare) = self.spare.take()
        {
            chunk.begin(spare);
        }
        let before = chunk.len();
        chunk.push(packet, &self.pieces(packet, line), &mut self.packer);
        self.open += chunk.len() - before;
        self.counts.stored += 1;
        if chunk.len() >= CHUNK { self.close(packet.connection, chunk) } else { Ok(()) }
    }

    /// The parts of a packet that belong to a long line, which are also compressed for its message.
    fn pieces(&mut self, packet: &StoredPacket, line: &mut LineCompressor) -> Vec<Piece> {
        let Some(segment) = packet.segment.as_ref().filter(|_| packet.link == LinkType::PIPE) else {
            return Vec::new();
        };
        let (direction, payload) = match pipe::decode(&packet.data) {
            Some((_, PipeEvent::Data(Pipe::Stdin, payload))) => (Direction::ClientToServer, payload),
            Some((_, PipeEvent::Data(Pipe::Stdout, payload))) => (Direction::ServerToClient, payload),
            _ => return Vec::new(),
        };
        let (mut pieces, whole) = line.take(segment.offset, payload, &mut self.packer);
        self.line = whole.map(|whole| (direction, whole));
        for Piece { range, .. } in &mut pieces {
            *range = range.start + pipe::HEAD..range.end + pipe::HEAD;
        }
        pieces
    }

    /// Retains the memory of a packet that was written.
    fn reuse(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS.0 && buffer.capacity() <= BUFFERS.1 {
            self.buffers.push(buffer);
        }
    }

    fn close(&mut self, connection: ConnectionId, chunk: &mut Builder) -> std::io::Result<()> {
        if !chunk.is_empty() {
            self.open -= chunk.len();
            let (chunk, spare) = chunk.finish(connection, &mut self.packer)?;
            self.ready.push(chunk);
            self.spare = Some(spare).filter(Spare::is_useful);
        }
        Ok(())
    }
}
