//! The display filter as SQL: the functions it needs, and the pages of what it lets through.

mod condition;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, params_from_iter};

use super::codec::{Damaged, Decoder};
use super::query::Page;
use super::read::Reader;
use super::record::message::{self, MessageRow};
use super::{Key, Scope, text};
use crate::filter::Filter;
use condition::{Condition, FUNCTION, TEXT_FUNCTION};

/// Gives SQL `mcptap_filter(value, term)`, `mcptap_text(text, term)` and `numbers(packets)` (see `filter/condition.rs`).
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
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
    connection.create_scalar_function("numbers", 1, flags, |context| {
        let packets = match context.get_raw(0) {
            ValueRef::Blob(blob) => Decoder::new(blob, "packets of a message").packets(),
            _ => return Ok(Value::Null),
        };
        let packets = packets.map_err(|damaged| Error::UserFunctionError(Box::new(damaged)))?;
        let numbers: Vec<String> = packets.iter().map(ToString::to_string).collect();
        Ok(Value::Text(format!("[{}]", numbers.join(","))))
    })
}

/// The term of a filter, the second argument: read once for a statement.
fn term(context: &Context<'_>) -> rusqlite::Result<Arc<Filter>> {
    context.get_or_create_aux(1, |value| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Filter::parse(value.as_str()?)?)
    })
}

impl Reader {
    /// Messages, without their text, that a filter lets through.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn matching(&self, filter: &Filter, scope: Scope, page: Page<Key>) -> anyhow::Result<Vec<MessageRow>> {
        self.matching_between(filter, scope, super::query::ALL, page)
    }

    /// The same among the messages from key `first` to key `last`, both included: for a filter that is to show what it found while
    /// it goes on, slice by slice.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn matching_within(
        &self,
        filter: &Filter,
        scope: Scope,
        (first, last): (Key, Key),
    ) -> anyhow::Result<Vec<MessageRow>> {
        self.matching_between(filter, scope, (first.0, last.0), Page::first(usize::MAX))
    }

    fn matching_between(
        &self,
        filter: &Filter,
        scope: Scope,
        keys: (i64, i64),
        page: Page<Key>,
    ) -> anyhow::Result<Vec<MessageRow>> {
        let (column, scope) = match scope {
            Scope::All => ("?1", 1),
            Scope::Capture(capture) => ("capture", i64::from(capture.0)),
            Scope::Session(session) => ("session", i64::from(session.0)),
        };
        let (first, last) = page.range(keys, |key| key.0);
        // The plus keeps SQLite from the index on the session where a range of keys is given: it would read all of the session
        // for every slice of it.
        let plus = if keys == super::query::ALL { "" } else { "+" };
        let condition = Condition::new(filter, 5);
        let mut parameters = condition.parameters;
        let mut which = "id BETWEEN ?2 AND ?3".to_owned();
        // A slice is run through whole, so its texts are, in the order in which they are kept. Of all messages only a page is wanted.
        if keys != super::query::ALL
            && let Some(text) = Condition::of_text(filter, 5 + parameters.len())
        {
            which = format!("id IN (SELECT id FROM message_text WHERE id BETWEEN ?2 AND ?3 AND {})", text.sql);
            parameters.extend(text.parameters);
        }
        let sql = format!(
            "SELECT {} FROM message WHERE {plus}{column} = ?1 AND {which} AND ({}) ORDER BY id {} LIMIT ?4",
            message::COLUMNS,
            condition.sql,
            page.order.sql(),
        );
        let own = [scope, first, last, page.limit()].map(Value::Integer);
        self.select(&sql, params_from_iter(own.into_iter().chain(parameters)), message::read)
    }
}
