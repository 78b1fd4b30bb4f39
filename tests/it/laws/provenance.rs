//! Every message names the packets that carried its bytes.

use std::collections::HashMap;

use mcptap_core::internal::capture::{Origin, PacketRange, Span, StreamId, StreamPart};
use mcptap_core::internal::event::Event;
use mcptap_core::internal::mcp::Carrier;

use crate::decoded::{Decoded, conversations, frames, name};
use crate::rewrite::{self, Frame};

/// The parts of all streams, as a store receives them.
struct Parts(HashMap<StreamId, Vec<StreamPart>>);

impl Parts {
    /// Asserts that the parts of each stream follow each other and refer to streams
    /// that existed before.
    fn of(what: &str, decoded: &Decoded) -> Parts {
        let mut streams: HashMap<StreamId, Vec<StreamPart>> = HashMap::new();
        for event in &decoded.events {
            match event {
                Event::Stream(stream) => {
                    assert!(streams.insert(stream.id, Vec::new()).is_none(), "{what}: {:?} is said once", stream.id);
                }
                Event::Part(stream, part) => {
                    let known = streams.get_mut(stream).unwrap_or_else(|| panic!("{what}: {stream:?} was said"));
                    let end = known.last().map_or(0, |last| last.end);
                    assert_eq!(part.start, end, "{what}: parts of {stream:?} follow each other");
                    assert!(part.end > part.start, "{what}: {part:?} holds something");
                    if let Origin::Copied { stream: below, .. } | Origin::Derived(Span { stream: below, .. }) =
                        part.origin
                    {
                        assert!(below < *stream, "{what}: {stream:?} is made of {below:?}");
                    }
                    known.push(*part);
                }
                _ => {}
            }
        }
        Parts(streams)
    }

    /// The packet ranges below `span`, and whether every step was copied.
    fn ranges(&self, span: Span) -> (Vec<PacketRange>, bool) {
        let mut ranges = Vec::new();
        let mut copied = true;
        let mut open = vec![span];
        while let Some(span) = open.pop() {
            let parts = self.0.get(&span.stream).map_or(&[][..], Vec::as_slice);
            let inside = parts.iter().filter(|part| part.start < span.end && part.end > span.start);
            let mut below: Vec<Span> = Vec::new();
            for part in inside {
                let (start, end) = (part.start.max(span.start), part.end.min(span.end));
                let skipped = start - part.start;
                match part.origin {
                    Origin::Packet { packet, offset } => {
                        let start_in_packet = offset + skipped as u32;
                        ranges.push(PacketRange {
                            packet,
                            start: start_in_packet,
                            end: start_in_packet + (end - start) as u32,
                        });
                    }
                    Origin::Copied { stream, offset } => {
                        below.push(Span { stream, start: offset + skipped, end: offset + skipped + (end - start) });
                    }
                    Origin::Derived(from) => {
                        copied = false;
                        if below.last() != Some(&from) {
                            below.push(from);
                        }
                    }
                    Origin::Missing => panic!("a message has no missing bytes"),
                }
            }
            open.extend(below.into_iter().rev());
        }
        (ranges, copied)
    }
}

/// Asserts that the bytes of messages are in the packets that the messages name. Returns
/// the number of messages.
fn is_proven(what: &str, frames: &[Frame], decoded: &Decoded) -> usize {
    let parts = Parts::of(what, decoded);
    let mut proven = 0;
    let mut last = 0;
    for message in decoded.messages() {
        let what = format!("{what}, message {}", message.number.0);
        assert_eq!(message.number.0, last + 1, "{what}: numbers count");
        last = message.number.0;
        let length = parts.0[&message.span.stream].last().map_or(0, |part| part.end);
        assert!(!message.span.is_empty() && message.span.end <= length, "{what}: {:?} of {length}", message.span);
        let (ranges, copied) = parts.ranges(message.span);
        let mut packets: Vec<_> = Vec::new();
        for range in &ranges {
            if !packets.contains(&range.packet) {
                packets.push(range.packet);
            }
        }
        assert_eq!(message.packets, packets, "{what}: packets");
        // The line feed between the data lines of an event is in no packet.
        if copied && !(message.carrier == Carrier::SseEvent && message.raw.contains(&b'\n')) {
            let bytes = ranges
                .iter()
                .flat_map(|range| &frames[range.packet.0 as usize - 1].data[range.start as usize..range.end as usize]);
            assert!(bytes.eq(message.raw.iter()), "{what}: the bytes of its packets are its own");
            proven += 1;
        }
    }
    proven
}

#[test]
fn provenance_is_true() {
    let mut proven = 0;
    for path in conversations() {
        let frames = frames(&path);
        let rewritten = [
            ("as captured", frames.clone()),
            ("split", rewrite::split(&frames, 300, 8)),
            ("fragments", rewrite::fragmented(&frames, 240, true)),
            ("doubled", rewrite::doubled(&frames, 3)),
            ("shuffled", rewrite::shuffled(&frames, 4, 9)),
            ("thinned", rewrite::thinned(&frames, 30, 10)),
        ];
        for (how, frames) in rewritten {
            proven += is_proven(&format!("{} {how}", name(&path)), &frames, &Decoded::of(&frames));
        }
    }
    assert!(proven > 100, "{proven} messages were proven");
}
