//! The body of the fuzz target for HTTP/1, and what it shares with that for HTTP/2.

use super::Http1;
use crate::capture::Limits;
use crate::decode::http::{HttpEvent, StartLine};
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// Both directions, for loops.
pub(in crate::decode) const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// The bytes of one direction; `None` for a byte that was not captured.
pub(in crate::decode) type SentBytes = Vec<Option<u8>>;

/// One step of a conversation that the fuzzer's bytes describe.
pub(in crate::decode) enum ScriptStep<'a> {
    /// These bytes were sent.
    Data(&'a [u8]),
    /// This many bytes were sent and not captured.
    Gap(u8),
}

impl<'a> ScriptStep<'a> {
    /// The step as pieces of at most `size` bytes.
    pub(in crate::decode) fn pieces(&self, size: usize) -> Vec<Piece<'a>> {
        match self {
            ScriptStep::Data(bytes) => bytes.chunks(size).map(Piece::Data).collect(),
            ScriptStep::Gap(length) => vec![Piece::Gap(u64::from(*length))],
        }
    }
}

/// Reads the fuzzer's bytes as steps. Each step begins with two bytes.
///
/// The lowest bit of the first byte is the direction. Where the first byte has no bit of
/// `data_bits`, the second byte is the length of a gap. Otherwise that many bytes follow, and
/// they were sent.
pub(in crate::decode) fn parse_script(mut data: &[u8], data_bits: u8) -> Vec<(Direction, ScriptStep<'_>)> {
    let mut steps = Vec::new();
    while let [kind, length, rest @ ..] = data {
        let direction = BOTH[usize::from(kind & 1)];
        if kind & data_bits == 0 {
            steps.push((direction, ScriptStep::Gap(*length)));
            data = rest;
        } else {
            let (sent, remaining) = rest.split_at(usize::from(*length).min(rest.len()));
            steps.push((direction, ScriptStep::Data(sent)));
            data = remaining;
        }
    }
    steps
}

/// The events of a decoder as lines, checked against the bytes that were sent.
#[derive(Default)]
pub(in crate::decode) struct EventTranscript {
    /// One line per event. Contents that follow each other directly share a line.
    pub(in crate::decode) lines: Vec<String>,
    /// The description of the bytes in the last line, and the offset after them.
    run: Option<(String, u64)>,
    /// For each direction, the offset after all bytes recorded so far.
    ends: [u64; 2],
}

impl EventTranscript {
    /// Records bytes that an event carries.
    pub(in crate::decode) fn add_bytes(
        &mut self,
        sent: &[SentBytes; 2],
        direction: Direction,
        description: String,
        offset: u64,
        bytes: &[u8],
    ) {
        let end = self.advance(direction, offset, bytes.len() as u64);
        let original = &sent[direction as usize][offset as usize..end as usize];
        assert!(original.iter().zip(bytes).all(|(sent, byte)| *sent == Some(*byte)), "the bytes at their place");
        match self.run.as_mut().filter(|(run, at)| *run == description && *at == offset) {
            Some((_, at)) => *at = end,
            None => {
                self.lines.push(format!("{description} @{offset}"));
                self.run = Some((description, end));
            }
        }
    }

    /// Records bytes that the decoder skipped.
    pub(in crate::decode) fn add_skipped(
        &mut self,
        sent: &[SentBytes; 2],
        direction: Direction,
        offset: u64,
        length: u64,
    ) {
        let end = self.advance(direction, offset, length);
        let skipped = &sent[direction as usize][offset as usize..end as usize];
        assert!(skipped.iter().all(Option::is_some), "only captured bytes are skipped");
    }

    /// Records an event without bytes.
    pub(in crate::decode) fn add_line(&mut self, line: String) {
        self.run = None;
        self.lines.push(line);
    }

    /// Moves the end of a direction; returns the new one. No byte may be recorded twice.
    fn advance(&mut self, direction: Direction, offset: u64, length: u64) -> u64 {
        let end = &mut self.ends[direction as usize];
        assert!(*end <= offset, "one after the other: {offset} after {end}");
        *end = offset + length;
        *end
    }
}

