//! Streams, and the origins of their bytes.

use rusqlite::Row;
use rusqlite::types::ToSqlOutput;

use super::Columns;
use super::rows::Insert;
use crate::capture::{Origin, PacketNumber, Span, StreamId, StreamPart};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::{ConnectionId, Direction, Side};
use crate::event::{Stream, StreamKind};
use crate::store::codec::{BlobReader, BlobWriter, Code, Damaged};
use crate::store::{CaptureId, RowKey};

/// Bytes of an encoded part, approximately.
const PART: usize = 12;

/// The number of parts in one row: some 700 bytes at most, so that SQLite never needs a second
/// page for it.
pub(in crate::store) const PARTS: usize = 64;

/// Columns in the order of [`stream_row`]. The row of a stream never changes.
pub(in crate::store) const STREAM_ROWS: Insert<6> =
    Insert("INSERT OR IGNORE INTO stream (id, connection, kind, which, exchange, parts)");

/// The row of a stream, with its first parts if they are known already.
pub(in crate::store) fn stream_row(
    capture: CaptureId,
    (stream, parts): (Stream, Option<&[(StreamId, StreamPart)]>),
) -> [ToSqlOutput<'static>; 6] {
    let (kind, which, exchange): (i64, i64, _) = match stream.kind {
        StreamKind::Tcp(side) => (0, side.code(), None),
        StreamKind::Pipe(descriptor) => (1, descriptor.into(), None),
        StreamKind::Body(exchange, direction) => (2, direction.code(), Some(exchange)),
        StreamKind::Decoded(exchange, direction) => (3, direction.code(), Some(exchange)),
        StreamKind::EventData(exchange) => (4, Direction::ServerToClient.code(), Some(exchange)),
        StreamKind::WebSocket(exchange, direction) => (5, direction.code(), Some(exchange)),
        StreamKind::Plaintext(side) => (6, side.code(), None),
        StreamKind::Redacted(direction) => (7, direction.code(), None),
    };
    [
        RowKey::new(capture, stream.id.0.into()).0.into(),
        RowKey::new(capture, stream.connection.0.into()).0.into(),
        kind.into(),
        which.into(),
        ToSqlOutput::Owned(exchange.map(|number| number.0 as i64).into()),
        ToSqlOutput::Owned(parts.map(|parts| put_parts(0, parts)).into()),
    ]
}

/// Columns in the order of [`read_stream`].
pub(in crate::store) const STREAM_COLUMNS: &str = "id, connection, kind, which, exchange";

pub(in crate::store) fn read_stream(row: &Row<'_>) -> anyhow::Result<Stream> {
    let mut columns = Columns::new(row);
    let id = StreamId(columns.key()?.number() as u32);
    let connection = ConnectionId(columns.key()?.number() as u32);
    let (kind, which): (i64, i64) = (columns.get()?, columns.get()?);
    let exchange = columns.optional_u64()?.map(ExchangeNumber);
    let kind = match (kind, exchange) {
        (0, _) => StreamKind::Tcp(Side::from_code(which)?),
        (1, _) => StreamKind::Pipe(which as u8),
        (2, Some(exchange)) => StreamKind::Body(exchange, Direction::from_code(which)?),
        (3, Some(exchange)) => StreamKind::Decoded(exchange, Direction::from_code(which)?),
        (4, Some(exchange)) => StreamKind::EventData(exchange),
        (5, Some(exchange)) => StreamKind::WebSocket(exchange, Direction::from_code(which)?),
        (6, _) => StreamKind::Plaintext(Side::from_code(which)?),
        (7, _) => StreamKind::Redacted(Direction::from_code(which)?),
        _ => return Err(Damaged("a stream").into()),
    };
    Ok(Stream { id, connection, kind })
}

/// Parameters: the stream's key, the offset of the first byte, a zstd frame.
pub(in crate::store) const INSERT_PLAINTEXT: &str =
    "INSERT OR IGNORE INTO plaintext (stream, start, data) VALUES (?, ?, ?)";

/// Columns in the order of [`part_row`].
pub(in crate::store) const PART_ROWS: Insert<3> = Insert("INSERT OR IGNORE INTO part (stream, start, parts)");

/// A row of later parts of the stream with this key.
pub(in crate::store) fn part_row((stream, parts): (RowKey, &[(StreamId, StreamPart)])) -> [ToSqlOutput<'static>; 3] {
    let start = parts.first().map_or(0, |(_, part)| part.start);
    [stream.0.into(), (start as i64).into(), ToSqlOutput::Owned(put_parts(start, parts).into())]
}

/// Encodes the parts of one row. The gap before the first part begins at `end`. Each part is
/// encoded as `(gap, length, origin)`.
fn put_parts(mut end: u64, parts: &[(StreamId, StreamPart)]) -> Vec<u8> {
    let mut out = BlobWriter(Vec::with_capacity(PART * parts.len()));
    let (mut packet, mut offset) = (0, 0);
    for (_, part) in parts {
        out.step(end, part.start);
        out.u64(part.end.saturating_sub(part.start));
        end = part.end;
        match part.origin {
            Origin::Missing => out.u64(0),
            Origin::Packet { packet: number, offset } => {
                out.u64(1);
                out.step(packet, number.0);
                out.u64(offset.into());
                packet = number.0;
            }
            Origin::Copied { stream, offset: from } => {
                out.u64(2);
                out.u64(stream.0.into());
                out.step(offset, from);
                offset = from;
            }
            Origin::Derived(span) => {
                out.u64(3);
                out.u64(span.stream.0.into());
                out.step(offset, span.start);
                out.step(span.start, span.end);
                offset = span.start;
            }
        }
    }
    out.0
}

/// Decodes the output of [`put_parts`].
pub(in crate::store) fn read_parts(mut end: u64, blob: &[u8]) -> Result<Vec<StreamPart>, Damaged> {
    let mut blob = BlobReader::new(blob, "where bytes came from");
    let (mut packet, mut offset) = (0, 0);
    let mut parts = Vec::new();
    while !blob.is_empty() {
        let start = blob.step(end)?;
        end = start.checked_add(blob.u64()?).ok_or(blob.damaged())?;
        let origin = match blob.u64()? {
            0 => Origin::Missing,
            1 => {
                packet = blob.step(packet)?;
                Origin::Packet { packet: PacketNumber(packet), offset: blob.u32()? }
            }
            2 => {
                let stream = StreamId(blob.u32()?);
                offset = blob.step(offset)?;
                Origin::Copied { stream, offset }
            }
            3 => {
                let stream = StreamId(blob.u32()?);
                offset = blob.step(offset)?;
                Origin::Derived(Span { stream, start: offset, end: blob.step(offset)? })
            }
            _ => return Err(blob.damaged()),
        };
        // When such a part is cut, the sum with its offset must not overflow.
        let fits = match origin {
            Origin::Packet { offset, .. } => (end - start).saturating_add(offset.into()) <= u32::MAX.into(),
            Origin::Copied { offset, .. } => (end - start).checked_add(offset).is_some(),
            Origin::Derived(_) | Origin::Missing => true,
        };
        if !fits {
            return Err(blob.damaged());
        }
        parts.push(StreamPart { start, end, origin });
    }
    Ok(parts)
}
