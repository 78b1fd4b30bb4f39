//! Content codings (RFC 9110 section 8.4): gzip, x-gzip, deflate (zlib or raw, as browsers accept
//! it), br and zstd.
//!
//! Decoding is streaming: all that can be decoded of a piece is emitted at once. So a server-sent
//! event in a flushed gzip stream is visible when it arrives.

mod brotli;
mod fuzz;
mod layer;
mod output;
mod zstd;

pub use fuzz::fuzz_coding;

use std::borrow::Cow;

use super::Anomaly;
use crate::capture::Limits;
use layer::Layer;
use output::CodingError;

/// The most codings of one body that are decoded. More than two are an attack or a mistake.
const MAX_LAYERS: usize = 2;

/// Decoded bytes that are always allowed, however small the coded body is.
///
/// The allowance grows in steps of this size, each time enough coded bytes for it were read. So
/// decoding stops at the same byte however the body is cut into pieces.
const FREE_BYTES: u64 = 1 << 20;

/// Coded bytes that are retained while nothing is decoded. Deflate data begins with at most about
/// 300 bytes of code lengths.
const MAX_UNDECODED: usize = 4 << 10;

/// The codings of a body, by the values of Content-Encoding and Transfer-Encoding, in the order in
/// which they were applied.
pub fn names<'h>(content: Option<Cow<'h, str>>, transfer: Option<&str>) -> Option<Cow<'h, str>> {
    // "A transfer coding [...] has been (or will be) applied to the content" (RFC 9112 section
    // 6.1), after the content codings. Its names are the same (section 7.2), except for "chunked",
    // which frames the message.
    let Some(transfer) = transfer.filter(|list| list.contains(',')) else { return content };
    let names = content.as_deref().into_iter().chain(transfer.split(',').map(str::trim));
    let names: Vec<&str> = names.filter(|name| !name.eq_ignore_ascii_case("chunked")).collect();
    Some(Cow::Owned(names.join(", ")))
}

/// Decodes the content coding of one body.
///
/// A body that is not in the declared coding fails with [`Anomaly::BadCoding`] at the first byte
/// that shows it. If nothing was emitted before, the caller treats the whole body as sent (see
/// [`Coding::undecoded`]). Damage further on fails in the same way, and the bytes emitted before
/// it stay valid.
#[derive(Debug)]
pub struct Coding {
    /// The codings, the outermost first.
    layers: Vec<Layer>,
    ratio: u64,
    input_bytes: u64,
    output_bytes: u64,
    undecoded: Vec<u8>,
    failed: bool,
}

impl Coding {
    /// A decoder for the codings in `content_encoding`; `Ok(None)` if there is nothing to decode
    /// (no coding, `identity`).
    ///
    /// # Errors
    ///
    /// [`Anomaly::UnknownCoding`] for any other coding, and for more than two codings.
    pub fn new(content_encoding: &str, limits: Limits) -> Result<Option<Coding>, Anomaly> {
        let mut layers = Vec::new();
        // RFC 9110 section 8.4: the field "lists the content codings in the order in which
        // they were applied".
        for name in content_encoding.rsplit(',').map(|name| name.trim().to_ascii_lowercase()) {
            if matches!(name.as_str(), "" | "identity") {
                continue;
            }
            let layer = Layer::new(&name).filter(|_| layers.len() < MAX_LAYERS);
            let unknown = || Anomaly::UnknownCoding { coding: content_encoding.trim().to_owned() };
            layers.push(layer.ok_or_else(unknown)?);
        }
        let ratio = limits.inflate_ratio.max(1);
        let coding = Coding { layers, ratio, input_bytes: 0, output_bytes: 0, undecoded: Vec::new(), failed: false };
        Ok(Some(coding).filter(|coding| !coding.layers.is_empty()))
    }

    /// Decodes the next bytes of the coded body and emits the result to `out`. After an error
    /// further calls do nothing.
    ///
    /// # Errors
    ///
    /// [`Anomaly::BadCoding`], and [`Anomaly::LimitReached`] if the body grows by
    /// more than `Limits::inflate_ratio`.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) -> Result<(), Anomaly> {
        if self.failed {
            return Ok(());
        }
        let step = (FREE_BYTES / self.ratio).max(1);
        let mut rest = bytes;
        while !rest.is_empty() {
            let passed = self.input_bytes % step;
            let within = usize::try_from(step - passed).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at(within);
            let max_output = (self.input_bytes - passed).saturating_add(step).saturating_mul(self.ratio);
            let output_bytes = &mut self.output_bytes;
            let result = decode_through(&mut self.layers, piece, &mut |decoded| {
                let room = usize::try_from(max_output.saturating_sub(*output_bytes)).unwrap_or(usize::MAX);
                let allowed = &decoded[..decoded.len().min(room)];
                *output_bytes += allowed.len() as u64;
                if !allowed.is_empty() {
                    out(allowed);
                }
                if allowed.len() == decoded.len() { Ok(()) } else { Err(CodingError::RatioExceeded) }
            });
            result.map_err(|error| self.fail_with(error, self.input_bytes - passed))?;
            self.input_bytes = self.input_bytes.saturating_add(within as u64);
            rest = behind;
        }
        if self.output_bytes == 0 && self.undecoded.len() + bytes.len() <= MAX_UNDECODED {
            self.undecoded.extend_from_slice(bytes);
        } else {
            self.undecoded = Vec::new();
        }
        Ok(())
    }

    /// Ends the body. `push` has emitted everything that could be decoded.
    ///
    /// # Errors
    ///
    /// [`Anomaly::BadCoding`] if the body ends before its compressed data. An empty body
    /// is no error.
    pub fn finish(&mut self) -> Result<(), Anomaly> {
        match self.layers.iter().find_map(Layer::unfinished) {
            Some(error) if self.input_bytes > 0 && !self.failed => Err(self.fail_with(error, self.input_bytes)),
            _ => Ok(()),
        }
    }

    /// The coded bytes of earlier calls, as long as nothing was decoded of them. After an error,
    /// the body as sent begins with them, and the bytes of the failed call follow. Empty once
    /// anything was emitted.
    pub fn undecoded(&self) -> &[u8] {
        if self.output_bytes == 0 { &self.undecoded } else { &[] }
    }

    /// Marks the body as failed. Returns the anomaly for an error at or after `offset`.
    fn fail_with(&mut self, error: CodingError, offset: u64) -> Anomaly {
        self.failed = true;
        match error {
            CodingError::RatioExceeded => Anomaly::LimitReached { limit: "inflate_ratio", offset },
            CodingError::BadData { coding, why } => Anomaly::BadCoding { coding: coding.to_owned(), why },
        }
    }
}

/// Removes one coding after the other.
fn decode_through(
    layers: &mut [Layer],
    bytes: &[u8],
    out: &mut dyn FnMut(&[u8]) -> Result<(), CodingError>,
) -> Result<(), CodingError> {
    match layers.split_first_mut() {
        Some((layer, inner)) => layer.push(bytes, &mut |decoded| decode_through(inner, decoded, out)),
        None => out(bytes),
    }
}

#[cfg(test)]
mod tests;
