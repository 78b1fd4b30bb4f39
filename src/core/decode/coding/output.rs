//! Where decoded bytes go, and why decoding stops.

/// Output is given out in pieces of at most this size: that of the window of deflate, in which the decompressor decodes.
pub(super) const OUTPUT_BYTES: usize = 32 << 10;

/// Why a body cannot be decoded further.
#[derive(Debug)]
pub(super) enum CodingError {
    /// It grows too much.
    RatioExceeded,
    /// It is not what it says.
    BadData { coding: &'static str, why: String },
}

/// Takes what a layer gives out.
pub(super) type DecodedSink<'o> = &'o mut dyn FnMut(&[u8]) -> Result<(), CodingError>;
