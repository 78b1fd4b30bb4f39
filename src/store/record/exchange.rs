//! HTTP exchanges as rows.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, Statement, params};
use serde::{Serialize, Serializer};

use super::Columns;
use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber, Fields, Half};
use crate::store::codec::{BlobReader, BlobWriter, Damaged};
use crate::store::{CaptureId, RowKey};

/// Deletes the earlier state of an exchange, by key. With `INSERT OR REPLACE` SQLite would copy
/// every page that it changes, in case that statement fails halfway.
pub(in crate::store) const DELETE: &str = "DELETE FROM exchange WHERE id = ?";

/// Parameters in the order of [`write()`].
pub(in crate::store) const INSERT: &str = "
    INSERT INTO exchange
        (id, connection, h2_stream, http_version, method, target, status, reason, request_fields, response_fields, request,
         response)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

pub(in crate::store) fn write(
    statement: &mut Statement<'_>,
    capture: CaptureId,
    exchange: &Exchange,
) -> anyhow::Result<()> {
    statement.execute(params![
        RowKey::new(capture, exchange.number.0),
        RowKey::new(capture, exchange.connection.0.into()),
        exchange.h2_stream,
        exchange.http_version,
        exchange.method,
        exchange.target,
        exchange.status,
        exchange.reason,
        ToSqlOutput::Borrowed(ValueRef::Text(&put_fields(&exchange.request.fields)?)),
        ToSqlOutput::Borrowed(ValueRef::Text(&put_fields(&exchange.response.fields)?)),
        put_half(&exchange.request),
        put_half(&exchange.response),
    ])?;
    Ok(())
}

/// Writes the target and the fields of an exchange that has a row.
pub(in crate::store) fn update_texts(db: &Connection, capture: CaptureId, exchange: &Exchange) -> anyhow::Result<()> {
    db.prepare_cached("UPDATE exchange SET target = ?, request_fields = ?, response_fields = ? WHERE id = ?")?
        .execute(params![
            exchange.target,
            ToSqlOutput::Borrowed(ValueRef::Text(&put_fields(&exchange.request.fields)?)),
            ToSqlOutput::Borrowed(ValueRef::Text(&put_fields(&exchange.response.fields)?)),
            RowKey::new(capture, exchange.number.0),
        ])?;
    Ok(())
}
/// The session of an exchange.
pub(in crate::store) const INSERT_SESSION: &str =
    "INSERT OR IGNORE INTO session_exchange (session, exchange) VALUES (?, ?)";

/// Columns in the order of [`read`].
pub(in crate::store) const COLUMNS: &str = "
    id, connection, h2_stream, http_version, method, target, status, reason, request_fields, response_fields, request,
    response";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<Exchange> {
    let mut columns = Columns::new(row);
    let number = ExchangeNumber(columns.key()?.number());
    let connection = ConnectionId(columns.key()?.number() as u32);
    let h2_stream = columns.get()?;
    // The program's constants, as in `Exchange::http_version`.
    let version = columns.bytes("an HTTP version")?;
    let http_version = ["1.1", "2", "1.0"].into_iter().find(|known| known.as_bytes() == version).unwrap_or("");
    let (method, target, status, reason) = (columns.get()?, columns.get()?, columns.get()?, columns.get()?);
    let (request_fields, response_fields) = (fields(columns.bytes("a field")?)?, fields(columns.bytes("a field")?)?);
    let request = half(request_fields, columns.bytes("an exchange")?)?;
    let response = half(response_fields, columns.bytes("an exchange")?)?;
    // The note about a refusal holds it.
    let explanation = None;
    Ok(Exchange {
        number,
        connection,
        h2_stream,
        http_version,
        method,
        target,
        status,
        reason,
        explanation,
        request,
        response,
    })
}

/// Header fields as JSON.
fn put_fields(fields: &Fields) -> serde_json::Result<Vec<u8>> {
    struct Pairs<'a>(&'a Fields);
    impl Serialize for Pairs<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(self.0.iter())
        }
    }
    // JSON adds five bytes per field, and seldom an escape.
    let mut json = Vec::with_capacity(2 * fields.size());
    serde_json::to_writer(&mut json, &Pairs(fields))?;
    Ok(json)
}

fn fields(json: &[u8]) -> Result<Fields, Damaged> {
    let pairs: Vec<(String, String)> = serde_json::from_slice(json).map_err(|_| Damaged("a field"))?;
    Ok(pairs.into_iter().collect())
}

/// Bytes of an encoded request or response, approximately. It is more if many packets carried it.
const HALF: usize = 96;

fn put_half(half: &Half) -> Vec<u8> {
    let mut out = BlobWriter(Vec::with_capacity(HALF));
    for time in [half.started, half.ended] {
        out.option(time, |out, time| out.i64(time.0));
    }
    out.u64(half.head_start);
    out.u64(half.head_end);
    out.packets(&half.packets);
    out.packets(&half.head_packets);
    out.u64(half.body_bytes);
    out.option(half.body_sha256, |out, hash| out.bytes(&hash));
    out.u64(half.complete.into());
    out.0
}

fn half(fields: Fields, blob: &[u8]) -> Result<Half, Damaged> {
    let mut blob = BlobReader::new(blob, "an exchange");
    let time = |blob: &mut BlobReader<'_>| Ok(Time(blob.i64()?));
    Ok(Half {
        fields,
        started: blob.option(time)?,
        ended: blob.option(time)?,
        head_start: blob.u64()?,
        head_end: blob.u64()?,
        packets: blob.packets()?,
        head_packets: blob.packets()?,
        body_bytes: blob.u64()?,
        body_sha256: blob.option(|blob| <[u8; 32]>::try_from(blob.bytes()?).map_err(|_| blob.damaged()))?,
        complete: blob.u64()? != 0,
    })
}
