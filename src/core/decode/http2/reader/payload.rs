//! Frames that are parsed as a whole: header blocks, settings, resets.

use super::super::block::{Block, Purpose, Secret};
use super::super::frame::{self, FrameHead, HEAD, MAX_FRAME_SIZE, flag, kind};
use super::{FrameContext, Reader, State};
use crate::decode::http::{HttpEvent, StartLine};
use crate::decode::mask::Mask;
use crate::decode::{Anomaly, Direction};

/// The parameter of SETTINGS that matters here, and its largest value (RFC 9113 section 6.5.2). The
/// size of the header table is part of the header blocks themselves.
const SETTINGS_MAX_FRAME_SIZE: u16 = 5;
const LARGEST: u32 = (1 << 24) - 1;

/// Error codes that mean no failure (RFC 9113 section 7): NO_ERROR, CANCEL.
const HARMLESS: [u32; 2] = [0, 8];

impl Reader {
    /// Processes the payload of a frame.
    pub(super) fn payload(&mut self, head: &FrameHead, payload: &[u8], context: &mut FrameContext<'_>) {
        let word =
            |at: usize| payload.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let at = self.offset - HEAD as u64;
        match head.kind {
            kind::HEADERS | kind::PUSH_PROMISE => {
                let (purpose, before) = match head.kind {
                    kind::PUSH_PROMISE => (Purpose::Promise, 4),
                    // Section 6.2: the priority consists of a stream and a weight.
                    _ => (
                        Purpose::Head { end: head.has(flag::END_STREAM) },
                        if head.has(flag::PRIORITY) { 5 } else { 0 },
                    ),
                };
                let fragment = frame::unpadded(head, payload).and_then(|(content, at)| {
                    content
                        .get(before..)
                        .map(|fragment| (fragment, at + before))
                        .ok_or("a frame of a length that its type allows")
                });
                match fragment {
                    Ok((fragment, within)) => {
                        let mut block = Block::new(head.stream, purpose, at);
                        block.push(self.offset + within as u64, fragment);
                        block.place.end = self.offset + payload.len() as u64;
                        self.block = Some(block);
                    }
                    Err(expected) => {
                        self.report_unexpected(expected, context);
                        let mut block = Block::new(head.stream, purpose, at);
                        block.push(self.offset, payload);
                        self.block = Some(block);
                        return self.lose_block(context);
                    }
                }
                self.finish_block(head, context);
            }
            kind::CONTINUATION => {
                if let Some(block) = &mut self.block {
                    block.push(self.offset, payload);
                }
                self.finish_block(head, context);
            }
            kind::SETTINGS => {
                for setting in payload.chunks_exact(6) {
                    let (name, value) = setting.split_at(2);
                    if name == SETTINGS_MAX_FRAME_SIZE.to_be_bytes() {
                        let value = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
                        let size = &mut context.streams.frame_size[self.direction.reversed() as usize];
                        *size = (*size).max(Some(value.clamp(MAX_FRAME_SIZE, LARGEST)));
                    }
                }
                let size = &mut context.streams.frame_size[self.direction.reversed() as usize];
                size.get_or_insert(MAX_FRAME_SIZE);
            }
            kind::RST_STREAM => {
                let code = word(0).unwrap_or_default();
                // A stream that is over needs no reset, but some servers send one.
                let exchange = context.streams.open(head.stream).filter(|_| !HARMLESS.contains(&code));
                if exchange.is_some() {
                    let anomaly = Anomaly::StreamReset { offset: at, stream: head.stream, code };
                    (context.sink)(HttpEvent::Anomaly { direction: self.direction, exchange, anomaly });
                }
                context.streams.reset(head.stream, self.direction, self.offset + u64::from(head.length), context.sink);
            }
            kind::GOAWAY => {
                let code = word(4).unwrap_or_default();
                if code != 0 {
                    self.report(Anomaly::GoingAway { offset: at, code }, context);
                }
            }
            _ => {}
        }
    }

