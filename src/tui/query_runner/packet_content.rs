//! The content of a packet in words, and the messages in it as a tree.

use std::ops::Range;

use anyhow::Result;

use super::super::data::LayerNode;
use super::super::json::{JsonKind, Tree};
use super::packets::carried_by;
use crate::capture::PacketNumber;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::decode::Side;
use crate::decode::jsonrpc::Kind;
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{CaptureId, MessageRow, RowKey, StoreReader, StoredPacket};
use crate::view::detail::trace::{ByteAddress, Run, Tracer};
use crate::view::layers::{self, Layer};
use crate::view::outcome::look;
use crate::view::{notes, units};

/// Limit of the messages in one packet whose fields become nodes.
const MESSAGES: usize = 8;

/// Limit of the JSON fields of one message that become nodes.
const FIELDS: usize = 64;

/// Limit of the shown bytes of a value or a line.
const SHOWN: usize = 256;

/// A message of which a packet carries bytes.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) message: (SessionNumber, MessageNumber),
    /// `tools/call get_weather  message 6`.
    pub(super) words: String,
}

impl Carried {
    pub(super) fn of(row: &MessageRow) -> Carried {
        Carried { message: (row.session, row.number), words: format!("{}  message {}", words(row), row.number.0) }
    }
}

/// A message in a few words.
fn words(row: &MessageRow) -> String {
    let outcome = if row.kind == Kind::Request { "" } else { look(row.status).word };
    let words = [row.method.as_deref().unwrap_or(row.kind.name()), row.subject.as_deref().unwrap_or_default(), outcome];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The facts of a packet for its row.
pub(super) struct Content {
    pub(super) ends: (String, String),
    pub(super) protocol: String,
    pub(super) info: String,
    pub(super) from: Option<Side>,
    /// The length, where it is not that of the packet.
    pub(super) length: Option<u32>,
}

/// Describes a packet by its headers and its first bytes.
pub(super) fn content(packet: &StoredPacket, record: Option<&Connection>) -> Content {
    if record.is_some_and(|record| matches!(record.kind, ConnectionKind::Pipe { .. })) {
        let (from, info, length) = piped(&packet.data);
        let ends = match from {
            Some(Side::First) => ("host", "server"),
            Some(Side::Second) => ("server", "host"),
            None => ("", ""),
        };
        let ends = (ends.0.to_owned(), ends.1.to_owned());
        return Content { ends, protocol: "pipe".to_owned(), info, from, length };
    }
    let headers = layers::of_packet(packet);
    let payload = payload(packet, &headers);
    let named = |layer: &str| headers.iter().rfind(|header| header.layer == layer);
    let innermost = headers.last();
    let (protocol, info) = match (&packet.segment, record) {
        (Some(_), Some(record)) if !payload.is_empty() && record.protocol != "unknown" => {
            (record.protocol.to_owned(), beginning(payload))
        }
        (Some(_), _) => ("TCP".to_owned(), beginning(payload)),
        (None, _) => {
            let protocol = innermost.map_or("unknown", |header| header.protocol.as_str());
            let summary = innermost.map(|header| header.summary.clone()).unwrap_or_default();
            let kind = innermost.and_then(|header| value(header, "type")).filter(|_| named("network").is_none());
            (kind.unwrap_or(protocol).to_owned(), summary)
        }
    };
    let end = |address: &str, port: &str| {
        let address = named("network").or(innermost).and_then(|header| value(header, address)).unwrap_or_default();
        match named("transport").and_then(|header| value(header, port)) {
            Some(port) if address.contains(':') => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address.to_owned(),
        }
    };
    let ends = (end("source", "source port"), end("destination", "destination port"));
    Content { ends, protocol, info, from: packet.segment.as_ref().map(|segment| segment.side), length: None }
}

fn value<'l>(layer: &'l Layer, name: &str) -> Option<&'l str> {
    layer.fields.iter().find(|field| field.name == name).map(|field| field.value.as_str())
}

/// The bytes after the headers.
fn payload<'p>(packet: &'p StoredPacket, headers: &[Layer]) -> &'p [u8] {
    &packet.data[payload_range(packet, headers)]
}

fn payload_range(packet: &StoredPacket, headers: &[Layer]) -> Range<usize> {
    let origin = packet.segment.as_ref().and_then(|segment| {
        segment.origin.iter().find(|range| range.packet == packet.number).map(|range| (range.start, range.end))
    });
    let end = packet.data.len();
    match (origin, &packet.segment) {
        (Some((start, stop)), _) => (start as usize).min(end)..(stop as usize).min(end),
        (None, Some(_)) => end..end,
        (None, None) => {
            let start = headers.last().and_then(|header| header.range).map_or(0, |(_, end)| end as usize);
            start.min(end)..end
        }
    }
}

/// The beginning of a payload in words: its first line, or the kind of its first TLS record.
fn beginning(payload: &[u8]) -> String {
    let size = || units::size(payload.len() as u64);
    match payload {
        [] => String::new(),
        [kind @ 20..=23, 3, 0..=4, _, _, rest @ ..] => format!("TLS {}, {}", record(*kind, rest), size()),
        _ => {
            let line = payload.split(|byte| matches!(byte, b'\r' | b'\n')).find(|line| !line.is_empty());
            let line = line.unwrap_or_default();
            let line = &line[..line.len().min(SHOWN)];
            match std::str::from_utf8(line) {
                Ok(line) if line.len() > 1 && !line.contains(char::is_control) => line.to_owned(),
                _ => format!("{} of data", size()),
            }
        }
    }
}

