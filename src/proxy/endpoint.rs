//! The address that a stream of HTTP+SSE announces first, where it is a whole URL.
//!
//! "When a client connects, the server MUST send an endpoint event containing a URI for the client to use for sending messages" (2024-11-05 basic/transports). A
//! path is at the proxy as the stream is. A whole URL at the server is not: SDKs refuse it, others would go past the proxy. So that one line is changed, and
//! with it the size of the chunk that it stands in:
//!
//! ```text
//!  3b␍␊event: endpoint␊data: http://api.test/messages?id=1␊␊␍␊
//!  ▲▲                        ▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲
//!  40␍␊event: endpoint␊data: http://localhost:90/messages?id=1␊␊␍␊
//! ```
//!
//! Bytes are held for that no longer than they may begin with `event: endpoint`, and then to the end of the line that follows: a client can do nothing with less.

use std::ops::Range;

use crate::decode::http::{Head, StartLine};

/// Bytes that are held at most.
const LONGEST: usize = 4 << 10;

/// Bytes of the stream, and what is passed on in their place.
pub(super) type Change = (Range<u64>, Vec<u8>);

/// The content of a stream of events, until it is known whether it announces an address.
#[derive(Debug)]
pub(super) struct EndpointEvent {
    /// Where the head ends.
    start: u64,
    content: Vec<u8>,
    /// Where each chunk begins, in the content and in the stream.
    chunks: Vec<(usize, u64)>,
}

/// What content says so far.
#[derive(Debug, PartialEq, Eq)]
enum EndpointScan {
    /// Something else.
    Other,
    /// This may become an address.
    Incomplete,
    /// An address stands here.
    Address(Range<usize>),
}

impl EndpointEvent {
    /// Of a stream of events that can be changed: as long as it likes, and not compressed.
    pub(super) fn of(head: &Head) -> Option<EndpointEvent> {
        let is_events = matches!(head.start, StartLine::Response { status: 200, .. })
            && head.media_type().is_some_and(|media| media == "text/event-stream");
        let is_bound = ["content-encoding", "content-length"].iter().any(|name| head.value(name).is_some());
        let nothing = EndpointEvent { start: head.end(), content: Vec::new(), chunks: Vec::new() };
        (is_events && !is_bound).then_some(nothing)
    }

    /// From where on the stream is held.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Takes content that stands here in the stream. `None`: more is needed. Else what changes, where `renamed` has a new name for the address that was announced;
    /// `buffered` is the stream from the end of the head on.
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
            // Longer ones stay, also where they came in one piece.
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
            // Nobody sends an address in two chunks.
            return None;
        }
        let (content, stream) = self.chunks[chunk];
        let from = stream + (range.start - content) as u64;
        let address = (from..from + range.len() as u64, new.into_bytes());
        if stream == self.start {
            // It ends with the connection, and has no chunks.
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

/// Whether this is an event that announces an address: every server known says so in two lines.
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

/// "If value starts with a U+0020 SPACE character, remove it from value" (WHATWG HTML section 9.2.6).
fn without_blank(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

/// What stands behind a word.
fn strip_or_wait<'a>(content: &'a [u8], word: &[u8]) -> Result<&'a [u8], EndpointScan> {
    match content.strip_prefix(word) {
        Some(rest) => Ok(rest),
        None if word.starts_with(content) => Err(EndpointScan::Incomplete),
        None => Err(EndpointScan::Other),
    }
}
