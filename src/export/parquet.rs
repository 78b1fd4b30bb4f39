//! Parquet: messages as rows, for DuckDB, pandas and other programs that read columns
//! (<https://parquet.apache.org/docs/file-format/>).
//!
//! The table [`COLUMNS`] defines the columns. Rows are collected column by column and
//! written in groups.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;

use crate::mcp::content::{self, Status};
use crate::mcp::{Message, Party, Session};

/// Maximum number of rows in a group. Readers divide their work by groups, and DuckDB's own groups
/// have 122,880.
const ROWS: usize = 122_880;

/// Bytes of text after which a group is written earlier.
const BYTES: usize = 32 << 20;

/// Columns whose values hardly repeat. They have no dictionary and no minimum and maximum.
const TEXTS: [&str; 2] = ["text", "bytes"];

/// A row: a message and its session.
struct Row<'m> {
    session: &'m Session,
    message: &'m Message,
}

/// A column: its declaration in the schema, and its value in a row.
type Column = (&'static str, Take);

/// The value of a column in a row.
enum Take {
    Number(fn(&Row<'_>) -> Option<i64>),
    Truth(fn(&Row<'_>) -> bool),
    Text(for<'m> fn(&Row<'m>) -> Option<Cow<'m, [u8]>>),
    /// A list. It may be empty, but it is never missing.
    Words(for<'m> fn(&Row<'m>) -> &'m [&'static str]),
}

/// The columns, named like the members of the JSON lines.
const COLUMNS: &[Column] = &[
    ("required int64 session", Take::Number(|row| Some(row.message.session.0.into()))),
    ("required int64 number", Take::Number(|row| number(row.message.number.0))),
    ("required int64 time (TIMESTAMP(NANOS,true))", Take::Number(|row| Some(row.message.time.0))),
    ("required binary transport (STRING)", Take::Text(|row| word(row.message.transport.name()))),
    ("required binary direction (STRING)", Take::Text(|row| word(row.message.direction.name()))),
    ("required binary kind (STRING)", Take::Text(|row| word(row.message.kind.name()))),
    ("optional binary id (JSON)", Take::Text(|row| word(row.message.id.as_deref()?))),
    ("optional binary method (STRING)", Take::Text(|row| word(row.message.method.as_deref()?))),
    ("optional binary tool (STRING)", Take::Text(|row| word(row.message.tool.as_deref()?))),
    ("optional binary status (STRING)", Take::Text(|row| word(content::status(row.message).map(Status::name)?))),
    ("optional int64 answers", Take::Number(|row| number(row.message.answers?.0))),
    ("optional int64 answered_by", Take::Number(|row| number(row.message.answered_by?.0))),
    ("optional int64 latency_ns", Take::Number(|row| row.message.latency)),
    ("optional int64 operation", Take::Number(|row| number(row.message.operation?.0))),
    ("required binary carrier (STRING)", Take::Text(|row| word(row.message.carrier.name()))),
    ("optional int64 exchange", Take::Number(|row| number(row.message.exchange?.0))),
    ("optional binary sse_id (STRING)", Take::Text(|row| word(row.message.sse_id.as_deref()?))),
    ("optional int64 line", Take::Number(|row| number(row.message.line?))),
    ("required int64 packets", Take::Number(|row| number(row.message.packets.len() as u64))),
    ("required boolean redelivered", Take::Truth(|row| row.message.redelivered)),
    (
        "required group findings (LIST) { repeated group list { required binary element (STRING); } }",
        Take::Words(|row| row.message.findings.as_slice()),
    ),
    ("optional binary client (STRING)", Take::Text(|row| party(&row.session.client))),
    ("optional binary server (STRING)", Take::Text(|row| party(&row.session.server))),
    ("required int64 size", Take::Number(|row| number(row.message.raw.len() as u64))),
    ("optional binary text (STRING)", Take::Text(|row| word(row.message.raw.text()?))),
    // A text that is not UTF-8.
    (
        "optional binary bytes",
        Take::Text(|row| row.message.raw.text().is_none().then_some(Cow::Borrowed(&row.message.raw))),
    ),
];

fn number(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

fn word(text: &str) -> Option<Cow<'_, [u8]>> {
    Some(Cow::Borrowed(text.as_bytes()))
}

fn party(party: &Option<Party>) -> Option<Cow<'_, [u8]>> {
    let Party { name, version } = party.as_ref()?;
    Some(Cow::Owned(format!("{name} {version}").trim_end().as_bytes().to_vec()))
}

/// The values of a column until their group is written.
///
/// Definition and repetition levels are those of Dremel: whether a value is present, and whether it
/// continues a list.
#[derive(Default)]
struct Values {
    numbers: Vec<i64>,
    truths: Vec<bool>,
    texts: Vec<ByteArray>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl Values {
    fn push(&mut self, take: &Take, row: &Row<'_>) {
        match take {
            Take::Number(take) => {
                let number = take(row);
                self.definitions.push(number.is_some().into());
                self.numbers.extend(number);
            }
            Take::Truth(take) => self.truths.push(take(row)),
            Take::Text(take) => {
                let text = take(row);
                self.definitions.push(text.is_some().into());
                self.texts.extend(text.map(|text| ByteArray::from(text.into_owned())));
            }
            Take::Words(take) => {
                let words = take(row);
                self.definitions.extend(words.iter().map(|_| 1));
                self.repetitions.extend((0..words.len()).map(|index| i16::from(index > 0)));
                self.texts.extend(words.iter().map(|word| ByteArray::from(*word)));
                if words.is_empty() {
                    self.definitions.push(0);
                    self.repetitions.push(0);
                }
            }
        }
    }

    fn clear(&mut self) {
        *self = Values::default();
    }
}

/// Writes a Parquet file.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The output fails. The same holds for the functions below.
    pub fn new(out: W) -> Result<Parquet<W>> {
        let columns: Vec<String> = COLUMNS.iter().map(|(declared, _)| declaration(declared)).collect();
        let schema = parse_message_type(&format!("message messages {{ {} }}", columns.join(" ")))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(concat!("mcptap ", env!("CARGO_PKG_VERSION")).to_owned());
        for text in TEXTS {
            let column = ColumnPath::from(text);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_statistics_enabled(column, EnabledStatistics::None);
        }
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        let columns = COLUMNS.iter().map(|_| Values::default()).collect();
        Ok(Parquet { writer, columns, rows: 0, bytes: 0 })
    }

    /// Adds a message of a session.
    pub fn message(&mut self, session: &Session, message: &Message) -> Result<()> {
        let row = Row { session, message };
        for ((_, take), values) in COLUMNS.iter().zip(&mut self.columns) {
            values.push(take, &row);
        }
        self.rows += 1;
        self.bytes += message.raw.len();
        if self.rows >= ROWS || self.bytes >= BYTES { self.group() } else { Ok(()) }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.group()?;
        }
        self.writer.close().map(drop)
    }

    /// Writes the collected rows as a group.
    fn group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for ((declared, take), values) in COLUMNS.iter().zip(&mut self.columns) {
            let Some(mut column) = group.next_column()? else { break };
            let definitions = declared.starts_with("optional").then_some(&*values.definitions);
            match take {
                Take::Number(_) => {
                    column.typed::<Int64Type>().write_batch(&values.numbers, definitions, None)?;
                }
                Take::Truth(_) => {
                    column.typed::<BoolType>().write_batch(&values.truths, definitions, None)?;
                }
                Take::Text(_) => {
                    column.typed::<ByteArrayType>().write_batch(&values.texts, definitions, None)?;
                }
                Take::Words(_) => {
                    let (definitions, repetitions) = (&*values.definitions, &*values.repetitions);
                    column.typed::<ByteArrayType>().write_batch(&values.texts, Some(definitions), Some(repetitions))?;
                }
            }
            column.close()?;
            values.clear();
        }
        (self.rows, self.bytes) = (0, 0);
        group.close().map(drop)
    }
}

/// A declaration as the schema needs it. Only groups end without a semicolon.
fn declaration(declared: &str) -> String {
    if declared.ends_with('}') { declared.to_owned() } else { format!("{declared};") }
}

#[cfg(test)]
mod tests;
