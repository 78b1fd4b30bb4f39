//! Whole lists as iterators, which hold one page at a time.

use anyhow::Result;

use super::page::{Page, Scope};
use super::record::finding::FindingRow;
use super::record::message::MessageRow;
use super::{CaptureId, Damaged, RowKey, StoreReader};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::filter::Filter;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// The number of rows read at once.
const PAGE: usize = 1_000;

impl StoreReader {
    /// All sessions, by number.
    pub fn all_sessions(&self) -> impl Iterator<Item = Result<Session>> {
        rows(None, |page| self.sessions(page), |session| SessionNumber(session.number.0.saturating_add(1)))
    }

    /// The HTTP exchanges of a session, by number.
    pub fn all_exchanges(&self, session: SessionNumber) -> impl Iterator<Item = Result<Exchange>> {
        rows(None, move |page| self.exchanges(session, page), |exchange| ExchangeNumber(exchange.number.0 + 1))
    }

    /// Findings, in the order in which they were made.
    pub fn all_findings(&self, scope: Scope) -> impl Iterator<Item = Result<FindingRow>> {
        rows(None, move |page| self.findings(scope, page), |finding| finding.number + 1)
    }

    /// The messages that match a filter, without their text.
    pub fn all_matching(&self, filter: &Filter, scope: Scope) -> impl Iterator<Item = Result<MessageRow>> {
        rows(None, move |page| self.matching(filter, scope, page), |row| row.key().next())
    }

    /// The messages after `after` that match the filter, in this capture or in a session of it.
    pub fn all_messages(
        &self,
        capture: CaptureId,
        scope: Scope,
        filter: Option<&Filter>,
        after: Option<RowKey>,
    ) -> impl Iterator<Item = Result<Message>> {
        let read = move |page| match filter {
            None => self.messages(scope, page),
            Some(filter) => {
                let rows = self.matching(filter, scope, page)?;
                rows.iter().filter_map(|row| self.message(row.key()).transpose()).collect()
            }
        };
        rows(after.map(RowKey::next), read, move |message| RowKey::new(capture, message.number.0).next())
    }

    /// The messages of a session, read by [`StoreReader::conversation`].
    pub fn whole_conversation(&self, session: &Session) -> impl Iterator<Item = Result<Message>> {
        rows(None, |page| self.conversation(session, None, page), |message| MessageNumber(message.number.0 + 1))
    }
}

/// Iterates over a list from `from` on. `read` reads a page, and `behind` gives the key that
/// follows a row. In a damaged file a page may not lead to the next one. That is an error.
fn rows<K: Copy + PartialOrd, T>(
    mut from: Option<K>,
    read: impl Fn(Page<K>) -> Result<Vec<T>>,
    behind: impl Fn(&T) -> K,
) -> impl Iterator<Item = Result<T>> {
    let mut page = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if page.as_slice().is_empty() {
            match read(Page { from, ..Page::first(PAGE) }) {
                Ok(rows) => {
                    let next = rows.last().map(&behind);
                    if next.is_some_and(|next| from.is_some_and(|from| next <= from)) {
                        return Some(Err(Damaged("the order of a list").into()));
                    }
                    from = next.or(from);
                    page = rows.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
        page.next().map(Ok)
    })
}
