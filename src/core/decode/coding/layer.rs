//! One coding: brotli, Zstandard, or the wrapping of deflate data (RFC 1950, 1951, 1952).

use std::fmt;

use flate2::{Crc, Decompress, FlushDecompress, Status};
use nom::bytes::streaming::{tag, take, take_until};
use nom::combinator::{cond, map, verify};
use nom::multi::length_data;
use nom::number::streaming::{le_u16, u8};
use nom::{IResult, Parser};

use super::brotli::Brotli;
use super::output::{Broken, OUTPUT, Out};
use super::zstd::Zstd;

/// The longest head of a gzip member that is waited for: 10 bytes, and a file's name and comment, which HTTP does not
/// use.
const LONGEST_HEAD: usize = 4 << 10;

/// One coding of a body.
#[derive(Debug)]
pub(super) struct Layer {
    coding: &'static str,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before a gzip member; what there is of its head.
    GzipHead(Vec<u8>),
    GzipData(Inflate, Box<Crc>),
    /// Behind a member's data; what there is of its trailer.
    GzipTrailer(Vec<u8>, Box<Crc>),
    /// Behind a member.
    GzipEnd,
    /// Before deflate data; what there is of the two bytes that tell which.
    DeflateHead(Vec<u8>),
    DeflateData(Inflate),
    BrotliData(Brotli),
    ZstdData(Zstd),
    /// Behind the only stream of `deflate` or `br`.
    StreamEnd,
    /// There is no memory for a decoder.
    Unable,
}

impl Layer {
    pub(super) fn gzip() -> Layer {
        Layer { coding: "gzip", state: State::GzipHead(Vec::new()) }
    }

    pub(super) fn deflate() -> Layer {
        Layer { coding: "deflate", state: State::DeflateHead(Vec::new()) }
    }

    pub(super) fn brotli() -> Layer {
        Layer { coding: "br", state: State::BrotliData(Brotli::new()) }
    }

    pub(super) fn zstd() -> Layer {
        Layer { coding: "zstd", state: Zstd::new().map_or(State::Unable, State::ZstdData) }
    }

