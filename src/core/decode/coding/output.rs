//! The output of a coding's decoder: decoded bytes, or the reason why decoding stopped.

/// The most bytes that are emitted at once: the size of deflate's window, in which
/// its decompressor works.
pub(super) const OUTPUT_BYTES: usize = 32 << 10;

/// The reason why a body cannot be decoded further.
#[derive(Debug)]
pub(super) enum CodingError {
    /// The body grew by more than the allowed ratio.
    RatioExceeded,
    /// The body is not in this coding, or is damaged.
    BadData { coding: &'static str, why: String },
}

/// Receives decoded bytes.
pub(super) type DecodedSink<'o> = &'o mut dyn FnMut(&[u8]) -> Result<(), CodingError>;
