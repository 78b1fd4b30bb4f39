//! OTLP/JSON: requests with their responses as spans. The OpenTelemetry collector's file exporter
//! writes this format, and its file receiver reads it
//! (<https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/>): one `TracesData` a line.
//!
//! Names and attributes are those of the semantic conventions for MCP
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>), from the view of the side that
//! sends the request. Attributes without a name there begin with `mcptap.`. Ids are hashes of
//! captured facts, so a session has the same ids in every export.
//!
//! ```text
//!    session                    the trace: a whole session, unless a request names its own trace
//!    ├─ initialize
//!    └─ tools/call get_weather  a request and its response; progress and cancellation are events
//! ```

mod attributes;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use ring::digest;

use super::json::Object;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::json::{member, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::{self, Status, body};
use crate::mcp::trace::TraceParent;
use crate::mcp::{Message, MessageNumber, Party, Peers, Session, Transport};
use crate::store::{CaptureId, Page, RowKey, StoreReader};

use attributes::{Attributes, LONGEST, cut};

/// Maximum number of requests that wait for their response. Beyond it the oldest is written with
/// the response that the store names, and without later events.
const OPEN: usize = 4_096;

/// Maximum number of events of a span, as in OpenTelemetry's own programs (EventCountLimit). The
/// span contains the number of dropped events.
const EVENTS: u32 = 128;

/// Maximum bytes of the events of all open spans. Further events are dropped and counted as those
/// above [`EVENTS`] are.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Bytes of spans after which a line is written.
const LINE: usize = 256 << 10;

/// SPAN_KIND_INTERNAL and SPAN_KIND_CLIENT: "Values of enum fields MUST be encoded as integer
/// values" (OTLP, JSON Protobuf Encoding).
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;

/// The status code STATUS_CODE_ERROR of a span.
const ERROR: u32 = 2;

/// Writes the spans of a session: of all requests, or of the `wanted` ones.
///
/// # Errors
/// The output fails, or the store cannot be read.
pub fn write_session(
    reader: &StoreReader,
    session: &Session,
    wanted: Option<&BTreeSet<MessageNumber>>,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(capture) = reader.capture_of(session.number)? else { return Ok(()) };
    let http = reader.exchanges(session.number, Page::first(1))?.first().map(|exchange| exchange.http_version);
    let resources = [Direction::ClientToServer, Direction::ServerToClient].map(|side| Resource::new(session, side));
    let mut trace = Trace { session, seed: seed(session), http, open: BTreeMap::new(), resources, event_bytes: 0, out };
    for message in reader.numbered_messages(session.number)? {
        let message = message?;
        if message.redelivered {
            continue;
        }
        if message.kind == Kind::Request && wanted.is_none_or(|wanted| wanted.contains(&message.number)) {
            trace.open.insert(message.number, Span::of(&message));
        } else if message.kind == Kind::Notification {
            trace.add_event(&message);
        } else if let Some(span) = message.answers.and_then(|request| trace.open.remove(&request)) {
            trace.end(span, Some(&message))?;
        }
        if trace.open.len() > OPEN {
            trace.end_oldest(reader, capture)?;
        }
    }
    while !trace.open.is_empty() {
        trace.end_oldest(reader, capture)?;
    }
    trace.write_session_span()?;
    trace.resources[0].flush(trace.out)?;
    trace.resources[1].flush(trace.out)
}

/// The facts that identify a session in every database.
fn seed(session: &Session) -> Vec<u8> {
    let id = session.session_id.as_deref().unwrap_or_default();
    // Ids of sessions that were exported before stay as they are.
    let peers = match &session.peers {
        Peers::Process { process, command } => {
            format!("Process {{ process: {process}, command: {command:?}, name: {:?} }}", session.name)
        }
        peers @ Peers::Network { .. } => format!("{peers:?}"),
    };
    format!("{} {peers} {id}", session.started.0).into_bytes()
}

/// Writes the spans of a session in the order in which they end.
struct Trace<'a> {
    session: &'a Session,
    seed: Vec<u8>,
    /// The version of HTTP.
    http: Option<&'static str>,
    open: BTreeMap<MessageNumber, Span>,
    /// The spans of the client and those of the server.
    resources: [Resource; 2],
    /// Bytes of the events of all open spans.
    event_bytes: usize,
    out: &'a mut dyn Write,
}

