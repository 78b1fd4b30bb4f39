//! The coding `zstd`: RFC 8878, with the window of RFC 9659.

use std::fmt;

use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::output::{CodingError, DecodedSink, OUTPUT_BYTES};

/// RFC 9659 section 3: "decoders are required to support a Window_Size of up to 8 MB", and encoders "MUST NOT" use a larger one.
const WINDOW_LOG: u32 = 23;

/// The longest head of a frame (RFC 8878 section 3.1.1): magic number and frame header.
const FRAME_HEAD: usize = 4 + 14;

/// Zstandard frames, one behind the other.
pub(super) struct Zstd {
    decoder: Decoder<'static>,
    output: Box<[u8]>,
    /// Bytes of the open frame that were taken.
    frame_bytes: usize,
    /// What the decoder wants next: a block, and the three bytes of the next one's head.
    wanted_bytes: usize,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

impl Zstd {
    /// `None` where there is no memory for it.
    pub(super) fn new() -> Option<Zstd> {
        let mut decoder = Decoder::new().ok()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).ok()?;
        Some(Zstd { decoder, output: vec![0; OUTPUT_BYTES].into(), frame_bytes: 0, wanted_bytes: 1 })
    }

    /// Whether the data may end here: between frames.
    pub(super) fn is_between(&self) -> bool {
        self.frame_bytes == 0
    }

    /// Decodes the bytes; `None` where they are no Zstandard.
    ///
    /// A call that meets damage gives nothing out, however much it had decoded. So no call gets more than one block, wherever the pieces
    /// were cut, and none a whole small frame, which would be decoded in one go.
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
                // What there was no room for comes with the next call; a frame that is over has nothing left.
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
