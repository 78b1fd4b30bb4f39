//! The bodies of the fuzz targets for HTTP/2 and its header blocks.

use super::Http2;
use super::block::{Block, Purpose, Said};
use super::frame::HEAD;
use super::hpack::Hpack;
use crate::capture::Limits;
use crate::decode::http::{HttpEvent, is_secret};
use crate::decode::{Anomaly, Direction, Ending, Piece};

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// A piece of the conversation, as the fuzzer's bytes script it.
enum Step<'a> {
    Data(&'a [u8]),
    Gap(u8),
}

/// Any conversation: `data` is a script of steps of two bytes each. The lowest bit of the first byte is the direction; with the next three
/// bits zero the second byte is the length of a gap, otherwise so many bytes follow that were sent.
///
/// Cutting changes nothing of what is told of a direction; contents and what was skipped are bytes at their place, one behind the other; each
/// direction of an exchange ends once; memory is bounded.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_http2(data: &[u8]) {
    let steps = script(data);
    let whole = run(&steps, usize::MAX);
    assert_eq!(whole, run(&steps, 1), "byte by byte");
    assert_eq!(whole, run(&steps, 7), "cut");
}

fn script(mut data: &[u8]) -> Vec<(Direction, Step<'_>)> {
    let mut steps = Vec::new();
    while let [what, length, rest @ ..] = data {
        let direction = BOTH[usize::from(what & 1)];
        if what & 14 == 0 {
            steps.push((direction, Step::Gap(*length)));
            data = rest;
        } else {
            let (sent, behind) = rest.split_at(usize::from(*length).min(rest.len()));
            steps.push((direction, Step::Data(sent)));
            data = behind;
        }
    }
    steps
}

/// What is told, in order; runs of content as one.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    /// What the bytes of the last line are, and where they go on.
    run: Option<(String, u64)>,
    /// Behind all content and bytes skipped, by direction.
    end: [u64; 2],
    ended: Vec<String>,
}

