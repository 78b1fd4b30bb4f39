//! Packets of a session's connections, and what a server wrote to stderr.

use std::collections::HashMap;

use anyhow::Result;

use super::super::data::{PacketRow, ROWS, StderrLine};
use crate::capture::pipe::{self, Content, Pipe};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::{ConnectionId, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{CaptureId, KeptPacket, Page, Reader};
use crate::view::units;

/// Packets read at once.
const SLICE: usize = 1_024;

/// A line of stderr is cut here; a server that writes none is no reason to hold all it wrote.
const LINE: usize = 4_096;

/// The packets, in order of capture.
pub(super) fn read(reader: &Reader, session: SessionNumber) -> Result<Vec<PacketRow>> {
    let messages = carried(reader, session)?;
    let mut rows = Vec::new();
    each(reader, session, &mut |connection, packet| {
        rows.push(row(connection, packet, &messages));
        rows.len() < ROWS
    })?;
    rows.sort_by_key(|row| row.number);
    Ok(rows)
}

/// The lines of stderr.
pub(super) fn stderr(reader: &Reader, session: SessionNumber) -> Result<Vec<StderrLine>> {
    let mut lines: Vec<StderrLine> = Vec::new();
    let mut open: Option<(Time, Vec<u8>)> = None;
    each(reader, session, &mut |_, packet| {
        if let (LinkType::PIPE, Some((_, Content::Data(Pipe::Stderr, bytes)))) =
            (packet.link, pipe::decode(&packet.data))
        {
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (time, mut line) = open.take().unwrap_or_else(|| (packet.time, Vec::new()));
                line.extend_from_slice(&piece[..piece.len().min(LINE.saturating_sub(line.len()))]);
                if piece.ends_with(b"\n") {
                    lines.push(said(time, &line));
                } else {
                    open = Some((time, line));
                }
            }
        }
        lines.len() < ROWS
    })?;
    lines.extend(open.map(|(time, line)| said(time, &line)));
    Ok(lines)
}

fn said(time: Time, line: &[u8]) -> StderrLine {
    StderrLine { time, text: String::from_utf8_lossy(line).trim_end().to_owned() }
}

/// Runs through the packets of all connections of a session, connection by connection, as long as `take` wants more.
fn each(reader: &Reader, session: SessionNumber, take: &mut dyn FnMut(&Connection, &KeptPacket) -> bool) -> Result<()> {
    let Some(capture) = reader.capture_of(session)? else { return Ok(()) };
    for connection in reader.connections(session, Page::<ConnectionId>::first(ROWS))? {
        if !of_connection(reader, capture, &connection, take)? {
            break;
        }
    }
    Ok(())
}

fn of_connection(
    reader: &Reader,
    capture: CaptureId,
    connection: &Connection,
    take: &mut dyn FnMut(&Connection, &KeptPacket) -> bool,
) -> Result<bool> {
    let mut from = PacketNumber(0);
    loop {
        let packets = reader.packets(capture, connection.id, from, SLICE)?;
        let Some(last) = packets.last() else { return Ok(true) };
        from = PacketNumber(last.number.0 + 1);
        if !packets.iter().all(|packet| take(connection, packet)) {
            return Ok(false);
        }
    }
}

/// The first message that each packet carries bytes of.
fn carried(reader: &Reader, session: SessionNumber) -> Result<HashMap<PacketNumber, MessageNumber>> {
    let mut carried = HashMap::new();
    for row in reader.message_rows_at(session, 1, ROWS)? {
        for packet in row.packets {
            carried.entry(packet).or_insert(row.number);
        }
    }
    Ok(carried)
}

fn row(connection: &Connection, packet: &KeptPacket, messages: &HashMap<PacketNumber, MessageNumber>) -> PacketRow {
    let client = connection.client.unwrap_or(Side::First);
    let (from, words, length) = match connection.kind {
        ConnectionKind::Pipe { .. } => piped(&packet.data),
        ConnectionKind::Tcp(_) => (packet.segment.as_ref().map(|segment| segment.side), String::new(), None),
    };
    PacketRow {
        number: packet.number,
        time: packet.time,
        connection: packet.connection,
        from,
        client,
        length: length.unwrap_or(packet.original_length),
        segment: packet.segment.clone().filter(|_| matches!(connection.kind, ConnectionKind::Tcp(_))),
        words,
        message: messages.get(&packet.number).copied(),
    }
}

/// A chunk of a pipe in words.
fn piped(data: &[u8]) -> (Option<Side>, String, Option<u32>) {
    let side = |pipe| if pipe == Pipe::Stdin { Side::First } else { Side::Second };
    match pipe::decode(data) {
        Some((process, Content::Start(start))) => {
            (None, format!("pid {process} starts: {}", start.command.join(" ")), None)
        }
        Some((_, Content::Data(pipe, bytes))) => {
            let words = format!("{}  {}", pipe.name(), units::size(bytes.len() as u64));
            (Some(side(pipe)), words, u32::try_from(bytes.len()).ok())
        }
        Some((_, Content::EndOfFile(pipe))) => (Some(side(pipe)), format!("{} closed", pipe.name()), None),
        Some((_, Content::Exit(exit))) => {
            let how = match (exit.code, exit.signal) {
                (_, Some(signal)) => format!("ended by signal {signal}"),
                (Some(code), None) => format!("exit status {code}"),
                (None, None) => "ended".to_owned(),
            };
            (None, how, None)
        }
        Some((_, Content::Lost(pipe, bytes))) => {
            (Some(side(pipe)), format!("{}  {} not recorded", pipe.name(), units::size(bytes)), None)
        }
        None => (None, "not a chunk of a pipe".to_owned(), None),
    }
}