/// A request, with the notifications about it so far.
struct Span {
    request: MessageNumber,
    sender: Direction,
    start: Time,
    method: Arc<str>,
    /// The attribute for the tool, prompt or resource, and its value.
    subject: Option<(&'static str, String)>,
    /// The id as JSON text.
    id: Option<Arc<str>>,
    answered_by: Option<MessageNumber>,
    /// The `progressToken` as JSON text.
    token: Option<String>,
    parent: Option<TraceParent>,
    state: Option<String>,
    findings: Vec<&'static str>,
    events: Vec<u8>,
    /// The number of notifications about the request, and of those in `events`.
    events_seen: u32,
    events_written: u32,
}

impl Span {
    fn of(request: &Message) -> Span {
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
        Span {
            request: request.number,
            sender: request.direction,
            start: request.time,
            subject: attribute.and_then(|(key, member)| Some((key, cut(&params.text(member)?).to_owned()))),
            method,
            id: request.id.clone(),
            answered_by: request.answered_by,
            token: meta.get("progressToken").filter(|token| token.len() <= LONGEST).map(str::to_owned),
            parent,
            state: state.map(Cow::into_owned),
            findings: request.findings.clone(),
            events: Vec::new(),
            events_seen: 0,
            events_written: 0,
        }
    }

    /// `{mcp.method.name} {target}` for tools and prompts. For others "there is no low-cardinality
    /// target".
    fn name(&self) -> String {
        match &self.subject {
            Some((key, name)) if *key != "mcp.resource.uri" => format!("{} {name}", cut(&self.method)),
            _ => cut(&self.method).to_owned(),
        }
    }

    /// Adds a notification about the request as an event.
    fn add_event(&mut self, notification: &Message, attributes: Attributes<'_>) {
        self.events_written += 1;
        if !self.events.is_empty() {
            self.events.push(b',');
        }
        let mut event = Object::inside(&mut self.events);
        event.display("timeUnixNano", &nanoseconds(notification.time));
        event.text("name", cut(notification.method.as_deref().unwrap_or_default()));
        attributes.write(&mut event);
        event.end();
    }
}

impl Trace<'_> {
    /// Adds a notification to the open request that it names, if there is one.
    fn add_event(&mut self, notification: &Message) {
        let params = body(notification);
        let mut attributes = Attributes::default();
        let mut open = self.open.values_mut().rev();
        let span = match notification.method.as_deref() {
            Some("notifications/progress") => {
                let fraction = |name| params.get(name).and_then(|number| number.parse().ok());
                attributes.fraction("mcptap.progress", fraction("progress"));
                attributes.fraction("mcptap.total", fraction("total"));
                attributes.text("mcptap.message", params.text("message"));
                let (token, asker) = (params.get("progressToken"), notification.direction.reversed());
                open.find(|span| token.is_some() && span.token.as_deref() == token && span.sender == asker)
            }
            Some("notifications/cancelled") => {
                attributes.text("mcptap.reason", params.text("reason"));
                let (id, asker) = (params.get("requestId"), notification.direction);
                open.find(|span| id.is_some() && span.id.as_deref() == id && span.sender == asker)
            }
            _ => None,
        };
        let Some(span) = span else { return };
        span.events_seen = span.events_seen.saturating_add(1);
        if span.events_written < EVENTS && self.event_bytes < MAX_EVENT_BYTES {
            let before = span.events.len();
            span.add_event(notification, attributes);
            self.event_bytes += span.events.len() - before;
        }
    }

    /// Writes the oldest open span, with its response if the store has one.
    fn end_oldest(&mut self, reader: &StoreReader, capture: CaptureId) -> Result<()> {
        let Some((_, span)) = self.open.pop_first() else { return Ok(()) };
        let answer =
            span.answered_by.map(|number| reader.message(RowKey::new(capture, number.0))).transpose()?.flatten();
        self.end(span, answer.as_ref())
    }

