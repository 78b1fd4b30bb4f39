//! HTTP/1.0 and 1.1 (RFC 9112): both directions of one connection, since a response is framed by its request.
//!
//! Each direction has a reader, and both share the queue of requests that wait for their response. Nothing is ever
//! repaired by guessing: what is lost is said to be lost, and a response that cannot be told to answer a request stays
//! alone.

mod framing;
mod fuzz;
mod grammar;
mod pairing;
mod reader;
mod sniff;

pub use fuzz::fuzz_http1;
pub use sniff::{sniff, sniff_events};

use std::ops::Range;

use pairing::Pairing;
use reader::{Reader, Turn};

use super::http::HttpEvent;
use super::{Direction, Piece};
use crate::capture::Limits;

/// What goes with a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Offset in the other direction up to which the sender had seen when it sent the piece (see `tcp::Delivery`).
    pub acknowledged: u64,
}

/// Decodes one connection.
#[derive(Debug)]
pub struct Http1 {
    requests: Reader,
    responses: Reader,
    pairing: Pairing,
}

impl Http1 {
    /// At the first byte of both directions.
    pub fn new(limits: Limits) -> Http1 {
        Http1 {
            requests: Reader::new(Direction::ClientToServer, &limits),
            responses: Reader::new(Direction::ServerToClient, &limits),
            pairing: Pairing::new(limits.pipelined),
        }
    }

    /// The same, where the directions begin at these offsets.
    pub fn behind(limits: Limits, offsets: [u64; 2]) -> Http1 {
        let mut http = Http1::new(limits);
        http.requests.begin_at(offsets[0]);
        http.responses.begin_at(offsets[1]);
        http
    }

    /// The same, where the capture begins in the middle of a response.
    pub fn midway(limits: Limits, offsets: [u64; 2]) -> Http1 {
        let mut http = Http1::behind(limits, offsets);
        http.responses.begin_midway();
        http
    }

    /// The next piece of one direction.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, seen: Seen, sink: &mut impl FnMut(HttpEvent<'_>)) {
        let mut turn = Turn { pairing: &mut self.pairing, seen: seen.acknowledged, sink };
        match (direction, piece) {
            (Direction::ClientToServer, Piece::Data(mut bytes)) => {
                while !bytes.is_empty() {
                    bytes = &bytes[self.requests.data(bytes, &mut turn)..];
                }
            }
            (Direction::ServerToClient, Piece::Data(mut bytes)) => {
                while !bytes.is_empty() {
                    bytes = &bytes[self.responses.data(bytes, &mut turn)..];
                    // A response may decide how the bytes behind its request are to be read; the next may answer what
                    // they are.
                    self.requests.settle(&mut turn);
                }
            }
            (_, Piece::Gap(0)) => {}
            (Direction::ClientToServer, Piece::Gap(length)) => self.requests.gap(length, &mut turn),
            (Direction::ServerToClient, Piece::Gap(length)) => self.responses.gap(length, &mut turn),
            (Direction::ClientToServer, Piece::End(ending)) => self.requests.stream_end(ending, &mut turn),
            (Direction::ServerToClient, Piece::End(ending)) => self.responses.stream_end(ending, &mut turn),
        }
    }

    /// Bytes held of both directions.
    fn held(&self) -> usize {
        self.requests.held() + self.responses.held()
    }

    /// The bytes of this direction that are being passed over in search of a message: what an [`Anomaly::Skipped`] will tell that ends
    /// there or later. Empty while framing is known.
    pub fn passed_over(&self, direction: Direction) -> Range<u64> {
        match direction {
            Direction::ClientToServer => self.requests.passed_over()..self.requests.low_water(),
            Direction::ServerToClient => self.responses.passed_over()..self.responses.low_water(),
        }
    }

    /// The lowest offset of this direction that may still be given out as content or head: everything below is done
    /// with.
    pub fn low_water(&self, direction: Direction) -> u64 {
        match direction {
            Direction::ClientToServer => self.requests.low_water(),
            Direction::ServerToClient => self.responses.low_water(),
        }
    }
}

#[cfg(test)]
mod tests;
