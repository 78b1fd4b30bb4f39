//! Server-sent events (WHATWG HTML standard, section 9.2.6). Quotes are from that section.

mod fuzz;

pub use fuzz::fuzz_sse;

use std::ops::Range;

use memchr::{memchr, memchr2};

use super::{Anomaly, MAX_OFFSET, Piece};
use crate::capture::Limits;

/// An event, emitted when its blank line arrives.
#[derive(Debug)]
pub struct Event<'a> {
    /// Offset of the event's first line in the body. Comment lines count.
    pub start: u64,
    /// Offset after the event's blank line. If that ends in CR LF, the offset is after the CR: the
    /// event is emitted without waiting for an LF that may not come.
    pub end: u64,
    /// The `event` field; `None` for `message`, which is the default.
    pub kind: Option<&'a str>,
    /// The last event id, if one is set. An `id` line with NUL is ignored, and an empty id
    /// removes the id.
    pub id: Option<&'a str>,
    /// Whether this event contains the `id` field.
    pub sets_id: bool,
    /// The `retry` field in milliseconds.
    pub retry: Option<u64>,
    /// The data lines joined by LF. `None` without a data line: such an event is not dispatched,
    /// but its id and retry count.
    pub data: Option<&'a [u8]>,
    /// The ranges of `data` in the body, in order. Each run of bytes that is not empty is a range.
    /// Each joining LF is the last byte of a line end in the body, for CR LF the LF.
    pub parts: &'a [Range<u64>],
    /// Number of comment lines since the previous event.
    pub comments: u32,
    /// False if the event may have begun in a gap, so that only its end was captured. Then it
    /// counts only if its data is complete in itself.
    pub is_certain: bool,
}

/// Output of the decoder.
#[derive(Debug)]
pub enum SseEvent<'a> {
    /// A complete event.
    Event(Event<'a>),
    /// An irregularity of the stream.
    Anomaly(Anomaly),
}

/// Buffer capacity that is retained from event to event. Most events need less.
const RETAINED_BYTES: usize = 64 << 10;

/// "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark (BOM), if any."
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The event that is being read.
#[derive(Debug, Default)]
struct EventDraft {
    /// Offset of the event's first line.
    start: u64,
    kind: String,
    retry: Option<u64>,
    sets_id: bool,
    /// Whether a data line was read.
    has_data: bool,
    /// The joined data lines. Empty while there is only one and it is in the current piece.
    data: Vec<u8>,
    parts: Vec<Range<u64>>,
    /// Offset of the byte that ended the last data line.
    line_end: u64,
    /// Whether a line other than a comment was read.
    has_fields: bool,
    /// Whether the event's first lines may be in a gap.
    may_begin_in_gap: bool,
}

/// The kind of a line.
enum Line {
    /// An empty line: "Dispatch the event".
    Blank,
    /// A data line, with the offset of its value in the line.
    Data(usize),
    /// Any other line. It was processed.
    Handled,
}

/// Decodes the events of one body.
#[derive(Debug)]
pub struct Sse {
    /// The most bytes that are buffered for one event.
    limit: u64,
    /// Offset of the next input byte.
    offset: u64,
    /// The current line so far, if it began in an earlier piece.
    line_buffer: Vec<u8>,
    /// Whether the last line ended in CR. An LF that follows belongs to the same line end.
    after_cr: bool,
    event: EventDraft,
    id: String,
    comments: u32,
    /// Whether the current line may have begun in a gap. If it is empty, it need not be
    /// a blank line.
    line_may_begin_in_gap: bool,
    /// The offset from which bytes of an event over the limit are skipped, until the
    /// next blank line.
    skipping_since: Option<u64>,
    /// While bytes are skipped: whether the current line began after a line end and is
    /// empty so far.
    skipped_line_is_empty: bool,
}

impl Sse {
    /// A decoder at the first byte of a body.
    pub fn new(limits: Limits) -> Sse {
        Sse::starting(limits, false)
    }

    /// A decoder in the middle of a body, as after a gap.
    pub fn mid_stream(limits: Limits) -> Sse {
        Sse::starting(limits, true)
    }

    fn starting(limits: Limits, may_begin_in_gap: bool) -> Sse {
        Sse {
            limit: limits.message as u64,
            offset: 0,
            line_buffer: Vec::new(),
            after_cr: false,
            event: EventDraft { may_begin_in_gap, ..EventDraft::default() },
            id: String::new(),
            comments: 0,
            line_may_begin_in_gap: may_begin_in_gap,
            skipping_since: None,
            skipped_line_is_empty: false,
        }
    }

