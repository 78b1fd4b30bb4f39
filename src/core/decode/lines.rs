//! Lines of a pipe: the framing of messages in MCP's STDIO transport.
//!
//! "Messages are delimited by newlines, and MUST NOT contain embedded newlines"
//! (MCP, transports, stdio).

use memchr::memchr;

use super::{Anomaly, MAX_OFFSET, Piece};
use crate::capture::Limits;

/// Bytes that are emitted of a line longer than `Limits::message`. They are enough to recognise it.
const CUT_LINE_BYTES: usize = 64 << 10;

/// An event of a pipe.
#[derive(Debug)]
pub enum LineEvent<'a> {
    /// A line without its line end (LF or CRLF).
    Line {
        /// The line's number on the pipe, starting at 1. After a gap the count goes on by one,
        /// although the gap may contain line ends.
        number: u64,
        /// Offset of the line's first byte.
        start: u64,
        /// The bytes without the line end. If `whole` is false, they are the part that was
        /// captured and buffered.
        bytes: &'a [u8],
        /// The characters that ended the line.
        end: LineEnd,
        /// Whether the line is known to be complete. False next to a gap, and for a line
        /// over the limit.
        whole: bool,
    },
    /// An irregularity of the pipe.
    Anomaly(Anomaly),
}

/// The characters that end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed (LF) alone.
    LineFeed,
    /// A carriage return and a line feed (CR LF).
    CarriageReturn,
    /// None: the stream ended, or a gap began.
    Missing,
}

/// Splits one pipe into lines.
#[derive(Debug)]
pub struct Lines {
    /// Length in bytes up to which lines are emitted whole.
    limit: usize,
    /// Offset of the next input byte.
    offset: u64,
    /// Number of lines emitted so far.
    number: u64,
    /// Offset of the current line's first byte.
    start: u64,
    /// The current line so far, at most one byte more than `limit`.
    buffered: Vec<u8>,
    /// Whether the current line so far ends in CR.
    ends_in_cr: bool,
    /// Whether the current line may have begun in a gap.
    begins_in_gap: bool,
}

impl Lines {
    /// A decoder at the first byte of a pipe.
    pub fn new(limits: Limits) -> Lines {
        Lines {
            limit: limits.message,
            offset: 0,
            number: 0,
            start: 0,
            buffered: Vec::new(),
            ends_in_cr: false,
            begins_in_gap: false,
        }
    }

    /// The first byte may be in the middle of a line, because the pipe was in use before.
    pub fn begin_midway(&mut self) {
        self.begins_in_gap |= self.offset == 0;
    }

