//! Chunks: stored packets of one connection, in order of number, compressed together.
//!
//! ```text
//!  a packet in a chunk (variable-length numbers, except the data):
//!  bits │ number + │ time + │ link │ interface │ original length │ data length │ [segment] │ data
//!  a segment:
//!  offset │ length │ [acknowledged] │ window │ flags │ analysis │ count of origins │ origins
//!  an origin:
//!  number ± │ start │ length
//! ```
//!
//! A chunk that a reader has open at a packet number was also open at that number when it was
//! written. So the writer's bound on open chunks also limits a reader that merges the connections
//! of a capture.

use std::ops::Range;

use super::codec::{BlobReader, BlobWriter, Code, Damaged};
use super::text;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{LinkType, Packet, PacketNumber, PacketRange, Time};
use crate::decode::tcp::{Analysis, Flags};
use crate::decode::{ConnectionId, Side};
use crate::event::Segment;

/// Bytes of packets after which a chunk is closed. Little has to be read for one packet, and the
/// packets take few rows.
pub(super) const CHUNK: usize = 128 << 10;

/// Bytes of packets that are compressed together. Larger blocks compress little better (2 % from 16
/// to 32 KiB), and each of some thousand connections may buffer one block.
const BLOCK: usize = 16 << 10;

/// The largest size of a chunk: [`CHUNK`] and one more packet. Capture files limit a packet to 256
/// KiB, some to several megabytes.
const CHUNK_MOST: usize = 256 << 20;

/// A packet as the store returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPacket {
    /// Its position in the capture.
    pub number: PacketNumber,
    /// When it was captured.
    pub time: Time,
    /// The link type, which determines how the first bytes are parsed.
    pub link: LinkType,
    /// The interface it was captured on.
    pub interface: u32,
    /// Bytes on the wire.
    pub original_length: u32,
    /// The captured bytes, secrets masked.
    pub data: Vec<u8>,
    /// The connection it belongs to.
    pub connection: ConnectionId,
    /// The segment that the packet contains. `None` for a fragment of a datagram, except the
    /// fragment that completed it.
    pub segment: Option<Segment>,
    /// Whether secrets in it were masked.
    pub masked: bool,
}

impl StoredPacket {
    /// Copies a packet into the memory of a used one.
    pub(super) fn new(packet: &Packet<'_>, mut data: Vec<u8>) -> StoredPacket {
        data.clear();
        data.extend_from_slice(packet.data);
        StoredPacket {
            number: packet.number,
            time: packet.time,
            link: packet.link,
            interface: packet.interface,
            original_length: packet.original_length,
            data,
            connection: ConnectionId::default(),
            segment: None,
            masked: false,
        }
    }

    /// The packet in a form that can be decoded again.
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            number: self.number,
            time: self.time,
            link: self.link,
            interface: self.interface,
            original_length: self.original_length,
            data: &self.data,
        }
    }

    /// Bytes of memory that it takes, approximately.
    pub(super) fn size(&self) -> usize {
        let origin = self.segment.as_ref().map_or(0, |segment| segment.origin.len() * size_of::<PacketRange>());
        size_of::<StoredPacket>() + self.data.len() + origin
    }
}

const SEGMENT: u8 = 1;
const SECOND: u8 = 2;
const MASKED: u8 = 4;

/// A part of a packet's data that is compressed already.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) frame: Vec<u8>,
}

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// Compressed frames of the bytes before `bytes`, and the number of those bytes.
    frames: Vec<u8>,
    framed: usize,
    bytes: BlobWriter,
    numbers: BlobWriter,
    packets: u64,
    stderr: u64,
    first: PacketNumber,
    /// The number and time of the last packet, from which the next packet's differences are
    /// computed. Zero at first.
    last: (PacketNumber, Time),
    times: (Time, Time),
}

