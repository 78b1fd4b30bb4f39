//! The origin of bytes, from a message down to packets.
//!
//! One rule: **a decoder records only the edge from its output to its immediate input.** No decoder
//! passes packet numbers upward. Each run of bytes in one direction is a stream. Each part of a
//! stream has an origin. The edges from a message down to its packets *are* the layer view.
//!
//! ```text
//!   message        stream 9       171 ─────────── 385
//!   body           stream 9  0 ── 171 ─────────── 385 ── 400    Copied from stream 3
//!   TCP direction  stream 3      1204 ────── 1418               Packet 14 │ Packet 15 │ 17
//! ```
//!
//! A part is discarded when no open stream needs it. A store receives each discarded part. For
//! later queries the latest parts can be retained.

use std::collections::{HashMap, VecDeque};

use rustc_hash::FxBuildHasher;

use super::packet::PacketNumber;

/// The number of a stream in a capture. Numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The address of bytes: `start..end` of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The stream that holds the bytes.
    pub stream: StreamId,
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl Span {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// Bytes `start..end` of the captured data of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRange {
    /// The packet that holds the bytes.
    pub packet: PacketNumber,
    /// Offset of the first byte in the data.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl PacketRange {
    /// The number of bytes.
    pub fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// The origin of a part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Copied from a packet.
    Packet {
        /// The packet that holds the bytes.
        packet: PacketNumber,
        /// Offset of the first byte in the captured data.
        offset: u32,
    },
    /// Copied from another stream, for example a chunk of a body, or the data of
    /// a server-sent event.
    Copied {
        /// The stream below.
        stream: StreamId,
        /// Offset of the first byte in that stream.
        offset: u64,
    },
    /// Computed from a whole span, as by decompression or decryption. Single bytes have no origin
    /// of their own.
    Derived(Span),
    /// Not captured. Offsets after these bytes are right all the same.
    Missing,
}

impl Origin {
    /// The origin of the byte that follows after `by` bytes.
    fn advanced(self, by: u64) -> Origin {
        match self {
            Origin::Packet { packet, offset } => Origin::Packet { packet, offset: offset + by as u32 },
            Origin::Copied { stream, offset } => Origin::Copied { stream, offset: offset + by },
            whole @ (Origin::Derived(_) | Origin::Missing) => whole,
        }
    }
}

/// Bytes `start..end` of a stream, and their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPart {
    /// Offset of the first byte in the stream.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// The origin of the bytes.
    pub origin: Origin,
}

#[derive(Debug, Default)]
struct OpenStream {
    length: u64,
    parts: VecDeque<StreamPart>,
}

/// Discarded parts that are retained for queries.
#[derive(Debug, Default)]
struct Retained {
    most: usize,
    streams: HashMap<StreamId, VecDeque<StreamPart>, FxBuildHasher>,
    /// The stream of each retained part, oldest first.
    order: VecDeque<StreamId>,
}

impl Retained {
    fn push(&mut self, stream: StreamId, part: StreamPart) {
        if self.most == 0 {
            return;
        }
        if self.order.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
            && let Some(parts) = self.streams.get_mut(&oldest)
        {
            parts.pop_front();
            if parts.is_empty() {
                self.streams.remove(&oldest);
            }
        }
        self.streams.entry(stream).or_default().push_back(part);
        self.order.push_back(stream);
    }
}

/// The parts of all open streams of a capture.
#[derive(Debug, Default)]
pub struct Provenance {
    streams: HashMap<StreamId, OpenStream, FxBuildHasher>,
    last: u32,
    retained: Retained,
}

impl Provenance {
    /// Sets the number of discarded parts that are retained for queries.
    pub fn retain(&mut self, parts: usize) {
        self.retained.most = parts;
    }

    /// Opens a stream.
    pub fn open(&mut self) -> StreamId {
        self.last += 1;
        let stream = StreamId(self.last);
        self.streams.insert(stream, OpenStream::default());
        stream
    }

