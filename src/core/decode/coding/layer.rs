//! The decoder of a single coding: brotli, Zstandard, or one of the wrappers of deflate data (RFC
//! 1950, 1951, 1952).

use std::fmt;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use nom::bytes::streaming::{tag, take, take_until};
use nom::combinator::{cond, map, verify};
use nom::multi::length_data;
use nom::number::streaming::{le_u16, u8};
use nom::{IResult, Parser};

use super::brotli::Brotli;
use super::output::{CodingError, DecodedSink, OUTPUT_BYTES};
use super::zstd::Zstd;

/// The longest head of a gzip member in bytes. It has 10 bytes and optionally a file name and a
/// comment, which HTTP does not use.
const MAX_GZIP_HEAD: usize = 4 << 10;

/// The decoder of one coding of a body.
#[derive(Debug)]
pub(super) struct Layer {
    coding: &'static str,
    part: CodedPart,
}

/// The part of the coded data that the decoder expects next.
#[derive(Debug)]
enum CodedPart {
    /// The head of a gzip member, buffered until it is complete.
    GzipHead(Vec<u8>),
    GzipData(Inflate, Box<Crc>),
    /// The trailer after a member's data, buffered until it is complete.
    GzipTrailer(Vec<u8>, Box<Crc>),
    /// Another gzip member, padding, or the end of the body.
    GzipEnd,
    /// The first two bytes of `deflate`, which show whether it has the zlib wrapper.
    DeflateHead(Vec<u8>),
    DeflateData(Inflate),
    BrotliData(Brotli),
    ZstdData(Zstd),
    /// The end of the body, after the only stream of `deflate` or `br`.
    StreamEnd,
    /// Nothing: memory for a decoder could not be allocated.
    NoDecoder,
}

impl Layer {
    /// The decoder of a coding, by its name in lower case; `None` for an unknown coding.
    pub(super) fn new(name: &str) -> Option<Layer> {
        let (coding, part) = match name {
            // RFC 9110 section 8.4.1.3: "A recipient SHOULD consider "x-gzip" to be
            // equivalent to "gzip"."
            "gzip" | "x-gzip" => ("gzip", CodedPart::GzipHead(Vec::new())),
            "deflate" => ("deflate", CodedPart::DeflateHead(Vec::new())),
            "br" => ("br", CodedPart::BrotliData(Brotli::new())),
            "zstd" => ("zstd", Zstd::new().map_or(CodedPart::NoDecoder, CodedPart::ZstdData)),
            _ => return None,
        };
        Some(Layer { coding, part })
    }

