//! Reads one direction: bytes to frames, and frames to events of streams.
//!
//! ```text
//!  preface ─► head ─┬─► data ────── content of a stream, as it arrives
//!               ▲   ├─► payload ─── header blocks, settings, resets: collected, then parsed
//!               │   ├─► skip ────── everything else
//!               │   └─► lost ────── a gap over the head of a frame, or bytes that are no frame:
//!               └─────── found ◄────┘ two frames in a row are searched
//! ```

mod payload;

use std::ops::Range;

use super::block::Block;
use super::frame::{FrameHead, HEAD, MAX_FRAME_SIZE, PREFACE, flag, kind};
use super::hpack::Hpack;
use super::streams::{Sink, Streams};
use crate::capture::Limits;
use crate::decode::http::HttpEvent;
use crate::decode::mask::MaskKey;
use crate::decode::redact::Redaction;
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// The largest frame that is accepted while the SETTINGS of its receiver were not captured: 1 MiB,
/// the most that servers allow. Text that is parsed as the head of a frame gives a larger one.
const UNANNOUNCED: u32 = 1 << 20;

/// The reader of one direction.
#[derive(Debug)]
pub(super) struct Reader {
    direction: Direction,
    /// The limit for the bytes of a header block, and for the text of its fields.
    most: usize,
    state: State,
    /// Offset of the first byte that was not processed.
    offset: u64,
    /// The captured bytes from that offset on.
    held: Vec<u8>,
    hpack: Hpack,
    block: Option<Block>,
    /// The key of the tags of masked secrets.
    pub(super) mask_key: Option<MaskKey>,
    pub(super) redaction: Option<&'static Redaction>,
    /// Whether header blocks are searched for secrets.
    pub(super) finds_secrets: bool,
}

#[derive(Clone, Debug)]
enum State {
    Preface,
    Head,
    /// In the payload of a frame that is parsed as a whole.
    Payload(FrameHead),
    /// Before the pad length of DATA.
    Padding(FrameHead),
    /// In the content of DATA, or in the padding after it; the numbers of bytes still to come.
    Data {
        stream: u32,
        left: u32,
        padding: u32,
        end: bool,
    },
    /// In a payload without use; the number of bytes still to come.
    Skip(u32),
    /// Searching for frames. All bytes from this offset on are skipped.
    Lost(u64),
}

/// The parts of the connection that a reader needs for one piece.
pub(super) struct FrameContext<'t> {
    pub(super) streams: &'t mut Streams,
    pub(super) sink: &'t mut Sink<'t>,
}

impl Reader {
    /// A reader of this direction. HTTP/2 begins at `offset` of its stream.
    pub(super) fn new(direction: Direction, limits: &Limits, offset: u64) -> Reader {
        let state = if direction == Direction::ClientToServer { State::Preface } else { State::Head };
        let most = limits.head.min(1 << 24);
        Reader {
            direction,
            most,
            state,
            offset,
            held: Vec::new(),
            hpack: Hpack::new(),
            block: None,
            mask_key: None,
            redaction: None,
            finds_secrets: true,
        }
    }

    /// Takes a piece.
    pub(super) fn push(&mut self, piece: Piece<'_>, context: &mut FrameContext<'_>) {
        match piece {
            Piece::Data(bytes) if self.held.is_empty() => {
                let done = self.run(bytes, context);
                self.held.extend_from_slice(&bytes[done..]);
            }
            Piece::Data(bytes) => {
                self.held.extend_from_slice(bytes);
                self.process_held(context);
            }
            Piece::Gap(0) => {}
            Piece::Gap(length) => self.gap(length, context),
            Piece::End(ending) => self.end(ending, context),
        }
    }

    /// The lowest offset that a later event may contain.
    pub(super) fn low_water(&self) -> u64 {
        match (&self.block, &self.state) {
            (Some(block), _) => block.place.start,
            (None, State::Payload(_)) => self.offset - HEAD as u64,
            (None, _) => self.offset,
        }
    }

    /// Offset of the first byte that was not processed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that the search for a frame has passed so far.
    pub(super) fn passed_over(&self) -> Range<u64> {
        if let State::Lost(from) = self.state { from..self.offset } else { self.offset..self.offset }
    }

    /// Number of bytes held.
    pub(super) fn held(&self) -> usize {
        self.held.len() + self.block.as_ref().map_or(0, Block::len)
    }

    /// Processes the held bytes.
    fn process_held(&mut self, context: &mut FrameContext<'_>) {
        let mut held = std::mem::take(&mut self.held);
        let done = self.run(&held, context);
        held.drain(..done);
        self.held = held;
    }

    /// Processes bytes as far as possible. Returns the number of bytes processed.
    fn run(&mut self, bytes: &[u8], context: &mut FrameContext<'_>) -> usize {
        let mut done = 0;
        while let Some(taken) = self.step(&bytes[done..], context) {
            done += taken;
            self.offset += taken as u64;
        }
        done
    }

