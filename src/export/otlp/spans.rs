//! The mapping of calls and sessions to spans, by the semantic conventions for MCP
//! (`docs/telemetry.md` names the version of their text).

use std::borrow::Cow;

use ring::digest;

use super::attributes::{Attributes, cut};
use super::calls::{Call, End, Request, nanoseconds};
use super::proto::{CLIENT, ERROR, INTERNAL, KeyValue, Span, SpanStatus};
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::json::string;
use crate::mcp::{Party, Peers, Session, Transport};

/// The trace of a session. Ids are hashes of captured facts.
pub(crate) struct Trace {
    /// The facts that identify a session in every database.
    seed: Vec<u8>,
    /// The version of HTTP, where it is known.
    http: Option<&'static str>,
}

impl Trace {
    /// The trace of this session.
    pub(crate) fn of(session: &Session, http: Option<&'static str>) -> Trace {
        let id = session.session_id.as_deref().unwrap_or_default();
        // Ids of sessions that were exported before stay as they are.
        let peers = match &session.peers {
            Peers::Process { process, command } => {
                format!("Process {{ process: {process}, command: {command:?}, name: {:?} }}", session.name)
            }
            peers @ Peers::Network { .. } => format!("{peers:?}"),
        };
        Trace { seed: format!("{} {peers} {id}", session.started.0).into_bytes(), http }
    }

    /// The span of a call. Without a response it lasts until the end of the session.
    pub(crate) fn call(&self, session: &Session, call: &Call) -> Span {
        let request = &call.request;
        let end = match &call.end {
            End::Unanswered(time) => time.unwrap_or(session.ended).max(request.start),
            End::Refused(time, _) => (*time).max(request.start),
            // Two clocks give no duration. Then the span ends where it begins.
            End::Answered(answer) if answer.latency.is_none() => request.start,
            End::Answered(answer) => answer.time,
        };
        let (error, message) = failure(call);
        let status = error.is_some().then(|| SpanStatus { message: message.unwrap_or_default(), code: ERROR });
        let mut span = Span {
            span_id: self.hash("span", request.number.0, 8),
            attributes: self.attributes(session, call),
            events: request.events.clone(),
            dropped_events_count: request.dropped_events,
            status,
            ..between(name(request), CLIENT, request.start, end)
        };
        match &request.parent {
            Some(parent) => {
                span.trace_id = bytes(&parent.trace);
                span.parent_span_id = bytes(&parent.parent);
                span.trace_state = request.state.clone().unwrap_or_default();
                span.flags = Some(parent.flags.into());
            }
            None => {
                span.trace_id = self.hash("trace", 0, 16);
                span.parent_span_id = self.hash("span", 0, 8);
            }
        }
        span
    }

    fn attributes(&self, session: &Session, call: &Call) -> Vec<KeyValue> {
        let request = &call.request;
        let mut attributes = Attributes::default();
        attributes.text("mcp.method.name", Some(&*request.method));
        // "SHOULD NOT capture this attribute when the id is null or omitted."
        let id = request.id.as_deref().filter(|id| *id != "null");
        attributes.text("jsonrpc.request.id", id.map(|id| string(id).unwrap_or(Cow::Borrowed(id))));
        attributes.text("gen_ai.operation.name", (&*request.method == "tools/call").then_some("execute_tool"));
        if let Some((key, subject)) = &request.subject {
            attributes.text(key, Some(subject));
        }
        let code = if let End::Answered(answer) = &call.end { answer.failure.as_ref() } else { None };
        attributes.text("rpc.response.status_code", code.and_then(|failure| failure.code.as_deref()));
        attributes.text("error.type", failure(call).0);
        let peer = party(session, request.sender.reversed());
        attributes.text("service.peer.name", peer.map(|party| &party.name));
        self.add_session(&mut attributes, session, request.sender);
        attributes.text("mcptap.outcome", Some(call.outcome()));
        attributes.number("mcptap.request", request.number.0 as i64);
        attributes.content("gen_ai.tool.call.arguments", request.arguments.as_ref());
        if let End::Answered(answer) = &call.end {
            attributes.content("gen_ai.tool.call.result", answer.result.as_ref());
            attributes.number("mcptap.answer", answer.number.0 as i64);
            let unknown = "unknown: requests and responses were captured with different clocks";
            attributes.text("mcptap.duration", answer.latency.is_none().then_some(unknown));
        }
        attributes.words("mcptap.findings", call.findings());
        attributes.finish()
    }

    /// The span of the session, the parent of the spans of its requests.
    pub(crate) fn session(&self, session: &Session) -> Span {
        let mut attributes = Attributes::default();
        self.add_session(&mut attributes, session, Direction::ClientToServer);
        attributes.number("mcptap.messages", session.messages as i64);
        attributes.fraction("mcptap.completeness", Some(session.completeness()));
        Span {
            span_id: self.hash("span", 0, 8),
            trace_id: self.hash("trace", 0, 16),
            attributes: attributes.finish(),
            ..between("session".to_owned(), INTERNAL, session.started, session.ended.max(session.started))
        }
    }

    /// Adds attributes of the session and its transport.
    fn add_session(&self, attributes: &mut Attributes, session: &Session, sender: Direction) {
        attributes.text("mcp.protocol.version", session.protocol_version.as_ref());
        attributes.text("mcp.session.id", session.session_id.as_ref());
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
    fn hash(&self, what: &str, number: u64, length: usize) -> Vec<u8> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(format!("mcptap {what} {number} ").as_bytes());
        context.update(&self.seed);
        context.finish().as_ref()[..length].to_vec()
    }
}

/// `{mcp.method.name} {target}` for tools and prompts. For others "there is no low-cardinality
/// target".
fn name(request: &Request) -> String {
    match &request.subject {
        Some((key, name)) if *key != "mcp.resource.uri" => format!("{} {name}", cut(&request.method)),
        _ => cut(&request.method).to_owned(),
    }
}

/// The class of the failure of a call, and its message.
fn failure(call: &Call) -> (Option<Cow<'_, str>>, Option<String>) {
    match &call.end {
        End::Answered(answer) => {
            let failure = answer.failure.as_ref();
            let class = failure.map(|failure| failure.code.as_deref().unwrap_or("tool_error").into());
            (class, failure.and_then(|failure| failure.message.clone()))
        }
        End::Refused(_, status) => (Some(status.to_string().into()), None),
        End::Unanswered(_) => (None, None),
    }
}

/// A span of this name, kind and time.
fn between(name: String, kind: u32, start: Time, end: Time) -> Span {
    let (start, end) = (nanoseconds(start), nanoseconds(end));
    Span { name, kind, start_time_unix_nano: start, end_time_unix_nano: end, ..Span::default() }
}

/// The bytes that pairs of hexadecimal digits stand for.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len() / 2).map(|at| digits.get(2 * at..2 * at + 2).unwrap_or_default());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or_default()).collect()
}

/// The party that sends in this direction.
fn party(session: &Session, sender: Direction) -> Option<&Party> {
    match sender {
        Direction::ClientToServer => session.client.as_ref(),
        Direction::ServerToClient => session.server.as_ref(),
    }
}

/// The attributes of the resource that sends in this direction.
pub(crate) fn resource(session: &Session, side: Direction) -> Vec<KeyValue> {
    let party = party(session, side);
    let mut attributes = Attributes::default();
    // "If the process executable name is not available, the value MUST be set to unknown_service"
    // (service.name).
    attributes.text("service.name", Some(party.map_or("unknown_service", |party| &party.name)));
    attributes.text("service.version", party.map(|party| &party.version));
    attributes.finish()
}
