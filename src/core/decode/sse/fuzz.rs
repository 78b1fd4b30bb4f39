//! The body of the fuzz target for server-sent events.

use super::{Sse, SseEvent};
use crate::capture::Limits;
use crate::decode::{Ending, Piece};

/// Decodes any bytes as events, with a gap, whole and cut.
///
/// Checks that cutting changes nothing and that events follow each other. The parts of an event's
/// data must be inside the event and equal the data. Memory must stay within the limit.
///
/// # Panics
///
/// Panics if one of these does not hold.
pub fn fuzz_sse(data: &[u8]) {
    let limits = Limits { message: 1_000, ..Limits::default() };
    // The first two bytes choose position and length of the gap, so that one corpus
    // reaches all states.
    let at = data.first().map_or(0, |byte| usize::from(*byte)).min(data.len());
    let gap = data.get(1).map_or(0, |byte| u64::from(*byte % 4));
    let byte = |offset: u64| {
        let place = if offset < at as u64 { offset } else { offset - gap };
        data[usize::try_from(place).unwrap_or(usize::MAX)]
    };
    let run = |size: usize| {
        let mut decoder = Sse::new(limits);
        let mut seen = Vec::new();
        let mut last = 0;
        let mut sink = |event: SseEvent<'_>| {
            if let SseEvent::Event(event) = &event {
                assert!(last <= event.start && event.start < event.end && event.end <= data.len() as u64 + gap);
                last = event.end;
                let parts =
                    event.parts.iter().inspect(|part| assert!(event.start <= part.start && part.end < event.end));
                // A line end inside the data is LF, whatever it is in the body.
                let bytes: Vec<u8> =
                    parts.flat_map(|part| part.clone()).map(byte).map(|b| if b == b'\r' { b'\n' } else { b }).collect();
                assert_eq!(bytes, event.data.unwrap_or_default());
            }
            seen.push(format!("{event:?}"));
        };
        for piece in data[..at].chunks(size) {
            decoder.push(Piece::Data(piece), &mut sink);
        }
        decoder.push(Piece::Gap(gap), &mut sink);
        for piece in data[at..].chunks(size) {
            decoder.push(Piece::Data(piece), &mut sink);
            assert!(decoder.line_buffer.len() + decoder.event.data.len() <= 2 * limits.message);
        }
        decoder.push(Piece::End(Ending::Finished), &mut sink);
        seen
    };
    let whole = run(data.len().max(1));
    assert_eq!(whole, run(1), "byte by byte");
    assert_eq!(whole, run(7), "cut");
}
