//! Both directions of one client connection, as bytes in and bytes out. The decoder for captures
//! finds the heads, and all bytes between them are forwarded unchanged.
//!
//! ```text
//!            bytes of the client ─► buffer ─► decoder ─► heads checked and changed ─► server
//!  client ◄─ heads changed ◄─ decoder ◄─ buffer ◄─ bytes of the server
//! ```
//!
//! Only heads and the lines that frame chunks are buffered until they are complete
//! ([`endpoint`](super::endpoint) buffers one more line). Because the same decoder reads the
//! recording, every forwarded byte has the same meaning there.
//!
//! [`HeadRules`] says what happens to the heads: a reverse proxy and a forward proxy change them in
//! different ways. Inside a tunnel nothing changes. There the decoder only observes, so that the
//! proxy knows whether a client waits for a response.

use std::collections::VecDeque;
use std::sync::Arc;

use super::endpoint::{Change, EndpointEvent};
use super::forward_heads::{self, Forwarded};
use super::heads::{HeadRewriter, Redirect};
use crate::capture::Limits;
use crate::decode::http::{Head, HttpEvent, StartLine};
use crate::decode::http1::Http1;
use crate::decode::http2::Http2;
use crate::decode::{Anomaly, Direction, Ending, Piece, uri};
use crate::http::origin::Origin;
use crate::http::requests::Refusal;
use crate::view::secrets::masked_uri;

/// The most forwarded requests without a complete response. Beyond it, the client is not read.
/// Clients that pipeline send tens of requests.
const MAX_UNANSWERED: u64 = 64;

/// The header field that names a session of Streamable HTTP.
const SESSION_ID: &str = "mcp-session-id";

/// What happens to the heads of a connection.
#[derive(Debug, Default)]
enum HeadRules {
    /// They change between the names of the proxy and of its one server.
    Reverse(Arc<HeadRewriter>),
    /// Requests name their server in full, and lose that name.
    Forward,
    /// All bytes pass as they are.
    #[default]
    Unchanged,
}

/// The protocol inside a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// Its bytes are not read.
    Unknown,
}

#[derive(Debug)]
enum HttpDecoder {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    None,
}

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct Conversation {
    decoder: HttpDecoder,
    /// Bytes given to the decoder so far, by direction.
    pushed: [u64; 2],
    pub(super) rewriter: Rewriter,
}

/// Turns the events of the decoder into changes of the forwarded bytes, and notes what the events
/// say about the connection.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    rules: HeadRules,
    /// The server that the last request to a forward proxy named.
    pub(super) origin: Option<Origin>,
    /// Host and port that a client wants a tunnel to. Its request is not forwarded.
    pub(super) tunnel_to: Option<String>,
    /// A response asked for a log-in.
    pub(super) asks_login: bool,
    /// The name that the client uses for the proxy.
    host: String,
    buffers: [DirectionBuffer; 2],
    /// Start and end offset of the last request head.
    head: (u64, u64),
    /// Whether the body of that request is incomplete.
    in_request_body: bool,
    /// Requests that were forwarded and whose responses are incomplete.
    pub(super) unanswered: u64,
    /// Whether the head of the oldest of these responses has arrived.
    pub(super) is_answering: bool,
    /// Set while the current response may still announce an address at the server.
    endpoint: Option<EndpointEvent>,
    /// The session id of the last request, and its target. Either can name a session.
    pub(super) session_names: [String; 2],
    /// The name of a session that the server assigned or announced.
    pub(super) session_begun: Option<String>,
    /// The connection has switched to another protocol.
    is_tunnel: bool,
    /// The last request of the connection.
    pub(super) refused: Option<Refused>,
    /// A redirect of the server that leads clients past the proxy.
    pub(super) bypass: Option<String>,
}

/// A request that is not forwarded, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// Whether a part of it was forwarded already.
    pub(super) is_partly_sent: bool,
}

/// The bytes of one direction that are not forwarded yet.
#[derive(Debug)]
struct DirectionBuffer {
    /// Stream offset of the first buffered byte.
    start: u64,
    bytes: Vec<u8>,
    /// Replacements inside the buffered bytes, in order.
    changes: VecDeque<Change>,
    /// Bytes from this offset on are not forwarded, for now or ever.
    hold_from: u64,
}