    /// Decodes the next piece and emits the events that it completes.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(SseEvent<'_>)) {
        match piece {
            Piece::Data(bytes) => self.data(bytes, sink),
            Piece::Gap(0) => {}
            Piece::Gap(length) => {
                self.report_skipped(sink);
                self.offset = self.offset.saturating_add(length).min(MAX_OFFSET);
                self.after_cr = false;
                self.skipping_since = None;
                self.start_event();
                self.line_buffer = Vec::new();
                self.event.may_begin_in_gap = true;
                self.line_may_begin_in_gap = true;
            }
            // "Once the end of the file is reached, any pending data must be discarded. (If the
            // file ends in the middle of an event, before the final empty line, the incomplete
            // event is not dispatched.)"
            Piece::End(_) => {
                self.report_skipped(sink);
                self.skip_event(self.offset, false);
            }
        }
    }

    /// Bytes that are buffered for the current event.
    pub fn buffered_bytes(&self) -> usize {
        self.line_buffer.len() + self.event.data.len()
    }

    /// The offset of the first byte that the decoder still needs: the start of the current event.
    pub fn low_water(&self) -> u64 {
        match self.skipping_since {
            Some(_) => self.offset,
            None => self.event.start,
        }
    }

    fn data(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        // The event's data, while it is a single line in this piece.
        let mut borrowed_data: Option<&[u8]> = None;
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                self.second_byte_of_crlf();
                bytes = &bytes[1..];
                continue;
            }
            if self.skipping_since.is_some() {
                bytes = self.skip_line(bytes, sink);
                continue;
            }
            let Some(length) = memchr2(b'\r', b'\n', bytes) else {
                self.line_buffer.extend_from_slice(bytes);
                self.offset += bytes.len() as u64;
                self.check_limit(self.offset, false, sink);
                break;
            };
            let (line, rest) = bytes.split_at(length);
            self.offset += length as u64 + 1;
            self.after_cr = rest[0] == b'\r';
            bytes = &rest[1..];
            if !self.check_limit(self.offset - 1, true, sink) {
                continue;
            }
            let may_begin_in_gap = std::mem::take(&mut self.line_may_begin_in_gap);
            if self.line_buffer.is_empty() {
                match self.line(line) {
                    Line::Blank if may_begin_in_gap => {}
                    Line::Blank => self.dispatch(borrowed_data.take(), sink),
                    Line::Data(at) if !self.event.has_data => {
                        self.add_part(line.len() - at);
                        borrowed_data = Some(&line[at..]);
                    }
                    Line::Data(at) => self.append(borrowed_data.take(), &line[at..]),
                    Line::Handled => {}
                }
            } else {
                let mut buffered_bytes = std::mem::take(&mut self.line_buffer);
                buffered_bytes.extend_from_slice(line);
                match self.line(&buffered_bytes) {
                    // The line is not empty: it contains a byte order mark.
                    Line::Blank => self.dispatch(borrowed_data.take(), sink),
                    Line::Data(at) => self.append(borrowed_data.take(), &buffered_bytes[at..]),
                    Line::Handled => {}
                }
                self.line_buffer = emptied(buffered_bytes);
            }
        }
        if let Some(borrowed_data) = borrowed_data {
            self.event.data.extend_from_slice(borrowed_data);
        }
    }

    /// Consumes the LF of a CR LF. Its CR ended the line.
    fn second_byte_of_crlf(&mut self) {
        if self.event.start == self.offset {
            self.event.start += 1;
        }
        if self.event.has_data && self.event.line_end + 1 == self.offset {
            self.event.line_end = self.offset;
        }
        self.offset += 1;
    }

    /// Processes a line without its line end. The line end is the byte before `self.offset`.
    fn line(&mut self, line: &[u8]) -> Line {
        let start = self.offset - 1 - line.len() as u64;
        let skip = if start == 0 && line.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let text = &line[skip..];
        // "If the line starts with a U+003A COLON character (:): Ignore the line."
        match text.first() {
            None => return Line::Blank,
            Some(b':') => {
                self.comments = self.comments.saturating_add(1);
                return Line::Handled;
            }
            Some(_) => self.event.has_fields = true,
        }
        // "Collect the characters on the line before the first U+003A COLON character (:), and let
        // field be that string. ... If value starts with a U+0020 SPACE character, remove it from
        // value." A line without a colon is a field name.
        let colon = memchr(b':', text).unwrap_or(text.len());
        let after = (colon + 1).min(text.len());
        let begin = after + usize::from(text.get(after) == Some(&b' '));
        let value = &text[begin..];
        match &text[..colon] {
            b"data" => return Line::Data(skip + begin),
            b"event" => replace(&mut self.event.kind, value),
            // "If the field value does not contain U+0000 NULL, then set the last event ID buffer
            // to the field value."
            b"id" if memchr(0, value).is_none() => {
                replace(&mut self.id, value);
                self.event.sets_id = true;
            }
            // "If the field value consists of only ASCII digits, then interpret the field value as
            // an integer in base ten".
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.event.retry = milliseconds.or(self.event.retry);
            }
            _ => {}
        }
        Line::Handled
    }

    /// Appends a data line that is not the only one, or that is not completely in this piece.
    fn append(&mut self, borrowed_data: Option<&[u8]>, value: &[u8]) {
        if let Some(borrowed_data) = borrowed_data {
            self.event.data.extend_from_slice(borrowed_data);
        }
        // "Append the field value to the data buffer, then append a single U+000A LINE FEED
        // (LF) character". The last LF is removed when the event is dispatched, so here LF
        // only joins lines.
        if self.event.has_data {
            self.event.data.push(b'\n');
            self.event.parts.push(self.event.line_end..self.event.line_end + 1);
        }
        self.add_part(value.len());
        self.event.data.extend_from_slice(value);
    }

    /// Records the range of a data line's value, which ends with the line.
    fn add_part(&mut self, length: usize) {
        self.event.has_data = true;
        self.event.line_end = self.offset - 1;
        if length > 0 {
            self.event.parts.push(self.event.line_end - length as u64..self.event.line_end);
        }
    }

    /// Emits the event at its blank line.
    fn dispatch(&mut self, borrowed_data: Option<&[u8]>, sink: &mut impl FnMut(SseEvent<'_>)) {
        let event = &self.event;
        if event.may_begin_in_gap && !event.has_data {
            self.report_skipped(sink);
        } else if event.has_data || event.sets_id || event.retry.is_some() || !event.kind.is_empty() {
            sink(SseEvent::Event(Event {
                start: event.start,
                end: self.offset,
                kind: Some(event.kind.as_str()).filter(|kind| !matches!(*kind, "" | "message")),
                id: Some(self.id.as_str()).filter(|id| !id.is_empty()),
                sets_id: event.sets_id,
                retry: event.retry,
                data: event.has_data.then(|| borrowed_data.unwrap_or(&event.data)),
                parts: &event.parts,
                comments: std::mem::take(&mut self.comments),
                is_certain: !event.may_begin_in_gap,
            }));
        }
        self.start_event();
    }

    fn start_event(&mut self) {
        let mut parts = std::mem::take(&mut self.event.parts);
        parts.clear();
        parts.shrink_to(RETAINED_BYTES / size_of::<Range<u64>>());
        let mut kind = std::mem::take(&mut self.event.kind);
        kind.clear();
        let data = emptied(std::mem::take(&mut self.event.data));
        self.event = EventDraft { start: self.offset, kind, data, parts, ..EventDraft::default() };
    }

    /// Whether the event, extended to offset `end`, is within the limit. If not, it is skipped.
    fn check_limit(&mut self, end: u64, line_ended: bool, sink: &mut impl FnMut(SseEvent<'_>)) -> bool {
        let parts_bytes = size_of_val(self.event.parts.as_slice()) as u64;
        if end - self.event.start + parts_bytes <= self.limit {
            return true;
        }
        let start = self.event.start;
        sink(SseEvent::Anomaly(Anomaly::LimitReached { limit: "message", offset: start }));
        self.skip_event(start, line_ended);
        false
    }

    /// Reports the bytes of an event that is not emitted. Comments alone are not reported.
    fn report_skipped(&self, sink: &mut impl FnMut(SseEvent<'_>)) {
        let pending = self.event.has_fields || self.event.may_begin_in_gap || !self.line_buffer.is_empty();
        let from = self.skipping_since.unwrap_or(if pending { self.event.start } else { self.offset });
        if self.offset > from {
            sink(SseEvent::Anomaly(Anomaly::Skipped { offset: from, length: self.offset - from }));
        }
    }

    /// Skips bytes until the next blank line.
    fn skip_event(&mut self, from: u64, at_line_start: bool) {
        self.start_event();
        self.line_buffer = Vec::new();
        self.line_may_begin_in_gap = false;
        self.skipping_since = Some(from);
        self.skipped_line_is_empty = at_line_start;
    }

    /// Skips the rest of a line. A blank line ends the skipping.
    fn skip_line<'b>(&mut self, bytes: &'b [u8], sink: &mut impl FnMut(SseEvent<'_>)) -> &'b [u8] {
        let Some(length) = memchr2(b'\r', b'\n', bytes) else {
            self.offset += bytes.len() as u64;
            self.skipped_line_is_empty = false;
            return &[];
        };
        self.offset += length as u64 + 1;
        self.after_cr = bytes[length] == b'\r';
        if std::mem::replace(&mut self.skipped_line_is_empty, true) && length == 0 {
            self.report_skipped(sink);
            self.skipping_since = None;
            self.start_event();
        }
        &bytes[length + 1..]
    }
}

/// Sets the text of a field. Invalid UTF-8 is replaced, as the standard prescribes.
fn replace(text: &mut String, value: &[u8]) {
    text.clear();
    text.push_str(&String::from_utf8_lossy(value));
}

/// Empties a buffer. Memory that an unusually large event needed is released.
fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.shrink_to(RETAINED_BYTES);
    buffer
}

#[cfg(test)]
mod tests;
