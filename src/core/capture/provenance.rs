//! Where bytes came from.
//!
//! One rule: **a decoder records only the edge from its output to its immediate input.** Nobody passes packet numbers
//! upward. Each run of bytes in one direction is a stream; each part of a stream says where it was taken from; following
//! the edges from a message down to the packets *is* the layer view.
//!
//! ```text
//!   message        stream 9  171 ─────────── 385
//!   body           stream 9  0 ── 171 ────────────── 385 ── 400        Copied from stream 3
//!   TCP direction  stream 3      1204 ────── 1418                      Packet 14 │ Packet 15 │ Packet 17
//! ```
//!
//! Parts are forgotten as soon as nothing open needs them; a store that keeps them is handed each part as it goes. Where somebody asks
//! later, the latest of them are retained.

use std::collections::{BTreeMap, HashMap, VecDeque};

use rustc_hash::FxBuildHasher;

use super::packet::PacketNumber;

/// Names a stream within one capture. Numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The address of bytes: `start..end` of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The stream.
    pub stream: StreamId,
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last byte.
    pub end: u64,
}

impl Span {
    /// Bytes in the span.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// Bytes `start..end` of one packet's captured data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRange {
    /// The packet.
    pub packet: PacketNumber,
    /// Offset of the first byte in its data.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl PacketRange {
    /// Bytes in the range.
    pub fn len(&self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// Where a part of a stream was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Byte for byte from a packet, from this offset of its data.
    Packet {
        /// The packet.
        packet: PacketNumber,
        /// Offset of the part's first byte in it.
        offset: u32,
    },
    /// Byte for byte from another stream, from this offset (a chunk of a body, the data of an SSE event).
    Copied {
        /// The stream below.
        stream: StreamId,
        /// Offset of the part's first byte in it.
        offset: u64,
    },
    /// Made from these bytes as a whole (inflated, decrypted): no byte of it has a place of its own.
    Derived(Span),
    /// Never seen. Later offsets stay right.
    Missing,
}

impl Origin {
    /// The origin of the byte `by` further on.
    fn advanced(self, by: u64) -> Origin {
        match self {
            Origin::Packet { packet, offset } => Origin::Packet { packet, offset: offset + by as u32 },
            Origin::Copied { stream, offset } => Origin::Copied { stream, offset: offset + by },
            whole @ (Origin::Derived(_) | Origin::Missing) => whole,
        }
    }
}

/// Bytes `start..end` of a stream, and where they were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte in the stream.
    pub start: u64,
    /// Offset behind the last byte.
    pub end: u64,
    /// Where they came from.
    pub origin: Origin,
}

#[derive(Debug, Default)]
struct Record {
    length: u64,
    parts: VecDeque<Part>,
}

/// Parts that were forgotten and are retained for queries, up to a number of them.
#[derive(Debug, Default)]
struct Retained {
    most: usize,
    streams: HashMap<StreamId, VecDeque<Part>, FxBuildHasher>,
    /// The stream of each part, oldest first.
    order: VecDeque<StreamId>,
}

