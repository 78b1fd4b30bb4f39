//! The bodies of the fuzz targets for HTTP/2 and its header blocks.

use super::Http2;
use super::block::{Block, DecodedBlock, Purpose};
use super::frame::HEAD;
use super::hpack::Hpack;
use crate::capture::Limits;
use crate::decode::http::{HttpEvent, is_secret_field};
use crate::decode::http1::fuzz::{BOTH, EventTranscript, ScriptStep, SentBytes, parse_script};
use crate::decode::mask::{MaskKey, is_masked};
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// Decodes any conversation. `data` is a script, see `parse_script`.
///
/// The events do not depend on how the bytes are cut into pieces. Contents and skipped bytes
/// are the bytes at their offset, and none overlap. Each direction of an exchange ends once.
/// Memory is bounded.
///
/// # Panics
///
/// When one of these rules is broken.
pub fn fuzz_http2(data: &[u8]) {
    let steps = parse_script(data, 14);
    let whole = run(&steps, usize::MAX);
    assert_eq!(whole, run(&steps, 1), "byte by byte");
    assert_eq!(whole, run(&steps, 7), "cut");
}

/// Decodes the steps in pieces of `size` bytes; returns the events as lines.
fn run(steps: &[(Direction, ScriptStep<'_>)], size: usize) -> Vec<String> {
    let limits = Limits { head: 200, pipelined: 5, ..Limits::default() };
    let mut sent: [SentBytes; 2] = Default::default();
    let mut decoder = Http2::new(limits);
    let mut transcript = EventTranscript::default();
    let mut ended = Vec::new();
    let ends = BOTH.map(|direction| (direction, Piece::End(Ending::Cut)));
    let pieces =
        steps.iter().flat_map(|(direction, step)| step.pieces(size).into_iter().map(|piece| (*direction, piece)));
    for (direction, piece) in pieces.chain(ends) {
        let stream = &mut sent[direction as usize];
        match piece {
            Piece::Data(bytes) => stream.extend(bytes.iter().copied().map(Some)),
            Piece::Gap(length) => stream.extend(std::iter::repeat_n(None, length as usize)),
            Piece::End(_) => {}
        }
        decoder.push(direction, piece, &mut |event| record(&mut transcript, &mut ended, &sent, &event));
        assert!(decoder.low_water(direction) <= sent[direction as usize].len() as u64);
        let (held, open) = decoder.held();
        // In each direction: a block, one of its frames and what followed it.
        assert!(held <= 4 * (limits.head + 256 + HEAD) && open <= limits.pipelined, "{held} bytes, {open} streams");
    }
    assert_eq!(decoder.held().1, 0, "nothing stays open");
    transcript.lines
}

/// Adds an event to the transcript. `ended` lists the directions of exchanges that are over.
fn record(transcript: &mut EventTranscript, ended: &mut Vec<String>, sent: &[SentBytes; 2], event: &HttpEvent<'_>) {
    match event {
        HttpEvent::Content { exchange, direction, offset, bytes } => {
            let line = format!("{exchange:?} {direction:?}");
            return transcript.add_bytes(sent, *direction, line, *offset, bytes);
        }
        HttpEvent::Anomaly { direction, anomaly: Anomaly::Skipped { offset, length }, .. } => {
            transcript.add_skipped(sent, *direction, *offset, *length);
        }
        HttpEvent::End { exchange, direction, .. } => {
            let end = format!("{exchange:?} {direction:?}");
            assert!(!ended.contains(&end), "{end} twice");
            ended.push(end);
        }
        _ => {}
    }
    transcript.add_line(format!("{event:?}"));
}

/// Decodes any header blocks. Each consists of a length and that many bytes.
///
/// `loona_hpack` decodes the whole block to the same fields. A block whose secrets are masked can
/// be decoded instead of the original, and differs in the secrets only.
///
/// # Panics
///
/// When one of these rules is broken.
pub fn fuzz_hpack(mut data: &[u8]) {
    let (mut plain, mut masked) = (Hpack::new(), Hpack::new());
    let mut other = Some(loona_hpack::Decoder::new());
    while let Some((length, rest)) = data.split_first() {
        let (bytes, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        data = behind;
        let (block, decoded) = decode(bytes, &mut plain);
        let fields = fields(&decoded);
        other = other.filter(|_| decoded.unknown == 0 && !decoded.malformed);
        if let Some(decoder) = &mut other {
            match decoder.decode(bytes) {
                Ok(expected) => assert!(decoded.too_long || fields == expected, "{expected:?}"),
                // It rejects some blocks that end in a new size of the table.
                Err(_) => other = None,
            }
        }
        let mut copy = bytes.to_vec();
        for secret in &decoded.secrets {
            assert!(block.place.start <= secret.range.start && secret.range.end <= block.place.end);
            let start = position(secret.range.start, bytes.len());
            secret.mask.cover(&mut copy[start..start + (secret.range.end - secret.range.start) as usize]);
        }
        let (_, again) = decode(&copy, &mut masked);
        if decoded.malformed {
            masked.lose();
            continue;
        }
        assert!(!again.malformed, "{copy:02x?}");
        if decoded.unknown > 0 || again.unknown > 0 || decoded.too_long || again.too_long {
            continue;
        }
        for ((name, value), (again, hidden)) in fields.iter().zip(&self::fields(&again)) {
            assert_eq!(name, again);
            match is_secret_field(None, name, value) {
                true => assert!(hidden.iter().all(|byte| *byte == b'*') || is_masked(hidden), "{hidden:?}"),
                false => assert_eq!(value, hidden),
            }
        }
    }
}

/// Decodes a block in two fragments, with the head of a frame between them.
fn decode(bytes: &[u8], hpack: &mut Hpack) -> (Block, DecodedBlock) {
    let mut block = Block::new(1, Purpose::Head { end: true }, 0);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    block.push(0, first);
    block.push((first.len() + HEAD) as u64, second);
    let decoded = block.decode(Direction::ClientToServer, hpack, 4096, Some((Some(MaskKey::new([7; 16])), None)));
    (block, decoded)
}

/// The index in a block of this length of the byte at this offset of the stream.
fn position(offset: u64, length: usize) -> usize {
    let offset = offset as usize;
    if offset < length / 2 { offset } else { offset - HEAD }
}

fn fields(decoded: &DecodedBlock) -> Vec<(Vec<u8>, Vec<u8>)> {
    decoded.head.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}
