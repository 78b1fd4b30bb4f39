//! Packets by chunk. A list of the packets of a capture keeps the numbers, and reads the chunks of
//! the packets that it shows.

use rusqlite::params;

use super::chunk::{Chunk, StoredPacket};
use super::read::StoreReader;
use super::record::{Columns, connection, packet};
use super::{CaptureId, Page, RowKey};
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::event::Connection;

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
        let mut statement = self.db.prepare_cached(sql)?;
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
        let mut chunk = packet::open(&self.db, chunk)?;
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
        let (columns, order) = (connection::COLUMNS, page.order.sql());
        let sql = format!("SELECT {columns} FROM connection WHERE id BETWEEN ? AND ? ORDER BY id {order} LIMIT ?");
        self.select(&sql, params![first, last, page.limit()], connection::read)
    }

    /// The row of the chunk that holds a packet. Chunks of several connections may span the number.
    /// Their lists of numbers show, without decompression, which one holds it.
    pub(super) fn chunk_of(&self, capture: CaptureId, number: PacketNumber) -> anyhow::Result<Option<i64>> {
        let mut statement = self.db.prepare_cached(
            "SELECT id, numbers FROM packet_chunk
             WHERE capture = ?1 AND first_number <= ?2 AND last_number >= ?2 ORDER BY first_number DESC",
        )?;
        let mut rows = statement.query(params![capture.0, number.0 as i64])?;
        while let Some(row) = rows.next()? {
            let mut columns = Columns::new(row);
            let chunk = columns.get()?;
            if Chunk::has(columns.bytes("the packet numbers of a chunk")?, number)? {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }
}
