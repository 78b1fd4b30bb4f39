//! The output of the stack: texts, exchanges, events, and the state of connections.

use std::ops::Range;

use crate::capture::pipe::{Exit, Start};
use crate::capture::{PacketNumber, Provenance, Span, StreamId, StreamPart, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::mask::Mask;
use crate::decode::raw::Raw;
use crate::decode::stream::Stream;
use crate::decode::tcp::Facts;
use crate::decode::tls::{Agreed, RecordGroup, Secrecy};
use crate::decode::{Anomaly, ConnectionId, Direction, Endpoints, Side, sse};

/// An output of the stack.
#[derive(Debug)]
pub enum Unit<'a> {
    /// A text that may be JSON-RPC.
    Text(Text<'a>, &'a ConnectionInfo),
    /// A head of an exchange is complete; the exchange has what was decoded so far. A request's
    /// head precedes all texts of the request.
    Head(&'a Exchange, Direction, &'a ConnectionInfo),
    /// A server-sent event, with or without data. Its text precedes it.
    Event(ServerSentEvent<'a>),
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
    Stderr(ConnectionId, StderrLine<'a>),
    /// The state of a connection changed: its protocol, which side is the client, its process,
    /// or its TLS.
    ConnectionChanged(ConnectionId, &'a ConnectionInfo),
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
    Closed(ConnectionId, &'a ConnectionInfo, Option<Facts>),
}

/// A text that may be JSON-RPC, with its carrier.
#[derive(Debug)]
pub struct Text<'a> {
    /// The connection that carried the text.
    pub connection: ConnectionId,
    /// The direction of the text.
    pub direction: Direction,
    /// The bytes as sent.
    pub raw: Raw<'a>,
    /// The position of the text in its stream.
    pub span: Span,
    /// Traces parts of `span` to packets.
    pub provenance: &'a Provenance,
    /// Capture time of the text's last byte.
    pub time: Time,
    /// How the text travelled.
    pub carrier: TextCarrier<'a>,
}

/// A server-sent event with its position.
#[derive(Debug)]
pub struct ServerSentEvent<'a> {
    /// The exchange whose response contains the event.
    pub exchange: ExchangeNumber,
    /// The decoded event.
    pub event: &'a sse::Event<'a>,
    /// The position of the event in the decoded body.
    pub span: Span,
    /// Traces parts of `span` to packets.
    pub provenance: &'a Provenance,
}

/// A line of stderr.
#[derive(Debug)]
pub struct StderrLine<'a> {
    /// The line's number on the pipe, starting at 1.
    pub number: u64,
    /// The bytes without the line break. Long lines come in parts, see [`Limits`].
    pub bytes: &'a [u8],
    /// The packet with its last byte.
    pub packet: PacketNumber,
    /// Capture time of its last byte.
    pub time: Time,
}

/// How a text travelled.
#[derive(Debug)]
pub enum TextCarrier<'a> {
    /// As the body of a request or response.
    Body(ExchangeNumber),
    /// As the data of a server-sent event.
    SseEvent {
        /// The exchange whose response contains the event.
        exchange: ExchangeNumber,
        /// The value of the `event` field.
        kind: Option<&'a str>,
        /// The event's id, if the event itself contains one.
        id: Option<&'a str>,
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
    /// Number of bytes captured, indexed by [`Side`].
    pub seen: [u64; 2],
    /// Number of bytes known to be missing, indexed by [`Side`].
    pub lost: [u64; 2],
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
