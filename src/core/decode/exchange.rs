//! An HTTP exchange as a record: request, response, and which packets carried them.

use std::fmt;
use std::ops::Range;

use super::ConnectionId;
use crate::capture::{PacketNumber, Time};

/// The number of an exchange in a capture, 1-based in order of its first head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeNumber(pub u64);

/// The header fields of a message in order as sent; where a value is a secret it is masked byte for byte, unless secrets are kept.
///
/// One text holds them all, and most often it is the head itself: a field is two ranges of it.
#[derive(Clone, Default)]
pub struct Fields {
    text: Box<str>,
    ranges: Box<[FieldRanges]>,
}

/// Where a name and its value stand in the text.
pub(super) type FieldRanges = (Range<u32>, Range<u32>);

impl Fields {
    /// Fields whose names and values stand at these places of a text. Bytes that are no UTF-8 are replaced.
    pub(super) fn new(text: Box<[u8]>, ranges: Vec<FieldRanges>) -> Fields {
        match String::from_utf8(text.into_vec()) {
            Ok(text) => Fields { text: text.into(), ranges: ranges.into() },
            Err(error) => {
                let text = error.as_bytes();
                let part = |range: &Range<u32>| {
                    String::from_utf8_lossy(text.get(range.start as usize..range.end as usize).unwrap_or_default())
                };
                ranges.iter().map(|(name, value)| (part(name), part(value))).collect()
            }
        }
    }

    /// Name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ranges.iter().map(|(name, value)| (self.part(name), self.part(value)))
    }

    fn part(&self, range: &Range<u32>) -> &str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// The first value of this name, whatever its case.
    pub fn get(&self, name: &str) -> Option<&str> {
        // Most names are told apart by their length.
        let mut alike = self.ranges.iter().filter(|(known, _)| known.len() == name.len());
        alike.find(|(known, _)| self.part(known).eq_ignore_ascii_case(name)).map(|(_, value)| self.part(value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of memory that they take.
    pub fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ranges)
    }
}

/// Names and values, in order.
impl<Name: AsRef<str>, Value: AsRef<str>> FromIterator<(Name, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Name, Value)>>(fields: I) -> Fields {
        let mut text = String::new();
        let mut put = |part: &str| {
            let start = text.len() as u32;
            text.push_str(part);
            start..text.len() as u32
        };
        let ranges = fields.into_iter().map(|(name, value)| (put(name.as_ref()), put(value.as_ref()))).collect();
        Fields { text: text.into(), ranges }
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One direction of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Header fields.
    pub fields: Fields,
    /// Time of the first byte; of a response, that of the final one: interim responses (1xx) come before.
    pub started: Option<Time>,
    /// Time of the last byte so far.
    pub ended: Option<Time>,
    /// Offset of the head in the connection's stream of this direction.
    pub head_start: u64,
    /// Offset behind the head.
    pub head_end: u64,
    /// Packets that carried it, each once, in stream order; at most `Limits::packets_listed`.
    pub packets: Vec<PacketNumber>,
    /// Packets that carried its head.
    pub head_packets: Vec<PacketNumber>,
    /// Bytes of the content, as decoded (transfer and content codings taken off).
    pub body_bytes: u64,
    /// SHA-256 of the decoded content, where asked for and whole.
    pub body_sha256: Option<[u8; 32]>,
    /// Whether it was seen whole.
    pub complete: bool,
}

/// An HTTP exchange, MCP or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Its number.
    pub number: ExchangeNumber,
    /// The connection.
    pub connection: ConnectionId,
    /// The HTTP/2 stream.
    pub h2_stream: Option<u32>,
    /// `1.0`, `1.1` or `2`.
    pub http_version: &'static str,
    /// The request method, where the request was seen.
    pub method: Option<String>,
    /// The request target.
    pub target: Option<String>,
    /// The status of the final response, where seen.
    pub status: Option<u16>,
    /// The reason phrase.
    pub reason: Option<String>,
    /// The request.
    pub request: Half,
    /// The response.
    pub response: Half,
}