/// Decodes any conversation. `data` is a script, see `parse_script`.
///
/// The events of a direction do not depend on how the bytes are cut into pieces. Contents, heads
/// and skipped bytes are the bytes at their offset, and none overlap. Each final head has one end.
/// Memory is bounded.
///
/// # Panics
///
/// When one of these rules is broken.
pub fn fuzz_http1(data: &[u8]) {
    let steps = parse_script(data, 6);
    let whole = run(&steps, usize::MAX);
    assert_eq!(whole, run(&steps, 1), "byte by byte");
    assert_eq!(whole, run(&steps, 7), "cut");
}

/// Decodes the steps in pieces of `size` bytes; returns the events of each direction as lines.
fn run(steps: &[(Direction, ScriptStep<'_>)], size: usize) -> [Vec<String>; 2] {
    let limits = Limits { head: 200, pipelined: 5, ..Limits::default() };
    let mut sent: [SentBytes; 2] = Default::default();
    let mut decoder = Http1::new(limits);
    let mut transcripts: [EventTranscript; 2] = Default::default();
    let mut open_messages = [0; 2];
    // A sender's acknowledgment changes between steps only.
    let mut sender = None;
    let mut acknowledged = 0;
    let ends = BOTH.map(|direction| (direction, Piece::End(Ending::Cut)));
    let pieces =
        steps.iter().flat_map(|(direction, step)| step.pieces(size).into_iter().map(|piece| (*direction, piece)));
    for (direction, piece) in pieces.chain(ends) {
        if sender != Some(direction) {
            sender = Some(direction);
            acknowledged = sent[direction.reversed() as usize].len() as u64;
        }
        let stream = &mut sent[direction as usize];
        match piece {
            Piece::Data(bytes) => stream.extend(bytes.iter().copied().map(Some)),
            Piece::Gap(length) => stream.extend(std::iter::repeat_n(None, length as usize)),
            Piece::End(_) => {}
        }
        decoder.push(direction, piece, acknowledged, &mut |event| {
            record(&mut transcripts, &mut open_messages, &sent, &event);
        });
        assert!(decoder.low_water(direction) <= sent[direction as usize].len() as u64);
        assert!(decoder.held() <= 4 * limits.head && decoder.pairing.len() <= limits.pipelined, "memory is bounded");
    }
    assert_eq!(open_messages, [0, 0], "each final head has one end");
    transcripts.map(|transcript| transcript.lines)
}

/// Adds an event to the transcript of its direction. `open_messages` counts final heads minus ends.
fn record(
    transcripts: &mut [EventTranscript; 2],
    open_messages: &mut [i32; 2],
    sent: &[SentBytes; 2],
    event: &HttpEvent<'_>,
) {
    match event {
        HttpEvent::Head { direction, head, exchange, .. } => {
            let interim = matches!(head.start, StartLine::Response { status: 100 | 102..200, .. });
            open_messages[*direction as usize] += i32::from(!interim);
            let line = format!("{exchange:?} {:?} {:?}", head.start, head.fields);
            transcripts[*direction as usize].add_bytes(sent, *direction, line, head.offset, &head.text);
        }
        HttpEvent::Content { exchange, direction, offset, bytes } => {
            let line = format!("{exchange:?} content");
            transcripts[*direction as usize].add_bytes(sent, *direction, line, *offset, bytes);
        }
        HttpEvent::Opaque { direction, offset, bytes } => {
            transcripts[*direction as usize].add_bytes(sent, *direction, "opaque".to_owned(), *offset, bytes);
        }
        HttpEvent::ContentGap { direction, .. }
        | HttpEvent::End { direction, .. }
        | HttpEvent::Secret { direction, .. }
        | HttpEvent::Switched { direction, .. }
        | HttpEvent::Anomaly { direction, .. } => {
            let transcript = &mut transcripts[*direction as usize];
            match event {
                HttpEvent::End { .. } => open_messages[*direction as usize] -= 1,
                HttpEvent::Anomaly { anomaly: Anomaly::Skipped { offset, length }, .. } => {
                    transcript.add_skipped(sent, *direction, *offset, *length);
                }
                _ => {}
            }
            transcript.add_line(format!("{event:?}"));
        }
    }
}