impl Retained {
    fn push(&mut self, stream: StreamId, part: Part) {
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

/// The parts of all open streams.
#[derive(Debug, Default)]
pub struct Provenance {
    streams: HashMap<StreamId, Record, FxBuildHasher>,
    last: u32,
    retained: Retained,
}

impl Provenance {
    /// Retains this many of the latest parts that are forgotten, for queries.
    pub fn retain(&mut self, parts: usize) {
        self.retained.most = parts;
    }

    /// Opens a stream.
    pub fn open(&mut self) -> StreamId {
        self.last += 1;
        let stream = StreamId(self.last);
        self.streams.insert(stream, Record::default());
        stream
    }

    /// Bytes appended to the stream so far: the offset of the next.
    pub fn length(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream).map_or(0, |record| record.length)
    }

    /// Appends `length` bytes that were taken from `origin`, and says which bytes of the stream they are.
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
                _ => record.parts.push_back(Part { start, end, origin }),
            }
        }
        Span { stream, start, end }
    }

    /// One layer down: the parts that make up `span`, cut to it, in order. Empty where they were forgotten.
    pub fn parents(&self, span: Span) -> impl Iterator<Item = Part> + '_ {
        let retained = self.retained.streams.get(&span.stream);
        let open = self.streams.get(&span.stream).map(|record| &record.parts);
        retained
            .into_iter()
            .chain(open)
            .flat_map(move |parts| parts.range(parts.partition_point(|part| part.end <= span.start)..))
            .take_while(move |part| part.start < span.end)
            .map(move |part| clip(*part, span.start, span.end))
    }

    /// All the way down: shows the bytes of packets that make up `span`, in stream order.
    ///
    /// It goes as deep as layers stand on each other, which are few.
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
                // Neighbours that were made from the same bytes name them once.
                Origin::Derived(from) => {
                    if whole.replace(from) != Some(from) {
                        self.each_packet_range(from, visit);
                    }
                }
                Origin::Missing => {}
            }
        }
    }

    /// The same as a list.
    pub fn packet_ranges(&self, span: Span) -> Vec<PacketRange> {
        let mut ranges = Vec::new();
        self.each_packet_range(span, &mut |range| ranges.push(range));
        ranges
    }

    /// The packets that carried `span`, each once, in stream order.
    pub fn packets(&self, span: Span) -> Vec<PacketNumber> {
        let mut packets: Vec<PacketNumber> = Vec::new();
        self.each_packet_range(span, &mut |range| {
            let seen = packets.last() == Some(&range.packet)
                || (packets.last() > Some(&range.packet) && packets.contains(&range.packet));
            if !seen {
                packets.push(range.packet);
            }
        });
        packets
    }

    /// All that leads from `span` down to packets, to be kept when this forgets it: spans inside it name the same packets there as here.
    pub fn extract(&self, span: Span) -> Provenance {
        let mut found: BTreeMap<StreamId, BTreeMap<u64, Part>> = BTreeMap::new();
        let mut open = vec![span];
        while let Some(span) = open.pop() {
            for part in self.parents(span) {
                let known = found.entry(span.stream).or_default().entry(part.start).or_insert(part);
                known.end = known.end.max(part.end);
                match part.origin {
                    Origin::Copied { stream, offset } => {
                        open.push(Span { stream, start: offset, end: offset + (part.end - part.start) });
                    }
                    Origin::Derived(from) => open.push(from),
                    Origin::Packet { .. } | Origin::Missing => {}
                }
            }
        }
        let record = |parts: BTreeMap<u64, Part>| Record { length: 0, parts: parts.into_values().collect() };
        let streams = found.into_iter().map(|(stream, parts)| (stream, record(parts))).collect();
        Provenance { streams, ..Provenance::default() }
    }

    /// Forgets the parts of `stream` that end at or before `before`, handing each to `keep`.
    pub fn forget(&mut self, stream: StreamId, before: u64, mut keep: impl FnMut(Part)) {
        if let Some(record) = self.streams.get_mut(&stream) {
            while let Some(part) = record.parts.pop_front_if(|part| part.end <= before) {
                self.retained.push(stream, part);
                keep(part);
            }
        }
    }

    /// Closes `stream`, handing its remaining parts to `keep`.
    pub fn close(&mut self, stream: StreamId, mut keep: impl FnMut(Part)) {
        for part in self.streams.remove(&stream).into_iter().flat_map(|record| record.parts) {
            self.retained.push(stream, part);
            keep(part);
        }
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }
}

/// `part`, cut to `start..end`.
pub fn clip(part: Part, start: u64, end: u64) -> Part {
    let from = part.start.max(start);
    Part { start: from, end: part.end.min(end), origin: part.origin.advanced(from - part.start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, offset: u32) -> Origin {
        Origin::Packet { packet: PacketNumber(number), offset }
    }

    /// A body of two chunks in a TCP direction of three packets, as in the drawing above.
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
    fn what_is_extracted_outlives_what_is_forgotten() {
        let (mut provenance, tcp, body) = two_chunks();
        let plain = provenance.open();
        provenance.append(plain, 300, Origin::Derived(Span { stream: body, start: 0, end: 100 }));
        let (part, whole) = (Span { stream: body, start: 30, end: 70 }, Span { stream: plain, start: 0, end: 300 });
        let wanted = [part, whole].map(|span| provenance.packets(span));
        let kept = [part, whole].map(|span| provenance.extract(span));
        [tcp, body, plain].into_iter().for_each(|stream| provenance.close(stream, |_| {}));
        assert_eq!([kept[0].packets(part), kept[1].packets(whole)], wanted);
        assert_eq!(kept[0].packets(Span { start: 65, ..part }), [PacketNumber(17)]);
    }

    #[test]
    fn the_latest_forgotten_parts_are_retained() {
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
    fn what_is_forgotten_is_handed_on_once() {
        let (mut provenance, tcp, _) = two_chunks();
        let mut kept = Vec::new();
        provenance.forget(tcp, 149, |part| kept.push(part));
        assert_eq!(kept.len(), 1, "the second part is still needed for its last byte");
        provenance.close(tcp, |part| kept.push(part));
        assert_eq!(kept.iter().map(|part| part.end - part.start).sum::<u64>(), 200);
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
