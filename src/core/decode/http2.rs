//! HTTP/2 (RFC 9113): both directions of one connection, told as the same events as HTTP/1.
//!
//! Each direction has a reader with its own table of header fields (HPACK, RFC 7541); both share the streams, each of which is one exchange.
//! A gap is survived where that is possible: inside the content of a frame nothing else is lost. Where it hides the head of a frame, frames
//! are searched again, every open stream counts as damaged, and fields that refer to what may have passed unseen are unknown: no
//! header is ever guessed.

mod block;
mod frame;
mod fuzz;

mod hpack;
mod reader;
mod sniff;
mod streams;

pub use fuzz::{fuzz_hpack, fuzz_http2};
pub use sniff::sniff;

use std::ops::Range;

use self::reader::{Reader, Turn};
use self::streams::Streams;
use super::http::{ExchangeIndex, HttpEvent};
use super::{Direction, Piece};
use crate::capture::Limits;

/// Decodes one connection.
#[derive(Debug)]
pub struct Http2 {
    readers: [Reader; 2],
    streams: Streams,
}

impl Http2 {
    /// At the first byte of both directions.
    pub fn new(limits: Limits) -> Http2 {
        Http2::behind(limits, [0; 2])
    }

    /// Behind an upgrade from HTTP/1.1 by this exchange, whose response is that of stream 1. HTTP/2 begins at these offsets of the two
    /// directions.
    pub fn upgraded(limits: Limits, exchange: ExchangeIndex, offsets: [u64; 2]) -> Http2 {
        let mut decoder = Http2::behind(limits, offsets);
        decoder.streams.upgraded(exchange);
        decoder
    }

    /// Where the directions begin at these offsets.
    pub fn behind(limits: Limits, offsets: [u64; 2]) -> Http2 {
        let reader = |direction| Reader::new(direction, &limits, offsets[direction as usize]);
        let readers = [reader(Direction::ClientToServer), reader(Direction::ServerToClient)];
        Http2 { readers, streams: Streams::new(limits.pipelined) }
    }

    /// The next piece of one direction.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, sink: &mut dyn FnMut(HttpEvent<'_>)) {
        self.readers[direction as usize].push(piece, &mut Turn { streams: &mut self.streams, sink });
    }

    /// Whoever sends in this direction has seen the other up to this offset, as far as its system goes: what it sends from now on was sent behind that.
    pub fn seen(&mut self, direction: Direction, acknowledged: u64) {
        self.streams.seen(direction, self.readers[direction as usize].offset(), acknowledged);
    }

    /// The bytes of this direction that are being passed over in search of a frame: what an [`Anomaly::Skipped`](super::Anomaly::Skipped)
    /// will tell that ends there or later. Empty while framing is known.
    pub fn passed_over(&self, direction: Direction) -> Range<u64> {
        self.readers[direction as usize].passed_over()
    }

    /// The lowest offset of this direction that may still be given out as content or head: everything below is done with.
    pub fn low_water(&self, direction: Direction) -> u64 {
        self.readers[direction as usize].low_water()
    }

    /// Bytes held of both directions, and open streams.
    fn held(&self) -> (usize, usize) {
        (self.readers.iter().map(Reader::held).sum(), self.streams.len())
    }
}

#[cfg(test)]
mod tests;