    /// The number of bytes in a stream so far, which is the offset of the next byte.
    pub fn length(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream).map_or(0, |record| record.length)
    }

    /// Appends `length` bytes of this origin to a stream. Returns their span.
    pub fn append(&mut self, stream: StreamId, length: u64, origin: Origin) -> Span {
        let Some(record) = self.streams.get_mut(&stream) else {
            return Span { stream, start: 0, end: 0 };
        };
        let start = record.length;
        let end = start + length;
        record.length = end;
        if length > 0 {
            match record.parts.back_mut() {
                Some(last) if last.origin.advanced(last.end - last.start) == origin => last.end = end,
                _ => record.parts.push_back(StreamPart { start, end, origin }),
            }
        }
        Span { stream, start, end }
    }

    /// The parts that make up `span`, one layer down, cut to the span, in order. Discarded parts
    /// are not among them.
    pub fn parents(&self, span: Span) -> impl Iterator<Item = StreamPart> + '_ {
        let retained = self.retained.streams.get(&span.stream);
        let open = self.streams.get(&span.stream).map(|record| &record.parts);
        retained
            .into_iter()
            .chain(open)
            .flat_map(move |parts| parts.range(parts.partition_point(|part| part.end <= span.start)..))
            .take_while(move |part| part.start < span.end)
            .map(move |part| clip(*part, span.start, span.end))
    }

    /// Calls `visit` with the packet ranges that make up `span`, in the order of its bytes.
    ///
    /// The recursion is as deep as the layers of the protocols, which are few.
    pub fn each_packet_range(&self, span: Span, visit: &mut dyn FnMut(PacketRange)) {
        let mut whole = None;
        for part in self.parents(span) {
            let length = part.end - part.start;
            match part.origin {
                Origin::Packet { packet, offset } => {
                    visit(PacketRange { packet, start: offset, end: offset + length as u32 });
                }
                Origin::Copied { stream, offset } => {
                    whole = None;
                    self.each_packet_range(Span { stream, start: offset, end: offset + length }, visit);
                }
                // Adjacent parts that were computed from the same span name it once.
                Origin::Derived(from) => {
                    if whole.replace(from) != Some(from) {
                        self.each_packet_range(from, visit);
                    }
                }
                Origin::Missing => {}
            }
        }
    }

    /// The packet ranges that make up `span`, in the order of its bytes.
    pub fn packet_ranges(&self, span: Span) -> Vec<PacketRange> {
        let mut ranges = Vec::new();
        self.each_packet_range(span, &mut |range| ranges.push(range));
        ranges
    }

    /// The packets that carried `span`, each once, in the order of its bytes.
    pub fn packets(&self, span: Span) -> Vec<PacketNumber> {
        let mut packets: Vec<PacketNumber> = Vec::new();
        self.each_packet_range(span, &mut |range| {
            let is_listed = packets.last() == Some(&range.packet)
                || (packets.last() > Some(&range.packet) && packets.contains(&range.packet));
            if !is_listed {
                packets.push(range.packet);
            }
        });
        packets
    }

    /// Discards the parts of `stream` that end at or before `before`. Calls `on_discard` with each.
    pub fn forget(&mut self, stream: StreamId, before: u64, mut on_discard: impl FnMut(StreamPart)) {
        if let Some(record) = self.streams.get_mut(&stream) {
            while let Some(part) = record.parts.pop_front_if(|part| part.end <= before) {
                self.retained.push(stream, part);
                on_discard(part);
            }
        }
    }

    /// Closes `stream`. Calls `on_discard` with each of its remaining parts.
    pub fn close(&mut self, stream: StreamId, mut on_discard: impl FnMut(StreamPart)) {
        for part in self.streams.remove(&stream).into_iter().flat_map(|record| record.parts) {
            self.retained.push(stream, part);
            on_discard(part);
        }
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }
}

