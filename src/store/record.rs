//! Records and rows: one file per table with the conversion in both directions.

pub(super) mod capture;
pub(super) mod connection;
pub(super) mod exchange;
pub(super) mod figures;
pub(super) mod finding;
pub(super) mod message;
pub(super) mod note;
pub(super) mod packet;
pub(super) mod provenance;
pub(super) mod rows;
pub(super) mod session;

use rusqlite::Row;
use rusqlite::types::FromSql;

use super::codec::{Code, Damaged};
use super::{CaptureId, RowKey};

/// Reads the columns of a row one after the other, in the order of the query.
pub(super) struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn new(row: &'a Row<'a>) -> Columns<'a> {
        Columns { row, next: 0 }
    }

    pub(super) fn get<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    /// A blob or text, not copied. `what` names it in the error.
    pub(super) fn bytes(&mut self, what: &'static str) -> anyhow::Result<&'a [u8]> {
        self.next += 1;
        self.row.get_ref(self.next - 1)?.as_bytes().map_err(|_| Damaged(what).into())
    }

    /// An unsigned number. SQLite has none, so all 64 bits are stored in a signed one.
    pub(super) fn u64(&mut self) -> rusqlite::Result<u64> {
        self.get::<i64>().map(|value| value as u64)
    }

    pub(super) fn optional_u64(&mut self) -> rusqlite::Result<Option<u64>> {
        self.get::<Option<i64>>().map(|value| value.map(|value| value as u64))
    }

    pub(super) fn code<T: Code>(&mut self) -> anyhow::Result<T> {
        Ok(T::from_code(self.get()?)?)
    }

    pub(super) fn optional_code<T: Code>(&mut self) -> anyhow::Result<Option<T>> {
        Ok(self.get::<Option<i64>>()?.map(T::from_code).transpose()?)
    }

    pub(super) fn key(&mut self) -> rusqlite::Result<RowKey> {
        self.get().map(RowKey)
    }

    pub(super) fn optional_key(&mut self) -> rusqlite::Result<Option<RowKey>> {
        self.get::<Option<i64>>().map(|key| key.map(RowKey))
    }

    pub(super) fn capture(&mut self) -> rusqlite::Result<CaptureId> {
        self.get().map(CaptureId)
    }
}
