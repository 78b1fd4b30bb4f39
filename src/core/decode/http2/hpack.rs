//! Header blocks (RFC 7541): one table for each direction.
//!
//! `loona_hpack` decodes each field. This file finds where each field begins, for two reasons. Lost
//! entries of the table must not stop the decoding: a reference to one is an unknown field.
//! Everything else is still right, because entries are counted from the newest. And a secret is
//! masked at its place:
//!
//! ```text
//!  literal field    40 │ 0d "authorization" │ 93 ────── 19 bytes, Huffman ──────
//!  masked           40 │ 0d "authorization" │ 93 f9 f9 f9 f9 f9 f9 f9 ... f9 f9
//! ```
//!
//! `f9` is the Huffman code of `*`. It has eight bits, so the block keeps its length and can be
//! decoded again.

use std::fmt;
use std::ops::Range;

use loona_hpack::Decoder;

/// The size of the largest dynamic table: 64 KiB. Clients announce 4 to 64 KiB
/// (SETTINGS_HEADER_TABLE_SIZE). In a larger table the oldest entries are unknown.
const TABLE: usize = 64 << 10;

/// The table of one direction.
pub(super) struct Hpack {
    decoder: Decoder<'static>,
}

impl fmt::Debug for Hpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hpack")
    }
}

/// A field of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Its name; `None` if it refers to an entry that was not captured.
    pub(super) name: Option<&'a [u8]>,
    /// Its value; `None` for the same reason.
    pub(super) value: Option<&'a [u8]>,
    /// The value's place in the block, if it is not an entry of the table.
    pub(super) literal: Option<Literal>,
}

/// A string in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// Its bytes, after the length.
    pub(super) range: Range<usize>,
    /// Whether the bytes are Huffman codes.
    pub(super) huffman: bool,
}

/// A block that does not conform to RFC 7541, from this index of it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) usize);

impl Hpack {
    /// An empty table.
    pub(super) fn new() -> Hpack {
        Hpack { decoder: Decoder::new() }
    }

    /// Notes that a block was not captured, so the entries of the table are unknown. The table
    /// restarts empty: a reference to an older entry is then found to be unknown.
    pub(super) fn lose(&mut self) {
        *self = Hpack::new();
    }

    /// Decodes a block, field by field.
    ///
    /// # Errors
    ///
    /// When the block is malformed. The table is then lost.
    pub(super) fn decode(&mut self, block: &[u8], sink: &mut dyn FnMut(Field<'_>)) -> Result<(), Malformed> {
        let mut at = 0;
        while at < block.len() {
            let end = self.step(block, at, sink);
            at = end.ok_or(Malformed(at)).inspect_err(|_| self.lose())?;
        }
        Ok(())
    }

    /// Decodes the representation at index `at`. Returns the index of the next one.
    fn step(&mut self, block: &[u8], at: usize, sink: &mut dyn FnMut(Field<'_>)) -> Option<usize> {
        match block[at] {
            // RFC 7541 section 6.1: "The index value of 0 is not used. It MUST be treated as a
            // decoding error".
            first if first & 0x80 != 0 => {
                let (_, end) = integer(block, at, 7).filter(|(index, _)| *index > 0)?;
                if !self.field(&block[at..end], None, sink)? {
                    sink(Field { name: None, value: None, literal: None });
                }
                Some(end)
            }
            first if first & 0xe0 == 0x20 => {
                let (size, end) = integer(block, at, 5)?;
                self.decoder.set_max_table_size(size.min(TABLE));
                Some(end)
            }
            first => {
                let indexed = first & 0x40 != 0;
                let (index, mut value) = integer(block, at, if indexed { 6 } else { 4 })?;
                if index == 0 {
                    value = string(block, value)?.range.end;
                }
                let literal = string(block, value)?;
                let end = literal.range.end;
                if !self.field(&block[at..end], Some(&literal), sink)? {
                    // The name is unknown and the value is not, and the entry counts. No field has
                    // an empty name.
                    let nameless = [&[if indexed { 0x40 } else { 0 }, 0], &block[value..end]].concat();
                    self.field(&nameless, Some(&literal), sink)?;
                }
                Some(end)
            }
        }
    }

    /// Decodes one representation. Returns `Some(false)` if it refers to an entry that
    /// does not exist.
    fn field(&mut self, bytes: &[u8], literal: Option<&Literal>, sink: &mut dyn FnMut(Field<'_>)) -> Option<bool> {
        let result = self.decoder.decode_with_cb(bytes, |name, value| {
            let name = Some(&*name).filter(|name| !name.is_empty());
            sink(Field { name, value: Some(&*value), literal: literal.cloned() });
        });
        match result {
            Ok(()) => Some(true),
            Err(loona_hpack::decoder::DecoderError::HeaderIndexOutOfBounds) => Some(false),
            Err(_) => None,
        }
    }
}

/// Parses an integer (RFC 7541 section 5.1) whose prefix has this number of bits. Returns its value
/// and the index after it. Integers above 32 bits are rejected: "excessively large integer
/// encodings -- in value or octet length -- MUST be treated as decoding errors".
fn integer(block: &[u8], at: usize, prefix: u8) -> Option<(usize, usize)> {
    let mask = (1u8 << prefix) - 1;
    let first = block.get(at)? & mask;
    let mut value = u64::from(first);
    if first < mask {
        return Some((usize::from(first), at + 1));
    }
    for (index, byte) in block[at + 1..].iter().take(4).enumerate() {
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at + 2 + index));
        }
    }
    None
}

/// Parses a string (RFC 7541 section 5.2) whose length is at index `at`.
fn string(block: &[u8], at: usize) -> Option<Literal> {
    let huffman = block.get(at)? & 0x80 != 0;
    let (length, start) = integer(block, at, 7)?;
    let end = start.checked_add(length).filter(|end| *end <= block.len())?;
    Some(Literal { range: start..end, huffman })
}

#[cfg(test)]
mod tests;
