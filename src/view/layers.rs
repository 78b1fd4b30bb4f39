//! One message from the link up: each layer with its fields, the place of its bytes, and the packets that carried them.

use anyhow::Result;

use super::safe;
use super::text::about;
use super::timing::Clock;
use super::transcript::packets as name_packets;
use super::units::{duration, size};
use crate::capture::{Origin, PacketNumber, Part, Span, StreamId};
use crate::decode::exchange::{Exchange, Half};
use crate::decode::jsonrpc::Kind;
use crate::decode::packet::headers;
use crate::decode::stream::StreamKind;
use crate::decode::tcp::Facts;
use crate::decode::tls::Agreed;
use crate::decode::{Direction, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, Message, Peers, Session};
use crate::store::{CaptureId, KeptPacket, Reader};

/// A layer of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// `link`, `network`, `transport`, `tls`, `http`, `sse`, `json-rpc`, `mcp`; `pipe` for STDIO.
    pub layer: &'static str,
    /// `Ethernet II`, `IPv4`, `TCP`, `HTTP/1.1` ...
    pub protocol: String,
    /// Names and values, in order.
    pub fields: Vec<(String, String)>,
    /// The stream that its bytes stand in; `None` for headers, which stand in the packet.
    pub stream: Option<StreamId>,
    /// Where: offsets in the stream, or in the packet.
    pub range: Option<(u64, u64)>,
    /// The packets.
    pub packets: Vec<PacketNumber>,
}

/// What the layers of a message are read from.
pub struct Place<'a> {
    /// The store.
    pub reader: &'a Reader,
    /// The capture.
    pub capture: CaptureId,
    /// The session.
    pub session: &'a Session,
}

/// The layers of a message, from the link up.
pub fn layers(place: &Place<'_>, message: &Message) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    if message.carrier == Carrier::Line {
        layers.push(pipe(place, message));
    } else {
        network(place, message, &mut layers)?;
        if let Some(exchange) =
            message.exchange.map(|number| place.reader.exchange(place.capture, number)).transpose()?.flatten()
        {
            layers.push(http(place, &exchange, message)?);
            layers.extend(frames(place, &exchange, message)?);
        }
        if message.carrier == Carrier::SseEvent {
            layers.push(sse(place, message)?);
        }
    }
    layers.push(jsonrpc(place, message)?);
    layers.push(mcp(place, message));
    Ok(layers)
}

/// Makes a list of fields.
macro_rules! fields {
    ($($name:expr => $value:expr),* $(,)?) => { vec![$(($name.to_string(), $value.to_string())),*] };
}

fn pipe(place: &Place<'_>, message: &Message) -> Layer {
    let (process, command) = match &place.session.peers {
        Peers::Process { process, command, .. } => (*process, command.join(" ")),
        Peers::Network { .. } => (0, String::new()),
    };
    let name = match message.direction {
        Direction::ClientToServer => "stdin (file descriptor 0)",
        Direction::ServerToClient => "stdout (file descriptor 1)",
    };
    Layer {
        layer: "pipe",
        protocol: "link, network, transport: none (a pipe inside one machine)".to_owned(),
        fields: fields![
            "process" => process,
            "command" => command,
            "pipe" => name,
            "line" => message.line.unwrap_or_default(),
        ],
        stream: Some(message.span.stream),
        range: Some((message.span.start, message.span.end)),
        packets: Vec::new(),
    }
}

/// Headers of the first packet that carried the message, and what TCP knows of all of them.
fn network(place: &Place<'_>, message: &Message, layers: &mut Vec<Layer>) -> Result<()> {
    let Some(first) = message.packets.first() else { return Ok(()) };
    let Some(packet) = place.reader.packet(place.capture, *first)? else {
        layers.push(Layer {
            layer: "link",
            protocol: "packets not kept".to_owned(),
            fields: Vec::new(),
            stream: None,
            range: None,
            packets: message.packets.clone(),
        });
        return Ok(());
    };
    let connection = place.reader.connection(place.capture, packet.connection)?;
    for header in headers(&packet.packet()) {
        let mut fields: Vec<(String, String)> =
            header.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut layer = Layer {
            layer: header.layer,
            protocol: header.protocol,
            fields: Vec::new(),
            stream: None,
            range: Some((header.start.into(), header.end.into())),
            packets: vec![*first],
        };
        if header.layer == "transport" {
            if let Some(Connection { kind: ConnectionKind::Tcp(facts), id, .. }) = &connection {
                fields.push(("connection".to_owned(), id.to_string()));
                tcp_fields(place, message, &packet, facts, &mut fields)?;
            }
            layer.packets = message.packets.clone();
        }
        layer.fields = fields;
        layers.push(layer);
    }
    if let Some(connection) = connection.filter(|connection| !connection.tls.is_empty()) {
        layers.push(tls(place, message, &connection)?);
    }
    Ok(())
}