    /// Decodes the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: Out<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let (taken, next) = self.step(bytes, out)?;
            bytes = &bytes[taken..];
            if let Some(next) = next {
                self.state = next;
            }
        }
        Ok(())
    }

    /// Whether the data cannot end here.
    pub(super) fn unfinished(&self) -> Option<Broken> {
        match &self.state {
            State::GzipEnd | State::StreamEnd => None,
            State::ZstdData(zstd) if zstd.is_between() => None,
            _ => Some(self.broken("it ends inside the compressed data")),
        }
    }

    fn broken(&self, why: impl Into<String>) -> Broken {
        Broken::Data { coding: self.coding, why: why.into() }
    }

    /// Takes some of the bytes; the state behind them where it is another one.
    fn step(&mut self, bytes: &[u8], out: Out<'_>) -> Result<(usize, Option<State>), Broken> {
        let coding = self.coding;
        let broken = |why: &str| Broken::Data { coding, why: why.to_owned() };
        let or = |why: &'static str| move |failed: Option<Broken>| failed.unwrap_or_else(|| broken(why));
        Ok(match &mut self.state {
            State::GzipHead(held) => {
                let before = held.len();
                held.extend_from_slice(&bytes[..bytes.len().min(LONGEST_HEAD - before)]);
                match gzip_head(held) {
                    Ok((rest, ())) => {
                        let taken = held.len() - rest.len() - before;
                        (taken, Some(State::GzipData(Inflate::new(false), Box::default())))
                    }
                    Err(nom::Err::Incomplete(_)) if held.len() < LONGEST_HEAD => (bytes.len(), None),
                    Err(_) => return Err(broken("it does not begin as gzip does")),
                }
            }
            State::GzipData(inflate, crc) => {
                let (taken, ended) = inflate
                    .push(bytes, &mut |decoded| {
                        crc.update(decoded);
                        out(decoded)
                    })
                    .map_err(or("the deflate data is damaged"))?;
                (taken, ended.then(|| State::GzipTrailer(Vec::with_capacity(8), std::mem::take(crc))))
            }
            State::GzipTrailer(held, crc) => {
                let taken = bytes.len().min(8 - held.len());
                held.extend_from_slice(&bytes[..taken]);
                if held.len() < 8 {
                    return Ok((taken, None));
                }
                // RFC 1952 section 2.3.1: CRC32, then ISIZE, "modulo 2^32".
                if *held != [crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat() {
                    return Err(broken("checksum or length of the content is wrong"));
                }
                (taken, Some(State::GzipEnd))
            }
            // RFC 1952 section 2.2: "A gzip file consists of a series of "members"". Some pad the last with zeros.
            State::GzipEnd if bytes[0] == 0 => (1, None),
            State::GzipEnd if bytes[0] == 0x1f => (0, Some(State::GzipHead(Vec::new()))),
            State::BrotliData(brotli) => {
                let (taken, ended) = brotli.push(bytes, out).map_err(or("the brotli data is damaged"))?;
                (taken, ended.then_some(State::StreamEnd))
            }
            // RFC 8878 section 3: "Zstandard compressed data is made of one or more frames".
            State::ZstdData(zstd) => {
                zstd.push(bytes, out).map_err(or("the Zstandard data is damaged"))?;
                (bytes.len(), None)
            }
            State::Unable => return Err(broken("there is no memory to decode it")),
            State::GzipEnd | State::StreamEnd => return Err(broken("bytes follow the end of the compressed data")),
            State::DeflateHead(held) => {
                let taken = bytes.len().min(2 - held.len());
                held.extend_from_slice(&bytes[..taken]);
                let [method, flags] = held[..] else { return Ok((taken, None)) };
                // RFC 9110 section 8.4.1.2: "Some non-conformant implementations send the "deflate" compressed data
                // without the zlib wrapper." RFC 1950 section 2.2: method 8, a window of at most 32 KiB, and the two
                // bytes "viewed as a 16-bit unsigned integer ... is a multiple of 31".
                let wrapped = method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]) % 31 == 0;
                let mut inflate = Inflate::new(wrapped);
                let begun = inflate.push(&[method, flags], out);
                let (_, ended) = begun.map_err(or("it does not begin as deflate data does"))?;
                (taken, Some(if ended { State::StreamEnd } else { State::DeflateData(inflate) }))
            }
            State::DeflateData(inflate) => {
                let (taken, ended) = inflate.push(bytes, out).map_err(or("the deflate data is damaged"))?;
                (taken, ended.then_some(State::StreamEnd))
            }
        })
    }
}

/// The head of a gzip member, RFC 1952 section 2.3.
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

/// A stream of deflate data.
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
        Inflate { stream: Decompress::new(wrapped), output: vec![0; OUTPUT].into() }
    }

    /// Decodes as far as the bytes go: how many were taken, and whether the data ended with them. Fails with `None`
    /// where they are no deflate data.
    fn push(&mut self, bytes: &[u8], out: Out<'_>) -> Result<(usize, bool), Option<Broken>> {
        let mut taken = 0;
        loop {
            let (input, output) = (self.stream.total_in(), self.stream.total_out());
            // Of what was decoded before damage, the decompressor gives out only as much as there is room for, and the
            // rest never. It stops at the end of its window: with room up to there, nothing is left.
            let room = OUTPUT - (output % OUTPUT as u64) as usize;
            let status = self.stream.decompress(&bytes[taken..], &mut self.output[..room], FlushDecompress::Sync);
            // Both differences are at most the lengths of the two slices.
            let used = (self.stream.total_in() - input) as usize;
            let given = (self.stream.total_out() - output) as usize;
            taken += used;
            if given > 0 {
                // What comes before damage is given out, too.
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
