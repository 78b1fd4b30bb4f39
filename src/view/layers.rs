//! One message from the link layer up: each layer with its fields, the range of its bytes, and the
//! packets that carried them.
//!
//! This is the only tree of layers. `layers --message` and its JSON lines print it, and the
//! terminal UI makes its nodes of it, each with the location of its bytes.

mod http;
mod message;
mod network;

use anyhow::Result;

use super::safe;
use super::transcript::packets as name_packets;
use crate::capture::{Origin, PacketNumber, Span, StreamId, StreamPart};
use crate::decode::exchange::{Exchange, Half};
use crate::decode::stream::StreamKind;
use crate::mcp::{Carrier, Message, Session};
use crate::store::{CaptureId, CaptureKind, StoreReader};

pub use network::of_packet;

/// The name of the layer of the message's own text. The terminal UI selects this layer first.
pub const JSON_RPC: &str = "JSON-RPC 2.0";

/// A layer of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// `link`, `network`, `transport`, `tls`, `http`, `sse`, `json-rpc`, `mcp`; `pipe` for STDIO.
    pub layer: &'static str,
    /// The protocol: `Ethernet II`, `IPv4`, `TCP`, `HTTP/1.1` ...
    pub protocol: String,
    /// The layer in a few words, for trees.
    pub summary: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
    /// The stream that contains its bytes. `None` for the headers of a packet.
    pub stream: Option<StreamId>,
    /// The range of its bytes: offsets in the stream or, for headers, in the packet.
    pub range: Option<(u64, u64)>,
    /// The packets that carried it.
    pub packets: Vec<PacketNumber>,
    /// Whether it shows a problem.
    pub odd: bool,
}

/// A field of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name of the field.
    pub name: String,
    /// Its value, for people.
    pub value: String,
    /// The location of its bytes, if it has bytes of its own.
    pub place: Option<At>,
    /// Whether it shows a problem.
    pub odd: bool,
}

/// The location of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In a packet, from the first offset up to the second.
    Packet(PacketNumber, u64, u64),
    /// In a stream.
    Stream(Span),
    /// In the HTTP head: the line that begins with the name of the field.
    Head,
}

impl Field {
    /// A field without bytes of its own, such as a computed value.
    pub fn new(name: impl Into<String>, value: impl ToString) -> Field {
        Field { name: name.into(), value: value.to_string(), place: None, odd: false }
    }

    /// The same field with the location of its bytes.
    pub fn at(self, place: At) -> Field {
        Field { place: Some(place), ..self }
    }

    /// The same field, marked as a problem.
    pub fn odd(self) -> Field {
        Field { odd: true, ..self }
    }
}

impl Layer {
    /// A layer without fields and bytes.
    fn new(layer: &'static str, protocol: impl Into<String>) -> Layer {
        Layer { layer, protocol: protocol.into(), ..Layer::default() }
    }

    /// The location of its bytes.
    pub fn place(&self) -> Option<At> {
        let (start, end) = self.range?;
        match (self.stream, self.packets.first()) {
            (Some(stream), _) => Some(At::Stream(Span { stream, start, end })),
            (None, packet) => packet.map(|packet| At::Packet(*packet, start, end)),
        }
    }
}

/// A session in a store, with all that its layers are read from.
pub struct StoredSession<'a> {
    /// The reader of the store.
    pub reader: &'a StoreReader,
    /// The capture that contains the session.
    pub capture: CaptureId,
    /// The record of the session.
    pub session: &'a Session,
}

impl StoredSession<'_> {
    /// Whether another program recorded the session.
    fn is_foreign(&self) -> Result<bool> {
        Ok(self.reader.capture(self.capture)?.is_some_and(|capture| capture.info.kind == CaptureKind::Foreign))
    }

    /// The HTTP exchange that carried a message.
    fn exchange(&self, message: &Message) -> Result<Option<Exchange>> {
        Ok(message.exchange.map(|number| self.reader.exchange(self.capture, number)).transpose()?.flatten())
    }
}

/// The span of a message's text before redaction.
fn span_as_sent(stored: &StoredSession<'_>, message: &Message) -> Result<Span> {
    let stream = stored.reader.stream(stored.capture, message.span.stream)?;
    if stream.is_some_and(|stream| matches!(stream.kind, StreamKind::Redacted(_)))
        && let below = below(stored, message.span)?
        && let (Some(first), Some(last)) = (below.first(), below.last())
    {
        return Ok(Span { end: last.end, ..*first });
    }
    Ok(message.span)
}

/// The layers of a message, from the link up. The headers are those of the first packet
/// that carried it.
pub fn layers(stored: &StoredSession<'_>, message: &Message) -> Result<Vec<Layer>> {
    let mut layers = network::of_first_packet(stored, message)?;
    layers.extend(above(stored, message)?);
    Ok(layers)
}

/// The layers above the transport. For STDIO there are no others.
pub fn above(stored: &StoredSession<'_>, message: &Message) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    if message.carrier == Carrier::Line {
        layers.push(message::pipe(stored, message)?);
    } else {
        layers.extend(network::tls(stored, message)?);
        if let Some(exchange) = stored.exchange(message)? {
            layers.push(http::head(stored, &exchange, message)?);
            layers.extend(http::frames(stored, &exchange, message)?);
        }
        if message.carrier == Carrier::SseEvent {
            layers.push(http::event(stored, message)?);
        }
    }
    layers.push(message::jsonrpc(stored, message)?);
    layers.push(message::mcp(stored, message));
    Ok(layers)
}

/// The half of an exchange that carried a message.
pub fn half<'e>(exchange: &'e Exchange, message: &Message) -> &'e Half {
    if message.carrier == Carrier::RequestBody { &exchange.request } else { &exchange.response }
}

/// The spans of the layer below that a span was made from.
fn below(stored: &StoredSession<'_>, span: Span) -> Result<Vec<Span>> {
    let parts = stored.reader.parts(stored.capture, span)?;
    let down = |part: StreamPart| match part.origin {
        Origin::Copied { stream, offset } => Some(Span { stream, start: offset, end: offset + part.end - part.start }),
        Origin::Derived(span) => Some(span),
        Origin::Packet { .. } | Origin::Missing => None,
    };
    Ok(parts.into_iter().filter_map(down).collect())
}

/// A layer as a block of text.
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
    let width = layer.fields.iter().map(|field| safe::width(&safe::visible(&field.name))).max().unwrap_or(0).min(32);
    for Field { name, value, .. } in &layer.fields {
        text += &format!("    {}  {}\n", safe::pad(name, width, safe::Align::Left), safe::fit(value, 160));
    }
    text
}
