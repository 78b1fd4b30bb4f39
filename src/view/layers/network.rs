//! The layers below HTTP: the headers of packets, TCP's analysis of them, and TLS.

use anyhow::Result;

use super::{Field, Layer, StoredSession, below};
use crate::capture::Span;
use crate::decode::Side;
use crate::decode::packet::{Header, headers};
use crate::decode::stream::StreamKind;
use crate::decode::tcp::Facts;
use crate::decode::tls::Agreed;
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, Message};
use crate::store::StoredPacket;
use crate::view::units::{count, duration, size};

use super::At;

/// Maximum number of packets of a message whose TCP analysis is shown. The headers are those of
/// the first one.
const ANALYSED: usize = 32;

/// The headers of the first packet that carried the message, and TCP's analysis of all its packets.
pub(super) fn of_first_packet(stored: &StoredSession<'_>, message: &Message) -> Result<Vec<Layer>> {
    let Some(first) = message.packets.first().filter(|_| message.carrier != Carrier::Line) else {
        return Ok(Vec::new());
    };
    let Some(packet) = stored.reader.packet(stored.capture, *first)? else {
        return Ok(vec![Layer { packets: message.packets.clone(), ..Layer::new("link", "packets not stored") }]);
    };
    let connection = stored.reader.connection(stored.capture, packet.connection)?;
    let process = connection.as_ref().and_then(Connection::above_tls);
    if let Some(process) = process {
        let note = format!("process {process} gave this text to its TLS library, or got it from there");
        let fields = vec![Field::new("source", note), Field::new("link to transport", "not captured")];
        return Ok(vec![Layer {
            fields,
            packets: message.packets.clone(),
            ..Layer::new("TLS", "above TLS, no packets")
        }]);
    }
    let mut layers = of_packet(&packet);
    let is_made_up = stored.reader.is_made_up(stored.capture)?;
    if is_made_up {
        let (name, note) = match stored.is_foreign()? {
            true => ("not captured", "another program recorded what these packets carry, without packets"),
            false => ("made up", "mcptap itself read and wrote what these packets carry; it saw no network"),
        };
        layers.iter_mut().for_each(|layer| layer.fields.insert(0, Field::new(name, note)));
    }
    if let Some(layer) = layers.iter_mut().find(|layer| layer.layer == "transport") {
        layer.packets = message.packets.clone();
        if let Some(Connection { kind: ConnectionKind::Tcp(facts), id, .. }) = &connection {
            layer.fields.push(Field::new("connection", id));
            let round_trip = facts.round_trip().filter(|_| !is_made_up);
            layer.fields.extend(round_trip.map(|time| Field::new("round trip of the handshake", duration(time))));
            for number in message.packets.iter().skip(1).take(ANALYSED) {
                let other = stored.reader.packet(stored.capture, *number)?;
                layer.fields.extend(other.and_then(|other| analysis(&other)));
            }
            layer.fields.extend(trouble(facts));
        }
    }
    Ok(layers)
}

