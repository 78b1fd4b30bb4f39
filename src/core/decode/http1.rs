//! HTTP/1.0 and 1.1 (RFC 9112). Both directions are decoded together, since a response is framed by
//! its request.
//!
//! Each direction has a reader. Both share the queue of requests without a response. Nothing is
//! guessed: lost bytes are reported as lost. A response whose request is uncertain stays alone.

mod framing;
pub(super) mod fuzz;
mod grammar;
mod pairing;
mod reader;
mod sniff;

pub use fuzz::fuzz_http1;
pub use sniff::{sniff, sniff_events};

use std::ops::Range;

use pairing::Pairing;
use reader::{PieceContext, Reader};

use super::http::HttpEvent;
use super::{Direction, Piece};
use crate::capture::Limits;

/// The decoder of one connection.
#[derive(Debug)]
pub struct Http1 {
    /// For each direction: the reader of requests, then that of responses.
    readers: [Reader; 2],
    pairing: Pairing,
}

impl Http1 {
    /// A decoder that starts at the first byte of both directions.
    pub fn new(limits: Limits) -> Http1 {
        Http1 {
            readers: [Direction::ClientToServer, Direction::ServerToClient]
                .map(|direction| Reader::new(direction, &limits)),
            pairing: Pairing::new(limits.pipelined),
        }
    }

    /// A decoder that starts at these offsets of the two directions.
    pub fn at_offsets(limits: Limits, offsets: [u64; 2]) -> Http1 {
        let mut http = Http1::new(limits);
        http.readers.iter_mut().zip(offsets).for_each(|(reader, offset)| reader.begin_at(offset));
        http
    }

    /// A decoder for a capture that begins in the middle of a response, at these offsets.
    pub fn midway(limits: Limits, offsets: [u64; 2]) -> Http1 {
        let mut http = Http1::at_offsets(limits, offsets);
        http.readers[Direction::ServerToClient as usize].begin_midway();
        http
    }

    /// Decodes the next piece of one direction.
    ///
    /// `acknowledged` is the offset in the other direction up to which the sender had acknowledged
    /// when it sent the piece (see `tcp::Delivery`).
    pub fn push(
        &mut self,
        direction: Direction,
        piece: Piece<'_>,
        acknowledged: u64,
        sink: &mut impl FnMut(HttpEvent<'_>),
    ) {
        let mut context = PieceContext { pairing: &mut self.pairing, acknowledged, sink };
        let [requests, responses] = &mut self.readers;
        match (direction, piece) {
            (Direction::ClientToServer, Piece::Data(mut bytes)) => {
                while !bytes.is_empty() {
                    bytes = &bytes[requests.take_data(bytes, &mut context)..];
                }
            }
            (Direction::ServerToClient, Piece::Data(mut bytes)) => {
                while !bytes.is_empty() {
                    bytes = &bytes[responses.take_data(bytes, &mut context)..];
                    // A response may decide how the bytes after its request are read. The next
                    // response may answer one of the requests found there.
                    requests.decide_switch(&mut context);
                }
            }
            (_, Piece::Gap(0)) => {}
            (_, Piece::Gap(length)) => self.readers[direction as usize].gap(length, &mut context),
            (_, Piece::End(ending)) => self.readers[direction as usize].stream_end(ending, &mut context),
        }
    }

    /// Bytes held of both directions.
    fn held(&self) -> usize {
        self.readers.iter().map(Reader::held).sum()
    }

    /// The bytes of this direction that the search for the next message has passed so far. A
    /// later [`Anomaly::Skipped`](super::Anomaly::Skipped) will contain them. Empty while the
    /// framing is known.
    pub fn passed_over(&self, direction: Direction) -> Range<u64> {
        let reader = &self.readers[direction as usize];
        reader.passed_over()..reader.low_water()
    }

    /// The lowest offset of this direction that a later event may contain as content or head.
    pub fn low_water(&self, direction: Direction) -> u64 {
        self.readers[direction as usize].low_water()
    }
}

#[cfg(test)]
mod tests;
