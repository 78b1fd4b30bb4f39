//! The body of the fuzz target for content codings.

use super::Coding;
use crate::capture::Limits;
use crate::decode::Anomaly;

/// Decodes `data` with each coding, whole and byte by byte.
///
/// Checks that both give the same bytes and the same result, and that the output stays
/// within the limit.
///
/// # Panics
///
/// Panics if one of these does not hold.
pub fn fuzz_coding(data: &[u8]) {
    let limits = Limits::default();
    for coding in ["gzip", "deflate", "br", "zstd", "deflate, gzip", "zstd, br"] {
        let whole = decode(coding, limits, data.len().max(1), data);
        let cut = decode(coding, limits, 1, data);
        assert_eq!(whole, cut, "{coding}");
        let most = (data.len() as u64).saturating_mul(limits.inflate_ratio) + (1 << 20);
        assert!(whole.0.len() as u64 <= most);
    }
}

/// Decodes `data` in pieces of `size` bytes. Returns the decoded bytes and the result.
pub(super) fn decode(coding: &str, limits: Limits, size: usize, data: &[u8]) -> (Vec<u8>, Result<(), Anomaly>) {
    let mut decoded = Vec::new();
    let Ok(Some(mut coding)) = Coding::new(coding, limits) else { return (decoded, Ok(())) };
    let mut out = |bytes: &[u8]| decoded.extend_from_slice(bytes);
    let mut result = data.chunks(size).try_for_each(|piece| coding.push(piece, &mut out));
    if result.is_ok() {
        result = coding.finish();
    }
    (decoded, result)
}
