//! Long lines of a pipe: compressed once, for the chunks of their packets and for the text
//! of their message.
//!
//! ```text
//!  packets  │head {"jsonrpc" … │head … │head … }⏎│
//!  chunk     raw │ piece 1    │raw│ 2 │raw│ 3  │raw
//!  text          │ piece 1    │   │ 2 │   │ 3  │
//! ```
//!
//! Pieces are zstd frames. The content of concatenated frames is their concatenated content
//! (RFC 8878, 3.1). Without this, zstd takes two thirds of the time for recording messages of a
//! megabyte.

use std::mem;
use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::capture::Span;
use crate::store::chunk::Piece;
use crate::store::text::Packer;

/// The smallest piece in bytes. Smaller ones are compressed twice, together with the
/// bytes around them.
const PIECE: usize = 8 << 10;

/// The largest number of compressed bytes of a line that are retained until its message comes.
/// Longer lines are compressed twice.
const MOST: usize = 8 << 20;

/// Compresses the current line of one direction of a pipe.
#[derive(Debug, Default)]
pub(super) struct LineCompressor {
    /// The offsets of its first byte, and of the end of the bytes seen, in the direction's stream.
    start: u64,
    end: u64,
    /// Compressed frames of the bytes seen, except those in `waits`. `None` if the start of the
    /// line was not seen, or the line is too long.
    frames: Option<Vec<u8>>,
    /// Small pieces, to be compressed together.
    waits: Vec<u8>,
    /// Whether any piece of the line reached the size of a piece.
    large: bool,
}

/// A complete line, compressed.
#[derive(Debug)]
pub(super) struct CompressedLine {
    start: u64,
    end: u64,
    frames: Vec<u8>,
}

impl CompressedLine {
    /// Its frames, if the line occupies exactly this span of the direction's stream.
    pub(super) fn text(self, span: Span) -> Option<Vec<u8>> {
        ((span.start, span.end) == (self.start, self.end)).then_some(self.frames)
    }
}

impl LineCompressor {
    /// Takes the payload of a packet at `offset`. Returns the pieces to be stored with the packet,
    /// and the first line that ends in it.
    pub(super) fn take(
        &mut self,
        offset: u64,
        payload: &[u8],
        packer: &mut Packer,
    ) -> (Vec<Piece>, Option<CompressedLine>) {
        if offset != self.end || offset == 0 {
            *self = LineCompressor {
                start: offset,
                end: offset,
                frames: (offset == 0).then(Vec::new),
                ..LineCompressor::default()
            };
        }
        let mut pieces = Vec::new();
        let Some(first) = memchr(b'\n', payload) else {
            pieces.extend(self.append(payload, 0..payload.len(), packer));
            return (pieces, None);
        };
        pieces.extend(self.append(payload, 0..first, packer));
        let next = memrchr(b'\n', payload).unwrap_or(first) + 1;
        let whole = self.finish(offset + next as u64, packer);
        pieces.extend(self.append(payload, next..payload.len(), packer));
        (pieces, whole)
    }

    /// Appends a part of the payload to the line; returns it as a piece if it is large enough.
    fn append(&mut self, payload: &[u8], range: Range<usize>, packer: &mut Packer) -> Option<Piece> {
        let bytes = &payload[range.clone()];
        self.end += bytes.len() as u64;
        self.frames.as_ref()?;
        if bytes.len() < PIECE {
            self.waits.extend_from_slice(bytes);
            if self.waits.len() >= PIECE {
                self.flush(packer);
            }
            return None;
        }
        self.flush(packer);
        let frame = packer.frame(bytes).ok();
        self.push(frame.as_deref());
        self.large = true;
        Some(Piece { range, frame: frame? })
    }

    /// Compresses the small pieces.
    fn flush(&mut self, packer: &mut Packer) {
        if !self.waits.is_empty() {
            let frame = packer.frame(&self.waits).ok();
            self.waits.clear();
            self.push(frame.as_deref());
        }
    }

    /// Appends a frame. The line is given up if the frame is missing for lack of memory, or if it
    /// has become too long.
    fn push(&mut self, frame: Option<&[u8]>) {
        self.frames = self.frames.take().zip(frame).map(|(mut frames, frame)| {
            frames.extend_from_slice(frame);
            frames
        });
        self.frames.take_if(|frames| frames.len() > MOST);
    }

    /// Ends the line. The next one begins at `next`.
    fn finish(&mut self, next: u64, packer: &mut Packer) -> Option<CompressedLine> {
        if self.large {
            self.flush(packer);
        }
        let following =
            LineCompressor { start: next, end: next, frames: Some(Vec::new()), ..LineCompressor::default() };
        let LineCompressor { start, end, frames, large, .. } = mem::replace(self, following);
        frames.filter(|_| large).map(|frames| CompressedLine { start, end, frames })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::StreamId;
    use crate::store::text::unpack;

    proptest! {
        #[test]
        fn the_frames_of_a_line_hold_the_line_and_those_of_a_piece_the_piece(
            lines in prop::collection::vec(prop_oneof![0usize..100, PIECE - 2..PIECE + 2, 0..8 * PIECE], 1..8),
            cuts in prop::collection::vec(1usize..4 * PIECE, 1..8),
            lost in prop::option::of(0usize..8),
        ) {
            let stream: Vec<u8> = lines.iter().zip(b'a'..).flat_map(|(&length, letter)| vec![letter; length].into_iter().chain([b'\n'])).collect();
            let (mut line, mut packer) = (LineCompressor::default(), Packer::new().unwrap());
            let (mut at, mut shared) = (0, 0);
            for (number, &cut) in cuts.iter().cycle().enumerate() {
                let end = (at + cut).min(stream.len());
                let payload = &stream[at..end];
                // Bytes lost from a pipe increase the offset.
                let gap = lost.map_or(0, |lost| u64::from(number >= lost));
                let (pieces, whole) = line.take(at as u64 + gap, payload, &mut packer);
                prop_assert!(pieces.len() <= 2 && pieces.is_sorted_by(|one, next| one.range.end <= next.range.start));
                for piece in pieces {
                    prop_assert_eq!(unpack(&piece.frame, usize::MAX).unwrap(), &payload[piece.range]);
                }
                if let Some(whole) = whole {
                    let (start, end) = ((whole.start - gap) as usize, (whole.end - gap) as usize);
                    prop_assert!((start == 0 || stream[start - 1] == b'\n') && stream[end] == b'\n');
                    let span = Span { stream: StreamId(1), start: whole.start, end: whole.end };
                    prop_assert_eq!(unpack(&whole.text(span).unwrap(), usize::MAX).unwrap(), &stream[start..end]);
                    shared += 1;
                }
                at = end;
                if at == stream.len() {
                    break;
                }
            }
            if lost.is_none() && cuts.iter().all(|&cut| cut >= 2 * PIECE) {
                let long = lines.iter().filter(|&&length| length >= 4 * PIECE).count();
                prop_assert!(shared >= long.min(1), "long lines are shared");
            }
        }
    }

    #[test]
    fn a_line_is_the_text_of_the_message_at_its_place_only() {
        let payload = [&[b'x'; PIECE][..], b"\n"].concat();
        let whole = || LineCompressor::default().take(0, &payload, &mut Packer::new().unwrap()).1.unwrap();
        let span = |start, end| Span { stream: StreamId(1), start, end };
        let end = PIECE as u64;
        assert!(whole().text(span(0, end)).is_some());
        assert!(whole().text(span(1, end)).is_none(), "a member of a batch");
        assert!(whole().text(span(0, end - 1)).is_none(), "without a carriage return");
    }
}