    /// Ends a block whose last fragment was added, which END_HEADERS shows.
    pub(super) fn finish_block(&mut self, head: &FrameHead, context: &mut FrameContext<'_>) {
        if !head.has(flag::END_HEADERS) {
            return;
        }
        let Some(block) = self.block.take() else { return };
        let direction = match block.purpose {
            Purpose::Head { .. } => self.direction,
            Purpose::Promise => Direction::ClientToServer,
        };
        let search = self.finds_secrets.then_some((self.mask_key, self.redaction));
        let decoded = block.decode(direction, &mut self.hpack, self.most, search);
        self.secrets(decoded.secrets, context);
        let offset = block.place.start;
        let Purpose::Head { end } = block.purpose else {
            // No MCP implementation uses push. The promise only matters for the table, and a pushed
            // response stays without a request.
            return;
        };
        let (sink, direction) = (&mut *context.sink, self.direction);
        let exchange = match context.streams.stream_of_head(block.stream, direction, sink) {
            None => None,
            Some((stream, is_new)) => {
                let exchange = stream.exchange;
                let headed = &mut stream.headed[direction as usize];
                // RFC 9113 section 8.1: interim responses, one head, content, trailers. Fields of
                // trailers are not shown, as in HTTP/1.
                if !*headed {
                    *headed = !matches!(decoded.head.start, StartLine::Response { status: 100..=199, .. });
                    let head = Box::new(decoded.head);
                    sink(HttpEvent::Head { exchange, direction, stream: Some(block.stream), head });
                }
                if is_new && direction == Direction::ServerToClient && !block.stream.is_multiple_of(2) {
                    let anomaly = Anomaly::ResponseWithoutRequest { offset };
                    sink(HttpEvent::Anomaly { direction, exchange: Some(exchange), anomaly });
                }
                Some(exchange)
            }
        };
        let mut odd = |anomaly| (context.sink)(HttpEvent::Anomaly { direction, exchange, anomaly });
        if decoded.malformed {
            odd(Anomaly::NotHttp { offset, expected: "a header block (RFC 7541)" });
        }
        if decoded.too_long {
            odd(Anomaly::LimitReached { limit: "head", offset });
        }
        if decoded.unknown > 0 {
            odd(Anomaly::UnknownFields { offset, count: decoded.unknown });
        }
        if end {
            context.streams.end(block.stream, direction, context.sink);
        }
    }

    /// Drops the open block, which will not be complete. Its additions to the table are unknown.
    pub(super) fn lose_block(&mut self, context: &mut FrameContext<'_>) {
        if let Some(block) = self.block.take() {
            self.hpack.lose();
            self.secrets(block.masked_ranges(), context);
            if let Purpose::Head { end: true } = block.purpose {
                context.streams.damage(block.stream, self.direction);
                context.streams.end(block.stream, self.direction, context.sink);
            }
        }
    }

    /// Skips a frame of a block that is not decoded.
    pub(super) fn skip_block(&mut self, head: &FrameHead, context: &mut FrameContext<'_>) -> Option<usize> {
        self.hpack.lose();
        let start = self.offset + HEAD as u64;
        let range = start..start + u64::from(head.length);
        self.secrets([Secret { range, mask: Mask::PLAIN }], context);
        if head.kind == kind::HEADERS && head.has(flag::END_STREAM) {
            context.streams.damage(head.stream, self.direction);
            context.streams.end(head.stream, self.direction, context.sink);
        }
        self.enter(HEAD, State::Skip(head.length))
    }

    /// Handles a header fragment that will not be decoded: all of it counts as a secret.
    pub(super) fn mask_payload(&mut self, head: &FrameHead, context: &mut FrameContext<'_>) {
        if let kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION = head.kind {
            self.hpack.lose();
            // The rest of the fragment follows after the gap.
            let range = self.offset..self.offset + u64::from(head.length);
            self.secrets([Secret { range, mask: Mask::PLAIN }], context);
        }
    }

    /// Emits the ranges of secrets.
    pub(super) fn secrets(&self, secrets: impl IntoIterator<Item = Secret>, context: &mut FrameContext<'_>) {
        for Secret { range, mask } in secrets {
            (context.sink)(HttpEvent::Secret { direction: self.direction, range, mask });
        }
    }
}
