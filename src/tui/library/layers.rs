//! The layers of a message as a tree: packets with their headers, HTTP, the event, JSON-RPC, MCP, findings.

use std::ops::Range;

use anyhow::Result;

use super::super::data::{LayerNode, TEXT};
use super::detail::Parts;
use crate::capture::PacketNumber;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::decode::packet::{Header, headers};
use crate::event::Segment;
use crate::findings::Severity;
use crate::mcp::{Carrier, Peers, Session};
use crate::store::{KeptPacket, Key};
use crate::view::layers::agreed_fields;
use crate::view::timing::Clock;
use crate::view::units;

type Nodes = Vec<LayerNode>;

/// The tree, from the link up.
pub(super) fn nodes(parts: &mut Parts<'_>, session: &Session) -> Result<Nodes> {
    let mut nodes = Nodes::new();
    if parts.message.carrier == Carrier::Line {
        pipe(parts, session, &mut nodes);
    } else {
        packets(parts, &mut nodes)?;
        tls(parts, &mut nodes)?;
        http(parts, &mut nodes);
        event(parts, &mut nodes);
    }
    jsonrpc(parts, &mut nodes);
    timing(parts, &mut nodes)?;
    mcp(parts, &mut nodes);
    findings(parts, &mut nodes)?;
    Ok(nodes)
}

fn node(depth: usize, name: &str, value: impl Into<String>, place: Option<(usize, Range<usize>)>) -> LayerNode {
    LayerNode { depth, name: name.to_owned(), value: value.into(), place, odd: false }
}

/// The headers of the packets; of several, each in a node of its own.
fn packets(parts: &mut Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    let carried: Vec<(usize, PacketNumber)> =
        parts.sources.iter().enumerate().filter_map(|(at, source)| Some((at, source.packet?))).collect();
    if carried.is_empty() {
        nodes.push(node(0, "packets", "not kept", None));
    }
    let several = carried.len() > 1;
    for (source, number) in &carried {
        let Some(packet) = parts.tracer.packet(*number)? else { continue };
        let packet = packet.clone();
        if several {
            let value = format!("#{number}  {}", units::size(packet.original_length.into()));
            nodes.push(node(0, "packet", value, Some((*source, 0..packet.data.len()))));
        }
        for header in headers(&packet.packet()) {
            header_nodes(usize::from(several), *source, &header, &packet, nodes);
        }
    }
    let more = parts.message.packets.len().saturating_sub(carried.len());
    if more > 0 && !carried.is_empty() {
        nodes.push(node(0, "more packets", more.to_string(), None));
    }
    Ok(())
}

fn header_nodes(depth: usize, source: usize, header: &Header, packet: &KeptPacket, nodes: &mut Nodes) {
    let place = Some((source, header.start as usize..header.end as usize));
    let number = if depth == 0 { format!("#{}  ", packet.number) } else { String::new() };
    // The number stands once, at the outermost header.
    let number = if header.start == 0 { number } else { String::new() };
    nodes.push(node(depth, &header.protocol, format!("{number}{}", summary(header)), place.clone()));
    for (name, value) in &header.fields {
        nodes.push(node(depth + 1, name, value.clone(), place.clone()));
    }
    if let (Some(segment), "TCP") = (&packet.segment, header.protocol.as_str()) {
        let field = |name: &str, value: String| node(depth + 1, name, value, place.clone());
        nodes.extend(tcp(segment).into_iter().map(|(name, value)| field(name, value)));
        let names: Vec<&str> = segment.analysis.names().collect();
        if !names.is_empty() {
            nodes.push(LayerNode { odd: true, ..field("analysis", names.join(", ")) });
        }
    }
}

/// What only the whole connection tells. Relative numbers are Wireshark's: the SYN takes the first, so the stream begins at 1.
fn tcp(segment: &Segment) -> Vec<(&'static str, String)> {
    let end = segment.offset + u64::from(segment.length);
    let mut fields = vec![("sequence number (relative)", format!("{}..{}", segment.offset + 1, end + 1))];
    if let Some(acknowledged) = segment.acknowledged {
        fields.push(("acknowledges (relative)", (acknowledged + 1).to_string()));
    }
    fields.push(("window, scaled", units::size(segment.window.into())));
    fields
}

