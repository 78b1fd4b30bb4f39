//! One direction of a connection: bytes to heads and contents.
//!
//! A reader is always in one state, and each state takes what it can of the bytes that are there. Content is handed on
//! as it lies in the piece; only lines and heads that are cut by the end of a piece are held until the rest arrives.
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

use self::value::Value;
use super::grammar::Fields;
use super::pairing::Pairing;
use crate::capture::Limits;
use crate::decode::http::{ExchangeIndex, HttpEvent};
use crate::decode::{Anomaly, Direction, Ending};

/// Where offsets stop, whatever lengths of gaps add up to: no stream is that long, and sums of offsets stay in range.
const FAR: u64 = 1 << 62;

/// What a reader needs of its connection while it takes a piece.
pub(super) struct Turn<'c, S> {
    /// Who answers whom.
    pub(super) pairing: &'c mut Pairing,
    /// What the sender of the piece had seen of the other direction.
    pub(super) seen: u64,
    /// Takes the events.
    pub(super) sink: &'c mut S,
}

/// Where in the grammar the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages, or in a head: what came of it is held.
    Head,
    /// In content of which so many bytes are to come.
    Length(u64),
    /// In content that ends with the connection.
    UntilClose,
    /// In the line of a chunk's size.
    ChunkSize,
    /// In a chunk of which so many bytes are to come.
    ChunkData(u64),
    /// In the line end behind a chunk.
    ChunkEnd,
    /// In the trailer section, so many bytes of which are read.
    Trailer(usize),
    /// Behind a gap among chunks: what comes is held until it is certain whether a chunk began there.
    Rejoin,
    /// Behind a request that may end HTTP: what comes is held until its response tells.
    Undecided,
    /// Searching a message; everything from this offset on is passed over. The line so far is held.
    Lost(u64),
    /// In what looks like a head, found while searching since this offset.
    Candidate(u64),
    /// In server-sent events whose head was not seen: at the beginning of a line, or within one.
    Events { within: bool },
    /// Another protocol.
    Opaque,
    /// The stream has ended.
    Over,
}

/// The message being read.
#[derive(Debug)]
struct Message {
    exchange: ExchangeIndex,
    /// Offset of its head.
    head: u64,
    /// No gap so far.
    whole: bool,
    /// Whether it answers a request, where it is a response.
    paired: bool,
    /// Its framing was lost, and it may go on all the same.
    is_torn: bool,
    /// Whether a bare line feed was already reported.
    bare_line_feed: bool,
}

impl Message {
    fn new(exchange: ExchangeIndex, head: u64) -> Message {
        Message { exchange, head, whole: true, paired: false, is_torn: false, bare_line_feed: false }
    }
}

/// Reads one direction.
#[derive(Debug)]
pub(super) struct Reader {
    direction: Direction,
    /// Bytes of a head, of a line, or of anything else that has to be held.
    limit: usize,
    state: State,
    /// Of the next byte; what is held stands before it.
    offset: u64,
    held: Vec<u8>,
    /// Where in `held` the last line begins.
    line: usize,
    /// While a message is searched, what the last line may begin with.
    value: Value,
    /// What the sender had seen when it sent the first byte of the head.
    seen: u64,
    /// What it had seen when it sent the last byte of the head so far, and where in `held` the bytes begin that it sent then.
    flight: (u64, usize),
    message: Message,
    fields: Fields,
}

impl Reader {
    pub(super) fn new(direction: Direction, limits: &Limits) -> Reader {
        Reader {
            direction,
            // Places in a head are 32 bits wide. No head is shorter than the lower bound.
            limit: limits.head.clamp(16, u32::MAX as usize),
            state: State::Head,
            offset: 0,
            held: Vec::new(),
            line: 0,
            value: Value::default(),
            seen: 0,
            flight: (0, 0),
            message: Message::new(ExchangeIndex(0), 0),
            fields: Fields::default(),
        }
    }

    /// Nothing stands before this offset.
    pub(super) fn begin_at(&mut self, offset: u64) {
        self.offset = offset.min(FAR);
    }

    /// What comes first is the rest of something that began unseen.
    pub(super) fn begin_midway(&mut self) {
        self.state = State::Lost(self.offset);
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Offset of the first byte that is held.
    pub(super) fn low_water(&self) -> u64 {
        self.offset - self.held.len() as u64
    }

    /// After a response: whether what was undecided is decided now. For the reader of requests.
    pub(super) fn settle<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        match (turn.pairing.switched(), self.state) {
            (Some(exchange), State::Head | State::Undecided | State::Lost(_) | State::Candidate(_)) => {
                self.switch(exchange, turn);
            }
            (None, State::Undecided) if turn.pairing.undecided().is_none() => {
                self.state = State::Head;
                self.again(turn);
            }
            _ => {}
        }
    }

