//! The coding `br` (RFC 7932).

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::output::{CodingError, DecodedSink, OUTPUT_BYTES};

/// The decoder of a brotli stream.
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    output: Box<[u8]>,
}

impl fmt::Debug for Brotli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Brotli")
    }
}

impl Brotli {
    /// A decoder for windows of up to 16 MiB, the largest that the standard allows.
    pub(super) fn new() -> Brotli {
        let allocator = StandardAlloc::default;
        let state = BrotliState::new_strict(allocator(), allocator(), allocator());
        Brotli { state: Box::new(state), output: vec![0; OUTPUT_BYTES].into() }
    }

    /// Decodes `bytes`. Returns how many bytes were consumed, and whether the stream ended with
    /// them. Fails with `None` if they are not brotli.
    ///
    /// At damage, the decompressor loses all output since it last ran out of input. Feeding it one
    /// byte at a time makes the output independent of how the body was cut.
    pub(super) fn push(&mut self, bytes: &[u8], out: DecodedSink<'_>) -> Result<(usize, bool), Option<CodingError>> {
        for (taken, byte) in bytes.iter().enumerate() {
            let (mut left, mut read) = (1, 0);
            loop {
                let (mut room, mut given, mut total) = (self.output.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    &[*byte],
                    &mut room,
                    &mut given,
                    &mut self.output,
                    &mut total,
                    &mut self.state,
                );
                if given > 0 {
                    out(&self.output[..given]).map_err(Some)?;
                }
                match result {
                    BrotliResult::ResultSuccess => return Ok((taken + read, true)),
                    BrotliResult::ResultFailure => return Err(None),
                    BrotliResult::NeedsMoreInput => break,
                    BrotliResult::NeedsMoreOutput => {}
                }
            }
        }
        Ok((bytes.len(), false))
    }
}
