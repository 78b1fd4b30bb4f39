//! The record of one JSON-RPC message.

use std::sync::Arc;

use super::content;
use super::link::{Link, Why};
use super::numbers::{MessageNumber, SessionNumber};
use super::session::Transport;
use crate::capture::{Limits, PacketNumber, Span, Time};
use crate::decode::jsonrpc::{self, Envelope, JsonRpcText};
use crate::decode::raw::Raw;
use crate::decode::{Direction, ExchangeNumber, Kind};

words! {
    /// The piece of the layer below that held the text of a message.
    #[derive(Default)]
    pub enum Carrier {
        /// The body of an HTTP request.
        RequestBody = "request-body",
        /// The body of an HTTP response.
        ResponseBody = "response-body",
        /// The data of a server-sent event.
        SseEvent = "sse-event",
        /// A line of a pipe.
        #[default]
        Line = "line",
        /// A message of a WebSocket.
        WebSocket = "websocket-message",
    }
}

/// One JSON-RPC message: a text that was parsed, or a member of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The session that it belongs to.
    pub session: SessionNumber,
    /// Its number in the capture.
    pub number: MessageNumber,
    /// The time when its last byte was captured.
    pub time: Time,
    /// The transport of its session.
    pub transport: Transport,
    /// The direction in which it was sent.
    pub direction: Direction,
    /// Request, response, error, notification, or no message at all.
    pub kind: Kind,
    /// The id as JSON text, exactly as sent: `1`, `1.0` and `"1"` are three.
    pub id: Option<Arc<str>>,
    /// The method. A response has the method of its request, where that is known.
    pub method: Option<Arc<str>>,
    /// The tool that a `tools/call` names. A response has the tool of its request, where
    /// that is known.
    pub tool: Option<Arc<str>>,
    /// The text exactly as transmitted. A member of a batch has its own text. The text of a
    /// server-sent event is its data lines, joined.
    pub raw: Raw<'static>,
    /// The byte ranges of its members in `raw`.
    pub envelope: Envelope,
    /// For a member of a batch: the number of the batch in the capture, and the 0-based
    /// position in it.
    pub batch: Option<(u64, u32)>,
    /// For a response: the number of its request, where the pairing found it.
    pub answers: Option<MessageNumber>,
    /// For a request: the number of its response. Only the store sets it, because the response
    /// arrives after this record was emitted.
    pub answered_by: Option<MessageNumber>,
    /// Nanoseconds between request and response. The pipeline sets it in the response; the store
    /// sets it in the request too.
    pub latency: Option<i64>,
    /// The address of its text in the stream of a body, of event data or of lines.
    pub span: Span,
    /// Packets that carried its bytes, each once, in the order of its bytes.
    pub packets: Vec<PacketNumber>,
    /// The piece of the layer below that held its text.
    pub carrier: Carrier,
    /// The HTTP exchange that carried it.
    pub exchange: Option<ExchangeNumber>,
    /// The `id` of the server-sent event.
    pub sse_id: Option<String>,
    /// The number of the line on the pipe, 1-based.
    pub line: Option<u64>,
    /// Whether a resumed stream of server-sent events delivered this event again.
    pub redelivered: bool,
    /// For a request that was sent again to the target of a redirect: the original message, which
    /// has the same text. The store does not have this member.
    pub copies: Option<MessageNumber>,
    /// The first request of its operation. The first request itself has it only in the store,
    /// because only later messages show that there is an operation.
    pub operation: Option<MessageNumber>,
    /// The reason why it belongs to the operation. The first request has none.
    pub link: Option<Link>,
    /// Ids of the rules that it breaks.
    pub findings: Vec<&'static str>,
}

impl Message {
    /// A message that was not captured, with the facts that its text gives.
    pub fn of_text(number: MessageNumber, time: Time, direction: Direction, raw: &str) -> Message {
        let limits = Limits::default();
        let envelope = match jsonrpc::parse(raw.as_bytes(), limits.json_depth, limits.batch) {
            JsonRpcText::Single(envelope) => envelope,
            JsonRpcText::Batch(_) | JsonRpcText::Invalid(_) => Envelope::default(),
        };
        let mut message = Message {
            session: SessionNumber(1),
            number,
            time,
            direction,
            kind: envelope.kind.unwrap_or(Kind::Invalid),
            id: envelope.id.clone().map(|id| raw[id].into()),
            method: envelope.method_name.clone(),
            raw: raw.to_owned().into(),
            envelope,
            ..Message::default()
        };
        message.tool = content::tool(&message);
        message
    }

    /// Whether it repeats an earlier message: a resumed stream delivered it again, or it was sent
    /// again because of a redirect.
    pub fn is_repeated(&self) -> bool {
        self.redelivered || self.copies.is_some()
    }

    /// Adds the first request of an operation, or the response to it, to that operation. Only later
    /// messages show that there is one.
    pub fn joins(&mut self, operation: MessageNumber) {
        self.operation = Some(operation);
        if self.link.is_none() && self.answers == Some(operation) {
            self.link = Some(Link { operation, previous: operation, why: Why::Answer });
        }
    }
}