/// What TLS agreed on, and the records that carried the message.
fn tls(place: &Place<'_>, message: &Message, connection: &Connection) -> Result<Layer> {
    let agreed = connection.agreed.clone().unwrap_or_default();
    let mut fields = agreed_fields(&agreed);
    let records = records(place, message)?;
    let range = records.first().zip(records.last()).map(|(first, last)| (first.start, last.end));
    if let Some((start, end)) = range {
        let sealed: u64 = records.iter().map(Span::len).sum();
        fields
            .push(("records".to_owned(), format!("{}, {} encrypted, at {start}..{end}", records.len(), size(sealed))));
    }
    fields.extend(connection.tls.iter().map(|step| ("step".to_owned(), step.detail.clone())));
    Ok(Layer {
        layer: "tls",
        protocol: agreed.version.unwrap_or_else(|| "TLS".to_owned()),
        fields,
        stream: records.first().map(|record| record.stream),
        range,
        packets: message.packets.clone(),
    })
}

/// What TLS agreed on, as names and values.
pub fn agreed_fields(agreed: &Agreed) -> Vec<(String, String)> {
    let named = [
        ("cipher suite", &agreed.cipher_suite),
        ("server name", &agreed.server_name),
        ("ALPN", &agreed.alpn),
        ("fingerprint of the client (JA4)", &agreed.fingerprint),
    ];
    let mut fields: Vec<(String, String)> =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
    if agreed.resumed {
        fields.push(("resumed".to_owned(), "an earlier session".to_owned()));
    }
    fields
}

/// The TLS records that a message stands in, in order, each once.
fn records(place: &Place<'_>, message: &Message) -> Result<Vec<Span>> {
    let mut records: Vec<Span> = Vec::new();
    let mut open = vec![message.span];
    while let Some(span) = open.pop() {
        let stream = place.reader.stream(place.capture, span.stream)?;
        let is_plaintext = stream.is_some_and(|stream| matches!(stream.kind, StreamKind::Plaintext(_)));
        let below = below(place, span)?;
        if is_plaintext {
            records.extend(below);
        } else {
            // A stream is made of streams that were there before it: in a file that says otherwise the walk might never end.
            open.extend(below.into_iter().filter(|from| from.stream < span.stream));
        }
    }
    records.sort_unstable();
    records.dedup();
    Ok(records)
}

fn tcp_fields(
    place: &Place<'_>,
    message: &Message,
    first: &KeptPacket,
    facts: &Facts,
    fields: &mut Vec<(String, String)>,
) -> Result<()> {
    if let Some(segment) = &first.segment {
        // Wireshark's relative numbers: the SYN takes the first, so the stream's first byte has number 1.
        fields.push(("relative sequence number".to_owned(), (segment.offset + 1).to_string()));
        if let Some(acknowledged) = segment.acknowledged {
            fields.push(("relative acknowledgment number".to_owned(), (acknowledged + 1).to_string()));
        }
        fields.push(("window in bytes".to_owned(), segment.window.to_string()));
    }
    if let Some(round_trip) = facts.round_trip() {
        fields.push(("round trip of the handshake".to_owned(), duration(round_trip)));
    }
    for number in message.packets.iter().take(32) {
        let packet =
            if *number == first.number { Some(first.clone()) } else { place.reader.packet(place.capture, *number)? };
        let names =
            packet.and_then(|packet| packet.segment).map(|segment| segment.analysis.names().collect::<Vec<_>>());
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            fields.push((format!("analysis of packet {number}"), names.join(", ")));
        }
    }
    for side in [Side::First, Side::Second] {
        let end = facts.ends[side.index()];
        let mut odd = Vec::new();
        for (count, what) in [
            (end.retransmissions, "retransmissions"),
            (end.duplicate_acks, "duplicate ACKs"),
            (end.zero_windows, "zero windows"),
            (end.keep_alives, "keep-alives"),
        ] {
            if count > 0 {
                odd.push(format!("{count} {what}"));
            }
        }
        if end.lost > 0 {
            odd.push(format!("{} not captured", size(end.lost)));
        }
        if !odd.is_empty() {
            fields.push((format!("sent by {}", facts.endpoints[side.index()]), odd.join(", ")));
        }
    }
    Ok(())
}

