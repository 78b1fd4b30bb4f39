//! The bytes being looked at: one buffer that is refilled in large reads and grows only as bytes arrive.
//!
//! ```text
//!  bytes   ┊ consumed ┊ to be looked at ┊ free ┊
//!          0        start              end    len
//! ```

use std::io::{self, Read};

/// Bytes asked for in one read: enough for the system call to cost nothing beside the copy, few enough to stay in the processor's
/// second-level cache, with all that is looked up for them, until the next read fills the same memory.
const CHUNK: usize = 64 << 10;

/// A view of a stream of bytes that slides over it.
#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read> Window<R> {
    /// A window at the beginning of `input`, of which nothing is read yet.
    pub(super) fn new(input: R) -> Window<R> {
        Window { input, bytes: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// The bytes at hand.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The offset in the stream of the first byte at hand.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the bytes come from.
    pub(super) fn input(&self) -> &R {
        &self.input
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Lets go of the first `length` bytes at hand.
    pub(super) fn consume(&mut self, length: usize) {
        let length = length.min(self.end - self.start);
        self.start += length;
        self.offset += length as u64;
    }

    /// Reads until `wanted` bytes are at hand; `false` where the input ends before. It can be asked again when the input has grown.
    ///
    /// It never reads once there are enough: a slow pipe is looked at as it arrives.
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

    /// Moves the bytes at hand to the front. At least half of the buffer is free then, so that what is moved was paid for by as many bytes
    /// read; it grows only when half full of bytes that did arrive.
    fn make_room(&mut self) {
        let kept = self.end - self.start;
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, kept);
        if kept > self.bytes.len() / 2 || self.bytes.is_empty() {
            self.bytes.resize((self.bytes.len() * 2).max(CHUNK), 0);
        }
    }
}