/// The part, cut to `start..end`.
pub fn clip(part: StreamPart, start: u64, end: u64) -> StreamPart {
    let from = part.start.max(start);
    StreamPart { start: from, end: part.end.min(end), origin: part.origin.advanced(from - part.start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, offset: u32) -> Origin {
        Origin::Packet { packet: PacketNumber(number), offset }
    }

    /// A body of two chunks in a TCP direction of three packets.
    fn two_chunks() -> (Provenance, StreamId, StreamId) {
        let mut provenance = Provenance::default();
        let tcp = provenance.open();
        provenance.append(tcp, 100, packet(14, 66));
        provenance.append(tcp, 50, packet(15, 66));
        provenance.append(tcp, 50, packet(17, 54));
        let body = provenance.open();
        provenance.append(body, 40, Origin::Copied { stream: tcp, offset: 80 });
        provenance.append(body, 60, Origin::Copied { stream: tcp, offset: 130 });
        (provenance, tcp, body)
    }

    #[test]
    fn a_span_resolves_to_its_packet_ranges_in_order() {
        let (provenance, _, body) = two_chunks();
        let range = |packet, start, end| PacketRange { packet: PacketNumber(packet), start, end };
        assert_eq!(
            provenance.packet_ranges(Span { stream: body, start: 10, end: 70 }),
            [range(14, 156, 166), range(15, 66, 86), range(15, 96, 116), range(17, 54, 64)]
        );
        assert_eq!(provenance.packets(Span { stream: body, start: 10, end: 70 }).len(), 3);
    }

    #[test]
    fn the_latest_discarded_parts_are_retained() {
        let (mut provenance, tcp, body) = two_chunks();
        provenance.retain(4);
        let span = Span { stream: body, start: 10, end: 70 };
        let ranges = provenance.packet_ranges(span);
        provenance.forget(tcp, 100, |_| {});
        assert_eq!(provenance.packet_ranges(span), ranges, "some parts are open and some retained");
        provenance.close(tcp, |_| {});
        provenance.append(body, 10, Origin::Missing);
        provenance.forget(body, 40, |_| {});
        assert_eq!(provenance.packet_ranges(span), ranges);
        assert_eq!(provenance.open_streams(), 1);
        provenance.forget(body, 100, |_| {});
        assert_eq!(provenance.packet_ranges(span), ranges[1..], "the oldest part had to go");
    }

    #[test]
    fn contiguous_parts_become_one() {
        let mut provenance = Provenance::default();
        let (below, stream) = (provenance.open(), provenance.open());
        provenance.append(stream, 10, Origin::Copied { stream: below, offset: 5 });
        provenance.append(stream, 10, Origin::Copied { stream: below, offset: 15 });
        provenance.append(stream, 4, Origin::Missing);
        provenance.append(stream, 4, Origin::Missing);
        assert_eq!(provenance.parents(Span { stream, start: 0, end: 28 }).count(), 2);
        assert_eq!(provenance.length(stream), 28);
    }

    #[test]
    fn discarded_parts_are_reported_once() {
        let (mut provenance, tcp, _) = two_chunks();
        let mut discarded = Vec::new();
        provenance.forget(tcp, 149, |part| discarded.push(part));
        assert_eq!(discarded.len(), 1, "the second part is still needed for its last byte");
        provenance.close(tcp, |part| discarded.push(part));
        assert_eq!(discarded.iter().map(|part| part.end - part.start).sum::<u64>(), 200);
    }

    #[test]
    fn derived_bytes_point_at_the_whole_record() {
        let mut provenance = Provenance::default();
        let (record, plain) = (provenance.open(), provenance.open());
        provenance.append(record, 120, packet(3, 54));
        let from = Span { stream: record, start: 20, end: 120 };
        provenance.append(plain, 300, Origin::Derived(from));
        provenance.append(plain, 30, Origin::Derived(from));
        assert_eq!(
            provenance.packet_ranges(Span { stream: plain, start: 299, end: 310 }),
            [PacketRange { packet: PacketNumber(3), start: 74, end: 174 }]
        );
    }
}
