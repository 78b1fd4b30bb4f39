//! Packets of a connection, page by page.

use std::collections::HashMap;

use anyhow::Result;

use super::super::data::{LayerNode, PAGE, PacketDetail, PacketRow, Rows, Source};
use crate::capture::PacketNumber;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::decode::{ConnectionId, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{Scope, StoreReader, StoredPacket};
use crate::view::layers::{self, At, Field};
use crate::view::units;

/// Messages that are read before and after the first one whose packets are in a page, because calls
/// overlap in time.
const AROUND: u64 = 256;

/// Limit of the messages that are read for one page.
const SEARCHED: usize = 4_096;

/// A page of the packets of a connection, in order of capture.
pub(super) fn read(
    reader: &StoreReader,
    session: SessionNumber,
    connection: ConnectionId,
    page: usize,
) -> Result<Rows<PacketRow>> {
    let nothing = Rows { rows: Vec::new(), total: 0, complete: true };
    let Some(capture) = reader.capture_of(session)? else { return Ok(nothing) };
    let Some(record) = reader.connection(capture, connection)? else { return Ok(nothing) };
    let total = reader.packet_count(capture, connection)? as usize;
    let packets = reader.packets_at(capture, connection, (page * PAGE) as u64, PAGE)?;
    let messages = match (packets.first(), packets.last()) {
        (Some(first), Some(last)) => carried(reader, session, (first.number, last.number))?,
        _ => HashMap::new(),
    };
    let rows = packets.iter().map(|packet| row(&record, packet, &messages)).collect();
    Ok(Rows { rows, total, complete: true })
}

/// One packet, with its headers as a tree.
pub(super) fn detail(
    reader: &StoreReader,
    session: SessionNumber,
    number: PacketNumber,
) -> Result<Option<Box<PacketDetail>>> {
    let Some(capture) = reader.capture_of(session)? else { return Ok(None) };
    let Some(packet) = reader.packet(capture, number)? else { return Ok(None) };
    let location = |place: Option<At>| match place {
        Some(At::Packet(_, start, end)) => Some((0, start as usize..end as usize)),
        _ => None,
    };
    let mut nodes = Vec::new();
    for layer in layers::of_packet(&packet) {
        let place = layer.place();
        let (name, value, odd) = (layer.protocol, layer.summary, layer.odd);
        nodes.push(LayerNode { depth: 0, name, value, location: location(place), odd });
        nodes.extend(layer.fields.into_iter().map(|Field { name, value, place, odd }| LayerNode {
            depth: 1,
            name,
            value,
            location: location(place),
            odd,
        }));
    }
    let masked = if packet.masked { ", secrets masked" } else { "" };
    let source = Source { title: format!("packet #{number}{masked}"), bytes: packet.data, packet: Some(number) };
    Ok(Some(Box::new(PacketDetail { nodes, source })))
}

/// The first message of which each of these packets carries bytes.
fn carried(
    reader: &StoreReader,
    session: SessionNumber,
    (first, last): (PacketNumber, PacketNumber),
) -> Result<HashMap<PacketNumber, MessageNumber>> {
    let mut carried = HashMap::new();
    let position = ends_from(reader, session, first)?;
    for row in reader.message_rows_at(session, position.saturating_sub(AROUND).max(1), SEARCHED)? {
        let begins = row.packets.iter().min();
        if row.position > position.saturating_add(AROUND) && begins.is_some_and(|begins| *begins > last) {
            break;
        }
        for packet in row.packets {
            carried.entry(packet).or_insert(row.number);
        }
    }
    Ok(carried)
}

/// The position of the first message that ends in this packet or a later one. Messages are numbered
/// by their ends, so a binary search finds it.
fn ends_from(reader: &StoreReader, session: SessionNumber, packet: PacketNumber) -> Result<u64> {
    let (mut low, mut high) = (1, reader.message_count(Scope::Session(session))? + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = reader.message_rows_at(session, middle, 1)?.pop();
        if row.and_then(|row| row.packets.into_iter().max()).is_some_and(|end| end < packet) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

fn row(connection: &Connection, packet: &StoredPacket, messages: &HashMap<PacketNumber, MessageNumber>) -> PacketRow {
    let client = connection.client.unwrap_or(Side::First);
    let (from, words, length) = match connection.kind {
        ConnectionKind::Pipe { .. } => piped(&packet.data),
        ConnectionKind::Tcp(_) => (packet.segment.as_ref().map(|segment| segment.side), String::new(), None),
    };
    PacketRow {
        number: packet.number,
        time: packet.time,
        from,
        client,
        length: length.unwrap_or(packet.original_length),
        segment: packet.segment.clone().filter(|_| matches!(connection.kind, ConnectionKind::Tcp(_))),
        words,
        message: messages.get(&packet.number).copied(),
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
            let words = format!("{}  {}", pipe.name(), units::size(bytes.len() as u64));
            (Some(side(pipe)), words, u32::try_from(bytes.len()).ok())
        }
        Some((_, PipeEvent::EndOfFile(pipe))) => (Some(side(pipe)), format!("{} closed", pipe.name()), None),
        Some((_, PipeEvent::Exit(exit))) => {
            let how = match (exit.code, exit.signal) {
                (_, Some(signal)) => format!("ended by signal {signal}"),
                (Some(code), None) => format!("exit status {code}"),
                (None, None) => "ended".to_owned(),
            };
            (None, how, None)
        }
        Some((_, PipeEvent::Lost(pipe, bytes))) => {
            (Some(side(pipe)), format!("{}  {} not recorded", pipe.name(), units::size(bytes)), None)
        }
        None => (None, "not a chunk of a pipe".to_owned(), None),
    }
}
