//! The output of the stack: texts, exchanges, events, and the state of connections. It owns its
//! data, so that it can be processed later and on another thread.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::capture::pipe::{Exit, Start};
use crate::capture::{Limits, PacketNumber, Provenance, Span, StreamId, StreamPart, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::jsonrpc::{self, Envelope, InvalidText, JsonRpcText, Kind};
use crate::decode::mask::Mask;
use crate::decode::raw::Raw;
use crate::decode::stream::Stream;
use crate::decode::tcp::Facts;
use crate::decode::tls::{Agreed, RecordGroup, Secrecy};
use crate::decode::{Anomaly, ConnectionId, Direction, Endpoints, Side, sse};

/// An output of the stack.
#[derive(Debug)]
pub enum Unit {
    /// A text that may be JSON-RPC.
    Text(Box<Text>),
    /// A text that cannot be JSON-RPC, with the capture time of its last byte.
    OtherText(Time),
    /// A head of an exchange is complete; the exchange has what was decoded so far. A request's
    /// head precedes all texts of the request.
    Head(Arc<Exchange>, Direction, Arc<ConnectionInfo>),
    /// A server-sent event, with or without data. Its text precedes it.
    Event(Box<ServerSentEvent>),
    /// An exchange ended.
    Exchange(Box<Exchange>),
    /// An irregularity on a connection.
    Anomaly {
        /// The connection on which it was found.
        connection: ConnectionId,
        /// The exchange that it belongs to, if any.
        exchange: Option<ExchangeNumber>,
        /// The packets that carried the bytes.
        packets: Vec<PacketNumber>,
        /// The bytes in question.
        span: Option<Span>,
        /// The direction of the bytes, if known.
        direction: Option<Direction>,
        /// The facts about the irregularity.
        anomaly: Anomaly,
    },
    /// A line of stderr of a wrapped server.
    Stderr(ConnectionId, StderrLine),
    /// The state of a connection changed: its protocol, which side is the client, its process,
    /// or its TLS.
    ConnectionChanged(ConnectionId, Arc<ConnectionInfo>, ByteCounts),
    /// A secret: bytes of one side, and the bytes that replace them.
    Secret(ConnectionId, Side, Range<u64>, Mask),
    /// All bytes of one side below this offset were searched for secrets.
    Cleared(ConnectionId, Side, u64),
    /// For a store: a stream was opened.
    Stream(Stream),
    /// For a store: a part of a stream that decoding no longer needs.
    Part(ConnectionId, StreamId, StreamPart),
    /// For a store: decrypted bytes of a stream from this offset on, with secrets masked.
    Plaintext(ConnectionId, StreamId, u64, Vec<u8>),
    /// The TLS secrets of a connection, as lines of a key log. Only if the user asked
    /// to keep secrets.
    Keys(ConnectionId, String),
    /// The connection ended. No unit of it follows.
    Closed(ConnectionId, ByteCounts, Option<Box<Facts>>),
}

/// A text that may be JSON-RPC, with its carrier.
#[derive(Debug)]
pub struct Text {
    /// The connection that carried the text.
    pub connection: ConnectionId,
    /// The state of that connection.
    pub connected: Arc<ConnectionInfo>,
    /// The direction of the text.
    pub direction: Direction,
    /// The bytes as sent.
    pub raw: Raw<'static>,
    /// The messages in it.
    pub parsed: ParsedText,
    /// The position of the text in its stream.
    pub span: Span,
    /// Capture time of the text's last byte.
    pub time: Time,
    /// How the text travelled.
    pub carrier: TextCarrier,
}

/// A text after parsing.
#[derive(Debug)]
pub struct ParsedText {
    /// Its messages, or the reason why it is none.
    pub envelopes: JsonRpcText,
    /// Whether it contains an `initialize` request.
    pub begins_session: bool,
    /// The packets that carried each message. A line of a pipe has none, because one packet may
    /// carry parts of several lines.
    pub packets: Vec<Vec<PacketNumber>>,
}

/// A server-sent event with its position.
#[derive(Debug)]
pub struct ServerSentEvent {
    /// The exchange whose response contains the event.
    pub exchange: ExchangeNumber,
    kind: Option<Cow<'static, str>>,
    id: Option<Box<str>>,
    sets_id: bool,
    retry: Option<u64>,
    data: Option<Box<[u8]>>,
    comments: u32,
    is_certain: bool,
    /// The position of the event in the decoded body.
    pub span: Span,
    /// The packets that carried the event.
    pub packets: Vec<PacketNumber>,
}

/// A line of stderr.
#[derive(Debug)]
pub struct StderrLine {
    /// The line's number on the pipe, starting at 1.
    pub number: u64,
    /// The bytes without the line break. Long lines come in parts, see [`Limits`].
    pub bytes: Vec<u8>,
    /// The packet with its last byte.
    pub packet: PacketNumber,
    /// Capture time of its last byte.
    pub time: Time,
}

/// How a text travelled.
#[derive(Debug)]
pub enum TextCarrier {
    /// As the body of a request or response.
    Body(ExchangeNumber),
    /// As the data of a server-sent event.
    SseEvent {
        /// The exchange whose response contains the event.
        exchange: ExchangeNumber,
        /// The value of the `event` field.
        kind: Option<Cow<'static, str>>,
        /// The event's id, if the event itself contains one.
        id: Option<Box<str>>,
    },
    /// As a message of the WebSocket that this exchange opened.
    WebSocket(ExchangeNumber),
    /// As a line of a pipe.
    Line {
        /// The line's number on the pipe, starting at 1.
        number: u64,
        /// Whether the line is complete.
        whole: bool,
    },
}

/// A process whose pipes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub id: u32,
    /// How the process was started, if that was recorded.
    pub start: Option<Start>,
    /// How the process ended, once it did.
    pub exit: Option<Exit>,
}