    /// Decodes the next bytes and emits the result to `out`.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: DecodedSink<'_>) -> Result<(), CodingError> {
        while !bytes.is_empty() {
            let (taken, next) = self.step(bytes, out)?;
            bytes = &bytes[taken..];
            if let Some(next) = next {
                self.part = next;
            }
        }
        Ok(())
    }

    /// The error for a body that ends here; `None` if it may end here.
    pub(super) fn unfinished(&self) -> Option<CodingError> {
        match &self.part {
            CodedPart::GzipEnd | CodedPart::StreamEnd => None,
            CodedPart::ZstdData(zstd) if zstd.is_between() => None,
            _ => Some(self.bad_data("it ends inside the compressed data")),
        }
    }

    fn bad_data(&self, why: impl Into<String>) -> CodingError {
        CodingError::BadData { coding: self.coding, why: why.into() }
    }

    /// Decodes some of the bytes. Returns their number, and the part that follows if a part ended.
    fn step(&mut self, bytes: &[u8], out: DecodedSink<'_>) -> Result<(usize, Option<CodedPart>), CodingError> {
        let coding = self.coding;
        let bad_data = |why: &str| CodingError::BadData { coding, why: why.to_owned() };
        let or = |why: &'static str| move |failed: Option<CodingError>| failed.unwrap_or_else(|| bad_data(why));
        Ok(match &mut self.part {
            CodedPart::GzipHead(buffered) => {
                let before = buffered.len();
                buffered.extend_from_slice(&bytes[..bytes.len().min(MAX_GZIP_HEAD - before)]);
                match gzip_head(buffered) {
                    Ok((rest, ())) => {
                        let taken = buffered.len() - rest.len() - before;
                        (taken, Some(CodedPart::GzipData(Inflate::new(false), Box::default())))
                    }
                    Err(nom::Err::Incomplete(_)) if buffered.len() < MAX_GZIP_HEAD => (bytes.len(), None),
                    Err(_) => return Err(bad_data("it does not begin as gzip does")),
                }
            }
            CodedPart::GzipData(inflate, crc) => {
                let (taken, ended) = inflate
                    .push(bytes, &mut |decoded| {
                        crc.update(decoded);
                        out(decoded)
                    })
                    .map_err(or("the deflate data is damaged"))?;
                (taken, ended.then(|| CodedPart::GzipTrailer(Vec::with_capacity(8), std::mem::take(crc))))
            }
            CodedPart::GzipTrailer(buffered, crc) => {
                let taken = bytes.len().min(8 - buffered.len());
                buffered.extend_from_slice(&bytes[..taken]);
                if buffered.len() < 8 {
                    return Ok((taken, None));
                }
                // RFC 1952 section 2.3.1: CRC32, then ISIZE, "modulo 2^32".
                if *buffered != [crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat() {
                    return Err(bad_data("checksum or length of the content is wrong"));
                }
                (taken, Some(CodedPart::GzipEnd))
            }
            // RFC 1952 section 2.2: "A gzip file consists of a series of "members"". Some pad the
            // last with zeros.
            CodedPart::GzipEnd if bytes[0] == 0 => (1, None),
            CodedPart::GzipEnd if bytes[0] == 0x1f => (0, Some(CodedPart::GzipHead(Vec::new()))),
            CodedPart::BrotliData(brotli) => {
                let (taken, ended) = brotli.push(bytes, out).map_err(or("the brotli data is damaged"))?;
                (taken, ended.then_some(CodedPart::StreamEnd))
            }
            // RFC 8878 section 3: "Zstandard compressed data is made of one or more frames".
            CodedPart::ZstdData(zstd) => {
                zstd.push(bytes, out).map_err(or("the Zstandard data is damaged"))?;
                (bytes.len(), None)
            }
            CodedPart::NoDecoder => return Err(bad_data("there is no memory to decode it")),
            CodedPart::GzipEnd | CodedPart::StreamEnd => {
                return Err(bad_data("bytes follow the end of the compressed data"));
            }
            CodedPart::DeflateHead(buffered) => {
                let taken = bytes.len().min(2 - buffered.len());
                buffered.extend_from_slice(&bytes[..taken]);
                let [method, flags] = buffered[..] else { return Ok((taken, None)) };
                // RFC 9110 section 8.4.1.2: some implementations "send the "deflate"
                // compressed data without the zlib wrapper". The wrapper (RFC 1950 section
                // 2.2) has method 8, a window of at most 32 KiB, and its two bytes are "a
                // multiple of 31" as a 16-bit integer.
                let wrapped = method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]) % 31 == 0;
                let mut inflate = Inflate::new(wrapped);
                let begun = inflate.push(&[method, flags], out);
                let (_, ended) = begun.map_err(or("it does not begin as deflate data does"))?;
                (taken, Some(if ended { CodedPart::StreamEnd } else { CodedPart::DeflateData(inflate) }))
            }
            CodedPart::DeflateData(inflate) => {
                let (taken, ended) = inflate.push(bytes, out).map_err(or("the deflate data is damaged"))?;
                (taken, ended.then_some(CodedPart::StreamEnd))
            }
        })
    }
}

/// Parses the head of a gzip member (RFC 1952 section 2.3).
fn gzip_head(input: &[u8]) -> IResult<&[u8], ()> {
    // "A compliant decompressor must give an error indication if any reserved bit is non-zero".
    let (input, (_, flags, _)) =
        (tag(&[0x1f, 0x8b, 8][..]), verify(u8, |flags| flags & 0xe0 == 0), take(6usize)).parse(input)?;
    let text = || (take_until(&[0][..]), take(1usize));
    let extra = cond(flags & 4 != 0, length_data(le_u16));
    let (name, comment) = (cond(flags & 8 != 0, text()), cond(flags & 16 != 0, text()));
    let checksum = cond(flags & 2 != 0, take(2usize));
    map((extra, name, comment, checksum), drop).parse(input)
}

/// The decoder of a stream of deflate data.
struct Inflate {
    stream: Decompress,
    output: Box<[u8]>,
}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflate").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Inflate {
    fn new(wrapped: bool) -> Inflate {
        Inflate { stream: Decompress::new(wrapped), output: vec![0; OUTPUT_BYTES].into() }
    }

    /// Decodes `bytes`. Returns how many bytes were consumed, and whether the data ended with them.
    /// Fails with `None` if they are not deflate data.
    fn push(&mut self, bytes: &[u8], out: DecodedSink<'_>) -> Result<(usize, bool), Option<CodingError>> {
        let mut taken = 0;
        loop {
            let (input, output) = (self.stream.total_in(), self.stream.total_out());
            // At damage, the decompressor returns only as much of its output as fits, and loses the
            // rest. It works in its window, so with room up to the window's end nothing is lost.
            let room = OUTPUT_BYTES - (output % OUTPUT_BYTES as u64) as usize;
            let status = self.stream.decompress(&bytes[taken..], &mut self.output[..room], FlushDecompress::Sync);
            // Both differences are at most the lengths of the two slices.
            let used = (self.stream.total_in() - input) as usize;
            let given = (self.stream.total_out() - output) as usize;
            taken += used;
            if given > 0 {
                // Bytes decoded before the damage are valid.
                out(&self.output[..given]).map_err(Some)?;
            }
            match status.map_err(|_| None)? {
                Status::StreamEnd => return Ok((taken, true)),
                _ if given == room => {}
                _ if taken == bytes.len() => return Ok((taken, false)),
                _ if used == 0 && given == 0 => return Err(None),
                _ => {}
            }
        }
    }
}
