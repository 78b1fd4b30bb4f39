//! Heads: parsed in place where a piece contains the whole head, otherwise line by line.

use memchr::memchr;

use super::{OpenMessage, PieceContext, Reader, State};
use crate::decode::http::{ExchangeIndex, Head, HttpEvent, StartLine};
use crate::decode::http1::framing::{self, Body, Framing};
use crate::decode::http1::grammar::{self, Start};
use crate::decode::http1::pairing::RequestKind;
use crate::decode::http1::sniff::plausible;
use crate::decode::{Anomaly, Direction, Ending};

/// Bytes of memory that are reused for the next head. Most heads need less.
const REUSED: usize = 4 << 10;

impl Reader {
    /// Reads at the first byte of a message, or in its head.
    pub(super) fn head<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        if self.held.is_empty() {
            let undecided = match self.direction {
                Direction::ClientToServer => context.pairing.possible_switch(),
                Direction::ServerToClient => None,
            };
            match undecided {
                // Bytes after CONNECT are for the tunnel, even if they look like HTTP.
                Some(RequestKind::Connect) => {
                    self.acknowledged = context.acknowledged;
                    self.state = State::Undecided;
                    return 0;
                }
                // RFC 9112 section 2.2: a server "SHOULD ignore at least one empty line (CRLF)
                // received prior to the request-line".
                None if matches!(bytes[0], b'\r' | b'\n') => {
                    self.advance(1);
                    return 1;
                }
                _ => {}
            }
            self.acknowledged = context.acknowledged;
            self.flight = (context.acknowledged, 0);
            self.line = 0;
            let window = &bytes[..bytes.len().min(self.limit)];
            if let Ok((rest, start)) = grammar::head(self.direction, window, &mut self.fields) {
                let text = &window[..window.len() - rest.len()];
                let offset = self.offset;
                self.advance(text.len());
                self.accept_head(offset, text, start, context);
                return text.len();
            }
        }
        self.head_line(bytes, context)
    }

    /// Takes bytes up to the end of a line. Each byte of a head is read once, however
    /// slowly it arrives.
    pub(super) fn head_line<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let taken = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1).min(self.limit - self.held.len());
        if self.flight.0 != context.acknowledged {
            self.flight = (context.acknowledged, self.held.len());
        }
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        let line = &self.held[self.line..];
        if line.last() != Some(&b'\n') {
            if self.line == 0 && !plausible(self.direction, line) {
                self.not_a_head(context);
            } else {
                self.check_limit(context);
            }
        } else if self.line == 0 {
            match grammar::start_line(self.direction, grammar::content(line)) {
                Ok(_) => self.next_line(context),
                Err(_) => self.not_a_head(context),
            }
        } else if grammar::content(line).is_empty() {
            self.head_held(context);
        } else if let State::Candidate(from) = self.state
            && !grammar::is_blank(line[0])
            && grammar::field(grammar::content(line)).is_err()
        {
            // The lines only looked like a head. This line may begin another.
            self.state = State::Lost(from);
            self.held.drain(..self.line);
            self.line = 0;
            self.examine_line_start(context);
        } else {
            self.next_line(context);
        }
        taken
    }

    /// Moves on to the next line of the head.
    fn next_line<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        self.line = self.held.len();
        self.check_limit(context);
    }

    /// Reports a head that exceeds the limit.
    fn check_limit<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        if self.held.len() < self.limit {
            return;
        }
        let from = self.passed_over();
        self.report(None, Anomaly::LimitReached { limit: "head", offset: self.low_water() }, context);
        // Its lines were searched already. The search continues after them.
        self.held.drain(..self.line);
        self.lose_message_start(from, context);
    }

    /// Parses the held bytes, which are a whole head.
    fn head_held<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        let offset = self.low_water();
        let mut held = std::mem::take(&mut self.held);
        if let Ok((_, start)) = grammar::head(self.direction, &held, &mut self.fields) {
            self.accept_head(offset, &held, start, context);
        }
        held.clear();
        held.shrink_to(REUSED);
        self.held = held;
    }

    /// Handles a line that is no start line.
    fn not_a_head<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        if self.direction == Direction::ClientToServer && context.pairing.possible_switch().is_some() {
            self.state = State::Undecided;
            return;
        }
        let expected = match self.direction {
            Direction::ClientToServer => "request line",
            Direction::ServerToClient => "status line",
        };
        let offset = self.low_water();
        self.report(None, Anomaly::NotHttp { offset, expected }, context);
        self.lose_message_start(offset, context);
        // The search reads bytes of one acknowledgment at a time.
        if self.acknowledged != context.acknowledged {
            self.held.drain(..self.flight.1);
            self.acknowledged = context.acknowledged;
        }
        self.examine_line_start(context);
    }

    /// Holds bytes after a request that may end HTTP, until its response arrives.
    pub(super) fn undecided<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let taken = bytes.len().min(self.limit - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        self.line = self.held.len();
        self.check_limit(context);
        taken
    }

    /// Processes a whole head. `self.offset` is after it.
    fn accept_head<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        offset: u64,
        text: &[u8],
        start: Start<'_>,
        context: &mut PieceContext<'_, S>,
    ) {
        if let State::Candidate(from) = self.state {
            self.report_skipped(from, offset, context);
            if self.direction == Direction::ServerToClient {
                context.pairing.lose_responses(offset);
            }
            self.end_resumable(Ending::Cut, context);
        }
        let (start, version) = owned(start);
        let fields = self.fields.list.clone();
        self.fields.list.shrink_to(REUSED / size_of::<grammar::FieldRanges>());
        let head = Box::new(Head { offset, length: text.len() as u64, start, version, text: text.into(), fields });
        match self.direction {
            Direction::ClientToServer => self.request(head, context),
            Direction::ServerToClient => self.response(head, context),
        }
    }

    fn request<S: FnMut(HttpEvent<'_>)>(&mut self, head: Box<Head>, context: &mut PieceContext<'_, S>) {
        let offset = head.offset;
        let framing = framing::of_request(&head);
        let request_kind = match &head.start {
            StartLine::Request { method, .. } if method == "HEAD" => RequestKind::Head,
            StartLine::Request { method, .. } if method == "CONNECT" => RequestKind::Connect,
            _ if framing.upgrade => RequestKind::Upgrade,
            _ => RequestKind::Other,
        };
        let (exchange, forgot) = context.pairing.add_request(self.acknowledged, request_kind);
        self.open_message(exchange, head, context);
        if forgot {
            self.report(Some(exchange), Anomaly::LimitReached { limit: "pipelined", offset }, context);
        }
        self.body(framing, context);
    }

    fn response<S: FnMut(HttpEvent<'_>)>(&mut self, head: Box<Head>, context: &mut PieceContext<'_, S>) {
        let offset = head.offset;
        let status = match head.start {
            StartLine::Response { status, .. } => status,
            StartLine::Request { .. } => 0,
        };
        // RFC 9110 section 15.2: "a client MUST be able to parse one or more 1xx responses received
        // prior to a final response".
        let interim = (100..200).contains(&status) && status != 101;
        let answer = context.pairing.pair_response(offset, self.acknowledged, interim);
        let framing = framing::of_response(&head, status, answer.request_kind);
        self.open_message(answer.exchange, head, context);
        self.message.paired = answer.paired;
        if !answer.paired {
            self.report(Some(answer.exchange), Anomaly::ResponseWithoutRequest { offset }, context);
        }
        match interim {
            true => self.state = State::Head,
            false => self.body(framing, context),
        }
    }

    /// Emits the head, and the anomalies in it.
    fn open_message<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        exchange: ExchangeIndex,
        head: Box<Head>,
        context: &mut PieceContext<'_, S>,
    ) {
        let offset = head.offset;
        let bare_line_feed = self.fields.bare_line_feed.is_some();
        self.message = OpenMessage { bare_line_feed, ..OpenMessage::new(exchange, offset) };
        (context.sink)(HttpEvent::Head { exchange, direction: self.direction, stream: None, head });
        let at = |position: usize| offset + position as u64;
        let odd = [
            self.fields.bare_line_feed.map(|line| Anomaly::BareLineFeed { offset: at(line) }),
            self.fields.folded.map(|line| Anomaly::FoldedHeader { offset: at(line) }),
            self.fields.not_a_field.map(|line| Anomaly::NotHttp { offset: at(line), expected: "header field" }),
        ];
        for anomaly in odd.into_iter().flatten() {
            self.report(Some(exchange), anomaly, context);
        }
    }

    /// Starts the body after the head.
    fn body<S: FnMut(HttpEvent<'_>)>(&mut self, framing: Framing, context: &mut PieceContext<'_, S>) {
        let OpenMessage { exchange, head, .. } = self.message;
        if let Some(why) = framing.ambiguous {
            self.report(Some(exchange), Anomaly::AmbiguousFraming { offset: head, why }, context);
            // The receiver may have read it in another way, and found other messages after it.
            match self.direction {
                Direction::ClientToServer => context.pairing.doubt_requests(self.offset),
                Direction::ServerToClient => context.pairing.lose_responses(self.offset),
            }
        }
        match framing.body {
            Body::Length(0) => self.end(true, Ending::Finished, context),
            Body::Length(length) => self.state = State::Length(length),
            Body::Chunked => self.state = State::ChunkSize,
            Body::UntilClose => self.state = State::UntilClose,
            Body::Unknown => {
                self.end(false, Ending::Cut, context);
                self.lose_framing(self.offset, context);
            }
            Body::Tunnel => {
                self.end(true, Ending::Finished, context);
                context.pairing.switch(exchange);
                self.switch(exchange, context);
            }
        }
    }
}

fn owned(start: Start<'_>) -> (StartLine, &'static str) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match start {
        Start::Request { method, target, version } => {
            (StartLine::Request { method: text(method), target: text(target) }, version)
        }
        Start::Response { status, reason, version } => (StartLine::Response { status, reason: text(reason) }, version),
    }
}
