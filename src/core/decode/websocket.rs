//! WebSocket (RFC 6455): frames to messages, with permessage-deflate (RFC 7692).
//!
//! The decoder handles both directions of a connection, starting after the upgrade.
//!
//! ```text
//!  frame ─► unmasked ─► joined with the fragments before ─► inflated ─► message
//! ```
//!
//! Control frames are skipped; they may come between fragments. Frames have no mark by which they
//! can be found. So after a gap over the head of a frame, after an invalid head, and where the
//! capture begins inside a WebSocket, the next frame that is certain is searched (`sniff.rs`).

mod deflate;
mod event;
mod frame;
mod fuzz;
mod reader;
mod sniff;

pub use deflate::Deflate;
pub use event::WebSocketEvent;
pub use fuzz::fuzz_websocket;
pub use sniff::sniff;

use self::reader::Reader;
use super::{Direction, Piece};
use crate::capture::Limits;

/// Decodes both directions of one connection.
#[derive(Debug)]
pub struct WebSocket {
    readers: [Reader; 2],
}

impl WebSocket {
    /// A decoder that starts at `offsets` of the two directions. `deflate` is
    /// the negotiated compression.
    pub fn new(limits: Limits, offsets: [u64; 2], deflate: Option<Deflate>) -> WebSocket {
        let reader = |direction: Direction| Reader::new(direction, limits, offsets[direction as usize], deflate);
        WebSocket { readers: [reader(Direction::ClientToServer), reader(Direction::ServerToClient)] }
    }

    /// A decoder of a WebSocket that was opened before the capture. Its compression is unknown.
    pub fn midway(limits: Limits, offsets: [u64; 2]) -> WebSocket {
        let mut decoder = WebSocket::new(limits, offsets, Some(Deflate::default()));
        decoder.readers.iter_mut().for_each(Reader::lose_framing);
        decoder
    }

    /// Searches the next frame of this direction, because an unknown number of bytes is missing.
    pub fn lose_framing(&mut self, direction: Direction) {
        self.readers[direction as usize].lose_framing();
    }

    /// Decodes the next piece of one direction and emits the messages that it completes.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, sink: &mut dyn FnMut(WebSocketEvent<'_>)) {
        self.readers[direction as usize].push(piece, sink);
    }

    /// The offset of the first byte of this direction that the decoder still needs.
    pub fn low_water(&self, direction: Direction) -> u64 {
        self.readers[direction as usize].low_water()
    }

    /// Bytes that are buffered for incomplete messages, in both directions.
    pub fn buffered_bytes(&self) -> usize {
        self.readers.iter().map(Reader::buffered_bytes).sum()
    }

    /// Discards the incomplete messages.
    pub fn give_up(&mut self) {
        self.readers.iter_mut().for_each(Reader::give_up);
    }
}

#[cfg(test)]
mod tests;
