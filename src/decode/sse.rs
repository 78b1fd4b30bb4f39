//! Server-sent events, as WHATWG defines the stream (HTML, section 9.2.6).

use std::ops::Range;

use super::{Anomaly, Piece};
use crate::capture::Limits;

/// One event, the moment its blank line arrived.
#[derive(Debug)]
pub struct Event<'a> {
    /// Offset of its first line in the body.
    pub start: u64,
    /// Offset behind its blank line.
    pub end: u64,
    /// The `event` field: `message` is left out.
    pub kind: Option<&'a str>,
    /// The last event id in force, where one was ever set (an `id` line with NUL is ignored).
    pub id: Option<&'a str>,
    /// Whether this event itself set the id.
    pub sets_id: bool,
    /// The `retry` field in milliseconds.
    pub retry: Option<u64>,
    /// The data lines joined by LF; `None` without a data line (such an event is not dispatched, but still sets id and retry).
    pub data: Option<&'a [u8]>,
    /// Where the bytes of `data` stand in the body, in order: each run of bytes, and the line ends between them.
    pub parts: &'a [Range<u64>],
    /// Comment lines before or inside it.
    pub comments: u32,
}

/// What the decoder found.
#[derive(Debug)]
pub enum SseEvent<'a> {
    /// An event.
    Event(Event<'a>),
    /// Something odd.
    Anomaly(Anomaly),
}

/// Decodes one body.
#[derive(Debug)]
pub struct Sse {
    limits: Limits,
}

impl Sse {
    /// At the first byte.
    pub fn new(limits: Limits) -> Sse {
        Sse { limits }
    }

    /// The next piece.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(SseEvent<'_>)) {
        let _ = (piece, sink, self.limits);
    }

    /// Everything below this offset of the body is done with.
    pub fn low_water(&self) -> u64 {
        0
    }
}
