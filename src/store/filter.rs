//! Display filters as SQL: pages of the messages that match a filter.

mod condition;
pub(super) mod functions;
#[cfg(test)]
mod tests;

use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::RowKey;
use super::maintenance::HIDDEN;
use super::page::{ALL, Page, Scope};
use super::read::StoreReader;
use super::record::message::{self, MessageRow};
use crate::filter::Filter;
use condition::Condition;

impl StoreReader {
    /// Messages, without their text, that match a filter.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn matching(&self, filter: &Filter, scope: Scope, page: Page<RowKey>) -> anyhow::Result<Vec<MessageRow>> {
        self.matching_between(filter, scope, ALL, page)
    }

    /// Messages from key `first` to key `last`, both included, that match a filter. A view that
    /// shows results while the search goes on searches slice by slice.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn matching_within(
        &self,
        filter: &Filter,
        scope: Scope,
        (first, last): (RowKey, RowKey),
    ) -> anyhow::Result<Vec<MessageRow>> {
        self.matching_between(filter, scope, (first.0, last.0), Page::first(usize::MAX))
    }

    fn matching_between(
        &self,
        filter: &Filter,
        scope: Scope,
        keys: (i64, i64),
        page: Page<RowKey>,
    ) -> anyhow::Result<Vec<MessageRow>> {
        let (column, scope) = match scope {
            Scope::All => ("?1", 1),
            Scope::Capture(capture) => ("capture", i64::from(capture.0)),
            Scope::Session(session) => ("session", i64::from(session.0)),
        };
        let (first, last) = page.range(keys, |key| key.0);
        // The plus keeps SQLite from using the index on the session if a range of keys is given.
        // Otherwise it would read the whole session for every slice.
        let plus = if keys == ALL { "" } else { "+" };
        let condition = Condition::new(filter, 5);
        let mut parameters = condition.parameters;
        let mut which = "id BETWEEN ?2 AND ?3".to_owned();
        // A slice is read completely, so its texts are read first, in the order in which they are
        // stored. Without a slice only a page is needed.
        if keys != ALL
            && let Some(text) = Condition::of_text(filter, 5 + parameters.len())
        {
            which = format!("id IN (SELECT id FROM message_text WHERE id BETWEEN ?2 AND ?3 AND {})", text.sql);
            parameters.extend(text.parameters);
        }
        let sql = format!(
            "SELECT {} FROM message WHERE {plus}{column} = ?1 AND {which}
             AND session NOT IN {HIDDEN} AND ({}) ORDER BY id {} LIMIT ?4",
            message::COLUMNS,
            condition.sql,
            page.order.sql(),
        );
        let own = [scope, first, last, page.limit()].map(Value::Integer);
        self.select(&sql, params_from_iter(own.into_iter().chain(parameters)), message::read)
    }
}