/// A header in a few words.
fn summary(header: &Header) -> String {
    let field = |name: &str| header.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let pair = |from, to| Some(format!("{} → {}", field(from)?, field(to)?));
    match header.layer {
        "transport" => {
            let ports = pair("source port", "destination port").unwrap_or_default();
            format!("{ports}  {}", field("flags").unwrap_or_default()).trim_end().to_owned()
        }
        _ => pair("source", "destination").or_else(|| field("type").map(str::to_owned)).unwrap_or_default(),
    }
}

fn tls(parts: &mut Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    let Some(exchange) = &parts.exchange else { return Ok(()) };
    let Some(connection) = parts.reader.connection(parts.capture, exchange.connection)? else { return Ok(()) };
    if !connection.tls.is_empty() {
        let agreed = connection.agreed.unwrap_or_default();
        let name = agreed.version.as_deref().unwrap_or("TLS");
        nodes.push(node(0, name, connection.host.unwrap_or_default(), None));
        nodes.extend(agreed_fields(&agreed).into_iter().map(|(name, value)| node(1, &name, value, None)));
        nodes.extend(connection.tls.iter().map(|step| node(1, "step", step.detail.clone(), None)));
    }
    Ok(())
}

fn http(parts: &Parts<'_>, nodes: &mut Nodes) {
    let (Some(exchange), Some(half)) = (&parts.exchange, parts.half()) else { return };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let request = format!("{} {}", text(&exchange.method), text(&exchange.target));
    let (line, other) = match parts.message.carrier {
        Carrier::RequestBody => (request, exchange.status.map(|status| format!("{status} {}", text(&exchange.reason)))),
        _ => (format!("{} {}", exchange.status.unwrap_or_default(), text(&exchange.reason)), Some(request)),
    };
    let head = parts.head.map(|source| (source, 0..parts.sources[source].bytes.len()));
    let media = half.fields.get("content-type");
    let stream = exchange.h2_stream.map(|stream| format!("  stream {stream}")).unwrap_or_default();
    let value = format!("{line}  {}{stream}", media.unwrap_or_default());
    nodes.push(node(0, &format!("HTTP/{}", exchange.http_version), value.trim_end(), head.clone()));
    let mut from = 0;
    for (name, value) in half.fields.iter() {
        let place = parts.head.and_then(|source| {
            let range = field_range(&parts.sources[source].bytes, name, &mut from)?;
            Some((source, range))
        });
        nodes.push(node(1, name, value.to_owned(), place.or(head.clone())));
    }
    let mut fact = |name: &str, value: String| nodes.push(node(1, name, value, head.clone()));
    fact("exchange", exchange.number.0.to_string());
    if let Some(other) = other {
        fact(if parts.message.carrier == Carrier::RequestBody { "answered" } else { "answers" }, other);
    }
    fact("body", units::size(half.body_bytes));
    if let (Some(started), Some(ended)) = (half.started, half.ended) {
        fact("took", units::duration(ended.since(started)));
    }
    if !half.complete {
        nodes.push(LayerNode { odd: true, ..node(1, "incomplete", "not all of it was seen", head) });
    }
}

/// Where a field stands in the head: its lines come in the order of the fields.
fn field_range(head: &[u8], name: &str, from: &mut usize) -> Option<Range<usize>> {
    let line = format!("\n{name}:");
    let start = *from + memchr::memmem::find(head.get(*from..)?, line.as_bytes())? + 1;
    let length = memchr::memchr(b'\n', &head[start..])? + 1;
    *from = start + length - 1;
    Some(start..start + length)
}

fn event(parts: &Parts<'_>, nodes: &mut Nodes) {
    if parts.message.carrier != Carrier::SseEvent {
        return;
    }
    let id = parts.message.sse_id.as_deref().map(|id| format!("id {id}  ")).unwrap_or_default();
    let bytes = parts.event.map(|source| parts.sources[source].bytes.as_slice()).unwrap_or_default();
    let value = format!("{id}{}", units::size(bytes.len() as u64));
    nodes.push(node(0, "SSE event", value, parts.event.map(|source| (source, 0..bytes.len()))));
    let Some(source) = parts.event else { return };
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n').take(64) {
        let words = String::from_utf8_lossy(line.get(..line.len().min(512)).unwrap_or_default());
        let words = words.trim_end_matches(['\r', '\n']);
        if !words.is_empty() {
            let (name, value) = words.split_once(':').unwrap_or((words, ""));
            let name = if name.is_empty() { "comment" } else { name };
            nodes.push(node(1, name, value.trim_start(), Some((source, start..start + line.len()))));
        }
        start += line.len();
    }
    if parts.message.redelivered {
        nodes.push(LayerNode { odd: true, ..node(1, "redelivered", "sent again after a resume", None) });
    }
}

