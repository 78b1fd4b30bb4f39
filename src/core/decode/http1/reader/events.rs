//! Server-sent events whose head was not captured: the capture begins hours after the stream did,
//! or the head was lost.
//!
//! Events are proven by a line that begins their data with a JSON value, together with the fields
//! before it. Their framing shows later, at the first line that is no part of an event: the size of
//! a chunk, or the head of the next response.
//!
//! ```text
//!  7d}⏎ ⏎ ⏎ 4f⏎ event: message⏎ data: {"jsonrpc":"2.0", … }⏎ ⏎ ⏎ 51⏎ event: …
//!  skipped      │ events, as they come ─────────────────────── │ chunks
//! ```

use memchr::memchr;

use super::{Message, Reader, State, Turn};
use crate::decode::http::{Head, HttpEvent};
use crate::decode::{Direction, Ending};

/// The kind of a line among events whose framing is unknown.
enum Line {
    /// Possibly the size of a chunk or the head of a response, or a part of one.
    Undecided,
    Size,
    Head,
    /// A part of an event.
    Event,
}

impl Reader {
    /// While a message is searched: whether the held line begins the data of an event.
    pub(super) fn holds_event(&self) -> bool {
        if self.direction == Direction::ClientToServer || !matches!(self.state, State::Lost(_)) {
            return false;
        }
        let (fields, line) = self.held.split_at(self.line);
        let is_endpoint = fields.starts_with(b"event: endpoint") || fields.starts_with(b"event:endpoint");
        let value = line.strip_prefix(b"data:").map(|value| value.strip_prefix(b" ").unwrap_or(value));
        value.and_then(<[u8]>::first).is_some_and(|first| matches!(first, b'{' | b'[') || is_endpoint)
    }

    /// Whether the held line, which is complete, is another field of an event. It is held until the
    /// data of the event arrive.
    pub(super) fn holds_field(&self) -> bool {
        let line = &self.held[self.line..];
        self.direction == Direction::ServerToClient
            && self.held.len() < self.limit
            && [&b"event:"[..], b"id:", b"retry:"].iter().any(|field| line.starts_with(field))
    }

    /// Starts or resumes events at the held bytes. They belong to the message whose framing was
    /// lost, if no other message can have begun since.
    pub(super) fn go_on<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        let offset = self.low_water();
        self.skipped(self.passed_over(), offset, turn);
        turn.pairing.lose_responses(offset);
        if std::mem::take(&mut self.message.is_torn) {
            if turn.pairing.is_idle() {
                let (exchange, direction) = (self.message.exchange, self.direction);
                (turn.sink)(HttpEvent::ContentGap { exchange, direction, length: None });
                if self.message.paired {
                    turn.pairing.goes_on();
                }
                return self.read_events(turn);
            }
            self.end(false, Ending::Cut, turn);
        }
        self.open_headless(offset, turn);
        self.message.whole = false;
        self.read_events(turn);
    }

    /// Opens a message whose head was not seen and whose content begins at `offset`.
    pub(super) fn open_headless<S: FnMut(HttpEvent<'_>)>(&mut self, offset: u64, turn: &mut Turn<'_, S>) {
        let answer = turn.pairing.answer_unseen(offset, self.seen);
        let (exchange, direction) = (answer.exchange, self.direction);
        self.message = Message { paired: answer.paired, ..Message::new(exchange, offset) };
        let head = Box::new(Head::unseen(direction, offset, "1.1"));
        (turn.sink)(HttpEvent::Head { exchange, direction, stream: None, head });
    }

    /// Continues with the events at the held bytes.
    fn read_events<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        self.state = State::Events { within: false };
        self.again(turn);
    }

    /// Takes bytes up to the end of a line. Its first bytes are held until its kind is certain.
    pub(super) fn events<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        within: bool,
        bytes: &[u8],
        turn: &mut Turn<'_, S>,
    ) -> usize {
        let line = &bytes[..memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)];
        if within {
            self.state = State::Events { within: line.last() != Some(&b'\n') };
            return self.content(line, turn);
        }
        if self.held.is_empty() {
            self.seen = turn.seen;
        }
        // No byte after the deciding one is taken, since it may have another acknowledgment.
        let mut taken = 0;
        let mut is = Line::Undecided;
        while let (Line::Undecided, Some(byte)) = (&is, line.get(taken)) {
            self.held.push(*byte);
            taken += 1;
            is = read(&self.held);
        }
        self.advance(taken);
        match is {
            Line::Undecided => {}
            Line::Size => {
                self.state = State::ChunkSize;
                self.again(turn);
            }
            Line::Event => {
                self.state = State::Events { within: true };
                self.again(turn);
            }
            Line::Head => {
                let from = self.low_water();
                self.end(false, Ending::Cut, turn);
                self.lose(from, turn);
                self.again(turn);
            }
        }
        taken
    }
}

/// The kind of a line that begins like this.
fn read(line: &[u8]) -> Line {
    /// No chunk size has more digits than this.
    const DIGITS: usize = 16;
    const VERSION: &[u8] = b"HTTP/1.";
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match &line[digits..] {
        b"" | b"\r" if (1..=DIGITS).contains(&digits) => Line::Undecided,
        b"\r\n" if (1..=DIGITS).contains(&digits) => Line::Size,
        _ if line.starts_with(VERSION) => Line::Head,
        _ if VERSION.starts_with(line) => Line::Undecided,
        _ => Line::Event,
    }
}