fn run(steps: &[(Direction, Step<'_>)], size: usize) -> Vec<String> {
    let limits = Limits { head: 200, pipelined: 5, ..Limits::default() };
    let mut streams: [Vec<Option<u8>>; 2] = Default::default();
    let mut decoder = Http2::new(limits);
    let mut told = Told::default();
    for (direction, step) in steps {
        let pieces: Vec<Piece<'_>> = match step {
            Step::Data(bytes) => bytes.chunks(size).map(Piece::Data).collect(),
            Step::Gap(length) => vec![Piece::Gap(u64::from(*length))],
        };
        for piece in pieces {
            let stream = &mut streams[*direction as usize];
            match piece {
                Piece::Data(bytes) => stream.extend(bytes.iter().copied().map(Some)),
                Piece::Gap(length) => stream.extend(std::iter::repeat_n(None, length as usize)),
                Piece::End(_) => {}
            }
            decoder.push(*direction, piece, &mut |event| told.tell(&streams, &event));
            assert!(decoder.low_water(*direction) <= streams[*direction as usize].len() as u64);
            let (held, open) = decoder.held();
            // A block, a frame of it and what came behind, in each direction.
            assert!(held <= 4 * (limits.head + 256 + HEAD) && open <= limits.pipelined, "{held} bytes, {open} streams");
        }
    }
    for direction in BOTH {
        decoder.push(direction, Piece::End(Ending::Cut), &mut |event| told.tell(&streams, &event));
    }
    assert_eq!(decoder.held().1, 0, "nothing stays open");
    told.lines
}

impl Told {
    fn tell(&mut self, streams: &[Vec<Option<u8>>; 2], event: &HttpEvent<'_>) {
        match event {
            HttpEvent::Content { exchange, direction, offset, bytes } => {
                let stream = &streams[*direction as usize];
                let there = &stream[*offset as usize..*offset as usize + bytes.len()];
                assert!(
                    there.iter().zip(*bytes).all(|(there, byte)| *there == Some(*byte)),
                    "the bytes at their place"
                );
                let what = format!("{exchange:?} {direction:?}");
                let end = offset + bytes.len() as u64;
                match self.run.as_mut().filter(|(run, at)| *run == what && at == offset) {
                    Some((_, at)) => *at = end,
                    None => {
                        self.lines.push(format!("{what} @{offset}"));
                        self.run = Some((what, end));
                    }
                }
                self.follow(*direction, *offset, end);
                return;
            }
            HttpEvent::Anomaly { direction, anomaly: Anomaly::Skipped { offset, length }, .. } => {
                let skipped = &streams[*direction as usize][*offset as usize..(offset + length) as usize];
                assert!(skipped.iter().all(Option::is_some), "only bytes that were seen are skipped");
                self.follow(*direction, *offset, offset + length);
            }
            HttpEvent::End { exchange, direction, .. } => {
                let end = format!("{exchange:?} {direction:?}");
                assert!(!self.ended.contains(&end), "{end} twice");
                self.ended.push(end);
            }
            _ => {}
        }
        self.run = None;
        self.lines.push(format!("{event:?}"));
    }

    fn follow(&mut self, direction: Direction, start: u64, end: u64) {
        let behind = &mut self.end[direction as usize];
        assert!(*behind <= start, "one behind the other: {start}, {behind} before");
        *behind = end;
    }
}

/// Any header blocks: each is a length and so many bytes.
///
/// What `loona_hpack` makes of them as a whole is the same; a block whose secrets are masked can be decoded in its place, and says the same
/// but for the secrets.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_hpack(mut data: &[u8]) {
    let (mut plain, mut masked) = (Hpack::new(), Hpack::new());
    let mut other = Some(loona_hpack::Decoder::new());
    while let Some((length, rest)) = data.split_first() {
        let (bytes, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        data = behind;
        let (block, said) = decode(bytes, &mut plain);
        let fields = fields(&said);
        other = other.filter(|_| said.unknown == 0 && !said.malformed);
        if let Some(decoder) = &mut other {
            match decoder.decode(bytes) {
                Ok(expected) => assert!(said.too_long || fields == expected, "{expected:?}"),
                // It refuses some that end in a new size of the table.
                Err(_) => other = None,
            }
        }
        let mut copy = bytes.to_vec();
        for secret in &said.secrets {
            assert!(block.place.start <= secret.range.start && secret.range.end <= block.place.end);
            for at in secret.range.clone() {
                copy[position(at, bytes.len())] = secret.mask;
            }
        }
        let (_, again) = decode(&copy, &mut masked);
        if said.malformed {
            masked.lose();
            continue;
        }
        assert!(!again.malformed, "{copy:02x?}");
        if said.unknown > 0 || again.unknown > 0 || said.too_long || again.too_long {
            continue;
        }
        for ((name, value), (again, hidden)) in fields.iter().zip(&self::fields(&again)) {
            assert_eq!(name, again);
            match is_secret(name) {
                true => assert!(hidden.iter().all(|byte| *byte == b'*'), "{hidden:?}"),
                false => assert_eq!(value, hidden),
            }
        }
    }
}

/// A block in two fragments, with the head of a frame between.
fn decode(bytes: &[u8], hpack: &mut Hpack) -> (Block, Said) {
    let mut block = Block::new(1, Purpose::Head { end: true }, 0);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    block.push(0, first);
    block.push((first.len() + HEAD) as u64, second);
    let said = block.decode(Direction::ClientToServer, hpack, 4096);
    (block, said)
}

/// Where in a block of that length a byte stands that is at this offset of the stream.
fn position(offset: u64, length: usize) -> usize {
    let offset = offset as usize;
    if offset < length / 2 { offset } else { offset - HEAD }
}

fn fields(said: &Said) -> Vec<(Vec<u8>, Vec<u8>)> {
    said.head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}