impl Builder {
    /// Bytes so far, before compression.
    pub(super) fn len(&self) -> usize {
        self.framed + self.bytes.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The number of the last packet.
    pub(super) fn last(&self) -> PacketNumber {
        self.last.0
    }

    /// Appends a packet, whose number must be larger than the last. `pieces` of its data
    /// are in order.
    pub(super) fn push(&mut self, packet: &StoredPacket, pieces: &[Piece], packer: &mut text::Packer) {
        if self.is_empty() {
            self.first = packet.number;
            self.times = (packet.time, packet.time);
        }
        self.times = (self.times.0.min(packet.time), self.times.1.max(packet.time));
        self.numbers.u64(packet.number.0 - self.last.0.0);

        let out = &mut self.bytes;
        let second = packet.segment.as_ref().is_some_and(|segment| segment.side == Side::Second);
        let bits = [(packet.segment.is_some(), SEGMENT), (second, SECOND), (packet.masked, MASKED)];
        out.0.push(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        out.u64(packet.number.0 - self.last.0.0);
        out.step(self.last.1.0 as u64, packet.time.0 as u64);
        out.u64(packet.link.0.into());
        out.u64(packet.interface.into());
        out.u64(packet.original_length.into());
        out.u64(packet.data.len() as u64);
        if let Some(segment) = &packet.segment {
            put_segment(out, segment);
        }
        let mut at = 0;
        for piece in pieces {
            self.bytes.0.extend_from_slice(&packet.data[at..piece.range.start]);
            // Without memory for zstd's tables the bytes are stored as those of other packets are.
            at = if self.join(piece, packer).is_ok() { piece.range.end } else { piece.range.start };
        }
        self.bytes.0.extend_from_slice(&packet.data[at..]);
        self.last = (packet.number, packet.time);
        self.packets += 1;
        if packet.link == LinkType::PIPE
            && let Some((_, PipeEvent::Data(Pipe::Stderr, text))) = pipe::decode(&packet.data)
        {
            self.stderr = self.stderr.max(1) + memchr::memchr_iter(b'\n', text).count() as u64;
        }
        if self.bytes.0.len() >= BLOCK {
            // Without memory for zstd's tables the bytes wait for the next packet.
            let _ = self.pack(packer);
        }
    }

    /// Compresses the bytes so far.
    fn pack(&mut self, packer: &mut text::Packer) -> std::io::Result<()> {
        packer.append(&self.bytes.0, &mut self.frames)?;
        self.framed += self.bytes.0.len();
        self.bytes.0.clear();
        Ok(())
    }

    /// Compresses the bytes so far, and appends a piece that is compressed already.
    fn join(&mut self, piece: &Piece, packer: &mut text::Packer) -> std::io::Result<()> {
        self.pack(packer)?;
        self.frames.extend_from_slice(&piece.frame);
        self.framed += piece.range.len();
        Ok(())
    }

    /// Closes the chunk and empties the builder. Also returns the builder's memory,
    /// for another chunk.
    pub(super) fn finish(
        &mut self,
        connection: ConnectionId,
        packer: &mut text::Packer,
    ) -> std::io::Result<(Chunk, Spare)> {
        let mut full = std::mem::take(self);
        if !full.bytes.0.is_empty() {
            full.pack(packer)?;
        }
        let chunk = Chunk {
            connection,
            numbers: (full.first, full.last.0),
            times: full.times,
            packets: full.packets,
            stderr: full.stderr,
            number_list: full.numbers.0,
            data: full.frames,
        };
        Ok((chunk, Spare(full.bytes.0)))
    }

    /// Begins an empty chunk in the memory of another.
    pub(super) fn begin(&mut self, Spare(mut bytes): Spare) {
        bytes.clear();
        self.bytes.0 = bytes;
    }
}

/// The memory of a finished chunk. Growing a new buffer costs more than filling it.
#[derive(Debug)]
pub(super) struct Spare(Vec<u8>);

impl Spare {
    /// Whether the memory is large enough to be useful, and small enough to be retained.
    pub(super) fn is_useful(&self) -> bool {
        (BLOCK / 2..4 * BLOCK).contains(&self.0.capacity())
    }
}

pub(super) fn put_segment(out: &mut BlobWriter, segment: &Segment) {
    out.u64(segment.offset);
    out.u64(segment.length.into());
    out.option(segment.acknowledged, BlobWriter::u64);
    out.u64(segment.window.into());
    out.u64(segment.flags.0.into());
    out.u64(segment.analysis.0.into());
    out.u64(segment.origin.len() as u64);
    for range in segment.origin.iter() {
        out.step(segment.packet.0, range.packet.0);
        out.u64(range.start.into());
        out.u64(range.len().into());
    }
}

/// A chunk in the form in which its row holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chunk {
    pub(super) connection: ConnectionId,
    /// The first and the last packet number.
    pub(super) numbers: (PacketNumber, PacketNumber),
    /// The earliest and the latest time.
    pub(super) times: (Time, Time),
    pub(super) packets: u64,
    /// 0 without stderr, else the number of its line ends plus 1.
    pub(super) stderr: u64,
    /// The packet numbers, each as the difference to the one before.
    pub(super) number_list: Vec<u8>,
    /// Concatenated zstd frames.
    pub(super) data: Vec<u8>,
}

impl Chunk {
    /// All numbers of a list.
    pub(super) fn numbers(number_list: &[u8]) -> Result<Vec<PacketNumber>, Damaged> {
        let mut steps = BlobReader::new(number_list, "the packet numbers of a chunk");
        let (mut at, mut numbers) = (0u64, Vec::new());
        while !steps.is_empty() {
            at = at.saturating_add(steps.u64()?);
            numbers.push(PacketNumber(at));
        }
        Ok(numbers)
    }

