//! After a loss: the search for the next message.

use memchr::memchr;

use super::{Reader, State, Turn};
use crate::decode::http1::sniff::find_start;

impl Reader {
    /// Takes bytes up to the end of a line and looks whether a message begins in it. What a line begins with matters
    /// little and its end matters much, so of a long one the last `limit` bytes are kept.
    pub(super) fn search<S>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        if self.seen != turn.seen {
            // The sender has seen more meanwhile: this is another flight of bytes. A start line cut in two here would
            // be of no use, for what its sender had seen is what pairs it.
            self.held.clear();
            self.seen = turn.seen;
        }
        let taken = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
        self.advance(taken);
        let kept = &bytes[taken.saturating_sub(self.limit)..taken];
        if kept.len() + self.held.len() > 2 * self.limit {
            let excess = (self.held.len() + kept.len() - self.limit).min(self.held.len());
            self.held.drain(..excess);
        }
        self.held.extend_from_slice(kept);
        self.search_line();
        taken
    }

    /// Looks at the line held, once it is whole.
    pub(super) fn search_line(&mut self) {
        let State::Lost(from) = self.state else { return };
        if self.held.last() != Some(&b'\n') {
            return;
        }
        let window = self.held.len().saturating_sub(self.limit);
        match find_start(self.direction, &self.held[window..]) {
            Some(start) => {
                self.held.drain(..window + start);
                self.line = self.held.len();
                self.state = State::Candidate(from);
            }
            None => self.held.clear(),
        }
    }
}
