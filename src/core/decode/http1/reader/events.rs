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

use super::{OpenMessage, PieceContext, Reader, State};
use crate::decode::http::{Head, HttpEvent};
use crate::decode::{Direction, Ending};

/// The kind of a line among events whose framing is unknown.
enum LineKind {
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
    pub(super) fn resume_events<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        let offset = self.low_water();
        self.report_skipped(self.passed_over(), offset, context);
        context.pairing.lose_responses(offset);
        if std::mem::take(&mut self.message.may_resume) {
            if context.pairing.is_idle() {
                let (exchange, direction) = (self.message.exchange, self.direction);
                (context.sink)(HttpEvent::ContentGap { exchange, direction, length: None });
                if self.message.paired {
                    context.pairing.resume_response();
                }
                return self.read_events(context);
            }
            self.end(false, Ending::Cut, context);
        }
        self.open_headless(offset, context);
        self.message.whole = false;
        self.read_events(context);
    }

    /// Opens a message whose head was not seen and whose content begins at `offset`.
    pub(super) fn open_headless<S: FnMut(HttpEvent<'_>)>(&mut self, offset: u64, context: &mut PieceContext<'_, S>) {
        let answer = context.pairing.pair_headless_response(offset, self.acknowledged);
        let (exchange, direction) = (answer.exchange, self.direction);
        self.message = OpenMessage { paired: answer.paired, ..OpenMessage::new(exchange, offset) };
        let head = Box::new(Head::unseen(direction, offset, "1.1"));
        (context.sink)(HttpEvent::Head { exchange, direction, stream: None, head });
    }

    /// Continues with the events at the held bytes.
    fn read_events<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        self.state = State::Events { within: false };
        self.reread_held(context);
    }

    /// Takes bytes up to the end of a line. Its first bytes are held until its kind is certain.
    pub(super) fn events<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        within: bool,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let line = &bytes[..memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1)];
        if within {
            self.state = State::Events { within: line.last() != Some(&b'\n') };
            return self.content(line, context);
        }
        if self.held.is_empty() {
            self.acknowledged = context.acknowledged;
        }
        // No byte after the deciding one is taken, since it may have another acknowledgment.
        let mut taken = 0;
        let mut kind = LineKind::Undecided;
        while let (LineKind::Undecided, Some(byte)) = (&kind, line.get(taken)) {
            self.held.push(*byte);
            taken += 1;
            kind = line_kind(&self.held);
        }
        self.advance(taken);
        match kind {
            LineKind::Undecided => {}
            LineKind::Size => {
                self.state = State::ChunkSize;
                self.reread_held(context);
            }
            LineKind::Event => {
                self.state = State::Events { within: true };
                self.reread_held(context);
            }
            LineKind::Head => {
                let from = self.low_water();
                self.end(false, Ending::Cut, context);
                self.lose_framing(from, context);
                self.reread_held(context);
            }
        }
        taken
    }
}

/// The kind of a line that begins like this.
fn line_kind(line: &[u8]) -> LineKind {
    /// No chunk size has more digits than this.
    const DIGITS: usize = 16;
    const VERSION: &[u8] = b"HTTP/1.";
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match &line[digits..] {
        b"" | b"\r" if (1..=DIGITS).contains(&digits) => LineKind::Undecided,
        b"\r\n" if (1..=DIGITS).contains(&digits) => LineKind::Size,
        _ if line.starts_with(VERSION) => LineKind::Head,
        _ if VERSION.starts_with(line) => LineKind::Undecided,
        _ => LineKind::Event,
    }
}
