//! The message itself: its pipe, if one carried it, JSON-RPC and MCP.

use anyhow::Result;

use super::{At, Field, JSON_RPC, Layer, StoredSession, span_as_sent};
use crate::capture::Span;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::{Message, Peers};
use crate::view::parties::process_name;
use crate::view::timing::Clock;
use crate::view::units::{duration, size};
use crate::view::{steps, text};

/// The pipe of a message over STDIO, which has no link, network or transport layer.
pub(super) fn pipe(stored: &StoredSession<'_>, message: &Message) -> Result<Layer> {
    let (process, command) = match &stored.session.peers {
        Peers::Process { process, command, .. } => (*process, command.join(" ")),
        Peers::Network { .. } => (0, String::new()),
    };
    let (name, descriptor) = match message.direction {
        Direction::ClientToServer => ("stdin", 0),
        Direction::ServerToClient => ("stdout", 1),
    };
    let line = message.line.unwrap_or_default();
    let span = span_as_sent(stored, message)?;
    let protocol = match stored.is_foreign()? {
        true => "link, network, transport: not captured (another program recorded the messages alone)",
        false => "link, network, transport: none (a pipe inside one machine)",
    };
    Ok(Layer {
        summary: format!("{name}, line {line}"),
        fields: vec![
            Field::new("process", process_name(process).trim_start_matches("pid ")),
            Field::new("command", command),
            Field::new("pipe", format!("{name} (file descriptor {descriptor})")),
            Field::new("line", line),
        ],
        stream: Some(span.stream),
        range: Some((span.start, span.end)),
        ..Layer::new("pipe", protocol)
    })
}

/// The span of a part of the message's text.
fn within(message: &Message, range: &std::ops::Range<usize>) -> Span {
    let at = |offset: usize| message.span.start.saturating_add(offset as u64);
    Span { stream: message.span.stream, start: at(range.start), end: at(range.end) }
}

/// The JSON-RPC layer: the envelope, the locations of its members, and the timing of the call.
pub(super) fn jsonrpc(stored: &StoredSession<'_>, message: &Message) -> Result<Layer> {
    let envelope = &message.envelope;
    let placed = |field: Field, range: &Option<std::ops::Range<usize>>| match range {
        Some(range) => field.at(At::Stream(within(message, range))),
        None => field,
    };
    let mut fields = vec![Field::new("kind", message.kind.name())];
    if let Some(id) = &message.id {
        let kind = match id.as_bytes().first() {
            Some(b'"') => "string",
            Some(b'-' | b'0'..=b'9') => "number",
            _ => "neither string nor number",
        };
        fields.push(placed(Field::new("id", format!("{id} ({kind})")), &envelope.id));
    }
    if let Some(method) = &message.method {
        let is_answer = matches!(message.kind, Kind::Response | Kind::Error);
        let name = if is_answer { "method of its request" } else { "method" };
        fields.push(placed(Field::new(name, method), &envelope.method));
    }
    for (name, range) in [("params", &envelope.params), ("result", &envelope.result), ("error", &envelope.error)] {
        if let Some(range) = range {
            let span = within(message, range);
            let value = format!("{}, bytes {}..{}", size(span.len()), span.start, span.end);
            fields.push(Field::new(name, value).at(At::Stream(span)));
        }
    }
    fields.extend(message.batch.map(|(number, index)| Field::new("batch", format!("{number}, member {index}"))));
    fields.extend(message.answers.map(|answers| Field::new("answers", format!("message {}", answers.0))));
    fields.extend(message.answered_by.map(|answer| Field::new("answered by", format!("message {}", answer.0))));
    fields.extend(message.latency.map(|latency| Field::new("latency", duration(latency))));
    if let Some(timing) = Clock::new(stored.reader, stored.capture).of_message(message)? {
        fields.extend(timing.fields().into_iter().map(|(name, value)| Field::new(name, value)));
    }
    let id = message.id.as_deref().map(|id| format!("  id {id}")).unwrap_or_default();
    Ok(Layer {
        summary: format!("{}{id}", message.kind.name()),
        fields,
        stream: Some(message.span.stream),
        range: Some((message.span.start, message.span.end)),
        packets: message.packets.clone(),
        odd: message.kind == Kind::Invalid,
        ..Layer::new("json-rpc", JSON_RPC)
    })
}

/// The MCP layer: the session, a summary, the role of the message, and its findings.
pub(super) fn mcp(stored: &StoredSession<'_>, message: &Message) -> Layer {
    let mut fields = vec![
        Field::new("session", stored.session.number.0),
        Field::new("transport", stored.session.transport.name()),
        Field::new("revision", stored.session.protocol_version.as_deref().unwrap_or("unknown")),
    ];
    let about = text::about(message);
    if !about.is_empty() {
        fields.push(Field::new("about", &about));
    }
    fields.extend(steps::role(message.kind, message.method.as_deref()).map(|role| Field::new("role", role)));
    fields.extend(message.findings.iter().map(|rule| Field::new("finding", rule).odd()));
    let envelope = &message.envelope;
    let own = [&envelope.params, &envelope.result, &envelope.error].into_iter().flatten().next();
    let own = own.map(|range| within(message, range));
    Layer {
        summary: about,
        fields,
        stream: own.map(|span| span.stream),
        range: own.map(|span| (span.start, span.end)),
        ..Layer::new("mcp", format!("MCP {}", message.method.as_deref().unwrap_or_default()).trim_end())
    }
}