impl Default for DirectionBuffer {
    fn default() -> DirectionBuffer {
        DirectionBuffer { start: 0, bytes: Vec::new(), changes: VecDeque::new(), hold_from: u64::MAX }
    }
}

impl DirectionBuffer {
    /// Stream offset after the last buffered byte.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Appends the bytes before `end` to `out`, with their replacements, and removes them here.
    fn take(&mut self, end: u64, out: &mut Vec<u8>) {
        let end = end.min(self.hold_from).max(self.start);
        let index = |offset: u64| (offset - self.start) as usize;
        if out.is_empty() && self.changes.is_empty() && index(end) == self.bytes.len() {
            // Most bytes are content without changes. They are moved, not copied.
            self.start = end;
            return std::mem::swap(out, &mut self.bytes);
        }
        let mut at = self.start;
        while let Some((range, text)) = self.changes.pop_front_if(|(range, _)| range.end <= end) {
            out.extend_from_slice(&self.bytes[index(at)..index(range.start)]);
            out.extend_from_slice(&text);
            at = range.end;
        }
        out.extend_from_slice(&self.bytes[index(at)..index(end)]);
        self.bytes.drain(..index(end));
        self.start = end;
    }
}

impl Conversation {
    /// A conversation with a reverse proxy, which the client reached at `local`.
    pub(super) fn new(heads: Arc<HeadRewriter>, local: &str) -> Conversation {
        Conversation::with(HeadRules::Reverse(heads), Protocol::Http1, local)
    }

    /// A conversation with a forward proxy, until it asks for a tunnel.
    pub(super) fn forward() -> Conversation {
        Conversation::with(HeadRules::Forward, Protocol::Http1, "")
    }

    /// A conversation inside a tunnel. Its bytes pass unchanged.
    pub(super) fn tunnelled(protocol: Protocol) -> Conversation {
        Conversation::with(HeadRules::Unchanged, protocol, "")
    }

    fn with(rules: HeadRules, protocol: Protocol, local: &str) -> Conversation {
        let decoder = match protocol {
            Protocol::Http1 => HttpDecoder::Http1(Box::new(Http1::new(Limits::default()))),
            Protocol::Http2 => HttpDecoder::Http2(Box::new(Http2::new(Limits::default()))),
            Protocol::Unknown => HttpDecoder::None,
        };
        let rewriter = Rewriter { rules, host: local.to_owned(), ..Rewriter::default() };
        Conversation { decoder, pushed: [0; 2], rewriter }
    }

    /// Takes bytes from one side.
    pub(super) fn push(&mut self, direction: Direction, bytes: &[u8]) {
        self.rewriter.buffers[direction as usize].bytes.extend_from_slice(bytes);
        self.decode(direction, Piece::Data(bytes));
        self.pushed[direction as usize] += bytes.len() as u64;
    }

    /// The server closed its direction.
    pub(super) fn end(&mut self) {
        self.decode(Direction::ServerToClient, Piece::End(Ending::Finished));
    }

    fn decode(&mut self, direction: Direction, piece: Piece<'_>) {
        let acknowledged = self.pushed[direction.reversed() as usize];
        let Conversation { decoder, rewriter, .. } = self;
        match decoder {
            HttpDecoder::Http1(http) => http.push(direction, piece, acknowledged, &mut |event| rewriter.handle(event)),
            HttpDecoder::Http2(http) => {
                http.note_acknowledged(direction, acknowledged);
                http.push(direction, piece, &mut |event| rewriter.handle(event));
            }
            HttpDecoder::None => {}
        }
    }

    /// Appends the bytes of this direction that may be forwarded.
    pub(super) fn take(&mut self, direction: Direction, out: &mut Vec<u8>) {
        let understood = match (&self.rewriter.rules, &self.decoder) {
            (HeadRules::Reverse(_) | HeadRules::Forward, HttpDecoder::Http1(http)) => http.low_water(direction),
            _ => self.pushed[direction as usize],
        };
        self.rewriter.buffers[direction as usize].take(understood, out);
    }