    /// Writes a span. Without a response it lasts until the end of the session.
    fn end(&mut self, span: Span, answer: Option<&Message>) -> Result<()> {
        self.event_bytes -= span.events.len();
        let failure = answer.and_then(Failure::of);
        let attributes = self.attributes(&span, answer, failure.as_ref());
        // Two clocks give no duration. Then the span ends where it begins.
        let end = match answer {
            None => self.session.ended.max(span.start),
            Some(answer) if answer.latency.is_none() => span.start,
            Some(answer) => answer.time,
        };
        let (trace, root, own) = (self.hash("trace", 0), self.hash("span", 0), self.hash("span", span.request.0));
        self.resources[span.sender as usize].span(self.out, |object| {
            object.hexadecimal("spanId", &own[..8]);
            match &span.parent {
                Some(parent) => {
                    object.word("traceId", &parent.trace);
                    object.word("parentSpanId", &parent.parent);
                    object.maybe(&span.state, |object, state| object.text("traceState", state));
                    object.number("flags", parent.flags);
                }
                None => {
                    object.hexadecimal("traceId", &trace[..16]);
                    object.hexadecimal("parentSpanId", &root[..8]);
                }
            }
            write_times(object, &span.name(), CLIENT, span.start, end);
            attributes.write(object);
            if span.events_seen > 0 {
                object.entry("events", |out| {
                    out.push(b'[');
                    out.extend_from_slice(&span.events);
                    out.push(b']');
                });
                object.number("droppedEventsCount", span.events_seen - span.events_written);
            }
            object.maybe(&failure, |object, failure| {
                object.object("status", |object| {
                    object.number("code", ERROR);
                    object.maybe(&failure.message, |object, text| object.text("message", cut(text)));
                });
            });
        })
    }

    fn attributes<'s>(
        &self,
        span: &'s Span,
        answer: Option<&'s Message>,
        failure: Option<&'s Failure<'s>>,
    ) -> Attributes<'s> {
        let session = self.session;
        let mut attributes = Attributes::default();
        attributes.text("mcp.method.name", Some(&*span.method));
        // "SHOULD NOT capture this attribute when the id is null or omitted."
        let id = span.id.as_deref().filter(|id| *id != "null");
        attributes.text("jsonrpc.request.id", id.map(|id| string(id).unwrap_or(Cow::Borrowed(id))));
        attributes.text("gen_ai.operation.name", (&*span.method == "tools/call").then_some("execute_tool"));
        if let Some((key, subject)) = &span.subject {
            attributes.text(key, Some(subject));
        }
        attributes.text("rpc.response.status_code", failure.and_then(|failure| failure.code));
        attributes.text("error.type", failure.map(|failure| failure.code.unwrap_or("tool_error")));
        attributes.text("service.peer.name", party(session, span.sender.reversed()).map(|party| party.name.clone()));
        self.add_session_attributes(&mut attributes, span.sender);
        let outcome = answer.and_then(content::status).map_or("unanswered", Status::name);
        attributes.text("mcptap.outcome", Some(outcome));
        attributes.number("mcptap.request", span.request.0 as i64);
        if let Some(answer) = answer {
            attributes.number("mcptap.answer", answer.number.0 as i64);
            let unknown = "unknown: requests and responses were captured with different clocks";
            attributes.text("mcptap.duration", answer.latency.is_none().then_some(unknown));
        }
        let findings = span.findings.iter().chain(answer.iter().flat_map(|answer| &answer.findings));
        attributes.words("mcptap.findings", findings.copied().collect::<BTreeSet<_>>());
        attributes
    }

    /// Writes the span of the session, the parent of the spans of its requests.
    fn write_session_span(&mut self) -> Result<()> {
        let session = self.session;
        let mut attributes = Attributes::default();
        self.add_session_attributes(&mut attributes, Direction::ClientToServer);
        attributes.number("mcptap.messages", session.messages as i64);
        attributes.fraction("mcptap.completeness", Some(session.completeness()));
        let (trace, own) = (self.hash("trace", 0), self.hash("span", 0));
        self.resources[0].span(self.out, |object| {
            object.hexadecimal("spanId", &own[..8]);
            object.hexadecimal("traceId", &trace[..16]);
            write_times(object, "session", INTERNAL, session.started, session.ended.max(session.started));
            attributes.write(object);
        })
    }

    /// Adds attributes of the session and its transport.
    fn add_session_attributes(&self, attributes: &mut Attributes<'_>, sender: Direction) {
        let session = self.session;
        attributes.text("mcp.protocol.version", session.protocol_version.clone());
        attributes.text("mcp.session.id", session.session_id.clone());
        let (transport, protocol) = match session.transport {
            Transport::Stdio => ("pipe", None),
            Transport::WebSocket => ("tcp", Some("websocket")),
            Transport::HttpSse | Transport::StreamableHttp | Transport::Http => ("tcp", Some("http")),
        };
        attributes.text("network.transport", Some(transport));
        attributes.text("network.protocol.name", protocol);
        attributes.text("network.protocol.version", self.http.filter(|_| protocol == Some("http")));
        if let (Peers::Network { server, host, .. }, Direction::ClientToServer) = (&session.peers, sender) {
            attributes.text("server.address", Some(host.clone().unwrap_or_else(|| server.ip().to_string())));
            attributes.number("server.port", server.port());
        }
    }

    /// The bytes of an id: of the trace, of the session's span (number 0), or of a request's span.
    fn hash(&self, what: &str, number: u64) -> [u8; digest::SHA256_OUTPUT_LEN] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(format!("mcptap {what} {number} ").as_bytes());
        context.update(&self.seed);
        context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// The failure of a call.
