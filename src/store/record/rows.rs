//! Short rows of one table, inserted many at a time. Beginning and ending a statement takes SQLite
//! as long as inserting a row.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Statement};

/// The number of rows in one statement.
const ROWS: usize = 16;

/// An insert statement for rows of `N` columns, up to its VALUES.
pub(in crate::store) struct Insert<const N: usize>(pub(in crate::store) &'static str);

impl<const N: usize> Insert<N> {
    /// Inserts all rows, whose values `columns` returns. Returns the number of new rows.
    pub(in crate::store) fn all<R>(
        &self,
        db: &Connection,
        rows: &[R],
        columns: impl Fn(&R) -> [ToSqlOutput<'_>; N],
    ) -> rusqlite::Result<usize> {
        let mut inserted = 0;
        let (many, rest) = rows.as_chunks::<ROWS>();
        if !many.is_empty() {
            let mut statement = db.prepare_cached(&self.statement(ROWS))?;
            for rows in many {
                inserted += insert(&mut statement, rows, &columns)?;
            }
        }
        let mut statement = db.prepare_cached(&self.statement(1))?;
        for row in rest.chunks(1) {
            inserted += insert(&mut statement, row, &columns)?;
        }
        Ok(inserted)
    }

    fn statement(&self, rows: usize) -> String {
        let row = format!("({})", ["?"; N].join(", "));
        format!("{} VALUES {}", self.0, vec![row; rows].join(", "))
    }
}

/// Inserts as many rows as the statement has places for; returns the number of new rows.
fn insert<R, const N: usize>(
    statement: &mut Statement<'_>,
    rows: &[R],
    columns: impl Fn(&R) -> [ToSqlOutput<'_>; N],
) -> rusqlite::Result<usize> {
    for (column, place) in rows.iter().flat_map(columns).zip(1..) {
        statement.raw_bind_parameter(place, column)?;
    }
    statement.raw_execute()
}
