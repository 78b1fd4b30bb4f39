//! Chunks of packets as rows.

use rusqlite::{Connection, Row, Statement, params};

use super::Columns;
use crate::capture::PacketNumber;
use crate::decode::ConnectionId;
use crate::store::chunk::{Chunk, OpenChunk};
use crate::store::{CaptureId, RowKey};

/// Parameters in the order of [`write()`].
pub(in crate::store) const INSERT: &str = "
    INSERT INTO packet_chunk
        (capture, connection, first_number, last_number, first_time, last_time, packets, numbers, data, stderr)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

pub(in crate::store) fn write(
    statement: &mut Statement<'_>,
    capture: CaptureId,
    chunk: &Chunk,
) -> rusqlite::Result<()> {
    statement.execute(params![
        capture.0,
        RowKey::new(capture, chunk.connection.0.into()),
        chunk.numbers.0.0 as i64,
        chunk.numbers.1.0 as i64,
        chunk.times.0.0,
        chunk.times.1.0,
        chunk.packets as i64,
        chunk.number_list,
        chunk.data,
        chunk.stderr as i64,
    ])?;
    Ok(())
}

/// A chunk that can be opened: its row, and the number of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct ChunkId {
    pub(in crate::store) id: i64,
    pub(in crate::store) first: PacketNumber,
}

/// Columns in the order of [`read_id`].
pub(in crate::store) const ID_COLUMNS: &str = "id, first_number";

pub(in crate::store) fn read_id(row: &Row<'_>) -> rusqlite::Result<ChunkId> {
    let mut columns = Columns::new(row);
    Ok(ChunkId { id: columns.get()?, first: PacketNumber(columns.u64()?) })
}

/// Reads and decompresses the chunk in a row.
pub(in crate::store) fn open(db: &Connection, id: i64) -> anyhow::Result<OpenChunk> {
    let mut statement = db.prepare_cached("SELECT connection, data FROM packet_chunk WHERE id = ?")?;
    let mut rows = statement.query_and_then([id], |row| -> anyhow::Result<OpenChunk> {
        let mut columns = Columns::new(row);
        let connection = ConnectionId(columns.key()?.number() as u32);
        Ok(OpenChunk::open(connection, columns.bytes("a chunk of packets")?)?)
    })?;
    rows.next().unwrap_or_else(|| Err(rusqlite::Error::QueryReturnedNoRows.into()))
}