struct Failure<'a> {
    /// The code of a JSON-RPC error. `None`: the tool failed.
    code: Option<&'a str>,
    message: Option<Cow<'a, str>>,
}

impl<'a> Failure<'a> {
    fn of(answer: &'a Message) -> Option<Failure<'a>> {
        match content::status(answer)? {
            // "The status description SHOULD match the JSONRPCError.message".
            Status::Error => {
                let code = content::part(answer, "error").and_then(|error| member(error, "code"));
                let message = content::part(answer, "error").and_then(|error| string(member(error, "message")?));
                Some(Failure { code: Some(code.unwrap_or("_OTHER")), message })
            }
            Status::ToolError => Some(Failure { code: None, message: None }),
            Status::Ok | Status::Negative => None,
        }
    }
}

/// Collects the spans of one side until they fill a line.
struct Resource {
    /// The beginning of the line, up to its spans.
    head: Vec<u8>,
    spans: Vec<u8>,
}

impl Resource {
    fn new(session: &Session, side: Direction) -> Resource {
        let party = party(session, side);
        let mut attributes = Attributes::default();
        // "If the process executable name is not available, the value MUST be set to
        // unknown_service" (service.name).
        attributes.text("service.name", Some(party.map_or("unknown_service", |party| &party.name)));
        attributes.text("service.version", party.map(|party| &*party.version));
        let mut head = br#"{"resourceSpans":[{"resource":"#.to_vec();
        let mut resource = Object::inside(&mut head);
        attributes.write(&mut resource);
        resource.end();
        let version = env!("CARGO_PKG_VERSION");
        let scope = format!(r#","scopeSpans":[{{"scope":{{"name":"mcptap","version":"{version}"}},"spans":["#);
        head.extend_from_slice(scope.as_bytes());
        Resource { head, spans: Vec::new() }
    }

    /// Adds a span.
    fn span(&mut self, out: &mut dyn Write, write: impl FnOnce(&mut Object<'_>)) -> Result<()> {
        if !self.spans.is_empty() {
            self.spans.push(b',');
        }
        let mut object = Object::inside(&mut self.spans);
        write(&mut object);
        object.end();
        if self.spans.len() > LINE { self.flush(out) } else { Ok(()) }
    }

    /// Writes the collected spans as a line.
    fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        if !self.spans.is_empty() {
            out.write_all(&self.head)?;
            out.write_all(&self.spans)?;
            out.write_all(b"]}]}]}\n")?;
            self.spans.clear();
        }
        Ok(())
    }
}

/// The party that sends in this direction.
fn party(session: &Session, sender: Direction) -> Option<&Party> {
    match sender {
        Direction::ClientToServer => session.client.as_ref(),
        Direction::ServerToClient => session.server.as_ref(),
    }
}

fn write_times(object: &mut Object<'_>, name: &str, kind: u32, start: Time, end: Time) {
    object.text("name", name);
    object.number("kind", kind);
    object.display("startTimeUnixNano", &nanoseconds(start));
    object.display("endTimeUnixNano", &nanoseconds(end));
}

/// Nanoseconds since 1970 for a 64-bit number, which is a string in this JSON. There are no
/// times before 1970.
fn nanoseconds(time: Time) -> i64 {
    time.0.max(0)
}

#[cfg(test)]
mod tests;
