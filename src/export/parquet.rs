//! Parquet: rows in columns, for DuckDB, ClickHouse, Spark, pandas and other programs that read
//! columns (<https://parquet.apache.org/docs/file-format/>).
//!
//! A [`Table`] declares the columns of one kind of rows. Rows are collected column by column
//! ([`Values`]) and written in groups by a [`Writer`]. A [`ParquetReader`] reads files of this
//! program. [`Parquet`] is the format of `export`: the messages of sessions in one file. The tables
//! of a dataset are in the folder `dataset/`.

mod group;
pub mod messages;
mod reader;
mod table;

use std::io::Write;
use std::sync::Arc;

use ::parquet::errors::Result;

use crate::mcp::{Message, Session};

pub use ::parquet::errors::ParquetError;
pub use ::parquet::schema::types::Type as SchemaType;
pub use group::{Values, Writer};
pub use messages::{MessageRow, Place, SessionFacts};
pub use reader::ParquetReader;
pub use table::{Column, Key, Table, Take, number, word};

/// Maximum number of rows in a group. Readers divide their work by groups, and DuckDB's own groups
/// have 122,880.
pub const ROWS: usize = 122_880;

/// Bytes of text after which a group is written earlier.
pub const BYTES: usize = 32 << 20;

/// Writes the messages of sessions as one file.
pub struct Parquet<W: Write + Send> {
    writer: Writer<W>,
    columns: Vec<Values>,
    place: Arc<Place>,
    session: Option<Arc<SessionFacts>>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    pub fn new(out: W) -> Result<Parquet<W>> {
        let table = &messages::IN_A_FILE;
        let writer = Writer::new(out, table.name, table.schema()?)?;
        Ok(Parquet { writer, columns: table.values(), place: Arc::default(), session: None, rows: 0, bytes: 0 })
    }

    /// Adds a message of a session.
    pub fn message(&mut self, session: &Session, message: Message) -> Result<()> {
        let facts = match &self.session {
            Some(facts) if facts.session.number == session.number => Arc::clone(facts),
            _ => Arc::new(SessionFacts::new(session.clone(), Key::default())),
        };
        self.session = Some(Arc::clone(&facts));
        self.rows += 1;
        self.bytes += message.raw.len();
        let row = MessageRow {
            place: Arc::clone(&self.place),
            session: facts,
            message: Box::new(message),
            key: Key::default(),
            answers: None,
            has_text: true,
        };
        messages::IN_A_FILE.push(&mut self.columns, &row);
        if self.rows >= ROWS || self.bytes >= BYTES { self.group() } else { Ok(()) }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.group()?;
        }
        self.writer.finish().map(drop)
    }

    /// Writes the collected rows as a group.
    fn group(&mut self) -> Result<()> {
        (self.rows, self.bytes) = (0, 0);
        let columns = std::mem::replace(&mut self.columns, messages::IN_A_FILE.values());
        self.writer.group(&columns)
    }
}

#[cfg(test)]
mod tests;