    /// Bytes of the client that are not forwarded, or not yet.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.rewriter.buffers[0].bytes
    }

    /// Whether more bytes of the client may be read.
    pub(super) fn wants_more(&self) -> bool {
        // Inside a tunnel, reading less would also stop what HTTP/2 says about windows and resets.
        let is_tunnel = matches!(self.rewriter.rules, HeadRules::Unchanged);
        self.rewriter.refused.is_none() && (is_tunnel || self.rewriter.unanswered < MAX_UNANSWERED)
    }

    /// Whether the client waits for the server: it sent a complete request, or the connection has
    /// another protocol now.
    pub(super) fn is_serving(&self) -> bool {
        self.rewriter.is_tunnel || self.rewriter.unanswered > 0 && !self.rewriter.in_request_body
    }

    /// Whether the proxy cannot send a response of its own any more: a byte of the server has
    /// arrived, or the conversation is inside a tunnel.
    pub(super) fn was_answered(&self) -> bool {
        self.pushed[1] > 0 || matches!(self.rewriter.rules, HeadRules::Unchanged)
    }

    /// Whether the bytes are not read, so that nothing shows when the client waits.
    pub(super) fn is_opaque(&self) -> bool {
        matches!(self.decoder, HttpDecoder::None)
    }
}

impl Rewriter {
    fn handle(&mut self, event: HttpEvent<'_>) {
        match event {
            // After a refused request, nothing of the client is parsed.
            HttpEvent::Head { direction: Direction::ClientToServer, .. } if self.refused.is_some() => {}
            HttpEvent::Head { direction: Direction::ClientToServer, head, .. } => self.request(&head),
            HttpEvent::Head { direction: Direction::ServerToClient, head, .. } => self.response(&head),
            HttpEvent::End { direction: Direction::ClientToServer, .. } => self.in_request_body = false,
            HttpEvent::End { direction: Direction::ServerToClient, .. } => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.is_answering = false;
                self.stop_holding();
            }
            HttpEvent::Content { direction: Direction::ServerToClient, offset, bytes, .. } => {
                self.content(offset, bytes);
            }
            HttpEvent::Anomaly { direction: Direction::ClientToServer, anomaly, .. } => self.anomaly(&anomaly),
            // Anomalies of responses are forwarded, because the client has to judge them, as
            // without a proxy.
            _ => {}
        }
    }

    fn request(&mut self, head: &Head) {
        self.head = (head.offset, head.end());
        match self.request_text(head) {
            Ok(text) => {
                if let Some(text) = text {
                    self.buffers[0].changes.push_back((head.offset..head.end(), text));
                }
                self.unanswered += 1;
                self.in_request_body = true;
                let id = head.value(SESSION_ID).unwrap_or_default();
                let target = if let StartLine::Request { target, .. } = &head.start { target } else { "" };
                self.session_names = [id.to_owned(), uri::origin_form(target).to_owned()];
            }
            Err(refusal) => self.refuse(refusal, head.offset, false),
        }
    }

    /// The head of a request as the server gets it; `None` for an unchanged head.
    fn request_text(&mut self, head: &Head) -> Result<Option<Vec<u8>>, Refusal> {
        match &self.rules {
            HeadRules::Reverse(heads) => {
                let (text, host) = heads.request(head)?;
                self.host = host.unwrap_or_else(|| std::mem::take(&mut self.host));
                Ok(Some(text))
            }
            HeadRules::Forward => match forward_heads::request(head)? {
                Forwarded::Request(origin, text) => {
                    if self.unanswered > 0 && self.origin.as_ref() != Some(&origin) {
                        let why = "requests to another server must wait for the responses to earlier requests";
                        return Err(Refusal::new(421, why));
                    }
                    self.origin = Some(origin);
                    Ok(Some(text))
                }
                Forwarded::Tunnel(_) if self.unanswered > 0 || self.buffers[0].end() > head.end() => {
                    Err(Refusal::new(400, "CONNECT must be the only request of its connection until it is answered"))
                }
                Forwarded::Tunnel(target) => {
                    self.tunnel_to = Some(target);
                    self.buffers[0].hold_from = head.offset;
                    Ok(None)
                }
            },
            HeadRules::Unchanged => Ok(None),
        }
    }

    fn response(&mut self, head: &Head) {
        let is_interim = matches!(head.start, StartLine::Response { status: 100 | 102..200, .. });
        self.is_answering |= !is_interim;
        self.is_tunnel |= matches!(head.start, StartLine::Response { status: 101, .. });
        if matches!(head.start, StartLine::Response { status: 200..300, .. })
            && let Some(id) = head.value(SESSION_ID)
        {
            self.session_begun = Some(id.to_owned());
        }
        let HeadRules::Reverse(heads) = &self.rules else { return };
        self.asks_login |= matches!(head.start, StartLine::Response { status: 401, .. });
        match heads.redirect(head, &self.host) {
            Redirect::None => {}
            Redirect::Here(text) => self.buffers[1].changes.push_back((head.offset..head.end(), text)),
            Redirect::Away(url) => self.bypass = Some(masked_uri(&url).into_owned()),
        }
        self.endpoint = EndpointEvent::of(head);
        self.buffers[1].hold_from = self.endpoint.as_ref().map_or(u64::MAX, |endpoint| endpoint.start);
    }

    /// Checks the beginning of a response body for an announced address.
    fn content(&mut self, offset: u64, bytes: &[u8]) {
        let Some(endpoint) = &mut self.endpoint else { return };
        let buffer = &mut self.buffers[1];
        let response_bytes = buffer.bytes.get((endpoint.start - buffer.start) as usize..).unwrap_or_default();
        let mut announced = None;
        let HeadRules::Reverse(heads) = &self.rules else { return };
        let renamed = |address: &str| {
            announced = Some(uri::resolved(&self.session_names[1], address));
            heads.renamed(address, &self.host)
        };
        if let Some(changes) = endpoint.push(offset, bytes, response_bytes, renamed) {
            buffer.changes.extend(changes);
            self.session_begun = announced.or(self.session_begun.take());
            self.stop_holding();
        }
    }

    fn stop_holding(&mut self) {
        self.endpoint = None;
        self.buffers[1].hold_from = u64::MAX;
    }

    /// Refuses a request that cannot be parsed without a guess.
    fn anomaly(&mut self, anomaly: &Anomaly) {
        let is_judged = self.refused.is_none() && !matches!(self.rules, HeadRules::Unchanged);
        let Some(offset) = offset(anomaly).filter(|_| is_judged) else { return };
        let (start, end) = self.head;
        let is_in_head = self.in_request_body && offset < end;
        let is_held = self.buffers[0].start <= start;
        if is_in_head && is_held {
            self.buffers[0].changes.pop_back();
            self.unanswered -= 1;
            self.refuse(Refusal::of(anomaly), start, false);
        } else {
            self.refuse(Refusal::of(anomaly), offset.max(end), self.in_request_body);
        }
    }

    fn refuse(&mut self, refusal: Refusal, hold_from: u64, is_partly_sent: bool) {
        self.buffers[0].hold_from = hold_from;
        self.refused = Some(Refused { refusal, is_partly_sent });
    }
}

/// The offset of an anomaly, for those that can occur in requests.
fn offset(anomaly: &Anomaly) -> Option<u64> {
    match anomaly {
        Anomaly::BareLineFeed { offset }
        | Anomaly::FoldedHeader { offset }
        | Anomaly::AmbiguousFraming { offset, .. }
        | Anomaly::NotHttp { offset, .. }
        | Anomaly::LimitReached { offset, .. } => Some(*offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may have as many streams open as the server allows. What it says about windows and
    /// resets still has to pass.
    #[test]
    fn a_tunnel_is_read_however_many_requests_wait() {
        let mut conversation = Conversation::tunnelled(Protocol::Http2);
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
        for stream in (1..).step_by(2).take(MAX_UNANSWERED as usize + 1) {
            // HEADERS with ":method: GET", ":scheme: https" and ":path: /" of the static table.
            sent.extend(b"\0\0\x03\x01\x05");
            sent.extend(u32::to_be_bytes(stream));
            sent.extend([0x82, 0x87, 0x84]);
        }
        conversation.push(Direction::ClientToServer, &sent);
        assert!(conversation.rewriter.unanswered > MAX_UNANSWERED);
        assert!(conversation.wants_more());
    }
}