fn pipe(parts: &Parts<'_>, session: &Session, nodes: &mut Nodes) {
    let message = &parts.message;
    nodes.push(node(0, "link, network, transport", "none: a pipe inside one machine", None));
    if let Peers::Process { process, command, .. } = &session.peers {
        nodes.push(node(1, "process", process.to_string(), None));
        nodes.push(node(1, "command", command.join(" "), None));
    }
    let (name, descriptor) = match message.direction {
        Direction::ClientToServer => ("stdin", 0),
        Direction::ServerToClient => ("stdout", 1),
    };
    let (start, end) = (message.span.start, message.span.end);
    let value = format!("{name}, line {}, bytes {start}..{end}", message.line.unwrap_or_default());
    nodes.push(node(0, "pipe", value, Some((TEXT, 0..message.raw.len()))));
    nodes.push(node(1, "file descriptor", descriptor.to_string(), None));
}

fn jsonrpc(parts: &Parts<'_>, nodes: &mut Nodes) {
    let (message, envelope) = (&parts.message, &parts.message.envelope);
    let whole = Some((TEXT, 0..message.raw.len()));
    let id = message.id.as_deref().map(|id| format!("  id {id}")).unwrap_or_default();
    nodes.push(LayerNode {
        odd: message.kind == Kind::Invalid,
        ..node(0, "JSON-RPC", format!("{}{id}", message.kind.name()), whole)
    });
    let members = [
        ("jsonrpc", &envelope.jsonrpc),
        ("id", &envelope.id),
        ("method", &envelope.method),
        ("params", &envelope.params),
        ("result", &envelope.result),
        ("error", &envelope.error),
    ];
    for (name, range) in members {
        let Some(range) = range.clone() else { continue };
        let value = message.raw.get(range.clone()).unwrap_or_default();
        let shown = if value.len() <= 120 {
            String::from_utf8_lossy(value).into_owned()
        } else {
            units::size(value.len() as u64)
        };
        nodes.push(node(1, name, shown, Some((TEXT, range))));
    }
    let mut fact = |name: &str, value: Option<String>| nodes.extend(value.map(|value| node(1, name, value, None)));
    fact("answers", message.answers.map(|number| format!("message {}", number.0)));
    fact("answered by", message.answered_by.map(|number| format!("message {}", number.0)));
    fact("latency", message.latency.map(units::duration));
    fact("batch", message.batch.map(|(batch, index)| format!("{batch}, member {}", index + 1)));
}

/// Where the time of the call went.
fn timing(parts: &Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    if let Some(timing) = Clock::new(parts.reader, parts.capture).of_message(&parts.message)? {
        nodes.extend(timing.fields().into_iter().map(|(name, value)| node(1, &name, value, None)));
    }
    Ok(())
}

fn mcp(parts: &Parts<'_>, nodes: &mut Nodes) {
    let (message, envelope) = (&parts.message, &parts.message.envelope);
    let place = [&envelope.params, &envelope.result, &envelope.error].into_iter().flatten().next();
    let place = place.map(|range| (TEXT, range.clone()));
    let method = message.method.clone().unwrap_or_else(|| "no known method".to_owned());
    nodes.push(node(0, "MCP", method, place.clone()));
    nodes.push(node(1, "about", crate::view::text::about(message, None), place));
    if let Some(role) = crate::view::steps::role(message) {
        nodes.push(node(1, "role", role, None));
    }
}

fn findings(parts: &Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    for finding in parts.reader.message_findings(Key::new(parts.capture, parts.message.number.0))? {
        let odd = finding.severity != Severity::Info;
        nodes.push(LayerNode { odd, ..node(0, &format!("! {}", finding.rule), finding.text, None) });
        nodes.push(node(1, "rule", finding.title, None));
        nodes.push(node(1, "see", finding.spec, None));
    }
    Ok(())
}