/// The state of a connection above its transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionInfo {
    /// The addresses of both sides, indexed by [`Side`]; `None` for pipes.
    pub endpoints: Option<Endpoints>,
    /// The process at the other end of the pipes.
    pub process: Option<Process>,
    /// The side of the client; `None` while unknown.
    pub client: Option<Side>,
    /// Whether the connection was recognised in the middle of a response. Then it probably began
    /// before the capture.
    pub is_midway: bool,
    /// The protocol: `http/1.1`, `http/2`, `websocket`, `tls`, `pipe`, or `unknown` until
    /// it is recognised.
    pub protocol: &'static str,
    /// The server's name from the TLS handshake.
    pub server_name: Option<String>,
    /// The steps of the TLS handshake.
    pub tls: Vec<RecordGroup>,
    /// The parameters that TLS negotiated.
    pub agreed: Option<Agreed>,
    /// Whether TLS records could be decrypted.
    pub secrecy: Secrecy,
}

/// The bytes of a connection so far, over both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// Number of bytes captured.
    pub captured: u64,
    /// Number of bytes known to be missing.
    pub lost: u64,
}

impl ConnectionInfo {
    /// The side that sends in this direction. While the client is unknown, the first side counts
    /// as the client.
    pub fn sender(&self, direction: Direction) -> Side {
        let client = self.client.unwrap_or(Side::First);
        match direction {
            Direction::ClientToServer => client,
            Direction::ServerToClient => client.other(),
        }
    }
}

impl Text {
    /// The HTTP exchange of the text; `None` for a line of a pipe.
    pub fn exchange(&self) -> Option<ExchangeNumber> {
        match self.carrier {
            TextCarrier::Body(exchange) | TextCarrier::WebSocket(exchange) | TextCarrier::SseEvent { exchange, .. } => {
                Some(exchange)
            }
            TextCarrier::Line { .. } => None,
        }
    }

    /// Whether it is the event by which a server announces the endpoint of HTTP+SSE.
    pub fn announces_endpoint(&self) -> bool {
        self.carrier.announces_endpoint()
    }
}

