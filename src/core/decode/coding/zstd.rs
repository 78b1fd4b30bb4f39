//! The coding `zstd` (RFC 8878), with the window size of RFC 9659.

use std::fmt;

use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::output::{CodingError, DecodedSink, OUTPUT_BYTES};

/// Base-2 logarithm of the largest window. RFC 9659 section 3: "decoders are required to support a
/// Window_Size of up to 8 MB", and encoders "MUST NOT" use a larger one.
const WINDOW_LOG: u32 = 23;

/// The longest head of a frame in bytes (RFC 8878 section 3.1.1): magic number and frame header.
const FRAME_HEAD: usize = 4 + 14;

/// The decoder of a sequence of Zstandard frames.
pub(super) struct Zstd {
    decoder: Decoder<'static>,
    output: Box<[u8]>,
    /// Bytes of the current frame that were consumed; 0 between frames.
    frame_bytes: usize,
    /// The number of bytes that the decoder wants next: a block, and three bytes for the head of
    /// the next block.
    wanted_bytes: usize,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

impl Zstd {
    /// A decoder; `None` if its memory could not be allocated.
    pub(super) fn new() -> Option<Zstd> {
        let mut decoder = Decoder::new().ok()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).ok()?;
        Some(Zstd { decoder, output: vec![0; OUTPUT_BYTES].into(), frame_bytes: 0, wanted_bytes: 1 })
    }

    /// Whether the data may end here, between two frames.
    pub(super) fn is_between(&self) -> bool {
        self.frame_bytes == 0
    }

    /// Decodes `bytes`. Fails with `None` if they are not Zstandard.
    ///
    /// A call that meets damage returns nothing of what it had decoded. Therefore each call
    /// gets at most one block. A small frame would be decoded in one call, so its head is
    /// passed byte by byte.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: DecodedSink<'_>) -> Result<(), Option<CodingError>> {
        while !bytes.is_empty() {
            const BLOCK_HEAD: usize = 3;
            let max_piece =
                if self.frame_bytes < FRAME_HEAD { 1 } else { self.wanted_bytes.saturating_sub(BLOCK_HEAD).max(1) };
            let mut piece = &bytes[..bytes.len().min(max_piece)];
            bytes = &bytes[piece.len()..];
            loop {
                let status = self.decoder.run_on_buffers(piece, &mut self.output).map_err(|_| None)?;
                self.frame_bytes += status.bytes_read;
                self.wanted_bytes = status.remaining;
                piece = &piece[status.bytes_read..];
                if status.bytes_written > 0 {
                    out(&self.output[..status.bytes_written]).map_err(Some)?;
                }
                if status.remaining == 0 {
                    self.frame_bytes = 0;
                }
                // A full output buffer means that more output may follow. A frame that has ended
                // has none left.
                if piece.is_empty() && (status.remaining == 0 || status.bytes_written < self.output.len()) {
                    break;
                }
                if status.bytes_read == 0 && status.bytes_written == 0 {
                    return Err(None);
                }
            }
        }
        Ok(())
    }
}
