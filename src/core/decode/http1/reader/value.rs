//! JSON-RPC bodies whose head was not captured, since the beginning of the response was lost.
//!
//! While a message is searched, a line may begin with a JSON value. If the value contains
//! `"jsonrpc"`, it counts as a body as soon as it ends. Later stages decide whether it is a
//! message. The value is held until its end, so its size is limited as that of a head. Two kinds of
//! values are not found: those over several lines, and those that may be part of a response whose
//! framing was lost before.

use super::{PieceContext, Reader};
use crate::decode::http::HttpEvent;
use crate::decode::json::scan::Nesting;
use crate::decode::{Direction, Ending};

/// The JSON value at the beginning of a line, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueProgress {
    /// Offset of the line in the stream.
    line: u64,
    /// Number of bytes of it so far.
    length: usize,
    nesting: Nesting,
    /// Whether the value has ended, or the line does not begin with one.
    is_over: bool,
}

impl ValueProgress {
    /// Reads more bytes, up to `most` in total. Returns the index after the value's last byte, once
    /// it ends in these bytes.
    fn read(&mut self, bytes: &[u8], most: usize) -> Option<usize> {
        for (byte, at) in bytes.iter().zip(1..) {
            if self.is_over {
                return None;
            }
            let is_first = self.length == 0;
            self.length += 1;
            // A value begins with a bracket and does not span lines.
            if *byte == b'\n' || is_first && !matches!(byte, b'{' | b'[') {
                self.is_over = true;
            } else {
                self.nesting.step(*byte);
            }
            self.is_over |= self.nesting.depth == 0 || self.length > most;
            if self.nesting.depth == 0 && !is_first && *byte != b'\n' {
                return Some(at);
            }
        }
        None
    }
}

impl Reader {
    /// The index in these bytes, the next of the searched line, at which the line's
    /// JSON value ends.
    pub(super) fn value_end(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.direction == Direction::ClientToServer || self.message.may_resume {
            return None;
        }
        let begun = self.held.len() - self.line;
        let line = self.offset - begun as u64;
        if self.value.line != line || self.value.length < begun && !self.value.is_over {
            // The held bytes of the line were read as something else.
            self.value = ValueProgress { line, is_over: begun > 0, ..ValueProgress::default() };
        }
        self.value.read(bytes, self.limit)
    }

    /// Emits the held value, which is complete, as a body if it is JSON-RPC. Returns
    /// whether it was.
    pub(super) fn emit_value<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) -> bool {
        let value = &self.held[self.line..];
        if memchr::memmem::find(value, b"\"jsonrpc\"").is_none() {
            return false;
        }
        let bytes = value.to_vec();
        let offset = self.offset - bytes.len() as u64;
        self.report_skipped(self.passed_over(), offset, context);
        self.held.clear();
        context.pairing.lose_responses(offset);
        self.open_headless(offset, context);
        let (exchange, direction) = (self.message.exchange, self.direction);
        (context.sink)(HttpEvent::Content { exchange, direction, offset, bytes: &bytes });
        self.end(true, Ending::Finished, context);
        // The framing of the body is unknown, so the next head is searched.
        self.lose_framing(self.offset, context);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_with_what_closes_it() {
        let end = |text: &str| ValueProgress::default().read(text.as_bytes(), 40);
        assert_eq!(end(r#"{"a":"}\"]","b":[{}]}HTTP/1.1 200 OK"#), Some(21));
        assert_eq!(end("[{}] "), Some(4));
        assert_eq!(end("{}"), Some(2));
        for none in ["", "a{}", " {}", "\"{}\"", "]", "{\n}", "\n", "{\"a", &format!("[{}]", "1".repeat(40))] {
            assert_eq!(end(none), None, "{none}");
        }
    }

    #[test]
    fn where_it_is_cut_makes_no_difference() {
        let text = r#"{"a":"\\","b":[{"c":"}"}]} {}"#;
        let mut value = ValueProgress::default();
        let ends: Vec<usize> =
            (0..text.len()).filter(|at| value.read(&text.as_bytes()[*at..=*at], 99).is_some()).collect();
        assert_eq!(ends, [text.len() - 4]);
    }
}
