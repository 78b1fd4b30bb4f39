//! Reads one direction of a connection: bytes to heads and contents.
//!
//! A reader is always in one state, and each state takes what it can of the available bytes.
//! Content is emitted as slices of the piece. Only lines and heads that the end of a piece cuts are
//! held until the rest arrives.
//!
//! ```text
//!           ┌───────────────── end of message ────────────────┐
//!           ▼                                                 │
//!  ─────► Head ─► Length │ UntilClose │ ChunkSize ⇄ ChunkData ─► Trailer
//!           │                              │  ▲
//!           │ no head, a gap               │  └ Rejoin: a gap among chunks
//!           ▼                              ▼
//!        Lost ⇄ Candidate ─► (a whole head: as Head)
//!           │
//!           ├─► Events ─► (the size of a chunk: as ChunkSize)
//!           └─► (a body of JSON-RPC)
//! ```

mod chunks;
mod events;
mod heads;
mod search;
mod value;

use self::value::ValueProgress;
use super::grammar::FieldLines;
use super::pairing::Pairing;
use crate::capture::Limits;
use crate::decode::http::{ExchangeIndex, HttpEvent};
use crate::decode::{Anomaly, Direction, Ending};

/// The greatest offset, whatever the lengths of gaps add up to. No stream is as long, and sums of
/// offsets do not overflow.
const FAR: u64 = 1 << 62;

/// The parts of the connection that a reader needs for one piece.
pub(super) struct PieceContext<'c, S> {
    /// Pairs responses with requests.
    pub(super) pairing: &'c mut Pairing,
    /// Offset in the other direction up to which the sender of the piece had acknowledged.
    pub(super) acknowledged: u64,
    /// Receives the events.
    pub(super) sink: &'c mut S,
}

/// The position in the grammar of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages, or in a head. The bytes of the head so far are held.
    Head,
    /// In content with this number of bytes still to come.
    Length(u64),
    /// In content that ends when the connection closes.
    UntilClose,
    /// In the size line of a chunk.
    ChunkSize,
    /// In a chunk with this number of bytes still to come.
    ChunkData(u64),
    /// In the line end after a chunk.
    ChunkEnd,
    /// In the trailer section, of which this number of bytes was read.
    Trailer(usize),
    /// After a gap among chunks. Bytes are held until it is certain whether a chunk began there.
    Rejoin,
    /// After a request that may end HTTP. Bytes are held until its response arrives.
    Undecided,
    /// Searching for a message. All bytes from this offset on are skipped. The line so far is held.
    Lost(u64),
    /// In the lines of a possible head, found while searching from this offset on.
    Candidate(u64),
    /// In server-sent events whose head was not captured: at the beginning of a line,
    /// or within one.
    Events { within: bool },
    /// In another protocol.
    Opaque,
    /// After the end of the stream.
    Over,
}

/// The message being read.
#[derive(Debug)]
struct OpenMessage {
    exchange: ExchangeIndex,
    /// Offset of its head in the stream.
    head: u64,
    /// Whether no gap was found in it so far.
    whole: bool,
    /// For a response: whether its request is known.
    paired: bool,
    /// Its framing was lost, but its events may continue later.
    may_resume: bool,
    /// Whether a bare line feed was reported already.
    bare_line_feed: bool,
}

impl OpenMessage {
    fn new(exchange: ExchangeIndex, head: u64) -> OpenMessage {
        OpenMessage { exchange, head, whole: true, paired: false, may_resume: false, bare_line_feed: false }
    }
}

/// The reader of one direction.
#[derive(Debug)]
pub(super) struct Reader {
    direction: Direction,
    /// The number of bytes of a head or a line that are held at most.
    limit: usize,
    state: State,
    /// Offset of the next byte. The held bytes lie before it.
    offset: u64,
    held: Vec<u8>,
    /// ExchangeIndex in `held` of the beginning of the last line.
    line: usize,
    /// While a message is searched: the JSON value at the beginning of the last line.
    value: ValueProgress,
    /// The acknowledgment of the sender when it sent the first byte of the head.
    acknowledged: u64,
    /// The acknowledgment when it sent the last byte of the head so far, and the index in `held` of
    /// the first byte sent with it.
    flight: (u64, usize),
    message: OpenMessage,
    fields: FieldLines,
}

