//! Reads files of this program: whole columns of a group of rows.

use std::collections::HashMap;
use std::fs::File;

use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::statistics::Statistics;
use ::parquet::schema::types::TypePtr;

use super::Values;

/// An open file.
pub struct ParquetReader {
    file: SerializedFileReader<File>,
    columns: HashMap<String, usize>,
}

impl ParquetReader {
    /// Opens a file and reads its footer.
    pub fn new(file: File) -> Result<ParquetReader> {
        let file = SerializedFileReader::new(file)?;
        let fields = file.metadata().file_metadata().schema_descr().root_schema().get_fields();
        let columns = fields.iter().enumerate().map(|(index, field)| (field.name().to_owned(), index)).collect();
        Ok(ParquetReader { file, columns })
    }

    /// The schema of the file.
    pub fn schema(&self) -> TypePtr {
        self.file.metadata().file_metadata().schema_descr().root_schema_ptr()
    }

    /// The number of groups of rows.
    pub fn groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// The number of rows of a group.
    pub fn rows(&self, group: usize) -> usize {
        let rows = self.file.metadata().row_groups().get(group).map_or(0, |group| group.num_rows());
        usize::try_from(rows).unwrap_or(0)
    }

    /// The smallest and the largest value of a column of numbers in a group, by its statistics.
    pub fn range(&self, group: usize, column: &str) -> Option<(i64, i64)> {
        let index = *self.columns.get(column)?;
        match self.file.metadata().row_groups().get(group)?.column(index).statistics()? {
            Statistics::Int64(values) => values.min_opt().copied().zip(values.max_opt().copied()),
            _ => None,
        }
    }

    /// A column of a group. `None` if the file has no such column.
    pub fn column(&self, group: usize, name: &str) -> Result<Option<Values>> {
        self.columns.get(name).map(|index| self.values(group, *index)).transpose()
    }

    /// All columns of a group, in the order of the schema.
    pub fn all(&self, group: usize) -> Result<Vec<Values>> {
        (0..self.columns.len()).map(|index| self.values(group, index)).collect()
    }

    fn values(&self, group: usize, index: usize) -> Result<Values> {
        let rows = self.rows(group);
        let group = self.file.get_row_group(group)?;
        match group.get_column_reader(index)? {
            ColumnReader::Int64ColumnReader(column) => Ok(Values::Numbers(single(column, rows)?)),
            ColumnReader::BoolColumnReader(column) => Ok(Values::Truths(single(column, rows)?)),
            ColumnReader::ByteArrayColumnReader(column)
                if group.metadata().column(index).column_descr().max_rep_level() > 0 =>
            {
                Ok(Values::Lists(lists(column, rows)?))
            }
            ColumnReader::ByteArrayColumnReader(column) => Ok(Values::Texts(single(column, rows)?)),
            _ => Err(ParquetError::General("a column of another program".to_owned())),
        }
    }
}

/// The values of a column without lists.
fn single<T: DataType>(mut column: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Option<T::T>>> {
    let (mut values, mut definitions) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) = column.read_records(rows - read, Some(&mut definitions), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column ends early".to_owned()));
        }
        read += records;
    }
    if definitions.is_empty() {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(definitions.iter().map(|level| if *level > 0 { values.next() } else { None }).collect())
}

/// The values of a column of lists.
fn lists<T: DataType>(mut column: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Vec<T::T>>> {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) =
            column.read_records(rows - read, Some(&mut definitions), Some(&mut repetitions), &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column ends early".to_owned()));
        }
        read += records;
    }
    let (mut lists, mut values) = (Vec::new(), values.into_iter());
    for (definition, repetition) in definitions.iter().zip(&repetitions) {
        if *repetition == 0 {
            lists.push(Vec::new());
        }
        if let (true, Some(list)) = (*definition > 0, lists.last_mut()) {
            list.extend(values.next());
        }
    }
    Ok(lists)
}