fn http(place: &Place<'_>, exchange: &Exchange, message: &Message) -> Result<Layer> {
    let request = message.carrier == Carrier::RequestBody;
    let half: &Half = if request { &exchange.request } else { &exchange.response };
    let line = if request {
        format!("{} {}", exchange.method.as_deref().unwrap_or("?"), exchange.target.as_deref().unwrap_or("?"))
    } else {
        format!("{} {}", exchange.status.unwrap_or_default(), exchange.reason.as_deref().unwrap_or_default())
    };
    let mut fields = fields![
        "exchange" => exchange.number.0,
        if request { "request" } else { "response" } => line,
    ];
    if !request {
        let asked =
            format!("{} {}", exchange.method.as_deref().unwrap_or("?"), exchange.target.as_deref().unwrap_or("?"));
        fields.push(("answers".to_owned(), asked));
    }
    fields.extend(half.fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    fields.push(("body".to_owned(), size(half.body_bytes)));
    let stream = connection_stream(place, message)?;
    Ok(Layer {
        layer: "http",
        protocol: format!("HTTP/{}", exchange.http_version),
        fields,
        stream,
        range: Some((half.head_start, half.head_end)),
        packets: half.head_packets.clone(),
    })
}

/// The frames that carried a message: of its stream of HTTP/2, or of a WebSocket.
fn frames(place: &Place<'_>, exchange: &Exchange, message: &Message) -> Result<Option<Layer>> {
    /// Frames that are listed one by one.
    const LISTED: usize = 16;
    let protocol = match exchange.h2_stream {
        _ if message.carrier == Carrier::WebSocket => "WebSocket",
        Some(_) => "HTTP/2 DATA",
        None => return Ok(None),
    };
    // The content of a message, or the text of a WebSocket, is what frames hold.
    let mut span = message.span;
    while let Some(stream) = place.reader.stream(place.capture, span.stream)? {
        let parts = below(place, span)?;
        let Some((first, last)) = parts.first().zip(parts.last()) else { break };
        if let StreamKind::Body(..) | StreamKind::WebSocket(..) = stream.kind {
            let mut fields = Vec::new();
            if let Some(stream) = exchange.h2_stream {
                fields.push(("stream".to_owned(), stream.to_string()));
            }
            fields.push(("frames".to_owned(), parts.len().to_string()));
            for (index, part) in parts.iter().take(LISTED).enumerate() {
                let bytes = format!("{} of its payload, bytes {}..{}", size(part.len()), part.start, part.end);
                fields.push((format!("frame {}", index + 1), bytes));
            }
            return Ok(Some(Layer {
                layer: "http",
                protocol: protocol.to_owned(),
                fields,
                stream: Some(first.stream),
                range: Some((first.start, last.end)),
                packets: message.packets.clone(),
            }));
        }
        span = Span { stream: first.stream, start: first.start, end: last.end };
    }
    Ok(None)
}

/// The connection's stream below a message.
fn connection_stream(place: &Place<'_>, message: &Message) -> Result<Option<StreamId>> {
    let mut span = message.span;
    while let Some(stream) = place.reader.stream(place.capture, span.stream)? {
        if matches!(stream.kind, StreamKind::Tcp(_) | StreamKind::Plaintext(_) | StreamKind::Pipe(_)) {
            return Ok(Some(stream.id));
        }
        match below(place, span)?.first() {
            Some(next) if next.stream < span.stream => span = *next,
            _ => break,
        }
    }
    Ok(None)
}

/// The spans one layer below.
fn below(place: &Place<'_>, span: Span) -> Result<Vec<Span>> {
    let parts = place.reader.parts(place.capture, span)?;
    let down = |part: Part| match part.origin {
        Origin::Copied { stream, offset } => Some(Span { stream, start: offset, end: offset + part.end - part.start }),
        Origin::Derived(span) => Some(span),
        Origin::Packet { .. } | Origin::Missing => None,
    };
    Ok(parts.into_iter().filter_map(down).collect())
}

fn sse(place: &Place<'_>, message: &Message) -> Result<Layer> {
    let body = below(place, message.span)?;
    let range = body.first().zip(body.last()).map(|(first, last)| (first.start, last.end));
    let mut fields = fields!["data" => format!("{} in {} line(s)", size(message.span.len()), body.len().max(1))];
    if let Some(id) = &message.sse_id {
        fields.push(("id".to_owned(), id.clone()));
    }
    if message.redelivered {
        fields.push(("redelivered".to_owned(), "the event was delivered before".to_owned()));
    }
    Ok(Layer {
        layer: "sse",
        protocol: "server-sent event".to_owned(),
        fields,
        stream: body.first().map(|span| span.stream),
        range,
        packets: message.packets.clone(),
    })
}

fn jsonrpc(place: &Place<'_>, message: &Message) -> Result<Layer> {
    let mut fields = fields!["kind" => message.kind.name()];
    if let Some(id) = &message.id {
        let kind = match id.as_bytes().first() {
            Some(b'"') => "string",
            Some(b'-' | b'0'..=b'9') => "number",
            _ => "neither string nor number",
        };
        fields.push(("id".to_owned(), format!("{id} ({kind})")));
    }
    if let Some(method) = &message.method {
        let of = if matches!(message.kind, Kind::Response | Kind::Error) { "method of its request" } else { "method" };
        fields.push((of.to_owned(), method.clone()));
    }
    for (name, range) in
        [("params", &message.envelope.params), ("result", &message.envelope.result), ("error", &message.envelope.error)]
    {
        if let Some(range) = range {
            let (start, end) = (message.span.start + range.start as u64, message.span.start + range.end as u64);
            fields.push((name.to_owned(), format!("{}, bytes {start}..{end}", size(end - start))));
        }
    }
    if let Some((number, index)) = message.batch {
        fields.push(("batch".to_owned(), format!("{number}, member {index}")));
    }
    if let Some(answers) = message.answers {
        fields.push(("answers".to_owned(), format!("message {}", answers.0)));
    }
    if let Some(answer) = message.answered_by {
        fields.push(("answered by".to_owned(), format!("message {}", answer.0)));
    }
    if let Some(latency) = message.latency {
        fields.push(("latency".to_owned(), duration(latency)));
    }
    if let Some(timing) = Clock::new(place.reader, place.capture).of_message(message)? {
        fields.extend(timing.fields());
    }
    Ok(Layer {
        layer: "json-rpc",
        protocol: "JSON-RPC 2.0".to_owned(),
        fields,
        stream: Some(message.span.stream),
        range: Some((message.span.start, message.span.end)),
        packets: message.packets.clone(),
    })
}

fn mcp(place: &Place<'_>, message: &Message) -> Layer {
    let mut fields = fields![
        "session" => place.session.number.0,
        "transport" => place.session.transport.name(),
        "revision" => place.session.protocol_version.as_deref().unwrap_or("unknown"),
    ];
    let said = about(message, message.tool.as_deref());
    if !said.is_empty() {
        fields.push(("about".to_owned(), said));
    }
    for rule in &message.findings {
        fields.push(("finding".to_owned(), (*rule).to_owned()));
    }
    let protocol = format!("MCP {}", message.method.as_deref().unwrap_or_default());
    Layer { layer: "mcp", protocol, fields, stream: None, range: None, packets: Vec::new() }
}

/// Layers as blocks of text.
pub fn block(layer: &Layer) -> String {
    let mut place = Vec::new();
    if let Some((start, end)) = layer.range {
        place.push(match (layer.stream, layer.packets.first()) {
            (Some(stream), _) => format!("stream {}, bytes {start}..{end}", stream.0),
            (None, Some(packet)) => format!("packet {packet}, bytes {start}..{end}"),
            (None, None) => format!("bytes {start}..{end}"),
        });
    }
    if layer.stream.is_some() || layer.packets.len() > 1 {
        place.push(name_packets(&layer.packets));
    }
    place.retain(|part| !part.is_empty());
    let mut text = format!("{}   {}\n", safe::visible(layer.protocol.trim()), place.join("  "));
    let width = layer.fields.iter().map(|(name, _)| safe::width(&safe::visible(name))).max().unwrap_or(0).min(32);
    for (name, value) in &layer.fields {
        text += &format!("    {}  {}\n", safe::pad(name, width, safe::Align::Left), safe::fit(value, 160));
    }
    text
}
