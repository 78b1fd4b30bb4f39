//! One direction of a WebSocket: bytes to frames, frames to messages.

use super::deflate::{Deflate, Inflate, InflateError};
use super::event::{PayloadRange, WebSocketEvent};
use super::frame::{CLOSE, FrameHead, TEXT};
use super::sniff::sniff;
use crate::capture::Limits;
use crate::decode::{Anomaly, Direction, Piece};

/// Size in bytes to which any message may be decompressed. Beyond
/// it, `Limits::inflate_ratio` applies.
const FREE_BYTES: u64 = 1 << 20;

type WebSocketSink<'s> = dyn FnMut(WebSocketEvent<'_>) + 's;

/// Decodes one direction.
#[derive(Debug)]
pub(super) struct Reader {
    direction: Direction,
    limits: Limits,
    state: State,
    /// Offset of the first byte that was not consumed.
    offset: u64,
    /// The head of the current frame, as far as it arrived, or of one that a search may find.
    head_bytes: Vec<u8>,
    message: Option<PartialMessage>,
    inflate: Option<Inflate>,
    /// Whether a message is missing that compressed messages may refer to.
    context_lost: bool,
}

/// The part of a frame that comes next.
#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    /// A payload of which `left` bytes are still to come.
    Payload {
        head: FrameHead,
        left: u64,
    },
    /// Searching for a frame. All bytes from this offset on are skipped.
    Search(u64),
    /// Nothing more is decoded: the connection was closed.
    Finished,
}

/// A message whose last frame is still to come.
#[derive(Debug)]
struct PartialMessage {
    /// Offset of the head of the message's first frame.
    start: u64,
    compressed: bool,
    bytes: Vec<u8>,
    payloads: Vec<PayloadRange>,
    /// Whether the message is discarded: bytes are missing, or it is too long.
    given_up: bool,
}

impl Reader {
    pub(super) fn new(direction: Direction, limits: Limits, offset: u64, deflate: Option<Deflate>) -> Reader {
        let inflate = deflate.map(|deflate| Inflate::new(deflate, direction));
        let (state, head_bytes) = (State::Head, Vec::new());
        Reader { direction, limits, state, offset, head_bytes, message: None, inflate, context_lost: false }
    }

    pub(super) fn push(&mut self, piece: Piece<'_>, sink: &mut WebSocketSink<'_>) {
        match piece {
            Piece::Data(mut bytes) => {
                while !bytes.is_empty() {
                    let taken = self.step(bytes, sink);
                    bytes = &bytes[taken..];
                }
            }
            Piece::Gap(0) => {}
            Piece::End(_) => self.end_search(self.offset + self.head_bytes.len() as u64, sink),
            Piece::Gap(length) => self.gap(length, sink),
        }
    }

    pub(super) fn low_water(&self) -> u64 {
        self.message.as_ref().filter(|message| !message.given_up).map_or(self.offset, |message| message.start)
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.message.as_ref().map_or(0, PartialMessage::buffered_bytes)
    }

    pub(super) fn give_up(&mut self) {
        if let Some(message) = &mut self.message {
            message.give_up();
            self.context_lost = true;
        }
    }

