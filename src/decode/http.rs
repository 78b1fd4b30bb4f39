//! What an HTTP message head says, whichever version carried it.

use std::ops::Range;

/// The request line or status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// `POST /mcp HTTP/1.1`
    Request {
        /// The method, case-sensitive.
        method: String,
        /// The request target as sent.
        target: String,
    },
    /// `HTTP/1.1 200 OK`
    Response {
        /// The status code, 100 to 999.
        status: u16,
        /// The reason phrase, maybe empty.
        reason: String,
    },
}

/// A message head: start line and header fields, with the text as sent and the place of each field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Offset of the head's first byte in the stream that carried it.
    pub offset: u64,
    /// The start line.
    pub start: StartLine,
    /// Minor version of HTTP/1 (0 or 1); 2 for the major version 2.
    pub version: &'static str,
    /// The text of the head as sent, up to and including the empty line.
    pub text: Box<[u8]>,
    /// Name and value of each field, as ranges of `text`; the value without surrounding blanks.
    pub fields: Vec<(Range<u32>, Range<u32>)>,
}

impl Head {
    /// The fields in order as sent, names and values as bytes.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (self.slice(name), self.slice(value)))
    }

    /// The values of every field of this name (case-insensitive), in order.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The first value of this name, where it is text.
    pub fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The media type of the content, lower case, without parameters: `text/event-stream`.
    pub fn media_type(&self) -> Option<String> {
        let value = self.value("content-type")?;
        Some(value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase())
    }

    /// Offset behind the head in the stream that carried it.
    pub fn end(&self) -> u64 {
        self.offset + self.text.len() as u64
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// What is put in place of every byte of a secret value, so that lengths and offsets stay true.
pub const MASK: u8 = b'*';

/// Whether the values of this header field are secrets, never shown nor written to disk unless asked for.
pub fn is_secret(name: &[u8]) -> bool {
    const NAMES: [&str; 8] = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "api-key",
        "x-auth-token",
        "x-csrf-token",
    ];
    const PARTS: [&str; 4] = ["secret", "token", "password", "apikey"];
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    NAMES.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part))
}
