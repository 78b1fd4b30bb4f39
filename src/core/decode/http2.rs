//! HTTP/2 (RFC 9113). Both directions of a connection are decoded to the same events as those of
//! HTTP/1.
//!
//! Each direction has a reader with its own table of header fields (HPACK, RFC 7541). Both share
//! the streams, each of which is one exchange. A gap inside the content of a frame damages only
//! that content. A gap over the head of a frame costs more: frames are searched again, and every
//! open stream counts as damaged. Fields that refer to table entries which may be missing are
//! unknown. No header field is ever guessed.

mod block;
mod frame;
mod fuzz;

mod hpack;
mod reader;
mod sniff;
mod streams;

pub use fuzz::{fuzz_hpack, fuzz_http2};
pub use sniff::{sniff, sniff_data};

use std::ops::Range;

use self::reader::{FrameContext, Reader};
use self::streams::Streams;
use super::http::{ExchangeIndex, HttpEvent};
use super::mask::MaskKey;
use super::redact::Redaction;
use super::{Direction, Piece};
use crate::capture::Limits;

/// The decoder of one connection.
#[derive(Debug)]
pub struct Http2 {
    readers: [Reader; 2],
    streams: Streams,
}

impl Http2 {
    /// A decoder that starts at the first byte of both directions.
    pub fn new(limits: Limits) -> Http2 {
        Http2::at_offsets(limits, [0; 2])
    }

    /// A decoder after an upgrade from HTTP/1.1 by this exchange, whose response is that of stream
    /// 1. HTTP/2 begins at these offsets of the two directions.
    pub fn upgraded(limits: Limits, exchange: ExchangeIndex, offsets: [u64; 2]) -> Http2 {
        let mut decoder = Http2::at_offsets(limits, offsets);
        decoder.streams.upgraded(exchange);
        decoder
    }

    /// A decoder of a connection that began before the capture.
    pub fn midway(limits: Limits, offsets: [u64; 2]) -> Http2 {
        let mut decoder = Http2::at_offsets(limits, offsets);
        decoder.streams.begin_midway();
        decoder
    }

    /// A decoder that starts at these offsets of the two directions.
    pub fn at_offsets(limits: Limits, offsets: [u64; 2]) -> Http2 {
        let reader = |direction| Reader::new(direction, &limits, offsets[direction as usize]);
        let readers = [reader(Direction::ClientToServer), reader(Direction::ServerToClient)];
        Http2 { readers, streams: Streams::new(limits.pipelined) }
    }

    /// The same decoder, with this key for the tags of masked secrets, and with the user's rules.
    pub fn with_masks(mut self, key: Option<MaskKey>, redaction: Option<&'static Redaction>) -> Http2 {
        self.readers.iter_mut().for_each(|reader| (reader.mask_key, reader.redaction) = (key, redaction));
        self
    }

    /// The same decoder, which does not look for secrets. Only a store needs their places.
    pub fn without_secrets(mut self) -> Http2 {
        self.readers.iter_mut().for_each(|reader| reader.finds_secrets = false);
        self
    }

    /// Decodes the next piece of one direction.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, sink: &mut dyn FnMut(HttpEvent<'_>)) {
        self.readers[direction as usize].push(piece, &mut FrameContext { streams: &mut self.streams, sink });
    }

    /// Notes that the sender in this direction had acknowledged the other up to this offset. It
    /// sends the next bytes after that.
    pub fn note_acknowledged(&mut self, direction: Direction, acknowledged: u64) {
        self.streams.note_acknowledged(direction, self.readers[direction as usize].offset(), acknowledged);
    }

    /// The bytes of this direction that the search for a frame has passed so far. A later
    /// [`Anomaly::Skipped`](super::Anomaly::Skipped) will contain them. Empty while the
    /// framing is known.
    pub fn passed_over(&self, direction: Direction) -> Range<u64> {
        self.readers[direction as usize].passed_over()
    }

    /// The lowest offset of this direction that a later event may contain as content or head.
    pub fn low_water(&self, direction: Direction) -> u64 {
        self.readers[direction as usize].low_water()
    }

    /// Number of bytes held in both directions, and number of open streams.
    fn held(&self) -> (usize, usize) {
        (self.readers.iter().map(Reader::held).sum(), self.streams.len())
    }
}

#[cfg(test)]
mod tests;
