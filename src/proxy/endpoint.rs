//! Rewrites the address that an HTTP+SSE stream announces first, if it is a full URL.
//!
//! "When a client connects, the server MUST send an endpoint event containing a URI for the client
//! to use for sending messages" (2024-11-05 basic/transports). A path is resolved against the URL
//! of the stream, so it leads to the proxy. A full URL of the server does not: some SDKs refuse it,
//! others would bypass the proxy. So this one line is changed, and with it the size of its chunk:
//!
//! ```text
//!  3b␍␊event: endpoint␊data: http://api.test/messages?id=1␊␊␍␊
//!  ▲▲                        ▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲
//!  40␍␊event: endpoint␊data: http://localhost:90/messages?id=1␊␊␍␊
//! ```
//!
//! Bytes are buffered only while they can still be the beginning of `event: endpoint`, and then up
//! to the end of the next line. A client cannot use the stream before that line either.

use std::ops::Range;

use crate::decode::http::{Head, StartLine};

/// The most bytes that are buffered.
const LONGEST: usize = 4 << 10;

/// A range of stream offsets and the bytes that replace it.
pub(super) type Change = (Range<u64>, Vec<u8>);

/// The beginning of an event stream, until it is clear whether it announces an address.
#[derive(Debug)]
pub(super) struct EndpointEvent {
    /// Stream offset of the end of the head.
    pub(super) start: u64,
    content: Vec<u8>,
    /// The start of each chunk, as an index into `content` and as a stream offset.
    chunks: Vec<(usize, u64)>,
}

/// The result of scanning the content so far.
#[derive(Debug, PartialEq, Eq)]
enum EndpointScan {
    /// The stream begins with something else.
    Other,
    /// More bytes are needed.
    Incomplete,
    /// The range of the announced address in the content.
    Address(Range<usize>),
}

impl EndpointEvent {
    /// For a response that is an event stream without a fixed length and without a content coding.
    /// Other responses cannot be changed.
    pub(super) fn of(head: &Head) -> Option<EndpointEvent> {
        let is_events = matches!(head.start, StartLine::Response { status: 200, .. })
            && head.media_type().is_some_and(|media| media == "text/event-stream");
        let is_bound = ["content-encoding", "content-length"].iter().any(|name| head.value(name).is_some());
        let nothing = EndpointEvent { start: head.end(), content: Vec::new(), chunks: Vec::new() };
        (is_events && !is_bound).then_some(nothing)
    }

    /// Takes content that begins at `offset` of the stream. Returns `None` while more is needed,
    /// and then the changes to make. `buffered` is the stream from the end of the head on.
    /// `renamed` returns the new address, or `None` to leave it unchanged.
    pub(super) fn push(
        &mut self,
        offset: u64,
        bytes: &[u8],
        buffered: &[u8],
        renamed: impl FnOnce(&str) -> Option<String>,
    ) -> Option<Vec<Change>> {
        let is_next = |(content, stream): &(usize, u64)| stream + (self.content.len() - content) as u64 == offset;
        if !self.chunks.last().is_some_and(is_next) {
            self.chunks.push((self.content.len(), offset));
        }
        self.content.extend_from_slice(bytes);
        match scan(&self.content) {
            EndpointScan::Incomplete if self.content.len() < LONGEST => None,
            // Longer addresses stay unchanged, even if they arrive in one piece.
            EndpointScan::Address(range) if range.end < LONGEST => {
                Some(self.change(range, buffered, renamed).unwrap_or_default())
            }
            _ => Some(Vec::new()),
        }
    }

    fn change(
        &self,
        range: Range<usize>,
        buffered: &[u8],
        renamed: impl FnOnce(&str) -> Option<String>,
    ) -> Option<Vec<Change>> {
        let new = renamed(std::str::from_utf8(&self.content[range.clone()]).ok()?)?;
        let chunk = self.chunks.iter().rposition(|(content, _)| *content <= range.start)?;
        if self.chunks.get(chunk + 1).is_some_and(|(content, _)| *content < range.end) {
            // No known server splits an address into two chunks.
            return None;
        }
        let (content, stream) = self.chunks[chunk];
        let from = stream + (range.start - content) as u64;
        let address = (from..from + range.len() as u64, new.into_bytes());
        if stream == self.start {
            // The body ends with the connection, so there is no chunk size to change.
            return Some(vec![address]);
        }
        let before = buffered.get(..(stream - self.start) as usize)?.strip_suffix(b"\r\n")?;
        let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let digits = before[line..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = u64::from_str_radix(std::str::from_utf8(&before[line..line + digits]).ok()?, 16).ok()?;
        let size = (size + address.1.len() as u64).checked_sub(range.len() as u64)?;
        let line = self.start + line as u64;
        Some(vec![(line..line + digits as u64, format!("{size:x}").into_bytes()), address])
    }
}

/// Whether the content begins with an event that announces an address. All known servers send it in
/// exactly two lines.
fn scan(content: &[u8]) -> EndpointScan {
    let lines = || {
        let value = strip_or_wait(without_blank(strip_or_wait(content, b"event:")?), b"endpoint")?;
        let next = strip_or_wait(value.strip_prefix(b"\r").unwrap_or(value), b"\n")?;
        Ok(without_blank(strip_or_wait(next, b"data:")?))
    };
    let rest = match lines() {
        Ok(rest) => rest,
        Err(scan) => return scan,
    };
    let start = content.len() - rest.len();
    match memchr::memchr2(b'\r', b'\n', rest) {
        Some(length) => EndpointScan::Address(start..start + length),
        None => EndpointScan::Incomplete,
    }
}

/// "If value starts with a U+0020 SPACE character, remove it from value" (WHATWG HTML section
/// 9.2.6).
fn without_blank(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

/// The content after `word`. If it does not begin with `word`, the result states whether
/// it still can.
fn strip_or_wait<'a>(content: &'a [u8], word: &[u8]) -> Result<&'a [u8], EndpointScan> {
    match content.strip_prefix(word) {
        Some(rest) => Ok(rest),
        None if word.starts_with(content) => Err(EndpointScan::Incomplete),
        None => Err(EndpointScan::Other),
    }
}