    /// Whether a packet is in a list of numbers.
    pub(super) fn has(number_list: &[u8], number: PacketNumber) -> Result<bool, Damaged> {
        let mut steps = BlobReader::new(number_list, "the packet numbers of a chunk");
        let mut at = 0u64;
        while !steps.is_empty() {
            at = at.saturating_add(steps.u64()?);
            if at >= number.0 {
                return Ok(at == number.0);
            }
        }
        Ok(false)
    }
}

/// A chunk that is being read.
#[derive(Debug)]
pub(super) struct OpenChunk {
    connection: ConnectionId,
    pub(super) frame_length: u64,
    bytes: Vec<u8>,
    at: usize,
    last: (PacketNumber, Time),
}

impl OpenChunk {
    /// Decompresses the data column of a chunk of this connection.
    pub(super) fn open(connection: ConnectionId, frame: &[u8]) -> Result<OpenChunk, Damaged> {
        let bytes = text::unpack(frame, CHUNK_MOST)?;
        Ok(OpenChunk { connection, frame_length: frame.len() as u64, bytes, at: 0, last: Default::default() })
    }

    /// The next packet.
    pub(super) fn next(&mut self) -> Result<Option<StoredPacket>, Damaged> {
        let mut decoder = BlobReader::new(&self.bytes[self.at..], "a packet");
        if decoder.is_empty() {
            return Ok(None);
        }
        let bits = decoder.take(1)?[0];
        let number = PacketNumber(self.last.0.0.checked_add(decoder.u64()?).ok_or(decoder.damaged())?);
        let time = Time(decoder.step(self.last.1.0 as u64)? as i64);
        let link = LinkType(u16::try_from(decoder.u64()?).map_err(|_| decoder.damaged())?);
        let interface = decoder.u32()?;
        let original_length = decoder.u32()?;
        let length = decoder.u32()? as usize;
        let segment = match bits & SEGMENT {
            0 => None,
            _ => {
                let side = Side::from_code((bits & SECOND != 0).into())?;
                Some(read_segment(&mut decoder, self.connection, number, side)?)
            }
        };
        let packet = StoredPacket {
            number,
            time,
            link,
            interface,
            original_length,
            data: decoder.take(length)?.to_vec(),
            connection: self.connection,
            segment,
            masked: bits & MASKED != 0,
        };
        self.at = self.bytes.len() - decoder.len();
        self.last = (number, time);
        Ok(Some(packet))
    }
}

pub(super) fn read_segment(
    decoder: &mut BlobReader<'_>,
    connection: ConnectionId,
    packet: PacketNumber,
    side: Side,
) -> Result<Segment, Damaged> {
    Ok(Segment {
        connection,
        side,
        packet,
        offset: decoder.u64()?,
        length: decoder.u32()?,
        acknowledged: decoder.option(BlobReader::u64)?,
        window: decoder.u32()?,
        flags: Flags(u16::try_from(decoder.u64()?).map_err(|_| decoder.damaged())?),
        analysis: Analysis(decoder.u32()?),
        origin: decoder
            .list(|decoder| {
                let packet = PacketNumber(decoder.step(packet.0)?);
                let start = decoder.u32()?;
                let end = start.checked_add(decoder.u32()?).ok_or(decoder.damaged())?;
                Ok(PacketRange { packet, start, end })
            })?
            .as_slice()
            .into(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        /// A packet of any content whose number, time and connection are still to be set.
        pub(in crate::store) fn any_packet()(
            time: i64, link: u16, interface: u32, original_length: u32, data: Vec<u8>, masked: bool,
            segment in prop::option::of(any_segment()),
        ) -> StoredPacket {
            StoredPacket {
                number: PacketNumber(0), time: Time(time), link: LinkType(link), interface, original_length, data,
                connection: ConnectionId(1), segment, masked,
            }
        }
    }

    prop_compose! {
        fn any_segment()(
            second: bool, offset: u64, length: u32, acknowledged: Option<u64>, window: u32, flags: u16, analysis: u32,
            origin in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>()), 0..3),
        ) -> Segment {
            Segment {
                connection: ConnectionId(1), side: if second { Side::Second } else { Side::First },
                packet: PacketNumber(0), offset, length, acknowledged, window, flags: Flags(flags),
                analysis: Analysis(analysis),
                origin: origin.into_iter().map(|(packet, one, other)| PacketRange {
                    packet: PacketNumber(packet), start: one.min(other), end: one.max(other),
                }).collect(),
            }
        }
    }

    /// The second and the last quarter of some data, as pieces.
    fn pieces(data: &[u8], packer: &mut text::Packer) -> Vec<Piece> {
        let quarter = data.len() / 4;
        let mut piece = |range: Range<usize>| Piece { frame: packer.frame(&data[range.clone()]).unwrap(), range };
        if data.len().is_multiple_of(3) {
            Vec::new()
        } else {
            vec![piece(quarter..2 * quarter), piece(3 * quarter..data.len())]
        }
    }

    proptest! {
        #[test]
        fn packets_survive_the_round_trip(
            packets in prop::collection::vec((1u64..1_000, any_packet()), 1..20), cut: prop::sample::Index,
            // So much that a chunk is compressed in several blocks.
            more in prop::sample::select(vec![0, BLOCK / 5]),
        ) {
            let mut builder = Builder::default();
            let mut number = 0;
            let mut packer = text::Packer::new().unwrap();
            let packets: Vec<_> = packets.into_iter().map(|(step, mut packet)| {
                number += step;
                packet.number = PacketNumber(number);
                packet.data.resize(packet.data.len() + more, 7);
                if let Some(segment) = &mut packet.segment {
                    segment.packet = packet.number;
                }
                let pieces = pieces(&packet.data, &mut packer);
                builder.push(&packet, &pieces, &mut packer);
                packet
            }).collect();
            let (chunk, _) = builder.finish(ConnectionId(1), &mut packer).unwrap();
            let mut open = OpenChunk::open(ConnectionId(1), &chunk.data).unwrap();
            for packet in &packets {
                let read = open.next().unwrap();
                prop_assert_eq!(read.as_ref(), Some(packet));
            }
            prop_assert_eq!(open.next(), Ok(None));
            for number in 0..=number + 1 {
                let held = packets.iter().any(|packet| packet.number.0 == number);
                prop_assert_eq!(Chunk::has(&chunk.number_list, PacketNumber(number)), Ok(held));
            }

            // A file that was cut or changed is rejected or read as something else.
            // It never panics.
            let raw = text::unpack(&chunk.data, CHUNK_MOST).unwrap();
            let frame = packer.frame(&raw[cut.index(raw.len())..]).unwrap();
            let mut open = OpenChunk::open(ConnectionId(1), &frame).unwrap();
            while let Ok(Some(_)) = open.next() {}
        }
    }
}
