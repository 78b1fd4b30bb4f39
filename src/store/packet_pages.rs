//! Packets as lists that are scrolled: those of a connection, or of a capture. Any window of the
//! first needs one walk over its chunks' row columns. Whoever lists a capture keeps the numbers.

use rusqlite::params;

use super::chunk::{Chunk, StoredPacket};
use super::read::StoreReader;
use super::record::{Columns, connection, packet};
use super::{CaptureId, Page, RowKey};
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::event::Connection;

/// The position of a stored packet in the database.
pub(super) struct PacketPosition {
    /// The row of its chunk.
    pub(super) chunk: i64,
    /// The key of its connection.
    connection: RowKey,
    /// Packets before it in the chunk.
    position: u64,
}

/// A chunk of stored packets, and the numbers of its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkNumbers {
    /// The row of the chunk. Later chunks have larger ones.
    pub chunk: i64,
    /// The connection of its packets; 0 for packets that belong to none.
    pub connection: ConnectionId,
    /// The numbers in order of capture.
    pub numbers: Vec<PacketNumber>,
}

impl StoreReader {
    /// Passes the chunks of a capture after chunk `after` to `visit`, in order, until that
    /// returns false. Nothing is decompressed.
    pub fn visit_packet_numbers(
        &self,
        capture: CaptureId,
        after: i64,
        visit: &mut dyn FnMut(ChunkNumbers) -> bool,
    ) -> anyhow::Result<()> {
        let sql = "SELECT id, connection, numbers FROM packet_chunk WHERE capture = ? AND id > ? ORDER BY id";
        let mut statement = self.db().prepare_cached(sql)?;
        let mut rows = statement.query(params![capture.0, after])?;
        while let Some(row) = rows.next()? {
            let mut columns = Columns::new(row);
            let (chunk, connection) = (columns.get()?, columns.key()?);
            let numbers = Chunk::numbers(columns.bytes("the packet numbers of a chunk")?)?;
            let connection = ConnectionId(u32::try_from(connection.number()).unwrap_or(u32::MAX));
            if !visit(ChunkNumbers { chunk, connection, numbers }) {
                break;
            }
        }
        Ok(())
    }

    /// The packets of a chunk that `wants` selects, in order.
    pub fn chunk_packets(&self, chunk: i64, wants: &dyn Fn(PacketNumber) -> bool) -> anyhow::Result<Vec<StoredPacket>> {
        let mut chunk = packet::open(self.db(), chunk)?;
        let mut packets = Vec::new();
        while let Some(packet) = chunk.next()? {
            if wants(packet.number) {
                packets.push(packet);
            }
        }
        Ok(packets)
    }

    /// A page of the connections of a capture, with and without a session, by number.
    pub fn capture_connections(&self, capture: CaptureId, page: Page<ConnectionId>) -> anyhow::Result<Vec<Connection>> {
        let (first, last) = page.range(RowKey::all(capture), |id| RowKey::new(capture, id.0.into()).0);
        let sql = format!(
            "SELECT {} FROM connection WHERE id BETWEEN ? AND ? ORDER BY id {} LIMIT ?",
            connection::COLUMNS,
            page.order.sql()
        );
        self.select(&sql, params![first, last, page.limit()], connection::read)
    }

    /// The number of packets stored for a connection.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged. This holds for all functions that follow.
    pub fn packet_count(&self, capture: CaptureId, connection: ConnectionId) -> anyhow::Result<u64> {
        let heads = self.chunk_heads(capture, connection)?;
        Ok(heads.iter().fold(0, |sum: u64, (_, packets)| sum.saturating_add(*packets)))
    }

    /// Rows `row`, `row + 1` … (from 0) of the packets stored for a connection. Fewer than `limit`
    /// only at the end of the list.
    pub fn packets_at(
        &self,
        capture: CaptureId,
        connection: ConnectionId,
        row: u64,
        limit: usize,
    ) -> anyhow::Result<Vec<StoredPacket>> {
        // Rows of the chunk that lie before the window.
        let mut skip = row;
        let mut from = None;
        for (first, packets) in self.chunk_heads(capture, connection)? {
            if skip < packets {
                from = Some(first);
                break;
            }
            skip -= packets;
        }
        let Some(mut from) = from else { return Ok(Vec::new()) };
        let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        while rows.len() < limit {
            let packets = self.packets(capture, connection, from, skip.saturating_add(limit - rows.len()))?;
            let Some(last) = packets.last() else { break };
            from = PacketNumber(last.number.0.saturating_add(1));
            let passed = skip.min(packets.len());
            skip -= passed;
            rows.extend(packets.into_iter().skip(passed));
        }
        Ok(rows)
    }

    /// The connection of a stored packet, and the packet's row (from 0) among those
    /// of the connection.
    pub fn packet_row(&self, capture: CaptureId, number: PacketNumber) -> anyhow::Result<Option<(ConnectionId, u64)>> {
        let Some(place) = self.chunk_of(capture, number)? else { return Ok(None) };
        let connection = ConnectionId(u32::try_from(place.connection.number()).unwrap_or(u32::MAX));
        let before = self.select(
            "SELECT packets FROM packet_chunk WHERE connection = ?1 AND last_number < ?2",
            params![place.connection, number.0 as i64],
            |row| Ok(Columns::new(row).u64()?),
        )?;
        let before = before.into_iter().fold(place.position, u64::saturating_add);
        Ok(Some((connection, before)))
    }

    /// The chunk that holds a packet. Chunks of several connections may span the number. Their
    /// lists of numbers show, without decompression, which one holds it.
    pub(super) fn chunk_of(&self, capture: CaptureId, number: PacketNumber) -> anyhow::Result<Option<PacketPosition>> {
        let mut statement = self.db().prepare_cached(
            "SELECT id, connection, numbers FROM packet_chunk
             WHERE capture = ?1 AND first_number <= ?2 AND last_number >= ?2 ORDER BY first_number DESC",
        )?;
        let mut rows = statement.query(params![capture.0, number.0 as i64])?;
        while let Some(row) = rows.next()? {
            let mut columns = Columns::new(row);
            let (chunk, connection) = (columns.get()?, columns.key()?);
            if let Some(position) = Chunk::position(columns.bytes("the packet numbers of a chunk")?, number)? {
                return Ok(Some(PacketPosition { chunk, connection, position }));
            }
        }
        Ok(None)
    }

    /// The first packet number and the number of packets of each chunk of a connection, in order.
    fn chunk_heads(&self, capture: CaptureId, connection: ConnectionId) -> anyhow::Result<Vec<(PacketNumber, u64)>> {
        self.select(
            "SELECT first_number, packets FROM packet_chunk WHERE connection = ? ORDER BY first_number",
            params![RowKey::new(capture, connection.0.into())],
            |row| {
                let mut columns = Columns::new(row);
                Ok((PacketNumber(columns.u64()?), columns.u64()?))
            },
        )
    }
}
