//! The chunked transfer coding (RFC 9112 section 7.1).

use memchr::memchr;

use super::{PieceContext, Reader, State, within};
use crate::decode::http::HttpEvent;
use crate::decode::http1::grammar;
use crate::decode::{Anomaly, Ending};

impl Reader {
    pub(super) fn chunk_size<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let taken = self.framing_line(bytes, context);
        if self.held.last() == Some(&b'\n') && self.state == State::ChunkSize {
            match grammar::chunk_size(grammar::content(&self.held)) {
                // "The chunked transfer coding is complete when a chunk with a chunk-size of zero
                // is received".
                Ok((_, Some(0))) => self.end_framing_line(State::Trailer(0)),
                Ok((_, Some(size))) => self.end_framing_line(State::ChunkData(size)),
                Ok((_, None)) => {
                    // "Recipients MUST anticipate potentially large hexadecimal numerals and
                    // prevent parsing errors due to integer conversion overflows".
                    let why = "chunk size above 64 bits";
                    let anomaly = Anomaly::AmbiguousFraming { offset: self.message.head, why };
                    self.break_framing(anomaly, context);
                }
                Err(_) => self.unexpected("chunk size", context),
            }
        }
        taken
    }

    pub(super) fn chunk_data<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        left: u64,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let taken = self.content(within(bytes, left), context);
        self.state = match left - taken as u64 {
            0 => State::ChunkEnd,
            left => State::ChunkData(left),
        };
        taken
    }

    pub(super) fn chunk_end<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        if self.held.is_empty() && bytes.starts_with(b"\r\n") {
            self.advance(2);
            self.state = State::ChunkSize;
            return 2;
        }
        if self.held.is_empty() {
            self.acknowledged = context.acknowledged;
        }
        self.held.push(bytes[0]);
        self.advance(1);
        match self.held.as_slice() {
            b"\r" => {}
            b"\n" | b"\r\n" => {
                self.bare_line_feed(context);
                self.end_framing_line(State::ChunkSize);
            }
            _ => self.unexpected("line end behind a chunk", context),
        }
        1
    }

    pub(super) fn trailer<S: FnMut(HttpEvent<'_>)>(
        &mut self,
        read: usize,
        bytes: &[u8],
        context: &mut PieceContext<'_, S>,
    ) -> usize {
        let taken = self.framing_line(bytes, context);
        if self.held.last() == Some(&b'\n') && matches!(self.state, State::Trailer(_)) {
            let line = grammar::content(&self.held);
            let read = read.saturating_add(self.held.len());
            if line.is_empty() {
                self.held.clear();
                self.end(self.message.whole, Ending::Finished, context);
            } else if !grammar::is_blank(line[0]) && grammar::field(line).is_err() {
                self.unexpected("trailer field", context);
            } else if read > self.limit {
                self.break_framing(Anomaly::LimitReached { limit: "head", offset: self.low_water() }, context);
            } else {
                self.end_framing_line(State::Trailer(read));
            }
        }
        taken
    }

    /// Reads after a gap among the chunks of a response.
    ///
    /// A stream of events may last for days, and often each event is one chunk in one packet. After
    /// one lost packet the next one begins with a chunk. It counts as a chunk under two conditions:
    ///
    /// - No other message can have begun: no request waits for another response.
    /// - The bytes prove it: a line end follows the data that the size announces.
    pub(super) fn rejoin<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        if self.held.is_empty() {
            self.acknowledged = context.acknowledged;
        }
        // As in a search, bytes sent before and after another acknowledgment are not joined.
        if !context.pairing.is_idle() || self.acknowledged != context.acknowledged {
            self.abandon_chunks(context);
            return 0;
        }
        let taken = bytes.len().min(self.limit - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        match grammar::chunk(&self.held, self.limit) {
            Err(nom::Err::Incomplete(_)) if self.held.len() < self.limit => {}
            Err(_) => self.abandon_chunks(context),
            Ok(_) => {
                self.state = State::ChunkSize;
                if self.message.paired {
                    context.pairing.resume_response();
                }
                self.reread_held(context);
            }
        }
        taken
    }

    /// Gives up: no chunk certainly begins after the gap. Events may continue later, if no other
    /// message can have begun.
    fn abandon_chunks<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        let start = self.low_water();
        match context.pairing.is_idle() {
            true => self.message.may_resume = true,
            false => self.end(false, Ending::Cut, context),
        }
        self.lose_framing(start, context);
        self.reread_held(context);
    }

    /// Holds bytes up to the end of a line of chunk framing.
    fn framing_line<S: FnMut(HttpEvent<'_>)>(&mut self, bytes: &[u8], context: &mut PieceContext<'_, S>) -> usize {
        if self.held.is_empty() {
            self.acknowledged = context.acknowledged;
        }
        let taken = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1).min(self.limit - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        self.advance(taken);
        if self.held.last() == Some(&b'\n') {
            self.bare_line_feed(context);
        } else if self.held.len() >= self.limit {
            self.break_framing(Anomaly::LimitReached { limit: "head", offset: self.low_water() }, context);
        }
        taken
    }

    /// Ends a line of chunk framing.
    fn end_framing_line(&mut self, next: State) {
        self.held.clear();
        self.state = next;
    }

    /// Reports the first line of a message that ends in LF without CR.
    fn bare_line_feed<S: FnMut(HttpEvent<'_>)>(&mut self, context: &mut PieceContext<'_, S>) {
        if !self.message.bare_line_feed && !self.held.ends_with(b"\r\n") {
            self.message.bare_line_feed = true;
            let anomaly = Anomaly::BareLineFeed { offset: self.offset - 1 };
            self.report(Some(self.message.exchange), anomaly, context);
        }
    }

    /// Reports a broken framing where `expected` should be.
    fn unexpected<S: FnMut(HttpEvent<'_>)>(&mut self, expected: &'static str, context: &mut PieceContext<'_, S>) {
        self.break_framing(Anomaly::NotHttp { offset: self.low_water(), expected }, context);
    }

    /// Handles a broken framing: the message ends before the held line, and that line
    /// may begin another.
    fn break_framing<S: FnMut(HttpEvent<'_>)>(&mut self, anomaly: Anomaly, context: &mut PieceContext<'_, S>) {
        self.report(Some(self.message.exchange), anomaly, context);
        let from = self.low_water();
        self.end(false, Ending::Cut, context);
        self.lose_framing(from, context);
        self.examine_line_start(context);
    }
}
