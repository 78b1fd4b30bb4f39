//! The bytes of a capture: a file or standard input, decompressed if necessary.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The path that means standard input on the command line.
const STANDARD_INPUT: &str = "-";
/// Bytes of compressed data in one read.
const COMPRESSED_CHUNK: usize = 64 << 10;
/// The interval at which an empty pipe reports again that nothing has come.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Whether this path means standard input.
pub(super) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// An open capture whose bytes are decompressed where necessary.
pub(super) enum Input {
    Plain(Raw),
    /// One or several members (RFC 1952).
    Gzip(Box<MultiGzDecoder<BufReader<Raw>>>),
    /// One or several frames (RFC 8878).
    Zstd(Box<zstd::Decoder<'static, BufReader<Raw>>>),
    /// A capture that was made of a recording of another program.
    Made(io::Cursor<Vec<u8>>),
}

impl Input {
    /// Opens a path and reads as many bytes as it takes to recognise a compressed file.
    pub(super) fn open(path: &Path) -> io::Result<Input> {
        // A copy of the descriptor: the buffer of `io::stdin` would hide from `poll` the bytes
        // that it holds.
        let mut file = if is_standard_input(path) {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
        let is_regular = file.metadata()?.is_file();
        let mut first = Vec::new();
        file.by_ref().take(4).read_to_end(&mut first)?;
        let read = first.len() as u64;
        let gzip = first.starts_with(b"\x1f\x8b");
        let zstd = first.starts_with(b"\x28\xb5\x2f\xfd");
        let raw = Raw { first, file, read, waits: !is_regular && !gzip && !zstd, waited: false };
        Ok(if gzip {
            Input::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED_CHUNK, raw))))
        } else if zstd {
            Input::Zstd(Box::new(zstd::Decoder::with_buffer(BufReader::with_capacity(COMPRESSED_CHUNK, raw))?))
        } else {
            Input::Plain(raw)
        })
    }

    /// Whether the file is not compressed.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Input::Plain(_))
    }

    /// Bytes read from the file, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Input::Plain(raw) => raw.read,
            Input::Gzip(decoder) => decoder.get_ref().get_ref().read,
            Input::Zstd(decoder) => decoder.get_ref().get_ref().read,
            Input::Made(bytes) => bytes.position(),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Plain(raw) => raw.read(buffer),
            Input::Gzip(decoder) => decoder.read(buffer).map_err(|error| broken("gzip", error)),
            Input::Zstd(decoder) => decoder.read(buffer).map_err(|error| broken("zstd", error)),
            Input::Made(bytes) => bytes.read(buffer),
        }
    }
}

/// Describes a failure of a decompressor. Errors of the operating system pass unchanged.
fn broken(format: &str, error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted {
        return error;
    }
    io::Error::new(error.kind(), format!("the {format} data is broken or cut short from here on ({error})"))
}

/// The bytes of a file, counted. The first of them were read to recognise a compressed file.
pub(super) struct Raw {
    first: Vec<u8>,
    file: File,
    read: u64,
    /// Whether this is a pipe, a socket or a terminal. A read that would block fails then with
    /// [`io::ErrorKind::WouldBlock`]: at once after a read that succeeded, so that the packets so
    /// far are shown, and afterwards every [`PATIENCE`].
    waits: bool,
    /// Whether the last read found nothing.
    waited: bool,
}

impl Raw {
    fn wait(&mut self) -> io::Result<()> {
        let patience = if self.waited { PATIENCE } else { Timespec { tv_sec: 0, tv_nsec: 0 } };
        self.waited = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&patience))? == 0;
        if self.waited { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.first.is_empty() {
            let length = self.first.as_slice().read(buffer)?;
            self.first.drain(..length);
            return Ok(length);
        }
        if self.waits {
            self.wait()?;
        }
        let length = self.file.read(buffer)?;
        self.read += length as u64;
        Ok(length)
    }
}