/// The headers of a packet, from the link up.
pub fn of_packet(packet: &StoredPacket) -> Vec<Layer> {
    let layer = |header: Header| {
        let ranges = header.clone();
        let place = |field: &str| {
            let range = ranges.field_range(field);
            At::Packet(packet.number, range.start.into(), range.end.into())
        };
        let summary = summary(&header);
        let mut fields: Vec<Field> =
            header.fields.into_iter().map(|(name, value)| Field::new(name, value).at(place(name))).collect();
        if let (Some(segment), "TCP") = (&packet.segment, header.protocol.as_str()) {
            // Relative numbers as Wireshark shows them: the SYN takes number 0, so the first byte
            // of the stream has number 1.
            let field = |name: &'static str, number: u64| Field::new(name, number).at(place(name));
            fields.push(field("relative sequence number", segment.offset + 1));
            let acknowledged = segment.acknowledged.map(|acknowledged| acknowledged + 1);
            fields.extend(acknowledged.map(|number| field("relative acknowledgment number", number)));
            fields.push(field("window in bytes", segment.window.into()));
            fields.extend(analysis(packet));
        }
        Layer {
            summary,
            fields,
            range: Some((header.start.into(), header.end.into())),
            packets: vec![packet.number],
            ..Layer::new(header.layer, header.protocol)
        }
    };
    headers(&packet.packet()).into_iter().map(layer).collect()
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

/// TCP's analysis of a packet, such as a retransmission. `None` where nothing is unusual.
fn analysis(packet: &StoredPacket) -> Option<Field> {
    let names: Vec<&str> = packet.segment.as_ref()?.analysis.names().collect();
    let name = format!("analysis of packet {}", packet.number);
    (!names.is_empty()).then(|| Field::new(name, names.join(", ")).odd())
}

/// Problems of a connection, one field for each sender.
fn trouble(facts: &Facts) -> Vec<Field> {
    let mut fields = Vec::new();
    for side in [Side::First, Side::Second] {
        let end = facts.ends[side.index()];
        let counts = [
            (end.retransmissions, "retransmission"),
            (end.duplicate_acks, "duplicate ACK"),
            (end.zero_windows, "zero window"),
            (end.keep_alives, "keep-alive"),
        ];
        let counted = counts.into_iter().filter(|(times, _)| *times > 0);
        let mut odd: Vec<String> = counted.map(|(times, what)| count(times.into(), what)).collect();
        if end.lost > 0 {
            odd.push(format!("{} not captured", size(end.lost)));
        }
        if !odd.is_empty() {
            fields.push(Field::new(format!("sent by {}", facts.endpoints[side.index()]), odd.join(", ")));
        }
    }
    fields
}

/// The parameters that the TLS handshake agreed on, and the records that carried the message.
pub(super) fn tls(stored: &StoredSession<'_>, message: &Message) -> Result<Option<Layer>> {
    let packet = message.packets.first().map(|first| stored.reader.packet(stored.capture, *first)).transpose()?;
    let connection = match packet.flatten() {
        Some(packet) => Some(packet.connection),
        // The packets were not stored, or there are none: a replay over TLS is recorded above it.
        None => stored.exchange(message)?.map(|exchange| exchange.connection),
    };
    let connection = connection.map(|id| stored.reader.connection(stored.capture, id)).transpose()?.flatten();
    let Some(connection) = connection.filter(|connection| !connection.tls.is_empty()) else { return Ok(None) };
    let agreed = connection.agreed.clone().unwrap_or_default();
    let mut fields = agreed_fields(&agreed);
    let records = records(stored, message)?;
    let range = records.first().zip(records.last()).map(|(first, last)| (first.start, last.end));
    if let Some((start, end)) = range {
        let sealed: u64 = records.iter().map(Span::len).sum();
        let value = format!("{}, {} encrypted, at {start}..{end}", records.len(), size(sealed));
        fields.push(Field::new("records", value));
    }
    fields.extend(connection.tls.iter().map(|step| Field::new("step", &step.detail)));
    Ok(Some(Layer {
        summary: connection.host.unwrap_or_default(),
        fields,
        stream: records.first().map(|record| record.stream),
        range,
        packets: message.packets.clone(),
        ..Layer::new("tls", agreed.version.unwrap_or_else(|| "TLS".to_owned()))
    }))
}

/// The parameters that the TLS handshake agreed on, as fields.
fn agreed_fields(agreed: &Agreed) -> Vec<Field> {
    let named = [("cipher suite", &agreed.cipher_suite), ("server name", &agreed.server_name), ("ALPN", &agreed.alpn)];
    let mut fields: Vec<Field> =
        named.into_iter().filter_map(|(name, value)| Some(Field::new(name, value.as_ref()?))).collect();
    if agreed.resumed {
        fields.push(Field::new("resumed", "an earlier session"));
    }
    fields
}

/// The TLS records that contain a message, in order, each once.
fn records(stored: &StoredSession<'_>, message: &Message) -> Result<Vec<Span>> {
    let mut records: Vec<Span> = Vec::new();
    let mut open = vec![message.span];
    while let Some(span) = open.pop() {
        let stream = stored.reader.stream(stored.capture, span.stream)?;
        let is_plaintext = stream.is_some_and(|stream| matches!(stream.kind, StreamKind::Plaintext(_)));
        let below = below(stored, span)?;
        if is_plaintext {
            records.extend(below);
        } else {
            // A stream is made only of streams with smaller ids. A damaged file may break this
            // rule, and then the walk might never end.
            open.extend(below.into_iter().filter(|from| from.stream < span.stream));
        }
    }
    records.sort_unstable();
    records.dedup();
    Ok(records)
}
