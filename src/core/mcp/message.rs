//! A message as a record: its text as transmitted, its place, its partner.

use std::sync::Arc;

use super::link::{Link, Why};
use super::numbers::{MessageNumber, SessionNumber};
use super::session::Transport;
use crate::capture::{PacketNumber, Span, Time};
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::{Envelope, Kind};
use crate::decode::raw::Raw;

/// What carried a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrier {
    /// The body of an HTTP request.
    RequestBody,
    /// The body of an HTTP response.
    ResponseBody,
    /// The data of a server-sent event.
    SseEvent,
    /// A line of a pipe.
    Line,
    /// A message of a WebSocket.
    WebSocket,
}

impl Carrier {
    /// All of them, with the word of the JSON lines.
    pub const NAMES: [(Carrier, &'static str); 5] = [
        (Carrier::RequestBody, "request-body"),
        (Carrier::ResponseBody, "response-body"),
        (Carrier::SseEvent, "sse-event"),
        (Carrier::Line, "line"),
        (Carrier::WebSocket, "websocket-message"),
    ];

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(carrier, _)| *carrier == self).map_or("", |(_, name)| name)
    }
}

/// One JSON-RPC message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its session.
    pub session: SessionNumber,
    /// Its number.
    pub number: MessageNumber,
    /// When its last byte was captured.
    pub time: Time,
    /// How it travelled.
    pub transport: Transport,
    /// Which way.
    pub direction: Direction,
    /// What it is.
    pub kind: Kind,
    /// The id as JSON text, exactly as sent: `1`, `1.0` and `"1"` are three.
    pub id: Option<Arc<str>>,
    /// The method; for an answer that of the request it answers, where known.
    pub method: Option<Arc<str>>,
    /// The tool that is called; for an answer that of the request it answers, where known.
    pub tool: Option<Arc<str>>,
    /// The text exactly as transmitted (for a member of a batch its own; for an SSE event its data lines joined).
    pub raw: Raw<'static>,
    /// Where its members stand in `raw`.
    pub envelope: Envelope,
    /// For a member of a batch: the number of the batch in the capture and the 0-based position in it.
    pub batch: Option<(u64, u32)>,
    /// The request it answers.
    pub answers: Option<MessageNumber>,
    /// The answer to it; known only to a store, where it may have arrived later.
    pub answered_by: Option<MessageNumber>,
    /// For an answer (and, from a store, for an answered request): nanoseconds between the two.
    pub latency: Option<i64>,
    /// Where it stands: the stream of bodies, event data or lines.
    pub span: Span,
    /// Packets that carried its bytes, each once, in stream order.
    pub packets: Vec<PacketNumber>,
    /// What carried it.
    pub carrier: Carrier,
    /// The HTTP exchange.
    pub exchange: Option<ExchangeNumber>,
    /// The SSE event's id.
    pub sse_id: Option<String>,
    /// The line on the pipe, 1-based.
    pub line: Option<u64>,
    /// An SSE resume delivered the same event again.
    pub redelivered: bool,
    /// The message that it repeats word for word, at another place, since the server redirected that one. Known only to the pipeline.
    pub copies: Option<MessageNumber>,
    /// The first request of its operation, as far as is known: that a request is the first of one is told by later messages.
    pub operation: Option<MessageNumber>,
    /// What ties it to an earlier message of its operation; the first request of one has none.
    pub link: Option<Link>,
    /// Ids of the rules it breaks.
    pub findings: Vec<&'static str>,
}

impl Message {
    /// Whether it says nothing new: a resume delivered it again, or it is the copy of one that was redirected.
    pub fn is_repeated(&self) -> bool {
        self.redelivered || self.copies.is_some()
    }

    /// It is the first request of this operation, or the answer to that: later messages told.
    pub fn joins(&mut self, operation: MessageNumber) {
        self.operation = Some(operation);
        if self.link.is_none() && self.answers == Some(operation) {
            self.link = Some(Link { operation, previous: operation, why: Why::Answer });
        }
    }
}