impl ParsedText {
    /// Parses a text. `None` for blank lines, and for HTTP content that is not JSON-RPC.
    pub(super) fn new(
        raw: &Raw<'_>,
        span: Span,
        carrier: &TextCarrier,
        provenance: &Provenance,
        limits: &Limits,
    ) -> Option<ParsedText> {
        let is_line = matches!(carrier, TextCarrier::Line { .. });
        let envelopes = match carrier {
            _ if carrier.announces_endpoint() => JsonRpcText::Invalid(InvalidText::NotAMessage),
            TextCarrier::Line { .. } if raw.iter().all(u8::is_ascii_whitespace) => return None,
            // An object that is complete is the whole line, even next to a gap: the brackets of a
            // proper part do not match.
            TextCarrier::Line { whole: false, .. } => match jsonrpc::parse_raw(raw, limits.json_depth, limits.batch) {
                JsonRpcText::Single(envelope) if envelope.kind.is_some() => JsonRpcText::Single(envelope),
                _ => JsonRpcText::Invalid(InvalidText::NotAMessage),
            },
            _ => match jsonrpc::parse_raw(raw, limits.json_depth, limits.batch) {
                // "an Array with at least one value" (JSON-RPC 2.0 section 6).
                JsonRpcText::Batch(members) if members.is_empty() => JsonRpcText::Invalid(InvalidText::NotAMessage),
                // Over HTTP an array without any message belongs to another protocol.
                JsonRpcText::Batch(members) if !is_line && members.iter().all(|(_, member)| member.is_err()) => {
                    return None;
                }
                parsed => parsed,
            },
        };
        let packets = match &envelopes {
            _ if is_line => Vec::new(),
            JsonRpcText::Batch(members) => {
                let offset = |at: usize| span.start + at as u64;
                let part = |range: &Range<usize>| Span { start: offset(range.start), end: offset(range.end), ..span };
                members.iter().map(|(range, _)| provenance.packets(part(range))).collect()
            }
            _ => vec![provenance.packets(span)],
        };
        Some(ParsedText { begins_session: begins_session(&envelopes), envelopes, packets })
    }

    /// The message of a text that is no batch.
    pub fn single(&self) -> Option<&Envelope> {
        if let JsonRpcText::Single(envelope) = &self.envelopes { Some(envelope) } else { None }
    }
}

impl TextCarrier {
    fn announces_endpoint(&self) -> bool {
        matches!(self, TextCarrier::SseEvent { kind: Some(kind), .. } if kind == "endpoint")
    }

    /// The data of a server-sent event.
    pub(super) fn event(exchange: ExchangeNumber, event: &sse::Event<'_>) -> TextCarrier {
        let id = event.id.filter(|_| event.sets_id).map(Into::into);
        TextCarrier::SseEvent { exchange, kind: kind(event), id }
    }
}

/// The kind of an event. The usual one is not copied.
fn kind(event: &sse::Event<'_>) -> Option<Cow<'static, str>> {
    event.kind.map(|kind| if kind == "message" { "message".into() } else { kind.to_owned().into() })
}

impl ServerSentEvent {
    /// An event at `span`, which these packets carried.
    pub(super) fn new(
        exchange: ExchangeNumber,
        event: &sse::Event<'_>,
        span: Span,
        packets: Vec<PacketNumber>,
    ) -> ServerSentEvent {
        let &sse::Event { sets_id, retry, comments, is_certain, id, data, .. } = event;
        let (id, data, kind) = (id.map(Into::into), data.map(Into::into), kind(event));
        ServerSentEvent { exchange, kind, id, sets_id, retry, data, comments, is_certain, span, packets }
    }

    /// The decoded event. The places of its data lines are not known any more.
    pub fn event(&self) -> sse::Event<'_> {
        let ServerSentEvent { sets_id, retry, comments, is_certain, span, .. } = *self;
        let (kind, id, data) = (self.kind.as_deref(), self.id.as_deref(), self.data.as_deref());
        sse::Event {
            start: span.start,
            end: span.end,
            kind,
            id,
            sets_id,
            retry,
            data,
            parts: &[],
            comments,
            is_certain,
        }
    }

    /// The bytes of its content.
    pub fn size(&self) -> usize {
        let texts = [self.kind.as_deref(), self.id.as_deref()];
        self.data.as_ref().map_or(0, |data| data.len()) + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }
}

fn begins_session(envelopes: &JsonRpcText) -> bool {
    let is_initialize = |envelope: &Envelope| {
        envelope.kind == Some(Kind::Request) && envelope.method_name.as_deref() == Some("initialize")
    };
    match envelopes {
        JsonRpcText::Single(envelope) => is_initialize(envelope),
        JsonRpcText::Batch(members) => members.iter().any(|(_, member)| member.as_ref().is_ok_and(is_initialize)),
        JsonRpcText::Invalid(_) => false,
    }
}