    /// Takes some of the bytes, or changes the state. `None` if more bytes are needed.
    fn step(&mut self, bytes: &[u8], context: &mut FrameContext<'_>) -> Option<usize> {
        match self.state.clone() {
            State::Preface if bytes.is_empty() => None,
            State::Preface => match bytes.strip_prefix(PREFACE) {
                Some(_) => self.enter(PREFACE.len(), State::Head),
                None if PREFACE.starts_with(bytes) => None,
                // The capture begins after the preface.
                None => {
                    context.streams.begin_midway();
                    self.enter(0, State::Head)
                }
            },
            State::Head => self.head(bytes, context),
            State::Payload(head) => {
                let payload = bytes.get(..head.length as usize)?;
                self.payload(&head, payload, context);
                self.enter(payload.len(), State::Head)
            }
            State::Padding(head) => {
                let padding = u32::from(*bytes.first()?);
                let (stream, end, left) = (head.stream, head.has(flag::END_STREAM), head.length - 1);
                let content = left.checked_sub(padding);
                if content.is_none() {
                    self.report_unexpected("padding that fits into its frame", context);
                    context.streams.damage(stream, self.direction);
                }
                let (left, padding) = content.map_or((0, left), |content| (content, padding));
                self.enter(1, State::Data { stream, left, padding, end })
            }
            State::Data { stream, left: 0, padding: 0, end } => {
                if end {
                    context.streams.end(stream, self.direction, context.sink);
                }
                self.enter(0, State::Head)
            }
            State::Data { .. } if bytes.is_empty() => None,
            State::Data { stream, left: 0, padding, end } => {
                let taken = bytes.len().min(padding as usize);
                self.enter(taken, State::Data { stream, left: 0, padding: padding - taken as u32, end })
            }
            State::Data { stream, left, padding, end } => {
                let taken = bytes.len().min(left as usize);
                let (direction, offset) = (self.direction, self.offset);
                let known = context.streams.exchange(stream, direction);
                if let Some(exchange) =
                    known.or_else(|| context.streams.open_headless(stream, direction, offset, context.sink))
                {
                    let bytes = &bytes[..taken];
                    (context.sink)(HttpEvent::Content { exchange, direction, offset, bytes });
                }
                self.enter(taken, State::Data { stream, left: left - taken as u32, padding, end })
            }
            State::Skip(0) => self.enter(0, State::Head),
            State::Skip(_) if bytes.is_empty() => None,
            State::Skip(left) => {
                let taken = bytes.len().min(left as usize);
                self.enter(taken, State::Skip(left - taken as u32))
            }
            State::Lost(from) => self.search(bytes, from, context),
        }
    }

    /// Enters a state after taking some bytes.
    fn enter(&mut self, taken: usize, state: State) -> Option<usize> {
        self.state = state;
        Some(taken)
    }

    /// Parses the head of a frame and decides how its payload is read.
    fn head(&mut self, bytes: &[u8], context: &mut FrameContext<'_>) -> Option<usize> {
        let (_, head) = FrameHead::read(bytes).ok()?;
        context.streams.end_resets(self.direction, self.offset, context.sink);
        if let Some(expected) = head.fault(context.streams.frame_size[self.direction as usize].unwrap_or(UNANNOUNCED)) {
            self.report_unexpected(expected, context);
            self.lose_framing(context);
            return self.enter(0, State::Lost(self.offset));
        }
        // RFC 9113 section 6.10: a CONTINUATION frame "MUST be preceded by a HEADERS, PUSH_PROMISE
        // or CONTINUATION frame", and section 6.2: "Any other type of frame or a frame on a
        // different stream" must not come between.
        let continued = self.block.as_ref().is_some_and(|block| block.stream == head.stream);
        let follows = if head.kind == kind::CONTINUATION { continued } else { self.block.is_none() };
        if !follows {
            self.report_unexpected("the rest of a header block", context);
            self.lose_block(context);
            if head.kind == kind::CONTINUATION {
                return self.skip_block(&head, context);
            }
        }
        let next = match head.kind {
            kind::DATA if head.has(flag::PADDED) && head.length > 0 => State::Padding(head),
            kind::DATA => {
                let end = head.has(flag::END_STREAM);
                State::Data { stream: head.stream, left: head.length, padding: 0, end }
            }
            kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION => {
                let before = self.block.as_ref().map_or(0, Block::len);
                if before + head.length as usize > self.most {
                    let anomaly = Anomaly::LimitReached { limit: "head", offset: self.offset };
                    self.report(anomaly, context);
                    self.lose_block(context);
                    return self.skip_block(&head, context);
                }
                State::Payload(head)
            }
            kind::SETTINGS | kind::RST_STREAM | kind::GOAWAY if head.length as usize <= self.most => {
                State::Payload(head)
            }
            _ => State::Skip(head.length),
        };
        self.enter(HEAD, next)
    }