    /// Decodes the next piece and emits the lines that it completes.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(LineEvent<'_>)) {
        match piece {
            Piece::Data(bytes) => self.data(bytes, sink),
            Piece::Gap(0) => {}
            Piece::Gap(length) => {
                self.end_line(false, sink);
                self.offset = self.offset.saturating_add(length).min(MAX_OFFSET);
                self.start = self.offset;
                self.begins_in_gap = true;
            }
            Piece::End(_) => self.end_line(!self.begins_in_gap, sink),
        }
    }

    /// The offset of the first byte that the decoder still needs: the start of the current line.
    pub fn low_water(&self) -> u64 {
        self.start
    }

    fn data(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(LineEvent<'_>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.offset += line.len() as u64 + 1;
            if self.start + line.len() as u64 + 1 == self.offset {
                // The whole line is in this piece.
                let (line, end) = match line.strip_suffix(b"\r") {
                    Some(line) => (line, LineEnd::CarriageReturn),
                    None => (line, LineEnd::LineFeed),
                };
                let length = line.len() as u64;
                self.emit(line, length, end, !self.begins_in_gap, sink);
            } else {
                self.buffer(line);
                let length = self.offset - 1 - self.start - u64::from(self.ends_in_cr);
                let held = std::mem::take(&mut self.buffered);
                let line = &held[..held.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
                let end = if self.ends_in_cr { LineEnd::CarriageReturn } else { LineEnd::LineFeed };
                self.emit(line, length, end, !self.begins_in_gap, sink);
                self.recycle(held);
            }
            self.begins_in_gap = false;
            bytes = &rest[1..];
        }
        self.offset += bytes.len() as u64;
        self.buffer(bytes);
    }

    /// Buffers a part of the current line. One byte more than the limit is stored, because a final
    /// CR may belong to the line end.
    fn buffer(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_add(1).saturating_sub(self.buffered.len());
        self.buffered.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(last) = bytes.last() {
            self.ends_in_cr = *last == b'\r';
        }
    }

    /// Emits the rest of a line that has no line end.
    fn end_line(&mut self, whole: bool, sink: &mut impl FnMut(LineEvent<'_>)) {
        let length = self.offset - self.start;
        if length > 0 {
            let held = std::mem::take(&mut self.buffered);
            self.emit(&held, length, LineEnd::Missing, whole, sink);
        }
    }

    /// Emits a line. `bytes` is its buffered part and `length` its full length in bytes.
    fn emit(&mut self, bytes: &[u8], length: u64, end: LineEnd, whole: bool, sink: &mut impl FnMut(LineEvent<'_>)) {
        let start = std::mem::replace(&mut self.start, self.offset);
        self.ends_in_cr = false;
        self.number += 1;
        let fits = length <= self.limit as u64;
        if !fits {
            sink(LineEvent::Anomaly(Anomaly::LimitReached { limit: "message", offset: start }));
        }
        let bytes = if fits { bytes } else { &bytes[..bytes.len().min(CUT_LINE_BYTES).min(self.limit)] };
        sink(LineEvent::Line { number: self.number, start, bytes, end, whole: whole && fits });
    }

    /// Reuses the memory of an emitted line, unless it is larger than most lines need.
    fn recycle(&mut self, mut buffered: Vec<u8>) {
        if buffered.capacity() <= CUT_LINE_BYTES {
            buffered.clear();
            self.buffered = buffered;
        }
    }
}

/// The body of the fuzz target: decodes any bytes as lines, with a gap, whole and cut.
///
/// Checks that cutting changes nothing, that numbers count up by one, and that emitted bytes equal
/// the input at their offset. Memory stays within the limit.
///
/// # Panics
///
/// Panics if one of these does not hold.
pub fn fuzz_lines(data: &[u8]) {
    let limits = Limits { message: 100, ..Limits::default() };
    // The first two bytes choose position and length of the gap, so that all states are reached.
    let at = data.first().map_or(0, |byte| usize::from(*byte)).min(data.len());
    let gap = data.get(1).map_or(0, |byte| u64::from(*byte % 8));
    let run = |size: usize| {
        let mut lines = Lines::new(limits);
        let mut seen = Vec::new();
        let mut last = 0;
        let mut sink = |event: LineEvent<'_>| {
            if let LineEvent::Line { number, start, bytes, .. } = &event {
                assert_eq!(*number, last + 1);
                last = *number;
                let place = usize::try_from(if *start >= at as u64 + gap { start - gap } else { *start }).unwrap_or(0);
                assert_eq!(data.get(place..place + bytes.len()), Some(*bytes), "the bytes at their place");
            }
            seen.push(format!("{event:?}"));
        };
        for piece in data[..at].chunks(size) {
            lines.push(Piece::Data(piece), &mut sink);
        }
        lines.push(Piece::Gap(gap), &mut sink);
        for piece in data[at..].chunks(size) {
            lines.push(Piece::Data(piece), &mut sink);
            assert!(lines.buffered.len() <= limits.message + 1, "memory is bounded");
        }
        lines.push(Piece::End(super::Ending::Finished), &mut sink);
        seen
    };
    let whole = run(data.len().max(1));
    assert_eq!(whole, run(1), "byte by byte");
    assert_eq!(whole, run(7), "cut");
}

#[cfg(test)]
mod tests;
