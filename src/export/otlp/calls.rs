//! Calls: requests with what was notified about them and with their responses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attributes::{Attributes, LONGEST, cut};
use super::proto::{KeyValue, SpanEvent, Value};
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::json::{member, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::{self, Status, body};
use crate::mcp::note::NoteKind;
use crate::mcp::trace::TraceParent;
use crate::mcp::{Message, MessageNumber, Note, SessionNumber};

/// Maximum number of requests that wait for their response. Beyond it the oldest counts as over.
pub(super) const OPEN: usize = 4_096;

/// Maximum number of events of a span, as in OpenTelemetry's own programs (EventCountLimit). The
/// span contains the number of dropped events.
const EVENTS: usize = 128;

/// Maximum bytes of the events of all open spans. Further events are dropped and counted as those
/// above [`EVENTS`] are.
pub(super) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Maximum bytes of the arguments of a call, and of its result, where they are asked for.
const CONTENT: usize = 8 << 10;

/// A request, with the notifications about it so far.
pub(crate) struct Request {
    pub(crate) session: SessionNumber,
    pub(super) number: MessageNumber,
    pub(crate) sender: Direction,
    pub(super) start: Time,
    pub(super) method: Arc<str>,
    /// The attribute for the tool, prompt or resource, and its value.
    pub(super) subject: Option<(&'static str, String)>,
    /// The id as JSON text.
    pub(super) id: Option<Arc<str>>,
    pub(super) answered_by: Option<MessageNumber>,
    /// The `progressToken` as JSON text.
    token: Option<String>,
    pub(crate) parent: Option<TraceParent>,
    pub(super) state: Option<String>,
    /// The arguments of a tool as JSON text, if they are asked for.
    pub(super) arguments: Option<String>,
    pub(super) findings: Vec<&'static str>,
    pub(super) events: Vec<SpanEvent>,
    pub(super) dropped_events: u32,
    /// Bytes of `events`.
    event_bytes: usize,
    is_cancelled: bool,
}

impl Request {
    fn of(request: &Message, with_content: bool) -> Request {
        let params = body(request);
        let meta = params.object("_meta");
        let method: Arc<str> = request.method.clone().unwrap_or_default();
        let attribute = match &*method {
            "tools/call" => Some(("gen_ai.tool.name", "name")),
            "prompts/get" => Some(("gen_ai.prompt.name", "name")),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some(("mcp.resource.uri", "uri")),
            _ => None,
        };
        let parent = meta.text("traceparent").and_then(|text| TraceParent::read(&text));
        let state = meta.text("tracestate").filter(|state| parent.is_some() && state.len() <= LONGEST);
        let arguments = params.get("arguments").filter(|_| with_content && &*method == "tools/call");
        Request {
            session: request.session,
            number: request.number,
            sender: request.direction,
            start: request.time,
            subject: attribute.and_then(|(key, member)| Some((key, cut(&params.text(member)?).to_owned()))),
            method,
            id: request.id.clone(),
            answered_by: request.answered_by,
            token: meta.get("progressToken").filter(|token| token.len() <= LONGEST).map(str::to_owned),
            parent,
            state: state.map(|state| state.into_owned()),
            arguments: arguments.map(cut_content),
            findings: request.findings.clone(),
            events: Vec::new(),
            dropped_events: 0,
            event_bytes: 0,
            is_cancelled: false,
        }
    }
}

/// The beginning of the JSON text of arguments or of a result.
fn cut_content(json: &str) -> String {
    json[..json.floor_char_boundary(CONTENT)].to_owned()
}

/// A request that is over.
pub(crate) struct Call {
    pub(crate) request: Request,
    pub(super) end: End,
}

/// How a call ended.
pub(super) enum End {
    Answered(CallResponse),
    /// The server refused the request with this status of HTTP.
    Refused(Time, u16),
    /// There was no response until this time, or until the end of the session.
    Unanswered(Option<Time>),
}

/// The response to a request.
pub(super) struct CallResponse {
    pub(super) number: MessageNumber,
    pub(super) time: Time,
    pub(super) latency: Option<i64>,
    pub(super) outcome: &'static str,
    pub(super) failure: Option<Failure>,
    /// The result of a tool as JSON text, if it is asked for.
    pub(super) result: Option<String>,
    pub(super) findings: Vec<&'static str>,
}

/// The failure of a call.
pub(super) struct Failure {
    /// The code of a JSON-RPC error. `None`: the tool failed.
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

impl Failure {
    fn of(answer: &Message) -> Option<Failure> {
        match content::status(answer)? {
            // "The status description SHOULD match the JSONRPCError.message".
            Status::Error => {
                let error = content::part(answer, "error");
                let code = error.and_then(|error| member(error, "code")).unwrap_or("_OTHER");
                let message = error.and_then(|error| string(member(error, "message")?));
                Some(Failure { code: Some(cut(code).to_owned()), message: message.map(|text| cut(&text).to_owned()) })
            }
            Status::ToolError => Some(Failure { code: None, message: None }),
            Status::Ok | Status::Negative => None,
        }
    }
}

impl CallResponse {
    pub(super) fn of(answer: &Message, with_content: bool) -> CallResponse {
        // "The result returned by the tool call (if any and if execution was successful)"
        let failure = Failure::of(answer);
        let is_wanted = with_content && failure.is_none() && answer.method.as_deref() == Some("tools/call");
        CallResponse {
            number: answer.number,
            time: answer.time,
            latency: answer.latency,
            outcome: content::status(answer).map_or("unanswered", Status::name),
            failure,
            result: content::part(answer, "result").filter(|_| is_wanted).map(cut_content),
            findings: answer.findings.clone(),
        }
    }
}

impl Call {
    /// The seconds from the request to its response, where one clock measured both.
    pub(crate) fn seconds(&self) -> Option<f64> {
        match &self.end {
            End::Answered(answer) => answer.latency.map(|nanoseconds| nanoseconds as f64 / 1e9),
            End::Refused(..) | End::Unanswered(_) => None,
        }
    }

    /// The outcome: those of responses, `unanswered`, or `cancelled`.
    pub(super) fn outcome(&self) -> &'static str {
        match &self.end {
            End::Answered(answer) => answer.outcome,
            End::Refused(..) => Status::Error.name(),
            End::Unanswered(_) if self.request.is_cancelled => "cancelled",
            End::Unanswered(_) => "unanswered",
        }
    }

    /// Ids of the rules that the request and its response break, each once.
    pub(super) fn findings(&self) -> BTreeSet<&'static str> {
        let answer = if let End::Answered(answer) = &self.end { answer.findings.as_slice() } else { &[] };
        self.request.findings.iter().chain(answer).copied().collect()
    }
}

/// Requests that wait for their response.
pub(crate) struct OpenRequests {
    open: BTreeMap<MessageNumber, Request>,
    /// Bytes of the events of all open requests.
    event_bytes: usize,
    with_content: bool,
}

impl OpenRequests {
    /// No requests so far. `with_content` asks for arguments and results of tools.
    pub(crate) fn new(with_content: bool) -> OpenRequests {
        OpenRequests { open: BTreeMap::new(), event_bytes: 0, with_content }
    }

    /// Takes a message, in order of numbers. Returns the call that it ends. Of requests only
    /// wanted ones count.
    pub(crate) fn message(&mut self, message: &Message, is_wanted: impl FnOnce() -> bool) -> Option<Call> {
        match message.kind {
            _ if message.redelivered => None,
            Kind::Request => {
                if is_wanted() {
                    self.open.insert(message.number, Request::of(message, self.with_content));
                }
                None
            }
            Kind::Notification => {
                self.add_event(message);
                None
            }
            Kind::Response | Kind::Error | Kind::Invalid => {
                let end = |with_content| End::Answered(CallResponse::of(message, with_content));
                self.end(message.answers?, end(self.with_content))
            }
        }
    }

    /// Takes a note. Returns the calls that are over without a response.
    pub(crate) fn note(&mut self, note: &Note) -> Vec<Call> {
        let (requests, _) = note.kind.settled_requests();
        let status = if let NoteKind::Refused(refusal) = &note.kind { refusal.status } else { 0 };
        let end = || if status > 0 { End::Refused(note.time, status) } else { End::Unanswered(Some(note.time)) };
        requests.iter().filter_map(|request| self.end(*request, end())).collect()
    }

    /// Ends a call.
    pub(super) fn end(&mut self, request: MessageNumber, end: End) -> Option<Call> {
        let request = self.open.remove(&request)?;
        self.event_bytes -= request.event_bytes;
        Some(Call { request, end })
    }

    /// The oldest request, if too many are open.
    pub(super) fn excess(&self) -> Option<&Request> {
        if self.open.len() > OPEN { self.oldest() } else { None }
    }

    /// The oldest request.
    pub(super) fn oldest(&self) -> Option<&Request> {
        self.open.values().next()
    }

    /// The oldest call, without a response, if too many are open.
    pub(crate) fn end_excess(&mut self) -> Option<Call> {
        let number = self.excess()?.number;
        self.end(number, End::Unanswered(None))
    }

    /// The open calls of a session, or of all sessions, without responses.
    pub(crate) fn end_all(&mut self, session: Option<SessionNumber>) -> Vec<Call> {
        let is_of = |request: &&Request| session.is_none_or(|session| request.session == session);
        let numbers: Vec<MessageNumber> = self.open.values().filter(is_of).map(|request| request.number).collect();
        numbers.into_iter().filter_map(|number| self.end(number, End::Unanswered(None))).collect()
    }

    /// Adds a notification to the open request that it names, if there is one.
    fn add_event(&mut self, notification: &Message) {
        let params = body(notification);
        let mut attributes = Attributes::default();
        let session = notification.session;
        let mut open = self.open.values_mut().rev().filter(|request| request.session == session);
        let request = match notification.method.as_deref() {
            Some("notifications/progress") => {
                let fraction = |name| params.get(name).and_then(|number| number.parse().ok());
                attributes.fraction("mcptap.progress", fraction("progress"));
                attributes.fraction("mcptap.total", fraction("total"));
                attributes.text("mcptap.message", params.text("message"));
                let (token, asker) = (params.get("progressToken"), notification.direction.reversed());
                open.find(|request| token.is_some() && request.token.as_deref() == token && request.sender == asker)
            }
            Some("notifications/cancelled") => {
                attributes.text("mcptap.reason", params.text("reason"));
                let (id, asker) = (params.get("requestId"), notification.direction);
                let mut found =
                    open.find(|request| id.is_some() && request.id.as_deref() == id && request.sender == asker);
                found.iter_mut().for_each(|request| request.is_cancelled = true);
                found
            }
            _ => None,
        };
        let Some(request) = request else { return };
        if request.events.len() >= EVENTS || self.event_bytes >= MAX_EVENT_BYTES {
            request.dropped_events = request.dropped_events.saturating_add(1);
            return;
        }
        let event = SpanEvent {
            time_unix_nano: nanoseconds(notification.time),
            name: cut(notification.method.as_deref().unwrap_or_default()).to_owned(),
            attributes: attributes.finish(),
        };
        let bytes = size(&event.name, &event.attributes);
        request.events.push(event);
        request.event_bytes += bytes;
        self.event_bytes += bytes;
    }
}

/// The memory of a name with attributes, about.
pub(crate) fn size(name: &str, attributes: &[KeyValue]) -> usize {
    /// Memory of an attribute and of an event beside their texts, in bytes.
    const BESIDE: usize = 64;
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::Text(text)) => text.len(),
        _ => 0,
    };
    let attributes = attributes.iter().map(|attribute| BESIDE + attribute.key.len() + text(attribute));
    BESIDE + name.len() + attributes.sum::<usize>()
}

/// Nanoseconds since 1970. There are no times before 1970.
pub(super) fn nanoseconds(time: Time) -> u64 {
    time.0.max(0) as u64
}