impl Reader {
    pub(super) fn new(direction: Direction, limits: &Limits) -> Reader {
        Reader {
            direction,
            // Ranges in a head have 32 bits. No head is shorter than the lower bound.
            limit: limits.head.clamp(16, u32::MAX as usize),
            state: State::Head,
            offset: 0,
            held: Vec::new(),
            line: 0,
            value: ValueProgress::default(),
            acknowledged: 0,
            flight: (0, 0),
            message: OpenMessage::new(ExchangeIndex(0), 0),
            fields: FieldLines::default(),
        }
    }

    /// Sets the offset of the first byte.
    pub(super) fn begin_at(&mut self, offset: u64) {
        self.offset = offset.min(FAR);
    }

    /// Starts within a message whose beginning was not captured.
    pub(super) fn begin_midway(&mut self) {
        self.state = State::Lost(self.offset);
    }

    /// Number of bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Offset of the first byte that is held.
    pub(super) fn low_water(&self) -> u64 {
        self.offset - self.held.len() as u64
    }

    /// Called after a response for the reader of requests: decides how bytes after a possible
    /// switch of protocols are read.
    pub(super) fn decide_switch<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        match (context.pairing.switched(), self.state) {
            (Some(exchange), State::Head | State::Undecided | State::Lost(_) | State::Candidate(_)) => {
                self.switch(exchange, context);
            }
            (None, State::Undecided) if context.pairing.possible_switch().is_none() => {
                self.state = State::Head;
                self.reread_held(context);
            }
            _ => {}
        }
    }

    /// Takes some of the bytes and returns their number. It is 0 only if the state has changed.
    pub(super) fn take_data<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        match self.state {
            State::Head => self.head(bytes, context),
            State::Candidate(_) => self.head_line(bytes, context),
            State::Length(left) => self.length(left, bytes, context),
            State::UntilClose => self.content(bytes, context),
            State::ChunkSize => self.chunk_size(bytes, context),
            State::ChunkData(left) => self.chunk_data(left, bytes, context),
            State::ChunkEnd => self.chunk_end(bytes, context),
            State::Trailer(read) => self.trailer(read, bytes, context),
            State::Rejoin => self.rejoin(bytes, context),
            State::Undecided => self.undecided(bytes, context),
            State::Lost(_) => self.search(bytes, context),
            State::Events { within } => self.events(within, bytes, context),
            State::Opaque => self.opaque(bytes, context),
            State::Over => bytes.len(),
        }
    }

    /// Reads the held bytes again in the state that is right for them. No state holds the
    /// same bytes twice.
    fn reread_held<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        let held = std::mem::take(&mut self.held);
        self.offset -= held.len() as u64;
        let acknowledged = std::mem::replace(&mut context.acknowledged, self.acknowledged);
        let mut bytes = held.as_slice();
        while !bytes.is_empty() {
            bytes = &bytes[self.take_data(bytes, context)..];
        }
        context.acknowledged = acknowledged;
    }

    fn advance(&mut self, length: usize) {
        self.offset += length as u64;
    }

    /// Moves the offset over a gap.
    fn skip_gap(&mut self, length: u64) {
        self.offset = self.offset.saturating_add(length).min(FAR);
    }

    /// Emits bytes of the content.
    fn content<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        let (exchange, direction, offset) = (self.message.exchange, self.direction, self.offset);
        (context.sink)(HttpEvent::Content { exchange, direction, offset, bytes });
        self.advance(bytes.len());
        bytes.len()
    }

    /// Reads content of known length.
    fn length<S: FnMut(HttpEvent<'_>)>(&mut self, left: u64, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        let taken = self.content(within(bytes, left), context);
        self.state = State::Length(left - taken as u64);
        if self.state == State::Length(0) {
            self.end(self.message.whole, Ending::Finished, context);
        }
        taken
    }

    /// Emits bytes of another protocol.
    fn opaque<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        (context.sink)(HttpEvent::Opaque { direction: self.direction, offset: self.offset, bytes });
        self.advance(bytes.len());
        bytes.len()
    }

    /// Handles a gap.
    pub(super) fn gap<S: FnMut(HttpEvent<'_>)>(&mut self, length: u64, context: &mut PieceContext<'_, S>) {
        match self.state {
            State::Length(left) => {
                let inside = left.min(length);
                self.content_gap(Some(inside), inside, context);
                self.state = State::Length(left - inside);
                if left == inside {
                    self.end(false, Ending::Finished, context);
                }
                if length > inside {
                    // The reader is between messages now, so this happens once.
                    self.gap(length - inside, context);
                }
            }
            State::UntilClose => self.content_gap(Some(length), length, context),
            // The size of a chunk is known, so a gap inside it does not affect the framing.
            State::ChunkData(left) if length <= left => {
                self.content_gap(Some(length), length, context);
                self.state = if length == left { State::ChunkEnd } else { State::ChunkData(left - length) };
            }
            State::ChunkSize | State::ChunkData(_) | State::ChunkEnd | State::Trailer(_) | State::Events { .. } => {
                self.held.clear();
                match self.direction {
                    // Only a response may continue for long. Only for a response can it be certain
                    // that no other message began meanwhile.
                    Direction::ServerToClient => {
                        context.pairing.end_response(self.offset);
                        self.content_gap(None, length, context);
                        context.pairing.lose_responses(self.offset);
                        self.state = State::Rejoin;
                    }
                    Direction::ClientToServer => {
                        self.content_gap(None, length, context);
                        self.end(false, Ending::Cut, context);
                        self.lose_framing(self.offset, context);
                    }
                }
            }
            State::Rejoin => {
                self.report_skipped(self.low_water(), self.offset, context);
                self.held.clear();
                self.skip_gap(length);
                context.pairing.lose_responses(self.offset);
            }
            State::Head | State::Undecided | State::Lost(_) | State::Candidate(_) => self.gap_between(length, context),
            State::Opaque => self.skip_gap(length),
            State::Over => {}
        }
    }

    /// Handles a gap outside of a body. Whole messages may be lost in it.
    fn gap_between<S: FnMut(HttpEvent<'_>)>(&mut self, length: u64, context: &mut PieceContext<'_, S>) {
        self.report_skipped(self.passed_over(), self.offset, context);
        self.held.clear();
        let from = self.offset;
        self.skip_gap(length);
        match self.state {
            State::Lost(_) | State::Candidate(_) => self.lose_framing(from, context),
            _ => self.lose_message_start(from, context),
        }
        self.state = State::Lost(self.offset);
    }

    /// Emits a gap in the content and moves over the `lost` bytes. `length` is `None` where they
    /// may contain framing.
    fn content_gap<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        length: Option<u64>,
        lost: u64,
        context: &mut PieceContext<'_, S>,
    ) {
        self.message.whole = false;
        self.skip_gap(lost);
        let (exchange, direction) = (self.message.exchange, self.direction);
        (context.sink)(HttpEvent::ContentGap { exchange, direction, length });
    }

    /// Handles the end of the stream.
    pub(super) fn stream_end<S: FnMut(HttpEvent<'_>)>(&mut self, ending: Ending, context: &mut PieceContext<'_, S>) {
        match self.state {
            // RFC 9112 section 8: such a response "is considered complete unless an error was
            // indicated by the underlying connection".
            State::UntilClose => self.end(self.message.whole && ending == Ending::Finished, ending, context),
            State::Length(_)
            | State::ChunkSize
            | State::ChunkData(_)
            | State::ChunkEnd
            | State::Trailer(_)
            | State::Events { .. }
            | State::Rejoin => {
                if self.state == State::Rejoin {
                    self.report_skipped(self.low_water(), self.offset, context);
                }
                self.end(false, ending, context);
            }
            State::Head | State::Undecided | State::Lost(_) | State::Candidate(_) => {
                self.report_skipped(self.passed_over(), self.offset, context);
                self.end_resumable(ending, context);
            }
            State::Opaque | State::Over => {}
        }
        self.held = Vec::new();
        self.state = State::Over;
    }

    /// Ends the message.
    fn end<S: FnMut(HttpEvent<'_>)>(&mut self, complete: bool, ending: Ending, context: &mut PieceContext<'_, S>) {
        let (exchange, direction) = (self.message.exchange, self.direction);
        (context.sink)(HttpEvent::End { exchange, direction, complete, ending });
        self.state = State::Head;
        match (direction, context.pairing.switched()) {
            (Direction::ServerToClient, _) => context.pairing.end_response(self.low_water()),
            (Direction::ClientToServer, Some(exchange)) => self.switch(exchange, context),
            (Direction::ClientToServer, None) => {}
        }
    }

    /// Ends the message that might have continued.
    fn end_resumable<S: FnMut(HttpEvent<'_>)>(&mut self, ending: Ending, context: &mut PieceContext<'_, S>) {
        if std::mem::take(&mut self.message.may_resume) {
            self.end(false, ending, context);
        }
    }

    /// Ends HTTP in this direction. The held bytes belong to the other protocol, or were skipped
    /// where the framing was lost before.
    fn switch<S: FnMut(HttpEvent<'_>)>(&mut self, exchange: ExchangeIndex, context: &mut PieceContext<'_, S>) {
        if let State::Lost(_) | State::Candidate(_) = self.state {
            self.report_skipped(self.passed_over(), self.offset, context);
            self.held.clear();
        }
        let (direction, offset) = (self.direction, self.low_water());
        (context.sink)(HttpEvent::Switched { exchange, direction, offset });
        self.state = State::Opaque;
        self.reread_held(context);
    }

    /// Notes that the framing is lost: messages may begin unnoticed from here on, unless
    /// HTTP has ended.
    fn lose_framing<S: FnMut(HttpEvent<'_>)>(&mut self, from: u64, context: &mut PieceContext<'_, S>) {
        if self.state == State::Opaque {
            return;
        }
        self.state = State::Lost(from);
        self.line = 0;
        match self.direction {
            Direction::ClientToServer => context.pairing.doubt_requests(from),
            Direction::ServerToClient => context.pairing.lose_responses(self.offset),
        }
    }

    /// Notes that the framing is lost at the beginning of a message. A request may be missing,
    /// or a response.
    fn lose_message_start<S: FnMut(HttpEvent<'_>)>(&mut self, from: u64, context: &mut PieceContext<'_, S>) {
        if self.direction == Direction::ClientToServer {
            context.pairing.lose_requests(from);
        }
        self.lose_framing(from, context);
    }

    /// Offset of the first captured byte that belongs to no message so far.
    pub(super) fn passed_over(&self) -> u64 {
        match self.state {
            State::Lost(from) | State::Candidate(from) => from,
            _ => self.low_water(),
        }
    }

    fn report_skipped<S: FnMut(HttpEvent<'_>)>(&self, from: u64, to: u64, context: &mut PieceContext<'_, S>) {
        if to > from {
            self.report(None, Anomaly::Skipped { offset: from, length: to - from }, context);
        }
    }

    fn report<S: FnMut(HttpEvent<'_>)>(
        &self,
        exchange: Option<ExchangeIndex>,
        anomaly: Anomaly,
        context: &mut PieceContext<'_, S>,
    ) {
        (context.sink)(HttpEvent::Anomaly { direction: self.direction, exchange, anomaly });
    }
}

/// The first `length` bytes of `bytes`, or all of them if there are fewer.
fn within(bytes: &[u8], length: u64) -> &[u8] {
    usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes)
}
