//! The record of an HTTP exchange: request, response, and the packets that carried them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::ConnectionId;
use crate::capture::{PacketNumber, Time};

/// The number of an exchange in a capture. Numbers start at 1 and follow the order of
/// the first heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeNumber(pub u64);

/// The header fields of one HTTP message, in the order in which they were sent. Each byte of a
/// secret value is masked, unless the user asked to keep secrets.
///
/// One buffer contains all fields, and most often it is the head itself. A field is two
/// ranges of it.
#[derive(Clone, Default)]
pub struct Fields(
    /// Shared, because the record of an exchange is copied at each head.
    Option<Arc<FieldBlock>>,
);

/// The buffer of all fields, and the ranges of each.
struct FieldBlock {
    text: Box<str>,
    ranges: Vec<FieldRanges>,
    /// The lengths of the names, as a set of bits. Most look-ups are for fields that are not there.
    lengths: u64,
}

/// The bit of a name's length.
fn length_bit(name: &Range<u32>) -> u64 {
    1 << (name.end.wrapping_sub(name.start) & 63)
}

/// The ranges of a field's name and of its value in the buffer.
pub(super) type FieldRanges = (Range<u32>, Range<u32>);

impl Fields {
    /// Builds fields from a buffer and ranges of it. Bytes that are not valid UTF-8 are replaced by
    /// U+FFFD.
    pub(super) fn new(text: Box<[u8]>, ranges: Vec<FieldRanges>) -> Fields {
        match String::from_utf8(text.into_vec()) {
            Ok(text) => Fields::of(text, ranges),
            Err(error) => {
                let text = error.as_bytes();
                let part = |range: &Range<u32>| {
                    String::from_utf8_lossy(text.get(range.start as usize..range.end as usize).unwrap_or_default())
                };
                ranges.iter().map(|(name, value)| (part(name), part(value))).collect()
            }
        }
    }

    fn of(text: String, ranges: Vec<FieldRanges>) -> Fields {
        let lengths = ranges.iter().fold(0, |lengths, (name, _)| lengths | length_bit(name));
        Fields((!ranges.is_empty()).then(|| Arc::new(FieldBlock { text: text.into(), ranges, lengths })))
    }

    /// The name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let block = self.0.iter();
        block.flat_map(|block| block.ranges.iter().map(|(name, value)| (block.part(name), block.part(value))))
    }

    /// The name and value of each field whose name begins with `prefix`; case is ignored.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let begins = |block: &FieldBlock, name: &Range<u32>| {
            let start = name.start as usize;
            let bytes = block.text.as_bytes().get(start..start + prefix.len());
            name.len() >= prefix.len() && bytes.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        self.0.iter().flat_map(move |block| {
            let named = block.ranges.iter().filter(move |(name, _)| begins(block, name));
            named.map(|(name, value)| (block.part(name), block.part(value)))
        })
    }

    /// The first value of the field `name`; case is ignored.
    pub fn get(&self, name: &str) -> Option<&str> {
        let block = self.0.as_deref()?;
        if block.lengths & length_bit(&(0..name.len() as u32)) == 0 {
            return None;
        }
        // Comparing lengths first rules out most names cheaply.
        let mut alike = block.ranges.iter().filter(|(known, _)| known.len() == name.len());
        alike.find(|(known, _)| block.part(known).eq_ignore_ascii_case(name)).map(|(_, value)| block.part(value))
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Memory that the fields occupy, in bytes.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |block| block.text.len() + size_of_val(&*block.ranges))
    }
}

impl FieldBlock {
    fn part(&self, range: &Range<u32>) -> &str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// Builds fields from pairs of name and value.
impl<Name: AsRef<str>, Value: AsRef<str>> FromIterator<(Name, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Name, Value)>>(fields: I) -> Fields {
        let mut text = String::new();
        let mut put = |part: &str| {
            let start = text.len() as u32;
            text.push_str(part);
            start..text.len() as u32
        };
        let ranges = fields.into_iter().map(|(name, value)| (put(name.as_ref()), put(value.as_ref()))).collect();
        Fields::of(text, ranges)
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

/// The request or the response of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// The header fields of the head.
    pub fields: Fields,
    /// Time of the first byte. A response starts with its final head: interim responses
    /// (1xx) precede it.
    pub started: Option<Time>,
    /// Time of the last byte captured so far.
    pub ended: Option<Time>,
    /// Offset of the head's first byte in the connection's stream of this direction.
    pub head_start: u64,
    /// Offset after the head's last byte.
    pub head_end: u64,
    /// Packets that carried the message, each once, in stream order. At most
    /// `Limits::packets_listed`.
    pub packets: Vec<PacketNumber>,
    /// Packets that carried the head.
    pub head_packets: Vec<PacketNumber>,
    /// Size of the content in bytes, after removing transfer and content codings.
    pub body_bytes: u64,
    /// SHA-256 of the decoded content, if requested and if the content is complete.
    pub body_sha256: Option<[u8; 32]>,
    /// Whether the whole message was captured.
    pub complete: bool,
}

/// One HTTP request and its response, whether or not they carry MCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The number of the exchange in the capture.
    pub number: ExchangeNumber,
    /// The connection that carried the exchange.
    pub connection: ConnectionId,
    /// The identifier of the HTTP/2 stream; `None` for HTTP/1.
    pub h2_stream: Option<u32>,
    /// `1.0`, `1.1` or `2`.
    pub http_version: &'static str,
    /// The request method; `None` if the request was not captured.
    pub method: Option<String>,
    /// The request target; `None` if the request was not captured.
    pub target: Option<String>,
    /// The status code of the final response, if it was captured.
    pub status: Option<u16>,
    /// The reason phrase of the final response.
    pub reason: Option<String>,
    /// The explanation in the content of a response whose status is 400 or more.
    pub explanation: Option<String>,
    /// Fields, times and packets of the request.
    pub request: Half,
    /// Fields, times and packets of the response.
    pub response: Half,
}

impl Exchange {
    /// Memory that its fields and its target occupy, in bytes.
    pub fn size(&self) -> usize {
        self.request.fields.size() + self.response.fields.size() + self.target.as_ref().map_or(0, String::len)
    }
}