    /// Handles a gap.
    fn gap(&mut self, length: u64, context: &mut FrameContext<'_>) {
        let direction = self.direction;
        let held = self.held.len() as u64;
        match self.state.clone() {
            State::Skip(left) if length <= u64::from(left) => {
                self.state = State::Skip(left - length as u32);
            }
            State::Data { stream, left, padding, end } if length <= u64::from(left) + u64::from(padding) => {
                let missing = length.min(u64::from(left));
                if missing > 0 {
                    context.streams.damage(stream, direction);
                    if let Some(exchange) = context.streams.exchange(stream, direction) {
                        (context.sink)(HttpEvent::ContentGap { exchange, direction, length: Some(missing) });
                    }
                }
                let padding = padding - (length - missing) as u32;
                self.state = State::Data { stream, left: left - missing as u32, padding, end };
            }
            // The frame continues after the gap. Its meaning is lost.
            State::Payload(head) if held + length <= u64::from(head.length) => {
                if let kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION = head.kind {
                    self.mask_payload(&head, context);
                    self.lose_block(context);
                    if head.kind == kind::HEADERS && head.has(flag::END_STREAM) {
                        context.streams.damage(head.stream, direction);
                        context.streams.end(head.stream, direction, context.sink);
                    }
                }
                self.state = State::Skip((u64::from(head.length) - held - length) as u32);
            }
            state => {
                if let State::Payload(head) = &state {
                    self.mask_payload(head, context);
                }
                if let State::Lost(from) = state {
                    self.report_skipped(from, self.offset + held, context);
                } else {
                    self.lose_framing(context);
                }
                self.state = State::Lost(self.offset + held + length);
            }
        }
        self.held.clear();
        self.offset += held + length;
        self.process_held(context);
    }

    /// Handles the end of the stream.
    fn end(&mut self, ending: Ending, context: &mut FrameContext<'_>) {
        if let State::Lost(from) = self.state {
            // The last frame of the stream has no frame after it as a proof. Its length is the
            // proof.
            let last = FrameHead::read(&self.held).ok().map(|(_, head)| head);
            let size = context.streams.frame_size[self.direction as usize].unwrap_or(MAX_FRAME_SIZE);
            if last.is_some_and(|head| {
                head.is_likely(self.direction, size) && HEAD + head.length as usize == self.held.len()
            }) {
                self.report_skipped(from, self.offset, context);
                self.state = State::Head;
                self.process_held(context);
            } else {
                self.report_skipped(from, self.offset + self.held.len() as u64, context);
                self.offset += self.held.len() as u64;
                self.held.clear();
                self.state = State::Head;
            }
        }
        self.lose_block(context);
        context.streams.finish(self.direction, ending, context.sink);
    }

    /// Searches two frames in a row.
    fn search(&mut self, bytes: &[u8], from: u64, context: &mut FrameContext<'_>) -> Option<usize> {
        let most = context.streams.frame_size[self.direction as usize].unwrap_or(MAX_FRAME_SIZE).min(self.most as u32);
        let likely = |at: usize| {
            let (_, head) = bytes.get(at..).and_then(|bytes| FrameHead::read(bytes).ok())?;
            Some(Some(head).filter(|head| head.is_likely(self.direction, most)))
        };
        let mut at = 0;
        // The search waits where fewer bytes than a frame head are left.
        while let Some(first) = likely(at) {
            let second = first.map(|head| likely(at + HEAD + head.length as usize));
            match second {
                Some(Some(Some(_))) => {
                    self.report_skipped(from, self.offset + at as u64, context);
                    return self.enter(at, State::Head);
                }
                Some(None) => break,
                _ => at += 1,
            }
        }
        (at > 0).then_some(at)
    }

    /// Notes that the framing is lost: a header block may be missing, and bytes of any stream.
    fn lose_framing(&mut self, context: &mut FrameContext<'_>) {
        self.lose_block(context);
        self.hpack.lose();
        context.streams.lose(self.direction, context.sink);
    }

    fn report_skipped(&self, from: u64, to: u64, context: &mut FrameContext<'_>) {
        if from < to {
            self.report(Anomaly::Skipped { offset: from, length: to - from }, context);
        }
    }

    fn report_unexpected(&self, expected: &'static str, context: &mut FrameContext<'_>) {
        self.report(Anomaly::NotHttp { offset: self.offset, expected }, context);
    }

    fn report(&self, anomaly: Anomaly, context: &mut FrameContext<'_>) {
        (context.sink)(HttpEvent::Anomaly { direction: self.direction, exchange: None, anomaly });
    }
}
