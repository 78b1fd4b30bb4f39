//! The bytes that are being parsed: one buffer that is refilled by large reads and grows only
//! as bytes arrive.
//!
//! ```text
//!  bytes   ┊ consumed ┊ at hand ┊ free ┊
//!          0        start      end    len
//! ```

use std::io::{self, Read};

/// Bytes of one read. This is enough to make the cost of the system call negligible beside the
/// copy. It is few enough to stay in the processor's second-level cache, together with the
/// decoder's tables, until the next read fills the same memory.
const CHUNK: usize = 64 << 10;

/// A buffer that slides over a stream of bytes.
#[derive(Debug)]
pub(super) struct Window<R> {
    pub(super) input: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    pub(super) offset: u64,
}

impl<R: Read> Window<R> {
    /// A window at the start of `input`. Nothing is read yet.
    pub(super) fn new(input: R) -> Window<R> {
        Window { input, bytes: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// The bytes at hand.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes of memory that the buffer occupies.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Discards the first `length` bytes at hand.
    pub(super) fn consume(&mut self, length: usize) {
        let length = length.min(self.end - self.start);
        self.start += length;
        self.offset += length as u64;
    }

    /// Reads until `wanted` bytes are at hand; `false` if the input ends before that. The call may
    /// be repeated when the input has grown.
    ///
    /// It never reads once there are enough bytes, so that data from a slow pipe is parsed
    /// as it arrives.
    pub(super) fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.end - self.start < wanted {
            if self.end == self.bytes.len() {
                self.make_room();
            }
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Moves the bytes at hand to the front of the buffer.
    ///
    /// At least half of the buffer is free then, so each byte moved corresponds to a byte read. The
    /// buffer grows only when more than half of it holds bytes that did arrive.
    fn make_room(&mut self) {
        let kept = self.end - self.start;
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, kept);
        if kept > self.bytes.len() / 2 || self.bytes.is_empty() {
            self.bytes.resize((self.bytes.len() * 2).max(CHUNK), 0);
        }
    }
}
