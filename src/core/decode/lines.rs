//! Lines of a pipe: the framing of MCP over STDIO.
//!
//! "Messages are delimited by newlines, and MUST NOT contain embedded newlines" (MCP, transports, stdio).

use memchr::memchr;

use super::{Anomaly, MAX_OFFSET, Piece};
use crate::capture::Limits;

/// What is kept of a line above `Limits::message`: enough to recognise it by.
const CUT_LINE_BYTES: usize = 64 << 10;

/// What the decoder found.
#[derive(Debug)]
pub enum LineEvent<'a> {
    /// A line, without its end (LF or CRLF).
    Line {
        /// 1-based number on the pipe. After a gap, which may hide line ends, it counts on by one.
        number: u64,
        /// Offset of its first byte.
        start: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// What ended it.
        end: LineEnd,
        /// Whether it is known to be complete. If not, bytes of it are missing (a gap before or behind it, or it was
        /// over the limit): what is given is what was kept.
        whole: bool,
    },
    /// Something odd.
    Anomaly(Anomaly),
}

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// LF.
    LineFeed,
    /// CR LF.
    CarriageReturn,
    /// Nothing: it is the rest at the end of the stream, or before a gap.
    Missing,
}

/// Decodes one pipe.
#[derive(Debug)]
pub struct Lines {
    /// Longest line that is given out whole.
    limit: usize,
    /// Offset of the next byte.
    offset: u64,
    /// Lines given out so far.
    number: u64,
    /// Where the current line begins.
    start: u64,
    /// The current line so far, or the beginning of it where it is too long.
    buffered: Vec<u8>,
    /// Whether the last byte of the current line so far is a CR.
    ends_in_cr: bool,
    /// Whether a gap hides the beginning of the current line.
    begins_in_gap: bool,
}

impl Lines {
    /// At the first byte.
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

    /// The next piece.
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

    /// Everything below this offset is done with.
    pub fn low_water(&self) -> u64 {
        self.start
    }

    fn data(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(LineEvent<'_>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.offset += line.len() as u64 + 1;
            if self.start + line.len() as u64 + 1 == self.offset {
                // The line lies in this piece as a whole.
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

    /// Keeps a piece of the current line, one byte more than the limit allows, for a CR that turns out to belong to the
    /// line end.
    fn buffer(&mut self, bytes: &[u8]) {
        let room = self.limit.saturating_add(1).saturating_sub(self.buffered.len());
        self.buffered.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(last) = bytes.last() {
            self.ends_in_cr = *last == b'\r';
        }
    }

    /// What there is of a line that no line end follows.
    fn end_line(&mut self, whole: bool, sink: &mut impl FnMut(LineEvent<'_>)) {
        let length = self.offset - self.start;
        if length > 0 {
            let held = std::mem::take(&mut self.buffered);
            self.emit(&held, length, LineEnd::Missing, whole, sink);
        }
    }

    /// Gives out a line of which `bytes` were kept and `length` were there.
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

    /// Takes back the memory of a line that was given out, unless it is more than most lines need.
    fn recycle(&mut self, mut buffered: Vec<u8>) {
        if buffered.capacity() <= CUT_LINE_BYTES {
            buffered.clear();
            self.buffered = buffered;
        }
    }
}

/// The body of the fuzz target: any bytes as lines, whole and cut, with and without a gap.
///
/// Cutting changes nothing; numbers count up; the bytes given out are those at their place; every byte that is not a
/// line end is in a line.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_lines(data: &[u8]) {
    let limits = Limits { message: 100, ..Limits::default() };
    // A gap, so that all states are met: at the place and of the length that the first bytes say.
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