    /// Consumes some of the bytes. Returns how many.
    fn step(&mut self, bytes: &[u8], sink: &mut WebSocketSink<'_>) -> usize {
        match self.state {
            State::Head => {
                // Byte by byte: a head has at most 14 bytes, and the payload after it must
                // not be copied.
                self.head_bytes.push(bytes[0]);
                if let Ok((_, head)) = FrameHead::read(&self.head_bytes) {
                    let length = self.head_bytes.len() as u64;
                    self.head_bytes.clear();
                    self.head(head, length, sink);
                }
                1
            }
            State::Payload { head, left } => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                self.payload(head, left, &bytes[..taken]);
                self.offset += taken as u64;
                self.expect_payload(head, left - taken as u64, sink);
                taken
            }
            State::Search(from) => self.search(bytes, from, sink),
            State::Finished => {
                self.offset += bytes.len() as u64;
                bytes.len()
            }
        }
    }

    /// Handles a complete head of `length` bytes.
    fn head(&mut self, head: FrameHead, length: u64, sink: &mut WebSocketSink<'_>) {
        let start = self.offset;
        let expected = head.violation(self.message.is_some());
        // RFC 7692 section 6: the bit is valid only if compression was negotiated.
        let expected =
            expected.or((head.is_compressed && self.inflate.is_none()).then_some("a frame without reserved bits"));
        if let Some(expected) = expected {
            self.anomaly(Anomaly::NotWebSocket { offset: start, expected }, sink);
            self.lose_framing();
            self.offset += length;
            return;
        }
        self.offset += length;
        if !head.is_control() {
            let message = self.message.get_or_insert_with(|| PartialMessage {
                start,
                compressed: head.is_compressed,
                bytes: Vec::new(),
                payloads: Vec::new(),
                given_up: false,
            });
            let end = self.offset.saturating_add(head.length);
            // Empty fragments are not recorded: any number of them must not need memory.
            if !message.given_up && head.length > 0 {
                message.payloads.push(PayloadRange {
                    range: self.offset..end,
                    length: head.length,
                    is_copied: head.key.is_none(),
                });
            }
            let longer = (message.buffered_bytes() as u64).saturating_add(head.length) > self.limits.message as u64;
            if longer && !message.given_up {
                self.give_up();
                self.anomaly(Anomaly::LimitReached { limit: "message", offset: start }, sink);
            }
        }
        self.expect_payload(head, head.length, sink);
    }

    /// Adds bytes to the current message. `left` is the length of the payload's
    /// rest, including `bytes`.
    fn payload(&mut self, head: FrameHead, left: u64, bytes: &[u8]) {
        let Some(message) = self.message.as_mut().filter(|message| !head.is_control() && !message.given_up) else {
            return;
        };
        let before = message.bytes.len();
        message.bytes.extend_from_slice(bytes);
        if let Some(key) = head.key {
            // Section 5.3: "octet i of the transformed data ("transformed-octet-i") is the XOR of
            // octet i of the original data ("original-octet-i") with octet at index i modulo 4".
            let at = (head.length - left) % 4;
            let key = key.into_iter().cycle().skip(at as usize);
            message.bytes[before..].iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        }
    }

    /// Continues with `left` bytes of payload, or with the next frame if there are none.
    fn expect_payload(&mut self, head: FrameHead, left: u64, sink: &mut WebSocketSink<'_>) {
        if left > 0 {
            self.state = State::Payload { head, left };
            return;
        }
        self.state = State::Head;
        if head.opcode == CLOSE {
            // Section 5.5.1: "The application MUST NOT send any more data frames after sending
            // a Close frame."
            self.message = None;
            self.state = State::Finished;
            return;
        }
        if !head.is_control() && head.is_last {
            self.finish(sink);
        }
    }

    /// Emits the current message, which is complete.
    fn finish(&mut self, sink: &mut WebSocketSink<'_>) {
        let Some(PartialMessage { compressed, mut bytes, mut payloads, given_up, .. }) = self.message.take() else {
            return;
        };
        if given_up {
            return;
        }
        if let Some(inflate) = self.inflate.as_mut().filter(|_| compressed) {
            let Some((first, last)) = payloads.first().zip(payloads.last()) else { return };
            let range = first.range.start..last.range.end;
            // An earlier message that this one refers to is missing.
            if self.context_lost && !inflate.is_self_contained() {
                let (offset, length) = (range.start, range.end - range.start);
                return self.anomaly(Anomaly::Skipped { offset, length }, sink);
            }
            let coding = "permessage-deflate".to_owned();
            let ratio = (bytes.len() as u64).saturating_mul(self.limits.inflate_ratio).saturating_add(FREE_BYTES);
            let most = usize::try_from(ratio).unwrap_or(usize::MAX).min(self.limits.message);
            match inflate.message(&bytes, most) {
                Ok(inflated) => bytes = inflated,
                Err(failed) => {
                    self.context_lost = true;
                    let why = "the deflate data is damaged".to_owned();
                    return self.anomaly(
                        match failed {
                            InflateError::Damaged => Anomaly::BadCoding { coding, why },
                            InflateError::TooLong => {
                                Anomaly::LimitReached { limit: "inflate_ratio", offset: range.start }
                            }
                        },
                        sink,
                    );
                }
            }
            payloads = vec![PayloadRange { range, length: bytes.len() as u64, is_copied: false }];
        }
        sink(WebSocketEvent::Message { direction: self.direction, bytes: &bytes, payloads: &payloads });
    }

    /// Skips bytes up to one that may begin a frame, and examines what follows it. Returns the
    /// number of bytes taken.
    fn search(&mut self, bytes: &[u8], from: u64, sink: &mut WebSocketSink<'_>) -> usize {
        if self.head_bytes.is_empty() {
            let begin = memchr::memchr(0x80 | TEXT, bytes).unwrap_or(bytes.len());
            self.offset += begin as u64;
            if begin > 0 {
                return begin;
            }
        }
        self.head_bytes.push(bytes[0]);
        loop {
            match sniff(&self.head_bytes) {
                Some(None) => return 1,
                Some(Some(direction)) if direction == self.direction => break,
                _ => {
                    let rest = &self.head_bytes[1..];
                    let next = 1 + memchr::memchr(0x80 | TEXT, rest).unwrap_or(rest.len());
                    self.head_bytes.drain(..next);
                    self.offset += next as u64;
                    if self.head_bytes.is_empty() {
                        return 1;
                    }
                }
            }
        }
        self.report_skipped(from, self.offset, sink);
        self.state = State::Head;
        let found = std::mem::take(&mut self.head_bytes);
        let mut found = &found[..];
        while !found.is_empty() {
            let taken = self.step(found, sink);
            found = &found[taken..];
        }
        1
    }

    /// Reports the bytes that a search skipped up to offset `end`, where the stream ends.
    fn end_search(&mut self, end: u64, sink: &mut WebSocketSink<'_>) {
        if let State::Search(from) = self.state {
            self.state = State::Finished;
            self.report_skipped(from, end, sink);
        }
    }

    fn report_skipped(&self, from: u64, to: u64, sink: &mut WebSocketSink<'_>) {
        if from < to {
            self.anomaly(Anomaly::Skipped { offset: from, length: to - from }, sink);
        }
    }

    /// Searches the next frame, because it is unknown where one begins.
    pub(super) fn lose_framing(&mut self) {
        if matches!(self.state, State::Head | State::Payload { .. }) {
            self.state = State::Search(self.offset);
        }
        self.offset += self.head_bytes.len() as u64;
        self.head_bytes = Vec::new();
        self.message = None;
        self.context_lost = true;
    }

    /// Handles missing bytes. A gap inside a payload costs its message. After a gap over a head,
    /// frames are searched.
    fn gap(&mut self, length: u64, sink: &mut WebSocketSink<'_>) {
        match self.state {
            State::Payload { head, left } if length <= left => {
                if !head.is_control() {
                    self.give_up();
                }
                self.offset += length;
                self.expect_payload(head, left - length, sink);
            }
            State::Finished => self.offset += length,
            // The gap itself was reported by the carrier. A search begins behind it.
            State::Head | State::Payload { .. } => {
                self.lose_framing();
                self.offset += length;
                self.state = State::Search(self.offset);
            }
            State::Search(_) => {
                self.lose_framing();
                self.offset += length;
            }
        }
    }

    fn anomaly(&self, anomaly: Anomaly, sink: &mut WebSocketSink<'_>) {
        sink(WebSocketEvent::Anomaly { direction: self.direction, anomaly });
    }
}

impl PartialMessage {
    /// Bytes that the message occupies, including its list of ranges: a fragment may have
    /// a single byte.
    fn buffered_bytes(&self) -> usize {
        self.bytes.len() + self.payloads.len() * size_of::<PayloadRange>()
    }

    fn give_up(&mut self) {
        self.given_up = true;
        self.bytes = Vec::new();
        self.payloads = Vec::new();
    }
}
