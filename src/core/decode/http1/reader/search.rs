//! The search for the next message after a loss.

use memchr::memchr;

use super::{PieceContext, Reader, State};
use crate::decode::http::HttpEvent;
use crate::decode::http1::sniff::find_start;

/// Number of bytes of a line that show whether it holds the data of an event.
const DECISIVE: usize = b"data: {".len();

impl Reader {
    /// Takes bytes up to the end of a line, its first bytes separately, and searches a
    /// message in it.
    ///
    /// For a head only the end of a line matters. Of a long line the last `limit` bytes are held.
    pub(super) fn search<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        if self.acknowledged != context.acknowledged {
            // The acknowledgment has changed. A start line that was cut here would be useless,
            // since the acknowledgment of its sender is needed to pair it.
            self.discard_lines();
            self.acknowledged = context.acknowledged;
        }
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        let begun = self.held.len() - self.line;
        let end = if begun < DECISIVE { end.min(DECISIVE - begun) } else { end };
        let value_end = self.value_end(&bytes[..end]);
        // No byte after a value is taken, since it may have another acknowledgment.
        let end = value_end.unwrap_or(end);
        if begun < DECISIVE {
            self.held.extend_from_slice(&bytes[..end]);
            self.advance(end);
            self.examine_line_start(context);
            return end;
        }
        self.advance(end);
        let tail = &bytes[end.saturating_sub(self.limit)..end];
        if tail.len() + self.held.len() > 2 * self.limit {
            let excess = (self.held.len() + tail.len() - self.limit).min(self.held.len());
            self.held.drain(..excess);
            self.line = self.line.saturating_sub(excess);
        }
        self.held.extend_from_slice(tail);
        if value_end.is_none() || !self.emit_value(context) {
            self.examine_line();
        }
        end
    }

    /// Examines the held line, whose first bytes are complete.
    pub(super) fn examine_line_start<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        match self.holds_event() {
            true => self.resume_events(context),
            false => self.examine_line(),
        }
    }

    /// Examines the held line, once it is complete.
    fn examine_line(&mut self) {
        let State::Lost(from) = self.state else { return };
        if self.held.last() != Some(&b'\n') {
            return;
        }
        let begin = self.held.len().saturating_sub(self.limit).max(self.line);
        match find_start(self.direction, &self.held[begin..]) {
            Some(start) => {
                self.held.drain(..begin + start);
                self.line = self.held.len();
                self.state = State::Candidate(from);
            }
            None if self.holds_field() => self.line = self.held.len(),
            None => self.discard_lines(),
        }
    }

    fn discard_lines(&mut self) {
        self.held.clear();
        self.line = 0;
    }
}
