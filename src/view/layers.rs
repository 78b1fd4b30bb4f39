//! One message from the link up: each layer with its fields, the place of its bytes, and the packets that carried them.
//!
//! The one tree of layers: `layers --message` and its JSON lines take their text from it, and the terminal UI its nodes, each with its place.

mod carried;
mod message;
mod network;

use anyhow::Result;

use super::safe;
use super::transcript::packets as name_packets;
use crate::capture::{Origin, PacketNumber, Part, Span, StreamId};
use crate::decode::exchange::{Exchange, Half};
use crate::mcp::{Carrier, Message, Session};
use crate::store::{CaptureId, StoreReader};

pub use network::of_packet;

/// What the layer of the message's own text is called: a tree begins with it.
pub const JSON_RPC: &str = "JSON-RPC 2.0";

/// A layer of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// `link`, `network`, `transport`, `tls`, `http`, `sse`, `json-rpc`, `mcp`; `pipe` for STDIO.
    pub layer: &'static str,
    /// `Ethernet II`, `IPv4`, `TCP`, `HTTP/1.1` ...
    pub protocol: String,
    /// The layer in a few words, for trees.
    pub summary: String,
    /// What it says, in order.
    pub fields: Vec<Field>,
    /// The stream that its bytes stand in; `None` for headers, which stand in the packet.
    pub stream: Option<StreamId>,
    /// Where: offsets in the stream, or in the packet.
    pub range: Option<(u64, u64)>,
    /// The packets.
    pub packets: Vec<PacketNumber>,
    /// Whether something is wrong with it.
    pub odd: bool,
}

/// A field of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where its bytes stand, where it has bytes of its own.
    pub place: Option<At>,
    /// Whether something is wrong with it.
    pub odd: bool,
}

/// Where bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In a packet, from this offset up to this one.
    Packet(PacketNumber, u64, u64),
    /// In a stream.
    Stream(Span),
    /// In the HTTP head: the line that begins with the field's name.
    Head,
}

impl Field {
    /// A field that has no bytes of its own: it was found out.
    pub fn new(name: impl Into<String>, value: impl ToString) -> Field {
        Field { name: name.into(), value: value.to_string(), place: None, odd: false }
    }

    /// A field whose bytes stand there.
    pub fn at(self, place: At) -> Field {
        Field { place: Some(place), ..self }
    }

    /// A field that says that something is wrong.
    pub fn odd(self) -> Field {
        Field { odd: true, ..self }
    }
}

impl Layer {
    /// A layer without fields and bytes.
    fn new(layer: &'static str, protocol: impl Into<String>) -> Layer {
        Layer {
            layer,
            protocol: protocol.into(),
            summary: String::new(),
            fields: Vec::new(),
            stream: None,
            range: None,
            packets: Vec::new(),
            odd: false,
        }
    }

    /// Where its bytes stand.
    pub fn place(&self) -> Option<At> {
        let (start, end) = self.range?;
        match (self.stream, self.packets.first()) {
            (Some(stream), _) => Some(At::Stream(Span { stream, start, end })),
            (None, packet) => packet.map(|packet| At::Packet(*packet, start, end)),
        }
    }
}

/// What the layers of a message are read from.
pub struct Place<'a> {
    /// The store.
    pub reader: &'a StoreReader,
    /// The capture.
    pub capture: CaptureId,
    /// The session.
    pub session: &'a Session,
}

/// The layers of a message, from the link up: of the packets that carried it those of the first.
pub fn layers(place: &Place<'_>, message: &Message) -> Result<Vec<Layer>> {
    let mut layers = network::of_first_packet(place, message)?;
    layers.extend(above(place, message)?);
    Ok(layers)
}

/// The layers above the transport; for STDIO all there are.
pub fn above(place: &Place<'_>, message: &Message) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    if message.carrier == Carrier::Line {
        layers.push(message::pipe(place, message));
    } else {
        layers.extend(network::tls(place, message)?);
        let exchange =
            message.exchange.map(|number| place.reader.exchange(place.capture, number)).transpose()?.flatten();
        if let Some(exchange) = exchange {
            layers.push(carried::http(place, &exchange, message)?);
            layers.extend(carried::frames(place, &exchange, message)?);
        }
        if message.carrier == Carrier::SseEvent {
            layers.push(carried::sse(place, message)?);
        }
    }
    layers.push(message::jsonrpc(place, message)?);
    layers.push(message::mcp(place, message));
    Ok(layers)
}

/// The half of an exchange that carried a message.
pub fn half<'e>(exchange: &'e Exchange, message: &Message) -> &'e Half {
    if message.carrier == Carrier::RequestBody { &exchange.request } else { &exchange.response }
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
    let width = layer.fields.iter().map(|field| safe::width(&safe::visible(&field.name))).max().unwrap_or(0).min(32);
    for Field { name, value, .. } in &layer.fields {
        text += &format!("    {}  {}\n", safe::pad(name, width, safe::Align::Left), safe::fit(value, 160));
    }
    text
}
