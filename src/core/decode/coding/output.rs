//! Where decoded bytes go, and why decoding stops.

/// Output is given out in pieces of at most this size: that of the window of deflate, in which the decompressor decodes.
pub(super) const OUTPUT: usize = 32 << 10;

/// Why a body cannot be decoded further.
#[derive(Debug)]
pub(super) enum Broken {
    /// It grows too much.
    Ratio,
    /// It is not what it says.
    Data { coding: &'static str, why: String },
}

/// Takes what a layer gives out.
pub(super) type Out<'o> = &'o mut dyn FnMut(&[u8]) -> Result<(), Broken>;
