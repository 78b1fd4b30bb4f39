//! The body of the fuzz target for HTTP/1.

use super::{Http1, Seen};
use crate::capture::Limits;
use crate::decode::http::{HttpEvent, StartLine};
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// A piece of the conversation, as the fuzzer's bytes script it.
enum Step<'a> {
    Data(&'a [u8]),
    Gap(u8),
}

/// Any conversation: `data` is a script of steps of two bytes each. The lowest bit of the first byte is the direction;
/// with the next two bits zero the second byte is the length of a gap, otherwise so many bytes follow that were sent.
///
/// Cutting changes nothing of what is told of a direction; contents, heads and what was skipped lie inside the stream,
/// one behind the other, and are the bytes at their place; each final head has one end; memory is bounded.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_http1(data: &[u8]) {
    let steps = script(data);
    let whole = run(&steps, usize::MAX);
    assert_eq!(whole, run(&steps, 1), "byte by byte");
    assert_eq!(whole, run(&steps, 7), "cut");
}

fn script(mut data: &[u8]) -> Vec<(Direction, Step<'_>)> {
    let mut steps = Vec::new();
    while let [what, length, rest @ ..] = data {
        let direction = if what & 1 == 0 { Direction::ClientToServer } else { Direction::ServerToClient };
        let sent = usize::from(*length).min(rest.len());
        if what & 6 == 0 {
            steps.push((direction, Step::Gap(*length)));
            data = rest;
        } else {
            steps.push((direction, Step::Data(&rest[..sent])));
            data = &rest[sent..];
        }
    }
    steps
}

/// What is told of one direction.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    /// What the bytes of the last line are, and where they go on.
    run: Option<(String, u64)>,
    /// Behind everything told so far.
    end: u64,
    /// Final heads less ends.
    open: i32,
}

fn run(steps: &[(Direction, Step<'_>)], size: usize) -> [Vec<String>; 2] {
    let limits = Limits { head: 200, pipelined: 5, ..Limits::default() };
    let mut streams: [Vec<Option<u8>>; 2] = Default::default();
    for (direction, step) in steps {
        match step {
            Step::Data(bytes) => streams[*direction as usize].extend(bytes.iter().copied().map(Some)),
            Step::Gap(length) => streams[*direction as usize].extend(std::iter::repeat_n(None, usize::from(*length))),
        }
    }
    let mut decoder = Http1::new(limits);
    let mut told: [Told; 2] = Default::default();
    let mut sent = [0; 2];
    let ends =
        [Direction::ClientToServer, Direction::ServerToClient].map(|direction| (direction, Piece::End(Ending::Cut)));
    let pieces = steps.iter().flat_map(|(direction, step)| {
        let pieces: Vec<Piece<'_>> = match step {
            Step::Data(bytes) => bytes.chunks(size).map(Piece::Data).collect(),
            Step::Gap(length) => vec![Piece::Gap(u64::from(*length))],
        };
        pieces.into_iter().map(|piece| (*direction, piece))
    });
    // What a sender has seen changes between the steps only.
    let mut speaker = None;
    let mut seen = Seen::default();
    for (direction, piece) in pieces.chain(ends) {
        if speaker != Some(direction) {
            speaker = Some(direction);
            seen.acknowledged = sent[direction.reversed() as usize];
        }
        sent[direction as usize] += match piece {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Gap(length) => length,
            Piece::End(_) => 0,
        };
        decoder.push(direction, piece, seen, &mut |event| tell(&mut told, &streams, &event));
        assert!(decoder.low_water(direction) <= sent[direction as usize]);
        assert!(decoder.held() <= 4 * limits.head && decoder.pairing.len() <= limits.pipelined, "memory is bounded");
    }
    assert_eq!(told.each_ref().map(|told| told.open), [0, 0], "each final head has one end");
    told.map(|told| told.lines)
}

fn tell(told: &mut [Told; 2], streams: &[Vec<Option<u8>>; 2], event: &HttpEvent<'_>) {
    let (direction, what, place) = match event {
        HttpEvent::Head { direction, head, exchange, .. } => {
            let interim = matches!(head.start, StartLine::Response { status: 100 | 102..200, .. });
            told[*direction as usize].open += i32::from(!interim);
            (direction, format!("{exchange:?} {:?} {:?}", head.start, head.fields), Some((head.offset, &*head.text)))
        }
        HttpEvent::Content { exchange, direction, offset, bytes } => {
            (direction, format!("{exchange:?} content"), Some((*offset, *bytes)))
        }
        HttpEvent::Opaque { direction, offset, bytes } => (direction, "opaque".to_owned(), Some((*offset, *bytes))),
        HttpEvent::End { direction, .. } => {
            told[*direction as usize].open -= 1;
            (direction, format!("{event:?}"), None)
        }
        HttpEvent::ContentGap { direction, .. }
        | HttpEvent::Secret { direction, .. }
        | HttpEvent::Switched { direction, .. }
        | HttpEvent::Anomaly { direction, .. } => (direction, format!("{event:?}"), None),
    };
    let (told, stream) = (&mut told[*direction as usize], &streams[*direction as usize]);
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let mut follow = |offset: u64, length: u64| {
        assert!(told.end <= offset, "one behind the other: {what} at {offset}, {} before", told.end);
        told.end = offset + length;
    };
    if let HttpEvent::Anomaly { anomaly: Anomaly::Skipped { offset, length }, .. } = event {
        follow(*offset, *length);
        assert!(
            stream[at(*offset)..at(offset + length)].iter().all(Option::is_some),
            "only bytes that were seen are skipped"
        );
    }
    let Some((offset, bytes)) = place else {
        told.run = None;
        return told.lines.push(what);
    };
    follow(offset, bytes.len() as u64);
    let there = &stream[at(offset)..at(offset) + bytes.len()];
    assert!(there.iter().zip(bytes).all(|(there, byte)| *there == Some(*byte)), "the bytes at their place");
    // Heads are whole however they were cut; runs of content are told as one.
    match told
        .run
        .as_mut()
        .filter(|(run, end)| *run == what && *end == offset && !matches!(event, HttpEvent::Head { .. }))
    {
        Some((_, end)) => *end += bytes.len() as u64,
        None => {
            told.lines.push(format!("{what} @{offset}"));
            told.run = Some((what, offset + bytes.len() as u64));
        }
    }
}
