//! Groups of rows: the values of each column, and the file that they are written to.

use std::borrow::Borrow;
use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::metadata::{KeyValue, SortingColumn};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{ColumnPath, TypePtr};

/// The version of the columns, in each file as `mcptap.schema`. Columns are added, never changed or
/// removed; a version with another meaning of a column gets another number.
const VERSION: &str = "1";

/// Columns whose values hardly repeat. They have no dictionary and no minimum and maximum.
const TEXTS: [&str; 4] = ["text", "bytes", "request_fields", "response_fields"];

/// Columns of keys. A hash takes half the space without a dictionary.
const KEYS: [&str; 2] = ["key", "answers_key"];

/// Columns of numbers that grow, or differ from row to row. They are stored as differences.
const STEPS: [&str; 8] = ["time", "time_ns", "number", "answers", "latency_ns", "exchange", "line", "size"];

/// Size of a page of texts in bytes. A page is compressed alone, so larger pages compress better.
const TEXT_PAGE: usize = 8 << 20;

/// The values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Numbers(Vec<Option<i64>>),
    Truths(Vec<Option<bool>>),
    Texts(Vec<Option<ByteArray>>),
    Lists(Vec<Vec<ByteArray>>),
}

impl Values {
    /// The values of these rows, in this order.
    pub fn select(&self, rows: &[usize]) -> Values {
        fn of<T: Clone>(values: &[T], rows: &[usize]) -> Vec<T> {
            rows.iter().filter_map(|row| values.get(*row).cloned()).collect()
        }
        match self {
            Values::Numbers(values) => Values::Numbers(of(values, rows)),
            Values::Truths(values) => Values::Truths(of(values, rows)),
            Values::Texts(values) => Values::Texts(of(values, rows)),
            Values::Lists(values) => Values::Lists(of(values, rows)),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Values::Numbers(values) => values.len(),
            Values::Truths(values) => values.len(),
            Values::Texts(values) => values.len(),
            Values::Lists(values) => values.len(),
        }
    }

    /// Adds the values of further rows. They must be of the same kind.
    pub fn append(&mut self, more: Values) {
        match (self, more) {
            (Values::Numbers(values), Values::Numbers(more)) => values.extend(more),
            (Values::Truths(values), Values::Truths(more)) => values.extend(more),
            (Values::Texts(values), Values::Texts(more)) => values.extend(more),
            (Values::Lists(values), Values::Lists(more)) => values.extend(more),
            _ => {}
        }
    }

    /// The number in a row.
    pub fn number(&self, row: usize) -> Option<i64> {
        match self {
            Values::Numbers(values) => values.get(row).copied().flatten(),
            _ => None,
        }
    }

    /// The text in a row.
    pub fn text(&self, row: usize) -> Option<&[u8]> {
        match self {
            Values::Texts(values) => values.get(row)?.as_ref().map(ByteArray::data),
            _ => None,
        }
    }

    /// Bytes of the texts.
    pub fn size(&self) -> usize {
        match self {
            Values::Texts(values) => values.iter().flatten().map(ByteArray::len).sum(),
            _ => 0,
        }
    }

    fn write(&self, mut column: SerializedColumnWriter<'_>) -> Result<()> {
        match self {
            Values::Numbers(values) => put::<Int64Type>(&mut column, values)?,
            Values::Truths(values) => put::<BoolType>(&mut column, values)?,
            Values::Texts(values) => put::<ByteArrayType>(&mut column, values)?,
            Values::Lists(lists) => {
                // Definition and repetition levels are those of Dremel: whether a value is present,
                // and whether it continues a list.
                let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
                for list in lists {
                    definitions.resize(definitions.len() + list.len().max(1), i16::from(!list.is_empty()));
                    repetitions.push(0);
                    repetitions.resize(definitions.len(), 1);
                }
                let values: Vec<ByteArray> = lists.iter().flatten().cloned().collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&definitions), Some(&repetitions))?;
            }
        }
        column.close()
    }
}

fn put<T: DataType>(column: &mut SerializedColumnWriter<'_>, values: &[Option<T::T>]) -> Result<()> {
    let column = column.typed::<T>();
    let present: Vec<T::T> = values.iter().flatten().cloned().collect();
    let is_optional = column.get_descriptor().max_def_level() > 0;
    let definitions = is_optional.then(|| values.iter().map(|value| value.is_some().into()).collect::<Vec<i16>>());
    column.write_batch(&present, definitions.as_deref(), None)?;
    Ok(())
}

/// Writes a Parquet file, group by group.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file with a table.
    pub fn new(out: W, table: &str, schema: TypePtr) -> Result<Writer<W>> {
        let entry = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let about = vec![entry("mcptap.schema", VERSION), entry("mcptap.table", table)];
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_key_value_metadata(Some(about))
            .set_created_by(concat!("mcptap ", env!("CARGO_PKG_VERSION")).to_owned());
        for (index, field) in schema.get_fields().iter().enumerate() {
            let (name, column) = (field.name(), ColumnPath::from(field.name()));
            if TEXTS.contains(&name) {
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_data_page_size_limit(column.clone(), TEXT_PAGE)
                    .set_column_statistics_enabled(column, EnabledStatistics::None);
            } else if KEYS.contains(&name) {
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column, Encoding::DELTA_LENGTH_BYTE_ARRAY);
            } else if STEPS.contains(&name) {
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
            if name == "time_ns" && table != super::messages::IN_A_FILE.name {
                let sorted = SortingColumn { column_idx: index as i32, descending: false, nulls_first: false };
                properties = properties.set_sorting_columns(Some(vec![sorted]));
            }
        }
        Ok(Writer { file: SerializedFileWriter::new(out, schema, Arc::new(properties.build()))? })
    }

    /// Writes a group of rows, column by column.
    pub fn group<V: Borrow<Values>>(&mut self, columns: impl IntoIterator<Item = V>) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for values in columns {
            let Some(column) = group.next_column()? else { break };
            values.borrow().write(column)?;
        }
        group.close().map(drop)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> usize {
        self.file.bytes_written()
    }

    /// Ends the file, and returns the output.
    pub fn finish(self) -> Result<W> {
        self.file.into_inner()
    }
}
