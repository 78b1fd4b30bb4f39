//! WebSocket (RFC 6455): frames to messages, with permessage-deflate (RFC 7692). Both directions of one connection, from behind the upgrade on.
//!
//! ```text
//!  frame ─► unmasked ─► joined with the fragments before ─► inflated ─► message
//! ```
//!
//! Control frames may stand between fragments and are passed over. After a gap over the head of a frame, or what is no frame, nothing more is
//! told of that direction: a frame has no mark by which it could be found again.

mod deflate;
mod event;
mod frame;
mod fuzz;
mod reader;

pub use deflate::Deflate;
pub use event::WebSocketEvent;
pub use fuzz::fuzz_websocket;

use self::reader::Reader;
use super::{Direction, Piece};
use crate::capture::Limits;

/// Decodes one connection.
#[derive(Debug)]
pub struct WebSocket {
    readers: [Reader; 2],
}

impl WebSocket {
    /// At these offsets of the two directions; with compression where it was agreed upon.
    pub fn new(limits: Limits, offsets: [u64; 2], deflate: Option<Deflate>) -> WebSocket {
        let reader = |direction: Direction| Reader::new(direction, limits, offsets[direction as usize], deflate);
        WebSocket { readers: [reader(Direction::ClientToServer), reader(Direction::ServerToClient)] }
    }

    /// The next piece of one direction.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, sink: &mut dyn FnMut(WebSocketEvent<'_>)) {
        self.readers[direction as usize].push(piece, sink);
    }

    /// The lowest offset of this direction that a message may still come from.
    pub fn low_water(&self, direction: Direction) -> u64 {
        self.readers[direction as usize].low_water()
    }

    /// Bytes of messages being collected.
    pub fn held(&self) -> usize {
        self.readers.iter().map(Reader::held).sum()
    }

    /// Gives up the messages being collected.
    pub fn give_up(&mut self) {
        self.readers.iter_mut().for_each(Reader::give_up);
    }
}

#[cfg(test)]
mod tests;