    /// Takes some of the bytes, or none but then the state has changed: how many.
    pub(super) fn data<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        match self.state {
            State::Head => self.head(bytes, turn),
            State::Candidate(_) => self.head_line(bytes, turn),
            State::Length(left) => self.length(left, bytes, turn),
            State::UntilClose => self.content(bytes, turn),
            State::ChunkSize => self.chunk_size(bytes, turn),
            State::ChunkData(left) => self.chunk_data(left, bytes, turn),
            State::ChunkEnd => self.chunk_end(bytes, turn),
            State::Trailer(read) => self.trailer(read, bytes, turn),
            State::Rejoin => self.rejoin(bytes, turn),
            State::Undecided => self.undecided(bytes, turn),
            State::Lost(_) => self.search(bytes, turn),
            State::Events { within } => self.events(within, bytes, turn),
            State::Opaque => self.opaque(bytes, turn),
            State::Over => bytes.len(),
        }
    }

    /// Reads what is held again, in the state that is now known to be right. No state holds the same bytes twice.
    fn again<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        let held = std::mem::take(&mut self.held);
        self.offset -= held.len() as u64;
        let seen = std::mem::replace(&mut turn.seen, self.seen);
        let mut bytes = held.as_slice();
        while !bytes.is_empty() {
            bytes = &bytes[self.data(bytes, turn)..];
        }
        turn.seen = seen;
    }

    fn advance(&mut self, length: usize) {
        self.offset += length as u64;
    }

    /// Passes over a gap.
    fn pass(&mut self, length: u64) {
        self.offset = self.offset.saturating_add(length).min(FAR);
    }

    fn content<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        let (exchange, direction, offset) = (self.message.exchange, self.direction, self.offset);
        (turn.sink)(HttpEvent::Content { exchange, direction, offset, bytes });
        self.advance(bytes.len());
        bytes.len()
    }

    fn length<S: FnMut(HttpEvent<'_>)>(&mut self, left: u64, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        let taken = self.content(within(bytes, left), turn);
        self.state = State::Length(left - taken as u64);
        if self.state == State::Length(0) {
            self.end(self.message.whole, Ending::Finished, turn);
        }
        taken
    }

    fn opaque<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        (turn.sink)(HttpEvent::Opaque { direction: self.direction, offset: self.offset, bytes });
        self.advance(bytes.len());
        bytes.len()
    }

    /// Takes a gap.
    pub(super) fn gap<S: FnMut(HttpEvent<'_>)>(&mut self, length: u64, turn: &mut Turn<'_, S>) {
        match self.state {
            State::Length(left) => {
                let inside = left.min(length);
                self.content_gap(Some(inside), inside, turn);
                self.state = State::Length(left - inside);
                if left == inside {
                    self.end(false, Ending::Finished, turn);
                }
                if length > inside {
                    // Between messages now, so this happens once.
                    self.gap(length - inside, turn);
                }
            }
            State::UntilClose => self.content_gap(Some(length), length, turn),
            // A chunk says how long it is: what is lost inside it does not touch the framing.
            State::ChunkData(left) if length <= left => {
                self.content_gap(Some(length), length, turn);
                self.state = if length == left { State::ChunkEnd } else { State::ChunkData(left - length) };
            }
            State::ChunkSize | State::ChunkData(_) | State::ChunkEnd | State::Trailer(_) | State::Events { .. } => {
                self.held.clear();
                match self.direction {
                    // Only a response may go on for long, and only for it can it be certain that nothing else began
                    // meanwhile.
                    Direction::ServerToClient => {
                        turn.pairing.over(self.offset);
                        self.content_gap(None, length, turn);
                        turn.pairing.lose_responses(self.offset);
                        self.state = State::Rejoin;
                    }
                    Direction::ClientToServer => {
                        self.content_gap(None, length, turn);
                        self.end(false, Ending::Cut, turn);
                        self.lose(self.offset, turn);
                    }
                }
            }
            State::Rejoin => {
                self.skipped(self.low_water(), self.offset, turn);
                self.held.clear();
                self.pass(length);
                turn.pairing.lose_responses(self.offset);
            }
            State::Head | State::Undecided | State::Lost(_) | State::Candidate(_) => self.gap_between(length, turn),
            State::Opaque => self.pass(length),
            State::Over => {}
        }
    }

    /// A gap where no message is open, or only the beginning of a head: whole messages may be lost in it.
    fn gap_between<S: FnMut(HttpEvent<'_>)>(&mut self, length: u64, turn: &mut Turn<'_, S>) {
        self.skipped(self.passed_over(), self.offset, turn);
        self.held.clear();
        let from = self.offset;
        self.pass(length);
        match self.state {
            State::Lost(_) | State::Candidate(_) => self.lose(from, turn),
            _ => self.lose_message(from, turn),
        }
        self.state = State::Lost(self.offset);
    }

    fn content_gap<S: FnMut(HttpEvent<'_>)>(&mut self, length: Option<u64>, lost: u64, turn: &mut Turn<'_, S>) {
        self.message.whole = false;
        self.pass(lost);
        let (exchange, direction) = (self.message.exchange, self.direction);
        (turn.sink)(HttpEvent::ContentGap { exchange, direction, length });
    }

    /// Takes the end of the stream.
    pub(super) fn stream_end<S: FnMut(HttpEvent<'_>)>(&mut self, ending: Ending, turn: &mut Turn<'_, S>) {
        match self.state {
            // RFC 9112 section 8: such a response "is considered complete unless an error was indicated by the
            // underlying connection".
            State::UntilClose => self.end(self.message.whole && ending == Ending::Finished, ending, turn),
            State::Length(_)
            | State::ChunkSize
            | State::ChunkData(_)
            | State::ChunkEnd
            | State::Trailer(_)
            | State::Events { .. }
            | State::Rejoin => {
                if self.state == State::Rejoin {
                    self.skipped(self.low_water(), self.offset, turn);
                }
                self.end(false, ending, turn);
            }
            State::Head | State::Undecided | State::Lost(_) | State::Candidate(_) => {
                self.skipped(self.passed_over(), self.offset, turn);
                self.end_torn(ending, turn);
            }
            State::Opaque | State::Over => {}
        }
        self.held = Vec::new();
        self.state = State::Over;
    }

    /// The message is over.
    fn end<S: FnMut(HttpEvent<'_>)>(&mut self, complete: bool, ending: Ending, turn: &mut Turn<'_, S>) {
        let (exchange, direction) = (self.message.exchange, self.direction);
        (turn.sink)(HttpEvent::End { exchange, direction, complete, ending });
        self.state = State::Head;
        match (direction, turn.pairing.switched()) {
            (Direction::ServerToClient, _) => turn.pairing.over(self.low_water()),
            (Direction::ClientToServer, Some(exchange)) => self.switch(exchange, turn),
            (Direction::ClientToServer, None) => {}
        }
    }

    /// The message that might have gone on does not.
    fn end_torn<S: FnMut(HttpEvent<'_>)>(&mut self, ending: Ending, turn: &mut Turn<'_, S>) {
        if std::mem::take(&mut self.message.is_torn) {
            self.end(false, ending, turn);
        }
    }

    /// HTTP is over in this direction. What is held is the other protocol's, or nobody's where framing was lost before.
    fn switch<S: FnMut(HttpEvent<'_>)>(&mut self, exchange: ExchangeIndex, turn: &mut Turn<'_, S>) {
        if let State::Lost(_) | State::Candidate(_) = self.state {
            self.skipped(self.passed_over(), self.offset, turn);
            self.held.clear();
        }
        let (direction, offset) = (self.direction, self.low_water());
        (turn.sink)(HttpEvent::Switched { exchange, direction, offset });
        self.state = State::Opaque;
        self.again(turn);
    }

    /// Framing is lost: what begins unseen from here on is not known, unless HTTP ended with the last message.
    fn lose<S: FnMut(HttpEvent<'_>)>(&mut self, from: u64, turn: &mut Turn<'_, S>) {
        if self.state == State::Opaque {
            return;
        }
        self.state = State::Lost(from);
        self.line = 0;
        match self.direction {
            Direction::ClientToServer => turn.pairing.doubt_requests(from),
            Direction::ServerToClient => turn.pairing.lose_responses(self.offset),
        }
    }

    /// Framing is lost with the beginning of a message, which may have an answer, or be one.
    fn lose_message<S: FnMut(HttpEvent<'_>)>(&mut self, from: u64, turn: &mut Turn<'_, S>) {
        if self.direction == Direction::ClientToServer {
            turn.pairing.lose_requests(from);
        }
        self.lose(from, turn);
    }

    /// Offset of the first byte that was seen and belongs to no message so far.
    pub(super) fn passed_over(&self) -> u64 {
        match self.state {
            State::Lost(from) | State::Candidate(from) => from,
            _ => self.low_water(),
        }
    }

    fn skipped<S: FnMut(HttpEvent<'_>)>(&self, from: u64, to: u64, turn: &mut Turn<'_, S>) {
        if to > from {
            self.anomaly(None, Anomaly::Skipped { offset: from, length: to - from }, turn);
        }
    }

    fn anomaly<S: FnMut(HttpEvent<'_>)>(
        &self,
        exchange: Option<ExchangeIndex>,
        anomaly: Anomaly,
        turn: &mut Turn<'_, S>,
    ) {
        (turn.sink)(HttpEvent::Anomaly { direction: self.direction, exchange, anomaly });
    }
}

/// The first `length` bytes of `bytes`, or all of them.
fn within(bytes: &[u8], length: u64) -> &[u8] {
    usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes)
}
