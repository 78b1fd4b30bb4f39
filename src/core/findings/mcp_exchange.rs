//! The MCP side of an HTTP exchange: its messages, and the header fields that rules
//! compare with them.

use std::borrow::Cow;
use std::sync::Arc;

use super::history::History;
use super::message_facts::{InForce, MessageFacts};
use crate::decode::http::without_parameters;
use crate::decode::secrets::comparable;
use crate::decode::uri::origin_form;
use crate::decode::{ConnectionId, Direction, Exchange, ExchangeNumber, Half, Kind, sse};
use crate::mcp::{MessageNumber, Method, SessionNumber, meta};

/// Messages that are remembered of one direction of an exchange. Rules look at the first ones, and
/// streams stay open for days.
const REMEMBERED: usize = 64;

/// A message that an exchange carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeMessage {
    pub number: MessageNumber,
    /// The kind of the message.
    pub kind: Kind,
    /// The method. For a response, the method of its request.
    pub method: Method,
    pub method_name: Option<Arc<str>>,
    /// The JSON-RPC id as JSON text.
    pub id: Option<Arc<str>>,
    /// For a request: the param that `Mcp-Name` repeats (`name`, `uri` or `taskId`).
    pub subject: Option<String>,
    /// For a request of the client: the revision that its `_meta` names.
    pub version: Option<String>,
    /// For an error: the error code.
    pub code: Option<i64>,
}

/// Counts of the server-sent events of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// All events, including those without data.
    pub events: u64,
    /// Events with data, which a client dispatches.
    pub dispatched: u64,
    /// Whether an event set an id.
    pub has_ids: bool,
    /// Whether an event set the time to wait before reconnecting (`retry`).
    pub has_retry: bool,
}

impl EventCounts {
    pub(super) fn observe(&mut self, event: &sse::Event<'_>) {
        self.events += 1;
        self.dispatched += u64::from(event.data.is_some_and(|data| !data.is_empty()));
        self.has_ids |= event.sets_id;
        self.has_retry |= event.retry.is_some();
    }
}

/// An HTTP exchange with what the rules need of it.
#[derive(Debug, Default)]
pub struct McpExchange {
    pub number: ExchangeNumber,
    /// The session of the exchange, if it is known.
    pub session: Option<SessionNumber>,
    /// The connection. `None` only in the default value.
    pub connection: Option<ConnectionId>,
    /// `MCP-Protocol-Version` of the request.
    pub version: Option<String>,
    /// Whether it is HTTP/2, whose header fields may refer to earlier ones (RFC 7541).
    is_http2: bool,
    /// Whether the method is GET. Up to 2025-11-25 the server sends its own messages on
    /// such a stream.
    pub is_get: bool,
    /// Whether the request resumes a stream: it has `Last-Event-ID`.
    pub resumes: bool,
    /// The value of `Last-Event-ID`: the stream resumes after this event.
    pub last_event_id: Option<String>,
    /// The path and query of the request, with secrets masked.
    pub target: String,
    /// `Host` of the request.
    pub host: Option<String>,
    /// The `Mcp-Param-…` headers of the request (2026-07-28): the name without the prefix,
    /// and the value.
    pub params: Vec<(String, String)>,
    /// The server-sent events of the response so far.
    pub event_counts: EventCounts,
    /// Whether the request has `Mcp-Session-Id`.
    pub names_session: bool,
    /// Whether the request has `Mcp-Method` (2026-07-28 on).
    pub names_method: bool,
    /// The revision in force for the request.
    pub in_force: Option<InForce>,
    /// Messages in the request's body, the first 64.
    pub sent: Vec<ExchangeMessage>,
    /// Messages in the response's body, the first 64.
    pub received: Vec<ExchangeMessage>,
    /// Whether the rules about the head of the response have run.
    pub(super) is_judged: bool,
}

