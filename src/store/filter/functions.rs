//! The SQL functions that filters need.

use std::sync::Arc;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error};

use super::condition::{FUNCTION, TEXT_FUNCTION};
use crate::filter::Filter;
use crate::store::codec::{BlobReader, Damaged};
use crate::store::text;

/// The name of the SQL function `mcptap_within(key, ranges)`: whether a key is in one of the
/// ranges. Each range is its first and its last key, in order, each as 8 bytes, the lowest first.
pub(super) const WITHIN: &str = "mcptap_within";

/// Defines the SQL functions `mcptap_filter(value, term)`, `mcptap_text(text, term)` and
/// `numbers(packets)` (see `filter/condition.rs`).
pub(in crate::store) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(FUNCTION, 2, flags, |context| {
        let term = term(context)?;
        Ok(match context.get_raw(0) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(term.matches_subject(bytes)),
            _ => None,
        })
    })?;
    connection.create_scalar_function(TEXT_FUNCTION, 2, flags, |context| {
        let term = term(context)?;
        Ok(match context.get_raw(0) {
            ValueRef::Text(bytes) => Some(term.matches_subject(bytes)),
            ValueRef::Null => None,
            ValueRef::Blob(frame) => {
                let seen = text::look_at(frame, |text| term.matches_subject(text));
                Some(seen.map_err(|damaged| Error::UserFunctionError(Box::new(damaged)))?)
            }
            ValueRef::Integer(_) | ValueRef::Real(_) => {
                return Err(Error::UserFunctionError(Box::new(Damaged("the text of a message"))));
            }
        })
    })?;
    connection.create_scalar_function(WITHIN, 2, flags, |context| {
        let key: i64 = context.get(0)?;
        let ranges = context.get_or_create_aux(1, |ranges| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            let keys = ranges.as_blob()?.as_chunks::<8>().0.iter().map(|key| i64::from_le_bytes(*key));
            Ok(keys.collect::<Vec<i64>>())
        })?;
        // Ends of ranges before the key, and the beginning of its range.
        Ok(ranges.partition_point(|end| *end < key) % 2 == 1 || ranges.binary_search(&key).is_ok())
    })?;
    connection.create_scalar_function("numbers", 1, flags, |context| {
        let packets = match context.get_raw(0) {
            ValueRef::Blob(blob) => BlobReader::new(blob, "packets of a message").packets(),
            _ => return Ok(Value::Null),
        };
        let packets = packets.map_err(|damaged| Error::UserFunctionError(Box::new(damaged)))?;
        let numbers: Vec<String> = packets.iter().map(ToString::to_string).collect();
        Ok(Value::Text(format!("[{}]", numbers.join(","))))
    })
}

/// The term of a filter, which is the second argument. It is parsed once for a statement.
pub(super) fn term(context: &Context<'_>) -> rusqlite::Result<Arc<Filter>> {
    context.get_or_create_aux(1, |value| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Filter::parse(value.as_str()?)?)
    })
}
