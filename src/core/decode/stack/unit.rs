//! What the stack gives out: texts, exchanges, events, and what is known of a connection.

use std::ops::Range;

use super::Process;
use crate::capture::{PacketNumber, Provenance, Span, StreamId, StreamPart, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::raw::Raw;
use crate::decode::stream::Stream;
use crate::decode::tcp::Facts;
use crate::decode::tls::{Agreed, Secrecy, Step};
use crate::decode::{Anomaly, ConnectionId, Direction, Endpoints, Side, sse};

/// What the stack found.
#[derive(Debug)]
pub enum Unit<'a> {
    /// A text that may be JSON-RPC.
    Text(Text<'a>, &'a Connected),
    /// A head of an exchange is complete: what it holds so far. The request's comes before any text of it.
    Head(&'a Exchange, Direction, &'a Connected),
    /// A server-sent event, whether or not it has data; the text that it carries comes before.
    Event(ServerSent<'a>),
    /// An exchange is over.
    Exchange(Box<Exchange>),
    /// Something odd.
    Anomaly {
        /// The connection.
        connection: ConnectionId,
        /// The exchange, where it is in one.
        exchange: Option<ExchangeNumber>,
        /// The packets it is about.
        packets: Vec<PacketNumber>,
        /// The bytes it is about.
        span: Option<Span>,
        /// Who sent them, where known.
        direction: Option<Direction>,
        /// What.
        anomaly: Anomaly,
    },
    /// What runs on a connection, which side is the client, or what TLS says of it, became known.
    Connected(ConnectionId, &'a Connected),
    /// Bytes of one side that are a secret, and what to put in place of each.
    Secret(ConnectionId, Side, Range<u64>, u8),
    /// Bytes of one side below this offset were looked at for secrets.
    Cleared(ConnectionId, Side, u64),
    /// A stream was opened. For a store.
    Stream(Stream),
    /// Part of such a stream that nothing asks for again. For a store.
    Part(ConnectionId, StreamId, StreamPart),
    /// Bytes of such a stream that TLS carried, from this offset on, secrets masked. For a store.
    Plaintext(ConnectionId, StreamId, u64, Vec<u8>),
    /// The TLS secrets that opened a connection, as lines of a key log; only where secrets are to be kept.
    Keys(ConnectionId, String),
    /// A connection is over. The last unit of it.
    Closed(ConnectionId, &'a Connected, Option<Facts>),
}

/// A text that may be JSON-RPC, and what carried it.
#[derive(Debug)]
pub struct Text<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Which way.
    pub direction: Direction,
    /// The text as transmitted.
    pub raw: Raw<'a>,
    /// Where it stands.
    pub span: Span,
    /// Resolves parts of `span` to packets.
    pub provenance: &'a Provenance,
    /// When its last byte was captured.
    pub time: Time,
    /// What carried it.
    pub carrier: TextCarrier<'a>,
}

/// A server-sent event, and where it stands.
#[derive(Debug)]
pub struct ServerSent<'a> {
    /// The exchange of its stream.
    pub exchange: ExchangeNumber,
    /// The event.
    pub event: &'a sse::Event<'a>,
    /// Its bytes in the decoded body.
    pub span: Span,
    /// Resolves parts of `span` to packets.
    pub provenance: &'a Provenance,
}

/// What carried a text.
#[derive(Debug)]
pub enum TextCarrier<'a> {
    /// The body of a request or response.
    Body(ExchangeNumber),
    /// A server-sent event.
    SseEvent {
        /// The exchange of the stream.
        exchange: ExchangeNumber,
        /// The `event` field.
        kind: Option<&'a str>,
        /// The id that the event itself set.
        id: Option<&'a str>,
    },
    /// A message of a WebSocket that this exchange opened.
    WebSocket(ExchangeNumber),
    /// A line of a pipe.
    Line {
        /// 1-based number on the pipe.
        number: u64,
        /// False where bytes of it are missing.
        whole: bool,
    },
}

/// What is known of a connection above its transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connected {
    /// The addresses, by side; `None` for pipes.
    pub endpoints: Option<Endpoints>,
    /// The process at the other end of the pipes.
    pub process: Option<Process>,
    /// Which side is the client.
    pub client: Option<Side>,
    /// Whether it was found in the middle of a response: it began before the capture, as far as is known.
    pub is_midway: bool,
    /// What runs on it: `http/1.1`, `http/2`, `websocket`, `tls`, `pipe`; `unknown` until found.
    pub protocol: &'static str,
    /// The server's name, as TLS says it.
    pub server_name: Option<String>,
    /// Steps of TLS.
    pub tls: Vec<Step>,
    /// What TLS agreed on.
    pub agreed: Option<Agreed>,
    /// Whether its records could be opened.
    pub secrecy: Secrecy,
    /// Bytes seen, by side.
    pub seen: [u64; 2],
    /// Bytes known to be missing, by side.
    pub lost: [u64; 2],
}

impl Connected {
    /// The side that sends in this direction, once the client is known.
    pub fn sender(&self, direction: Direction) -> Side {
        let client = self.client.unwrap_or(Side::First);
        match direction {
            Direction::ClientToServer => client,
            Direction::ServerToClient => client.other(),
        }
    }
}
