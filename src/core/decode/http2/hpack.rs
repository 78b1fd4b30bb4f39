//! Header blocks (RFC 7541): one table for each direction.
//!
//! Fields are decoded one by one by `loona_hpack`; this file knows where each begins, for two reasons. A table of which entries were lost
//! must not stop decoding: a reference to what nobody saw is an unknown field, and everything else is still right, because entries are
//! counted from the newest. And a secret is masked where it stands:
//!
//! ```text
//!  literal field    40 │ 0d "authorization" │ 93 ────── 19 bytes, Huffman ──────
//!  masked           40 │ 0d "authorization" │ 93 f9 f9 f9 f9 f9 f9 f9 ... f9 f9
//! ```
//!
//! `f9` is the Huffman code of `*` and eight bits long, so the block stays as long as it was and can be decoded again.

use std::fmt;
use std::ops::Range;

use loona_hpack::Decoder;

/// The largest dynamic table that is kept. Clients announce 4 to 64 KiB (SETTINGS_HEADER_TABLE_SIZE); of a larger one the oldest entries are
/// unknown.
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
    /// Its name; `None` where it refers to an entry that was never seen.
    pub(super) name: Option<&'a [u8]>,
    /// Its value; `None` for the same reason.
    pub(super) value: Option<&'a [u8]>,
    /// Where in the block the value stands, if it does.
    pub(super) literal: Option<Literal>,
}

/// A string in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// Its bytes, behind the length.
    pub(super) range: Range<usize>,
    /// Whether they are Huffman codes.
    pub(super) huffman: bool,
}

/// The block is not what RFC 7541 describes, from this offset of it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) usize);

impl Hpack {
    /// An empty table.
    pub(super) fn new() -> Hpack {
        Hpack { decoder: Decoder::new() }
    }

    /// A block passed unseen: which entries the table has now nobody knows. It begins anew, so that what refers to an older entry is found
    /// to be unknown.
    pub(super) fn lose(&mut self) {
        *self = Hpack::new();
    }

    /// Decodes a block, field by field.
    ///
    /// # Errors
    ///
    /// Where the block is malformed. The table is lost then.
    pub(super) fn decode(&mut self, block: &[u8], sink: &mut dyn FnMut(Field<'_>)) -> Result<(), Malformed> {
        let mut at = 0;
        while at < block.len() {
            let end = self.step(block, at, sink);
            at = end.ok_or(Malformed(at)).inspect_err(|_| self.lose())?;
        }
        Ok(())
    }

    /// Decodes the representation at `at`; where the next begins.
    fn step(&mut self, block: &[u8], at: usize, sink: &mut dyn FnMut(Field<'_>)) -> Option<usize> {
        match block[at] {
            // RFC 7541 section 6.1: "The index value of 0 is not used. It MUST be treated as a decoding error".
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
                    // The name is unknown, the value is not, and the entry counts. No field has an empty name.
                    let nameless = [&[if indexed { 0x40 } else { 0 }, 0], &block[value..end]].concat();
                    self.field(&nameless, Some(&literal), sink)?;
                }
                Some(end)
            }
        }
    }

    /// Decodes one representation. `Some(false)` where it refers to an entry that is not there.
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

/// An integer (RFC 7541 section 5.1) whose prefix has so many bits, and where it ends. None is longer than 32 bits: "excessively large
/// integer encodings -- in value or octet length -- MUST be treated as decoding errors".
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

/// A string (RFC 7541 section 5.2) whose length stands at `at`.
fn string(block: &[u8], at: usize) -> Option<Literal> {
    let huffman = block.get(at)? & 0x80 != 0;
    let (length, start) = integer(block, at, 7)?;
    let end = start.checked_add(length).filter(|end| *end <= block.len())?;
    Some(Literal { range: start..end, huffman })
}

#[cfg(test)]
mod tests;