/// The kind of a TLS record (RFC 8446, section 5.1) and of the handshake message in it (section 4).
fn record(kind: u8, content: &[u8]) -> &'static str {
    match (kind, content.first()) {
        (20, _) => "change cipher spec",
        (21, _) => "alert",
        (22, Some(1)) => "ClientHello",
        (22, Some(2)) => "ServerHello",
        (22, Some(11)) => "Certificate",
        (22, _) => "handshake",
        _ => "application data",
    }
}

/// The sender, the description and the length of a pipe packet.
fn piped(data: &[u8]) -> (Option<Side>, String, Option<u32>) {
    let side = |pipe| if pipe == Pipe::Stdin { Side::First } else { Side::Second };
    match pipe::decode(data) {
        Some((process, PipeEvent::Start(start))) => {
            (None, format!("pid {process} starts: {}", start.command.join(" ")), None)
        }
        Some((_, PipeEvent::Data(pipe, bytes))) => {
            let words = format!("{}  {}", pipe.name(), beginning(bytes));
            (Some(side(pipe)), words, u32::try_from(bytes.len()).ok())
        }
        Some((_, PipeEvent::EndOfFile(pipe))) => (Some(side(pipe)), format!("{} closed", pipe.name()), None),
        Some((_, PipeEvent::Exit(exit))) => (None, format!("ended {}", notes::ended(exit)), None),
        Some((_, PipeEvent::Lost(pipe, bytes))) => {
            (Some(side(pipe)), format!("{}  {} not recorded", pipe.name(), units::size(bytes)), None)
        }
        None => (None, "not a chunk of a pipe".to_owned(), None),
    }
}

/// The payload of a packet, and the messages and their fields of which it carries bytes.
pub(super) fn nodes(reader: &StoreReader, capture: CaptureId, packet: &StoredPacket) -> Result<Vec<LayerNode>> {
    let headers = layers::of_packet(packet);
    let payload = payload_range(packet, &headers);
    let mut nodes = Vec::new();
    if !payload.is_empty() {
        let value = format!("{}  {}", units::size(payload.len() as u64), beginning(&packet.data[payload.clone()]));
        let name = "payload".to_owned();
        nodes.push(LayerNode { depth: 0, name, value, location: Some((0, payload)), odd: false });
    }
    let tracer = Tracer::new(reader, capture);
    for row in carried_by(reader, capture, packet.number)?.into_iter().take(MESSAGES) {
        let Some(message) = reader.message(RowKey::new(capture, row.number.0))? else { continue };
        let mut runs = tracer.runs(message.span)?;
        runs.retain(|run| matches!(run.address, ByteAddress::Packet(number, _) if number == packet.number));
        let location = place(&runs, &(0..message.raw.len()), packet.number).map(|range| (0, range));
        let (name, value) = (format!("message {}", row.number.0), words(&row));
        nodes.push(LayerNode { depth: 0, name, value, location, odd: false });
        // Of encrypted or compressed text no single field has a place.
        if runs.iter().all(|run| run.derived_length.is_none()) {
            nodes.extend(fields(&message.raw, &runs, packet.number));
        }
    }
    Ok(nodes)
}

/// The JSON fields of a message whose bytes are in the packet.
fn fields(text: &[u8], runs: &[Run], packet: PacketNumber) -> Vec<LayerNode> {
    let Some(mut tree) = Tree::new(text) else { return Vec::new() };
    tree.unfold_all(text);
    let field = |row: usize| {
        let node = tree.node(row).filter(|node| node.depth > 0)?;
        let range = place(runs, &node.range(), packet)?;
        let value = match node.kind {
            JsonKind::Object(members) => format!("{{{members}}}"),
            JsonKind::Array(elements) => format!("[{elements}]"),
            JsonKind::String | JsonKind::Plain => {
                let shown = node.value.start..node.value.end.min(node.value.start + SHOWN);
                String::from_utf8_lossy(text.get(shown).unwrap_or_default()).into_owned()
            }
        };
        let name = tree.path(text, row);
        Some(LayerNode { depth: 1, name, value, location: Some((0, range)), odd: false })
    };
    (0..tree.len()).filter_map(field).take(FIELDS).collect()
}

/// The bytes of the packet that carry a range of the text, from the first to the last.
fn place(runs: &[Run], range: &Range<usize>, packet: PacketNumber) -> Option<Range<usize>> {
    let places = runs.iter().filter_map(|run| {
        let ByteAddress::Packet(number, at) = run.address else { return None };
        let (start, end) = (run.text.start.max(range.start), run.text.end.min(range.end));
        (number == packet && start < end).then(|| match run.derived_length {
            Some(length) => at..at + length,
            None => at + start - run.text.start..at + end - run.text.start,
        })
    });
    places.reduce(|all, place| all.start.min(place.start)..all.end.max(place.end))
}
