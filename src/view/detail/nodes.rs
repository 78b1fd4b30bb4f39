//! The layers of a message as a tree: those of the layer view, with the bytes of each field on the
//! screen, and the message's findings.

use std::ops::Range;

use anyhow::Result;

use super::{LayerNode, Parts, TEXT};
use crate::capture::{PacketNumber, Span};
use crate::findings::Severity;
use crate::mcp::{Carrier, Session};
use crate::store::RowKey;
use crate::view::layers::{self, At, Field, Layer, StoredSession};
use crate::view::units;

type Nodes = Vec<LayerNode>;

/// Limit of the lines of an event that become nodes.
const LINES: usize = 64;

/// Limit of the shown bytes of such a line.
const LINE: usize = 512;

/// The tree, from the link up.
pub(super) fn read(parts: &mut Parts<'_>, session: &Session) -> Result<Nodes> {
    let mut nodes = Nodes::new();
    if parts.message.carrier != Carrier::Line {
        packets(parts, &mut nodes)?;
    }
    let place = StoredSession { reader: parts.reader, capture: parts.capture, session };
    for layer in layers::above(&place, &parts.message)? {
        let is_event = layer.layer == "sse";
        add_stream(parts, &layer)?;
        layer_nodes(parts, 0, layer, &mut nodes);
        if is_event {
            event_lines(parts, &mut nodes);
        }
    }
    findings(parts, &mut nodes)?;
    Ok(nodes)
}

fn node(depth: usize, name: &str, value: impl Into<String>, place: Option<(usize, Range<usize>)>) -> LayerNode {
    LayerNode { depth, name: name.to_owned(), value: value.into(), location: place, odd: false }
}

/// Adds the headers of the packets. If there are several packets, each gets a node of its own.
fn packets(parts: &mut Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    let carried: Vec<(usize, PacketNumber)> =
        parts.sources.iter().enumerate().filter_map(|(at, source)| Some((at, source.packet?))).collect();
    if carried.is_empty() {
        nodes.push(node(0, "packets", "not stored", None));
    }
    let several = carried.len() > 1;
    for (source, number) in &carried {
        let Some(packet) = parts.tracer.packet(*number)?.cloned() else { continue };
        let own = format!("#{number}  {}", units::size(packet.original_length.into()));
        if several {
            nodes.push(node(0, "packet", own, Some((*source, 0..packet.data.len()))));
        }
        for (at, mut layer) in layers::of_packet(&packet).into_iter().enumerate() {
            // The number appears once: at the packet, or at its outermost header.
            if at == 0 && !several {
                layer.summary = format!("#{number}  {}", layer.summary);
            }
            layer_nodes(parts, usize::from(several), layer, nodes);
        }
    }
    let more = parts.message.packets.len().saturating_sub(carried.len());
    if more > 0 && !carried.is_empty() {
        nodes.push(node(0, "more packets", more.to_string(), None));
    }
    Ok(())
}

/// Adds the bytes of a layer that has its own stream: TLS records, frames of HTTP/2 and WebSocket.
fn add_stream(parts: &mut Parts<'_>, layer: &Layer) -> Result<()> {
    let is_head = parts.half().is_some_and(|half| layer.range == Some((half.head_start, half.head_end)));
    let what = match layer.layer {
        "tls" => "records",
        "http" if !is_head => "frames",
        _ => return Ok(()),
    };
    if let Some(At::Stream(span)) = layer.place().filter(|_| layer.range.is_some_and(|(start, end)| start < end)) {
        parts.add_stream(format!("{}, {what}", layer.protocol), span)?;
    }
    Ok(())
}

/// Adds a layer, with its fields below it.
fn layer_nodes(parts: &Parts<'_>, depth: usize, layer: Layer, nodes: &mut Nodes) {
    let own = layer_place(parts, &layer);
    nodes.push(LayerNode { odd: layer.odd, ..node(depth, &layer.protocol, layer.summary, own.clone()) });
    let mut from = 0;
    for Field { name, value, place, odd } in layer.fields {
        let place = match place {
            Some(At::Head) => field_place(parts, &name, &mut from).or_else(|| own.clone()),
            Some(at) => screen_bytes(parts, at),
            None => None,
        };
        nodes.push(LayerNode { odd, ..node(depth + 1, &name, value, place) });
    }
}

/// The bytes of a layer on the screen. Heads and events are sources of their own.
fn layer_place(parts: &Parts<'_>, layer: &Layer) -> Option<(usize, Range<usize>)> {
    let whole = |source: Option<usize>| source.map(|source| (source, 0..parts.sources[source].bytes.len()));
    let is_head = parts.half().is_some_and(|half| layer.range == Some((half.head_start, half.head_end)));
    match layer.layer {
        "http" if is_head => whole(parts.head),
        "sse" => whole(parts.event),
        _ => screen_bytes(parts, layer.place()?),
    }
}

/// The bytes of an address on the screen.
fn screen_bytes(parts: &Parts<'_>, at: At) -> Option<(usize, Range<usize>)> {
    let text = parts.message.span;
    match at {
        At::Packet(number, start, end) => Some((parts.packet_source(number)?, start as usize..end as usize)),
        At::Stream(Span { stream, start, end }) if stream == text.stream && start >= text.start && end <= text.end => {
            Some((TEXT, (start - text.start) as usize..(end - text.start) as usize))
        }
        At::Stream(Span { stream, start, end }) => parts.streams.iter().find_map(|(span, source)| {
            let inside = span.stream == stream && span.start <= start && end <= span.end;
            inside.then(|| (*source, (start - span.start) as usize..(end - span.start) as usize))
        }),
        At::Head => None,
    }
}

/// The bytes of a header field in the head. Its lines are in the order of the fields.
fn field_place(parts: &Parts<'_>, name: &str, from: &mut usize) -> Option<(usize, Range<usize>)> {
    let source = parts.head?;
    let head = &parts.sources[source].bytes;
    let line = format!("\n{name}:");
    let start = *from + memchr::memmem::find(head.get(*from..)?, line.as_bytes())? + 1;
    let length = memchr::memchr(b'\n', &head[start..])? + 1;
    *from = start + length - 1;
    Some((source, start..start + length))
}

/// Adds the lines of an event as they were sent.
fn event_lines(parts: &Parts<'_>, nodes: &mut Nodes) {
    let Some(source) = parts.event else { return };
    let mut start = 0;
    for line in parts.sources[source].bytes.split_inclusive(|byte| *byte == b'\n').take(LINES) {
        let words = String::from_utf8_lossy(line.get(..line.len().min(LINE)).unwrap_or_default());
        let words = words.trim_end_matches(['\r', '\n']);
        if !words.is_empty() {
            nodes.push(node(1, "line", words, Some((source, start..start + line.len()))));
        }
        start += line.len();
    }
}

fn findings(parts: &Parts<'_>, nodes: &mut Nodes) -> Result<()> {
    for finding in parts.reader.message_findings(RowKey::new(parts.capture, parts.message.number.0))? {
        let odd = finding.severity != Severity::Info;
        nodes.push(LayerNode { odd, ..node(0, &format!("! {}", finding.rule), finding.text, None) });
        nodes.push(node(1, "rule", finding.title, None));
        nodes.push(node(1, "see", finding.spec, None));
    }
    Ok(())
}
