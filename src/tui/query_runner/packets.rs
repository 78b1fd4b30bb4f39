//! Packets page by page, and one packet in detail.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;

use super::super::data::{
    ConnectionList, ConnectionRow, LayerNode, PAGE, PacketDetail, PacketRow, PacketScope, ROWS, Rows, Source,
};
use super::QueryRunner;
use super::packet_content::{self, Carried};
use super::packet_index::PacketIndex;
use crate::capture::PacketNumber;
use crate::decode::{ConnectionId, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::SessionNumber;
use crate::store::{CaptureId, MessageRow, Page, RowKey, Scope, StoreReader, StoredPacket};
use crate::view::layers::{self, At, Field, Layer};

/// Messages that are read before and after the first one whose packets are in a page, because calls
/// overlap in time.
const AROUND: u64 = 256;

/// Limit of the messages that are read for one page.
const SEARCHED: usize = 4_096;

impl QueryRunner {
    /// The capture of a session; without a session, the latest one.
    fn capture(&self, session: Option<SessionNumber>) -> Result<Option<CaptureId>> {
        match session {
            Some(session) => self.reader.capture_of(session),
            None => Ok(self.reader.captures(Page::last(1))?.pop().map(|capture| capture.id)),
        }
    }

    /// The connections of a session.
    fn own_connections(&self, session: Option<SessionNumber>) -> Result<BTreeSet<ConnectionId>> {
        let Some(session) = session else { return Ok(BTreeSet::new()) };
        let record = self.reader.session(session)?;
        Ok(record.into_iter().flat_map(|session| session.connections).collect())
    }

    /// The packets of a capture, up to date.
    fn index(&mut self, capture: CaptureId) -> Result<&mut PacketIndex> {
        let known = self.packet_index.take().filter(|index| index.capture == capture);
        let index = self.packet_index.insert(known.unwrap_or_else(|| PacketIndex::new(capture)));
        index.update(&self.reader)?;
        Ok(index)
    }

    pub(super) fn connections(&mut self, session: Option<SessionNumber>) -> Result<ConnectionList> {
        let Some(capture) = self.capture(session)? else { return Ok(ConnectionList::default()) };
        let own = self.own_connections(session)?;
        let counts = self.reader.capture(capture)?.map(|capture| capture.counts).unwrap_or_default();
        let records = self.connection_records(capture)?;
        let index = self.index(capture)?;
        let row = |connection: Connection| ConnectionRow {
            id: connection.id,
            packets: index.counts.get(&connection.id).copied().unwrap_or(0),
            is_own: own.contains(&connection.id),
            connection: Some(connection),
        };
        let mut connections: Vec<ConnectionRow> = records.into_iter().map(row).collect();
        let none = ConnectionId(0);
        if let Some(packets) = index.counts.get(&none) {
            connections.push(ConnectionRow { id: none, connection: None, packets: *packets, is_own: false });
        }
        connections.sort_by_key(|row| (!row.is_own, row.connection.is_none()));
        let packets = (counts.packets, counts.packet_counts.stored);
        Ok(ConnectionList { connections, packets, session_packets: index.count(&own) })
    }

    fn connection_records(&self, capture: CaptureId) -> Result<Vec<Connection>> {
        let mut records: Vec<Connection> = Vec::new();
        while records.len() < ROWS {
            let page = match records.last() {
                Some(last) => Page::from(ConnectionId(last.id.0.saturating_add(1)), ROWS),
                None => Page::first(ROWS),
            };
            let more = self.reader.capture_connections(capture, page)?;
            if more.is_empty() {
                break;
            }
            records.extend(more);
        }
        records.truncate(ROWS);
        Ok(records)
    }

    /// A page of packets, in order of capture.
    pub(super) fn packets(
        &mut self,
        session: Option<SessionNumber>,
        scope: PacketScope,
        page: usize,
    ) -> Result<Rows<PacketRow>> {
        let Some(capture) = self.capture(session)? else {
            return Ok(Rows { rows: Vec::new(), total: 0, complete: true });
        };
        let own = self.own_connections(session)?;
        let first = page * PAGE;
        self.index(capture)?;
        let Some(index) = &mut self.packet_index else { anyhow::bail!("no packets") };
        let (total, complete) = (index.total(scope, &own), index.is_complete());
        let packets = index.packets(&self.reader, scope, &own, first..first + PAGE)?;
        let carried = match (packets.first(), packets.last()) {
            (Some(first), Some(last)) => carried(&self.reader, capture, (first.number, last.number))?,
            _ => HashMap::new(),
        };
        let mut records: HashMap<ConnectionId, Option<Connection>> = HashMap::new();
        let mut rows = Vec::with_capacity(packets.len());
        for packet in &packets {
            let record = match records.get(&packet.connection) {
                Some(record) => record,
                None => {
                    let record = self.reader.connection(capture, packet.connection)?;
                    records.entry(packet.connection).or_insert(record)
                }
            };
            rows.push(row(packet, record.as_ref(), carried.get(&packet.number)));
        }
        Ok(Rows { rows, total, complete })
    }

    pub(super) fn locate_packet(
        &mut self,
        session: Option<SessionNumber>,
        scope: PacketScope,
        packet: PacketNumber,
    ) -> Result<Option<(PacketScope, usize)>> {
        let Some(capture) = self.capture(session)? else { return Ok(None) };
        let own = self.own_connections(session)?;
        let index = self.index(capture)?;
        let scopes = [scope, PacketScope::Session, PacketScope::Capture];
        Ok(scopes.into_iter().find_map(|scope| Some((scope, index.row(scope, &own, packet)?))))
    }

    /// One packet: its headers, and the messages in it, as a tree.
    pub(super) fn packet(
        &self,
        session: Option<SessionNumber>,
        number: PacketNumber,
    ) -> Result<Option<Box<PacketDetail>>> {
        let Some(capture) = self.capture(session)? else { return Ok(None) };
        let Some(packet) = self.reader.packet(capture, number)? else { return Ok(None) };
        let mut nodes: Vec<LayerNode> = layers::of_packet(&packet).into_iter().flat_map(header_nodes).collect();
        nodes.extend(packet_content::nodes(&self.reader, capture, &packet)?);
        let masked = if packet.masked { ", secrets masked" } else { "" };
        let source = Source { title: format!("packet #{number}{masked}"), bytes: packet.data, packet: Some(number) };
        Ok(Some(Box::new(PacketDetail { number, nodes, source })))
    }
}

/// A header and its fields.
fn header_nodes(layer: Layer) -> Vec<LayerNode> {
    let location = |place: Option<At>| match place {
        Some(At::Packet(_, start, end)) => Some((0, start as usize..end as usize)),
        _ => None,
    };
    let own = location(layer.place());
    let mut nodes =
        vec![LayerNode { depth: 0, name: layer.protocol, value: layer.summary, location: own, odd: layer.odd }];
    nodes.extend(layer.fields.into_iter().map(|Field { name, value, place, odd }| LayerNode {
        depth: 1,
        name,
        value,
        location: location(place),
        odd,
    }));
    nodes
}

/// The first message of which each of these packets carries bytes.
fn carried(
    reader: &StoreReader,
    capture: CaptureId,
    (first, last): (PacketNumber, PacketNumber),
) -> Result<HashMap<PacketNumber, Carried>> {
    let mut carried = HashMap::new();
    let number = ends_from(reader, capture, first)?;
    let from = RowKey::new(capture, number.saturating_sub(AROUND).max(1));
    for row in reader.message_rows(Scope::Capture(capture), Page::from(from, SEARCHED))? {
        let begins = row.packets.iter().min();
        if row.number.0 > number.saturating_add(AROUND) && begins.is_some_and(|begins| *begins > last) {
            break;
        }
        for packet in &row.packets {
            carried.entry(*packet).or_insert_with(|| Carried::of(&row));
        }
    }
    Ok(carried)
}

/// The messages that carry bytes of a packet, in order.
pub(super) fn carried_by(reader: &StoreReader, capture: CaptureId, packet: PacketNumber) -> Result<Vec<MessageRow>> {
    let number = ends_from(reader, capture, packet)?;
    let from = RowKey::new(capture, number.saturating_sub(AROUND).max(1));
    let mut rows = reader.message_rows(Scope::Capture(capture), Page::from(from, 4 * AROUND as usize))?;
    rows.retain(|row| row.packets.contains(&packet));
    Ok(rows)
}

/// The number of the first message that ends in this packet or a later one. Messages are numbered
/// by their ends, so a binary search finds it.
fn ends_from(reader: &StoreReader, capture: CaptureId, packet: PacketNumber) -> Result<u64> {
    let scope = Scope::Capture(capture);
    let last = reader.message_rows(scope, Page::last(1))?.pop().map_or(0, |row| row.number.0);
    let (mut low, mut high) = (1, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = reader.message_rows(scope, Page::from(RowKey::new(capture, middle), 1))?.pop();
        match row {
            Some(row) if row.packets.iter().max().is_some_and(|end| *end < packet) => {
                low = row.number.0.max(middle) + 1
            }
            _ => high = middle,
        }
    }
    Ok(low)
}

fn row(packet: &StoredPacket, record: Option<&Connection>, carried: Option<&Carried>) -> PacketRow {
    let content = packet_content::content(packet, record);
    let is_tcp = record.is_some_and(|record| matches!(record.kind, ConnectionKind::Tcp(_)));
    let info = match carried {
        Some(carried) => carried.words.clone(),
        None => content.info,
    };
    PacketRow {
        number: packet.number,
        time: packet.time,
        from: content.from,
        client: record.and_then(|record| record.client).unwrap_or(Side::First),
        ends: content.ends,
        protocol: content.protocol,
        length: content.length.unwrap_or(packet.original_length),
        segment: packet.segment.clone().filter(|_| is_tcp),
        info,
        message: carried.map(|carried| carried.message),
    }
}
