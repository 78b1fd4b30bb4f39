//! A header block: the fragments in HEADERS or PUSH_PROMISE and in the CONTINUATION frames after
//! it, and the head that they encode.

use std::ops::Range;

use super::hpack::{Field, Hpack, Literal, Malformed};
use crate::decode::Direction;
use crate::decode::http::{self, Head, StartLine};
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::redact::Redaction;

/// A header block, as far as it was received.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) purpose: Purpose,
    /// From the offset of the first frame's head to the offset after the last fragment so far.
    pub(super) place: Range<u64>,
    /// For each fragment, the index of its first byte in the block, and its offset in the stream.
    fragments: Vec<(usize, u64)>,
    bytes: Vec<u8>,
}

/// The purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A head, or trailers. `end`: the stream ends after it.
    Head { end: bool },
    /// A request whose response the server announces.
    Promise,
}

/// A secret in the stream, and its mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) range: Range<u64>,
    pub(super) mask: Mask,
}

/// The key of the masks of secrets, and the user's rules.
pub(super) type SecretSearch<'r> = (Option<MaskKey>, Option<&'r Redaction>);

/// The content of a block.
#[derive(Debug)]
pub(super) struct DecodedBlock {
    pub(super) head: Head,
    pub(super) secrets: Vec<Secret>,
    /// Number of fields that refer to table entries which were not captured.
    pub(super) unknown: u32,
    /// Whether the fields exceed the limit of a head. Those beyond it were dropped.
    pub(super) too_long: bool,
    pub(super) malformed: bool,
}

impl Block {
    pub(super) fn new(stream: u32, purpose: Purpose, start: u64) -> Block {
        Block { stream, purpose, place: start..start, fragments: Vec::new(), bytes: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the next fragment, which lies at `offset` of the stream.
    pub(super) fn push(&mut self, offset: u64, fragment: &[u8]) {
        // An unlimited number of empty frames must not cost memory.
        if !fragment.is_empty() {
            self.fragments.push((self.bytes.len(), offset));
            self.bytes.extend_from_slice(fragment);
        }
        self.place.end = offset + fragment.len() as u64;
    }

    /// All captured bytes of the block, as secrets, since its content remains unknown.
    pub(super) fn masked_ranges(&self) -> impl Iterator<Item = Secret> {
        self.places(0..self.bytes.len()).map(|range| Secret { range, mask: Mask::PLAIN })
    }

    /// Decodes the block. At most `most` bytes of the text of its fields are returned. `search` has
    /// the key of the masks and the user's rules. Without it no secrets are looked for.
    pub(super) fn decode(
        &self,
        direction: Direction,
        hpack: &mut Hpack,
        most: usize,
        search: Option<SecretSearch<'_>>,
    ) -> DecodedBlock {
        // Fields of the tables are longer than their indexes.
        let text = Vec::with_capacity((2 * self.bytes.len() + 128).min(most));
        let mut fields = FieldText { text, list: Vec::with_capacity(8), most, search, ..FieldText::default() };
        let result = hpack.decode(&self.bytes, &mut |field| fields.push(&field));
        let mut secrets: Vec<Secret> = Vec::new();
        for (Literal { range, huffman }, mask) in fields.secrets.drain(..) {
            let mask = if huffman { mask.huffman(range.len()) } else { mask };
            let mut from = 0;
            for place in self.places(range.clone()) {
                let part = from..from + (place.end - place.start) as usize;
                from = part.end;
                secrets.push(Secret { range: place, mask: mask.part(range.len(), &part) });
            }
        }
        if let Err(Malformed(from)) = result {
            secrets.extend(self.places(from..self.bytes.len()).map(|range| Secret { range, mask: Mask::PLAIN }));
        }
        let FieldText { unknown, too_long, .. } = fields;
        let head = fields.head(direction, self.place.clone());
        DecodedBlock { head, secrets, unknown, too_long, malformed: result.is_err() }
    }

    /// The ranges of the stream with these bytes of the block: one for each fragment.
    fn places(&self, range: Range<usize>) -> impl Iterator<Item = Range<u64>> {
        let ends = self.fragments.iter().skip(1).map(|(start, _)| *start).chain([self.bytes.len()]);
        self.fragments.iter().zip(ends).filter_map(move |(&(start, offset), end)| {
            let (from, to) = (range.start.max(start), range.end.min(end));
            (from < to).then(|| offset + (from - start) as u64..offset + (to - start) as u64)
        })
    }
}

/// The fields of a block as text: one line each, as in HTTP/1. Pseudo-header fields are included.
#[derive(Debug, Default)]
struct FieldText<'r> {
    text: Vec<u8>,
    list: Vec<(Range<u32>, Range<u32>)>,
    /// Literals that are secrets, or may be, with their masks.
    secrets: Vec<(Literal, Mask)>,
    unknown: u32,
    too_long: bool,
    most: usize,
    search: Option<SecretSearch<'r>>,
}

impl FieldText<'_> {
    fn push(&mut self, field: &Field<'_>) {
        let value = field.value.unwrap_or_default();
        if let (Some(literal), Some((key, redaction))) = (&field.literal, self.search)
            && field.name.is_none_or(|name| http::is_secret_field(redaction, name, value))
        {
            self.secrets.push((literal.clone(), Mask::of(key, value)));
        }
        let (Some(name), Some(value)) = (field.name, field.value) else {
            self.unknown = self.unknown.saturating_add(1);
            return;
        };
        // RFC 7541 section 4.1 adds 32 bytes for each field. Without them, empty fields would be
        // free.
        let size = self.text.len() + 32 * (self.list.len() + 1) + name.len() + value.len();
        if size > self.most {
            self.too_long = true;
            return;
        }
        let start = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        let value_start = self.text.len() as u32;
        self.text.extend_from_slice(value);
        self.list.push((start..start + name.len() as u32, value_start..self.text.len() as u32));
        self.text.extend_from_slice(b"\r\n");
    }

    /// The head. RFC 9113 section 8.3: method, target and status are fields whose names begin with
    /// a colon. Those that are unknown stay empty.
    fn head(mut self, direction: Direction, place: Range<u64>) -> Head {
        self.text.extend_from_slice(b"\r\n");
        let start = match direction {
            Direction::ClientToServer => {
                let method = self.pseudo(":method");
                // Section 8.5: CONNECT has no path; its target is the authority.
                let path = self.pseudo(":path");
                let target = if path.is_empty() && method == "CONNECT" { self.pseudo(":authority") } else { path };
                StartLine::Request { method, target }
            }
            Direction::ServerToClient => {
                let status = self.pseudo(":status").parse().unwrap_or_default();
                StartLine::Response { status, reason: String::new() }
            }
        };
        let text = self.text.into_boxed_slice();
        Head { offset: place.start, length: place.end - place.start, start, version: "2", text, fields: self.list }
    }

    fn pseudo(&self, name: &str) -> String {
        let slice = |range: &Range<u32>| &self.text[range.start as usize..range.end as usize];
        let found = self.list.iter().find(|(field, _)| slice(field) == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(slice(value)).into_owned()).unwrap_or_default()
    }
}