impl McpExchange {
    /// An exchange of which only the head of the request is known.
    pub(super) fn new(exchange: &Exchange) -> McpExchange {
        McpExchange {
            number: exchange.number,
            connection: Some(exchange.connection),
            version: exchange.request.fields.get("mcp-protocol-version").map(str::to_owned),
            is_http2: exchange.http_version == "2",
            is_get: exchange.method.as_deref() == Some("GET"),
            resumes: exchange.request.fields.get("last-event-id").is_some(),
            last_event_id: exchange.request.fields.get("last-event-id").map(str::to_owned),
            target: comparable(origin_form(exchange.target.as_deref().unwrap_or_default())).into_owned(),
            host: exchange.request.fields.get("host").map(str::to_owned),
            params: exchange.request.fields.with_prefix(PARAM).take(REMEMBERED).map(param).collect(),
            names_session: exchange.request.fields.get("mcp-session-id").is_some(),
            names_method: exchange.request.fields.get("mcp-method").is_some(),
            ..McpExchange::default()
        }
    }

    /// Whether header fields may be unknown because they refer to fields that were not captured.
    pub(super) fn may_hide_fields(&self, history: &History) -> bool {
        self.is_http2 && (history.has_gaps || !history.saw_beginning)
    }

    /// The request in the body, if the body contains nothing else.
    pub fn request(&self) -> Option<&ExchangeMessage> {
        match self.sent.as_slice() {
            [only] if only.kind == Kind::Request => Some(only),
            _ => None,
        }
    }

    /// Whether the body contains only notifications, which need no JSON-RPC response.
    pub fn is_notifying(&self) -> bool {
        !self.sent.is_empty() && self.sent.iter().all(|sent| sent.kind == Kind::Notification)
    }

    /// The response to that request, if this exchange carried it.
    pub fn answer(&self) -> Option<&ExchangeMessage> {
        let id = self.request()?.id.as_deref()?;
        let answers = |got: &&ExchangeMessage| matches!(got.kind, Kind::Response | Kind::Error);
        self.received.iter().filter(answers).find(|got| got.id.as_deref() == Some(id))
    }

    /// Whether messages of the response may have been left out, because
    /// [`REMEMBERED`] were reached.
    pub fn is_truncated(&self) -> bool {
        self.received.len() >= REMEMBERED
    }

    /// The numbers of the messages that the client posted.
    pub fn sent_numbers(&self) -> Vec<MessageNumber> {
        self.sent.iter().map(|passed| passed.number).collect()
    }

    pub(super) fn add_message(&mut self, facts: &MessageFacts<'_>) {
        let message = facts.message;
        self.session.get_or_insert(message.session);
        let from_client = message.direction == Direction::ClientToServer;
        if from_client {
            let better = self.in_force.is_none_or(|known| facts.in_force.evidence < known.evidence);
            if better {
                self.in_force = Some(facts.in_force);
            }
        }
        let passed = if from_client { &mut self.sent } else { &mut self.received };
        if passed.len() >= REMEMBERED {
            return;
        }
        // Most bodies have one message.
        if passed.is_empty() {
            passed.reserve_exact(1);
        }
        let is_request = message.kind == Kind::Request;
        let name = match facts.method {
            _ if !is_request => None,
            Method::ToolsCall | Method::PromptsGet => Some("name"),
            Method::ResourcesRead => Some("uri"),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
            _ => None,
        };
        let text = |name: &str| facts.body().text(name).map(|text| text.into_owned());
        passed.push(ExchangeMessage {
            number: message.number,
            kind: message.kind,
            method: facts.method,
            method_name: message.method.clone(),
            id: message.id.clone(),
            subject: name.and_then(text),
            version: (is_request && from_client)
                .then(|| facts.meta().text(meta::VERSION).map(|text| text.into_owned()))
                .flatten(),
            code: if message.kind == Kind::Error {
                facts.body().get("code").and_then(|c| c.parse().ok())
            } else {
                None
            },
        });
    }
}

/// The prefix of header fields that repeat an argument of a tool.
const PARAM: &str = "mcp-param-";

/// A header field that repeats an argument of a tool: its name without the prefix, and its value.
fn param((name, value): (&str, &str)) -> (String, String) {
    (name[PARAM.len()..].to_owned(), value.to_owned())
}

/// The media type of a body, without parameters, in lower case.
pub fn media_type(half: &Half) -> Option<Cow<'_, str>> {
    half.fields.get("content-type").map(without_parameters)
}

/// Whether the body of the response is a stream of server-sent events.
pub fn is_event_stream(exchange: &Exchange) -> bool {
    media_type(&exchange.response).as_deref() == Some("text/event-stream")
}

/// Whether the status is 2xx.
pub fn is_success(exchange: &Exchange) -> bool {
    matches!(exchange.status, Some(200..=299))
}
