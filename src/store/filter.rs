//! Display filters as SQL: pages of the messages that match a filter.

pub(super) mod condition;
pub(super) mod functions;
#[cfg(test)]
mod tests;

use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::RowKey;
use super::maintenance::HIDDEN;
use super::page::{ALL, Page, Scope, SortOrder};
use super::read::StoreReader;
use super::record::message::{self, MessageRow};
use super::text_index::inside;
use crate::filter::Filter;
use crate::mcp::SessionNumber;
use condition::Condition;
use functions::WITHIN;

impl StoreReader {
    /// Messages, without their text, that match a filter. They are in order of number, those of a
    /// session in order of position.
    pub fn matching(&self, filter: &Filter, scope: Scope, page: Page<RowKey>) -> anyhow::Result<Vec<MessageRow>> {
        let (list, range) = match scope {
            Scope::Session(session) => (List::Positions, self.positions_of(session, &page)?),
            Scope::All | Scope::Capture(_) => (List::Keys, page.range(ALL, |key| key.0)),
        };
        self.matching_between(filter, scope, list, range, (page.order, page.limit()))
    }

    /// Messages of a session from a position on that match a filter, without their text.
    pub(super) fn matching_at(
        &self,
        filter: &Filter,
        session: SessionNumber,
        position: i64,
        limit: usize,
    ) -> anyhow::Result<Vec<MessageRow>> {
        let page: Page<RowKey> = Page::first(limit);
        let (scope, range) = (Scope::Session(session), (position, i64::MAX));
        self.matching_between(filter, scope, List::Positions, range, (page.order, page.limit()))
    }

    /// Messages from key `first` to key `last`, both included, that match a filter, in order of
    /// number. A view that shows results while the search goes on searches slice by slice.
    pub fn matching_within(
        &self,
        filter: &Filter,
        scope: Scope,
        (first, last): (RowKey, RowKey),
    ) -> anyhow::Result<Vec<MessageRow>> {
        let page: Page<RowKey> = Page::first(usize::MAX);
        self.matching_between(filter, scope, List::Slice, (first.0, last.0), (page.order, page.limit()))
    }

    fn matching_between(
        &self,
        filter: &Filter,
        scope: Scope,
        list: List,
        (first, last): (i64, i64),
        (order, limit): (SortOrder, i64),
    ) -> anyhow::Result<Vec<MessageRow>> {
        let candidates = self.candidates.candidates(&self.db, filter)?;
        let Some(candidates) = candidates else {
            return self.select_matching(filter, scope, list, (first, last), (order, limit), None);
        };
        if list == List::Positions {
            let keys = match scope {
                Scope::Session(session) => self.number_range(session)?,
                Scope::Capture(_) | Scope::All => None,
            };
            let keys = keys.map_or(ALL, |(first, last)| (first.0, last.0));
            let keys: Vec<u8> = inside(&candidates, keys)
                .flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()].concat())
                .collect();
            return self.select_matching(filter, scope, list, (first, last), (order, limit), Some(keys));
        }
        let mut found = Vec::new();
        let ranges = inside(&candidates, (first, last));
        let mut ranges: Box<dyn Iterator<Item = (i64, i64)>> = match order {
            SortOrder::Forward => Box::new(ranges),
            SortOrder::Backward => Box::new(ranges.rev()),
        };
        while let Some(range) = ranges.next().filter(|_| (found.len() as i64) < limit) {
            let left = limit - found.len() as i64;
            found.extend(self.select_matching(filter, scope, list, range, (order, left), None)?);
        }
        Ok(found)
    }

    /// The matching rows of a range. `keys`: only those with a key in these ranges, see
    /// [`functions::WITHIN`].
    fn select_matching(
        &self,
        filter: &Filter,
        scope: Scope,
        list: List,
        (first, last): (i64, i64),
        (order, limit): (SortOrder, i64),
        keys: Option<Vec<u8>>,
    ) -> anyhow::Result<Vec<MessageRow>> {
        let (column, scope) = match scope {
            Scope::All => ("?1", 1),
            Scope::Capture(capture) => ("capture", i64::from(capture.0)),
            Scope::Session(session) => ("session", i64::from(session.0)),
        };
        // The plus keeps SQLite from using the index on the session if a range of keys is given.
        // Otherwise it would read the whole session for every slice.
        let plus = if list == List::Slice { "+" } else { "" };
        let by = if list == List::Positions { "position" } else { "id" };
        let condition = Condition::new(filter, 5);
        let mut parameters = condition.parameters;
        let mut which = format!("{by} BETWEEN ?2 AND ?3");
        // A slice is read completely, so its texts are read first, in the order in which they are
        // stored. Without a slice only a page is needed.
        if list == List::Slice
            && let Some(text) = Condition::of_text(filter, 5 + parameters.len())
        {
            which = format!("id IN (SELECT id FROM message_text WHERE id BETWEEN ?2 AND ?3 AND {})", text.sql);
            parameters.extend(text.parameters);
        }
        if let Some(keys) = keys {
            which = format!("{which} AND {WITHIN}(id, ?{})", 5 + parameters.len());
            parameters.push(Value::Blob(keys));
        }
        let sql = format!(
            "SELECT {} FROM message WHERE {plus}{column} = ?1 AND {which}
             AND session NOT IN {HIDDEN} AND ({}) ORDER BY {by} {} LIMIT ?4",
            message::COLUMNS,
            condition.sql,
            order.sql(),
        );
        let own = [scope, first, last, limit].map(Value::Integer);
        self.select(&sql, params_from_iter(own.into_iter().chain(parameters)), message::read)
    }
}

/// The list that a range belongs to.
#[derive(Clone, Copy, PartialEq)]
enum List {
    /// Positions of a session.
    Positions,
    /// Keys, of which a page is read.
    Keys,
    /// Keys, and the range is read completely.
    Slice,
}
