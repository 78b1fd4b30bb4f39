//! A table: its columns, with their declarations in the schema and their values in a row.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ::parquet::data_type::ByteArray;
use ::parquet::errors::Result;
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::TypePtr;

use super::Values;

/// The stable name of a row: a hash of the place at which it was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A column: its declaration in the schema, and its value in a row.
pub type Column<R> = (&'static str, Take<R>);

/// The value of a column in a row.
pub enum Take<R: 'static> {
    Number(fn(&R) -> Option<i64>),
    Truth(fn(&R) -> bool),
    Text(fn(&R) -> Option<Cow<'_, [u8]>>),
    Key(fn(&R) -> Option<Key>),
    /// A list. It may be empty, but it is never missing.
    Words(fn(&R) -> &[&'static str]),
    Keys(fn(&R) -> &[Key]),
}

/// The columns of one kind of rows, in order.
pub struct Table<R: 'static> {
    pub name: &'static str,
    /// Lists of columns that several tables share, one after the other.
    pub parts: &'static [&'static [Column<R>]],
}

impl<R> Table<R> {
    fn columns(&self) -> impl Iterator<Item = &'static Column<R>> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// The place of the column with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns().position(|(declared, _)| declared.split(' ').nth(2) == Some(name))
    }

    /// The schema in the words of Parquet.
    pub fn schema(&self) -> Result<TypePtr> {
        let columns: Vec<String> = self.columns().map(|(declared, _)| declaration(declared)).collect();
        Ok(Arc::new(parse_message_type(&format!("message {} {{ {} }}", self.name, columns.join(" ")))?))
    }

    /// Columns without rows.
    pub fn values(&self) -> Vec<Values> {
        self.columns().map(|(_, take)| take.empty()).collect()
    }

    /// Adds a row to the columns.
    pub fn push(&self, columns: &mut [Values], row: &R) {
        self.columns().zip(columns).for_each(|((_, take), values)| take.push(values, row));
    }

    /// The columns of some rows, one after the other, so that only one of them takes memory.
    pub fn columns_of(&self, rows: &[&R]) -> impl Iterator<Item = Values> {
        self.columns().map(|(_, take)| {
            let mut values = take.empty();
            rows.iter().for_each(|row| take.push(&mut values, row));
            values
        })
    }
}

impl<R> Take<R> {
    fn empty(&self) -> Values {
        match self {
            Take::Number(_) => Values::Numbers(Vec::new()),
            Take::Truth(_) => Values::Truths(Vec::new()),
            Take::Text(_) | Take::Key(_) => Values::Texts(Vec::new()),
            Take::Words(_) | Take::Keys(_) => Values::Lists(Vec::new()),
        }
    }

    /// Adds the value of a row.
    fn push(&self, values: &mut Values, row: &R) {
        let key = |key: Key| ByteArray::from(key.to_string().into_bytes());
        match (self, values) {
            (Take::Number(take), Values::Numbers(numbers)) => numbers.push(take(row)),
            (Take::Truth(take), Values::Truths(truths)) => truths.push(Some(take(row))),
            (Take::Text(take), Values::Texts(texts)) => {
                texts.push(take(row).map(|text| ByteArray::from(text.into_owned())));
            }
            (Take::Key(take), Values::Texts(texts)) => texts.push(take(row).map(key)),
            (Take::Words(take), Values::Lists(lists)) => {
                lists.push(take(row).iter().map(|word| ByteArray::from(*word)).collect());
            }
            (Take::Keys(take), Values::Lists(lists)) => lists.push(take(row).iter().copied().map(key).collect()),
            // `empty` made each column for its kind.
            _ => {}
        }
    }
}

/// A declaration as the schema needs it. Only groups end without a semicolon.
fn declaration(declared: &str) -> String {
    if declared.ends_with('}') { declared.to_owned() } else { format!("{declared};") }
}

/// A number as a column holds it.
pub fn number(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

/// A text as a column holds it.
pub fn word(text: &str) -> Option<Cow<'_, [u8]>> {
    Some(Cow::Borrowed(text.as_bytes()))
}
