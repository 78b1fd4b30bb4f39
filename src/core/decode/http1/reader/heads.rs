//! Heads: parsed in place where a piece contains the whole head, otherwise line by line.

use memchr::memchr;

use super::{Message, Reader, State, Turn};
use crate::decode::http::{Head, StartLine};
use crate::decode::http::{HttpEvent, Index};
use crate::decode::http1::framing::{self, Body, Framing};
use crate::decode::http1::grammar::{self, Start};
use crate::decode::http1::pairing::Asks;
use crate::decode::http1::sniff::plausible;
use crate::decode::{Anomaly, Direction, Ending};

/// Bytes of memory that are reused for the next head. Most heads need less.
const KEPT: usize = 4 << 10;

impl Reader {
    /// Reads at the first byte of a message, or in its head.
    pub(super) fn head<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        if self.held.is_empty() {
            let undecided = match self.direction {
                Direction::ClientToServer => turn.pairing.undecided(),
                Direction::ServerToClient => None,
            };
            match undecided {
                // Bytes after CONNECT are for the tunnel, even if they look like HTTP.
                Some(Asks::Connect) => {
                    self.seen = turn.seen;
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
            self.seen = turn.seen;
            self.flight = (turn.seen, 0);
            self.line = 0;
            let window = &bytes[..bytes.len().min(self.limit)];
            if let Ok((rest, start)) = grammar::head(self.direction, window, &mut self.fields) {
                let text = &window[..window.len() - rest.len()];
                let offset = self.offset;
                self.advance(text.len());
                self.accept(offset, text, start, turn);
                return text.len();
            }
        }
        self.head_line(bytes, turn)
    }

    /// Takes bytes up to the end of a line. Each byte of a head is read once, however
    /// slowly it arrives.
    pub(super) fn head_line<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        let taken = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1).min(self.limit - self.held.len());
        if self.flight.0 != turn.seen {
            self.flight = (turn.seen, self.held.len());
        }
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        let line = &self.held[self.line..];
        if line.last() != Some(&b'\n') {
            if self.line == 0 && !plausible(self.direction, line) {
                self.not_a_head(turn);
            } else {
                self.check_limit(turn);
            }
        } else if self.line == 0 {
            match grammar::start_line(self.direction, grammar::content(line)) {
                Ok(_) => self.next_line(turn),
                Err(_) => self.not_a_head(turn),
            }
        } else if grammar::content(line).is_empty() {
            self.head_held(turn);
        } else if let State::Candidate(from) = self.state
            && !grammar::is_blank(line[0])
            && grammar::field(grammar::content(line)).is_err()
        {
            // The lines only looked like a head. This line may begin another.
            self.state = State::Lost(from);
            self.held.drain(..self.line);
            self.line = 0;
            self.search_line(turn);
        } else {
            self.next_line(turn);
        }
        taken
    }

    /// Moves on to the next line of the head.
    fn next_line<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        self.line = self.held.len();
        self.check_limit(turn);
    }

    /// Reports a head that exceeds the limit.
    fn check_limit<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        if self.held.len() < self.limit {
            return;
        }
        let from = self.passed_over();
        self.anomaly(None, Anomaly::LimitReached { limit: "head", offset: self.low_water() }, turn);
        // Its lines were searched already. The search continues after them.
        self.held.drain(..self.line);
        self.lose_message(from, turn);
    }

    /// Parses the held bytes, which are a whole head.
    fn head_held<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        let offset = self.low_water();
        let mut held = std::mem::take(&mut self.held);
        if let Ok((_, start)) = grammar::head(self.direction, &held, &mut self.fields) {
            self.accept(offset, &held, start, turn);
        }
        held.clear();
        held.shrink_to(KEPT);
        self.held = held;
    }

    /// Handles a line that is no start line.
    fn not_a_head<S: FnMut(HttpEvent<'_>)>(&mut self, turn: &mut Turn<'_, S>) {
        if self.direction == Direction::ClientToServer && turn.pairing.undecided().is_some() {
            self.state = State::Undecided;
            return;
        }
        let expected = match self.direction {
            Direction::ClientToServer => "request line",
            Direction::ServerToClient => "status line",
        };
        let offset = self.low_water();
        self.anomaly(None, Anomaly::NotHttp { offset, expected }, turn);
        self.lose_message(offset, turn);
        // The search reads bytes of one acknowledgment at a time.
        if self.seen != turn.seen {
            self.held.drain(..self.flight.1);
            self.seen = turn.seen;
        }
        self.search_line(turn);
    }

    /// Holds bytes after a request that may end HTTP, until its response arrives.
    pub(super) fn undecided<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], turn: &mut Turn<'_, S>) -> usize {
        let taken = bytes.len().min(self.limit - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        self.line = self.held.len();
        self.check_limit(turn);
        taken
    }

    /// Processes a whole head. `self.offset` is after it.
    fn accept<S: FnMut(HttpEvent<'_>)>(&mut self, offset: u64, text: &[u8], start: Start<'_>, turn: &mut Turn<'_, S>) {
        if let State::Candidate(from) = self.state {
            self.skipped(from, offset, turn);
            if self.direction == Direction::ServerToClient {
                turn.pairing.lose_responses(offset);
            }
            self.end_torn(Ending::Cut, turn);
        }
        let (start, version) = owned(start);
        let fields = self.fields.list.clone();
        self.fields.list.shrink_to(KEPT / size_of::<grammar::Field>());
        let head = Box::new(Head { offset, length: text.len() as u64, start, version, text: text.into(), fields });
        match self.direction {
            Direction::ClientToServer => self.request(head, turn),
            Direction::ServerToClient => self.response(head, turn),
        }
    }

    fn request<S: FnMut(HttpEvent<'_>)>(&mut self, head: Box<Head>, turn: &mut Turn<'_, S>) {
        let offset = head.offset;
        let framing = framing::of_request(&head);
        let asks = match &head.start {
            StartLine::Request { method, .. } if method == "HEAD" => Asks::Head,
            StartLine::Request { method, .. } if method == "CONNECT" => Asks::Connect,
            _ if framing.upgrade => Asks::Upgrade,
            _ => Asks::Other,
        };
        let (exchange, forgot) = turn.pairing.ask(self.seen, asks);
        self.open(exchange, head, turn);
        if forgot {
            self.anomaly(Some(exchange), Anomaly::LimitReached { limit: "pipelined", offset }, turn);
        }
        self.body(framing, turn);
    }

    fn response<S: FnMut(HttpEvent<'_>)>(&mut self, head: Box<Head>, turn: &mut Turn<'_, S>) {
        let offset = head.offset;
        let status = match head.start {
            StartLine::Response { status, .. } => status,
            StartLine::Request { .. } => 0,
        };
        // RFC 9110 section 15.2: "a client MUST be able to parse one or more 1xx responses received
        // prior to a final response".
        let interim = (100..200).contains(&status) && status != 101;
        let answer = turn.pairing.answer(offset, self.seen, interim);
        let framing = framing::of_response(&head, status, answer.asks);
        self.open(answer.exchange, head, turn);
        self.message.paired = answer.paired;
        if !answer.paired {
            self.anomaly(Some(answer.exchange), Anomaly::ResponseWithoutRequest { offset }, turn);
        }
        match interim {
            true => self.state = State::Head,
            false => self.body(framing, turn),
        }
    }

    /// Emits the head, and the anomalies in it.
    fn open<S: FnMut(HttpEvent<'_>)>(&mut self, exchange: Index, head: Box<Head>, turn: &mut Turn<'_, S>) {
        let offset = head.offset;
        let bare_line_feed = self.fields.bare_line_feed.is_some();
        self.message = Message { bare_line_feed, ..Message::new(exchange, offset) };
        (turn.sink)(HttpEvent::Head { exchange, direction: self.direction, stream: None, head });
        let at = |position: usize| offset + position as u64;
        let odd = [
            self.fields.bare_line_feed.map(|line| Anomaly::BareLineFeed { offset: at(line) }),
            self.fields.folded.map(|line| Anomaly::FoldedHeader { offset: at(line) }),
            self.fields.not_a_field.map(|line| Anomaly::NotHttp { offset: at(line), expected: "header field" }),
        ];
        for anomaly in odd.into_iter().flatten() {
            self.anomaly(Some(exchange), anomaly, turn);
        }
    }

    /// Starts the body after the head.
    fn body<S: FnMut(HttpEvent<'_>)>(&mut self, framing: Framing, turn: &mut Turn<'_, S>) {
        let Message { exchange, head, .. } = self.message;
        if let Some(why) = framing.ambiguous {
            self.anomaly(Some(exchange), Anomaly::AmbiguousFraming { offset: head, why }, turn);
            // The receiver may have read it in another way, and found other messages after it.
            match self.direction {
                Direction::ClientToServer => turn.pairing.doubt_requests(self.offset),
                Direction::ServerToClient => turn.pairing.lose_responses(self.offset),
            }
        }
        match framing.body {
            Body::Length(0) => self.end(true, Ending::Finished, turn),
            Body::Length(length) => self.state = State::Length(length),
            Body::Chunked => self.state = State::ChunkSize,
            Body::UntilClose => self.state = State::UntilClose,
            Body::Unknown => {
                self.end(false, Ending::Cut, turn);
                self.lose(self.offset, turn);
            }
            Body::Tunnel => {
                self.end(true, Ending::Finished, turn);
                turn.pairing.switch(exchange);
                self.switch(exchange, turn);
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
