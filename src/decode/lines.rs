//! Lines of a pipe: the framing of MCP over STDIO.

use super::{Anomaly, Piece};
use crate::capture::Limits;

/// What the decoder found.
#[derive(Debug)]
pub enum LineEvent<'a> {
    /// A line, without its end (LF or CRLF).
    Line {
        /// 1-based number on the pipe.
        number: u64,
        /// Offset of its first byte.
        start: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// Whether its line end was seen; false for the rest at the end of the stream, and around a gap.
        terminated: bool,
        /// Whether bytes of it are missing (a gap inside, or over the limit): what is given is what was kept.
        whole: bool,
    },
    /// Something odd.
    Anomaly(Anomaly),
}

/// Decodes one pipe.
#[derive(Debug)]
pub struct Lines {
    limits: Limits,
}

impl Lines {
    /// At the first byte.
    pub fn new(limits: Limits) -> Lines {
        Lines { limits }
    }

    /// The next piece.
    pub fn push(&mut self, piece: Piece<'_>, sink: &mut impl FnMut(LineEvent<'_>)) {
        let _ = (piece, sink, self.limits);
    }

    /// Everything below this offset is done with.
    pub fn low_water(&self) -> u64 {
        0
    }
}
