//! Whole lists as iterators, which hold one page at a time.

use anyhow::Result;

use super::page::{Page, Scope};
use super::record::finding::FindingRow;
use super::record::message::MessageRow;
use super::{CaptureId, Damaged, RowKey, StoreReader};
use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::event::Connection;
use crate::filter::Filter;
use crate::mcp::{Message, Session, SessionNumber};

/// The number of rows read at once.
const PAGE: usize = 1_000;

/// The number of matching rows read first.
const SCREEN: usize = 60;

impl StoreReader {
    /// All sessions, by number.
    pub fn all_sessions(&self) -> impl Iterator<Item = Result<Session>> {
        self.sessions_from(SessionNumber(0))
    }

    /// The sessions from this number on, by number.
    pub fn sessions_from(&self, first: SessionNumber) -> impl Iterator<Item = Result<Session>> {
        let behind = |_, session: &Session| SessionNumber(session.number.0.saturating_add(1));
        rows(Some(first), |from| self.sessions(page_from(from)), behind)
    }

    /// The HTTP exchanges of a session, with and without messages, by number.
    pub fn all_exchanges(&self, session: SessionNumber) -> impl Iterator<Item = Result<Exchange>> {
        by_key(move |page| self.exchanges(session, page), |exchange| ExchangeNumber(exchange.number.0 + 1))
    }

    /// The connections of a session, by number.
    pub fn all_connections(&self, session: SessionNumber) -> impl Iterator<Item = Result<Connection>> {
        by_key(move |page| self.connections(session, page), |connection| ConnectionId(connection.id.0 + 1))
    }

    /// Findings, in the order in which they were made.
    pub fn all_findings(&self, scope: Scope) -> impl Iterator<Item = Result<FindingRow>> {
        by_key(move |page| self.findings(scope, page), |finding| finding.number + 1)
    }

    /// Findings from this number on, in the order in which they were made.
    pub fn findings_from(&self, scope: Scope, number: u64) -> impl Iterator<Item = Result<FindingRow>> {
        rows(Some(number), move |from| self.findings(scope, page_from(from)), |_, finding| finding.number + 1)
    }

    /// The messages that match a filter, without their text, in order of number. Those of a session
    /// are in order of position.
    pub fn all_matching(&self, filter: &Filter, scope: Scope) -> impl Iterator<Item = Result<MessageRow>> {
        // A screen first. The rest may take longer.
        let limit = |from: Option<i64>| if from.is_none() { SCREEN } else { PAGE };
        let read = move |from: Option<i64>| match scope {
            Scope::Session(session) => self.matching_at(filter, session, from.unwrap_or(1), limit(from)),
            Scope::All | Scope::Capture(_) => {
                let page = Page { limit: limit(from), ..page_from(from.map(RowKey)) };
                self.matching(filter, scope, page)
            }
        };
        rows(None, read, move |_, row| match scope {
            Scope::Session(_) => row.position as i64 + 1,
            Scope::All | Scope::Capture(_) => row.key().next().0,
        })
    }

    /// The messages of a session, in order of time once the capture has ended.
    pub fn session_messages(
        &self,
        session: SessionNumber,
        filter: Option<&Filter>,
    ) -> impl Iterator<Item = Result<Message>> {
        // Without a filter the positions of a page have no holes.
        let all =
            rows(None, move |from| self.messages_at(session, from.unwrap_or(1), PAGE), |from, _| from.unwrap_or(1) + 1);
        let matching = filter.map(|filter| self.all_matching(filter, Scope::Session(session)));
        let matching =
            matching.map(|rows| rows.filter_map(|row| row.and_then(|row| self.message(row.key())).transpose()));
        let (mut all, mut matching, mut last) = (all, matching, None);
        std::iter::from_fn(move || {
            let next = match &mut matching {
                Some(matching) => matching.next(),
                None => all.next(),
            }?;
            // In a damaged file positions may have holes. Then a page repeats the last message.
            Some(next.and_then(|message| match last.replace(message.number) == Some(message.number) {
                true => Err(Damaged("the order of a list").into()),
                false => Ok(message),
            }))
        })
    }

    /// The messages of a capture that match the filter, in order of time, then number.
    pub fn capture_messages(
        &self,
        capture: CaptureId,
        filter: Option<&Filter>,
    ) -> Result<impl Iterator<Item = Result<Message>>> {
        let keys = match filter {
            None => self.keys_by_time(capture)?,
            Some(filter) => {
                let rows = self.all_matching(filter, Scope::Capture(capture));
                let mut found = rows.map(|row| row.map(|row| (row.time, row.key()))).collect::<Result<Vec<_>>>()?;
                found.sort_unstable();
                found.into_iter().map(|(_, key)| key).collect()
            }
        };
        Ok(self.with_keys(keys))
    }

    /// The messages of a session in order of number: a response follows its request, even if their
    /// times say otherwise.
    pub fn numbered_messages(&self, session: SessionNumber) -> Result<impl Iterator<Item = Result<Message>>> {
        Ok(self.with_keys(self.keys(session)?))
    }

    /// Messages of a session that were written after the message `after`, in order of number.
    pub fn new_messages(
        &self,
        session: SessionNumber,
        filter: Option<&Filter>,
        after: RowKey,
    ) -> impl Iterator<Item = Result<Message>> {
        let behind = move |_: Option<i64>, message: &Message| RowKey::new(after.capture(), message.number.0).next().0;
        let arrivals =
            rows(Some(after.next().0), move |from| self.arrivals(session, from.map_or(after, RowKey), PAGE), behind);
        let is_wanted = move |message: &Message| match filter {
            Some(filter) => {
                let key = RowKey::new(after.capture(), message.number.0);
                self.matching_within(filter, Scope::Session(session), (key, key)).map(|found| !found.is_empty())
            }
            None => Ok(true),
        };
        arrivals.filter_map(move |message| match message.and_then(|message| Ok((is_wanted(&message)?, message))) {
            Ok((is_wanted, message)) => is_wanted.then_some(Ok(message)),
            Err(error) => Some(Err(error)),
        })
    }

    /// The messages of a session in order of number, without their packets, for code that goes
    /// through all of them.
    pub fn whole_conversation(&self, session: &Session) -> impl Iterator<Item = Result<Message>> {
        let keys = self.keys(session.number);
        let (keys, error) = match keys {
            Ok(keys) => (keys, None),
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        let read = |key| self.conversation_message(session, key).transpose();
        error.into_iter().chain(keys.into_iter().filter_map(read))
    }

    fn with_keys(&self, keys: Vec<RowKey>) -> impl Iterator<Item = Result<Message>> {
        keys.into_iter().filter_map(|key| self.message(key).transpose())
    }
}

fn page_from<K>(from: Option<K>) -> Page<K> {
    Page { from, ..Page::first(PAGE) }
}

/// Iterates over a list with keys. `behind` gives the key that follows a row.
fn by_key<K: Copy + PartialOrd, T>(
    read: impl Fn(Page<K>) -> Result<Vec<T>>,
    behind: impl Fn(&T) -> K,
) -> impl Iterator<Item = Result<T>> {
    rows(None, move |from| read(page_from(from)), move |_, row| behind(row))
}

/// Iterates over a list from `from` on. `read` reads a page, and `behind` gives the place that
/// follows a row, from the place that followed the row before. In a damaged file a page may not
/// lead to the next one. That is an error.
pub(super) fn rows<K: Copy + PartialOrd, T>(
    mut from: Option<K>,
    read: impl Fn(Option<K>) -> Result<Vec<T>>,
    behind: impl Fn(Option<K>, &T) -> K,
) -> impl Iterator<Item = Result<T>> {
    let mut page = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if page.as_slice().is_empty() {
            match read(from) {
                Ok(rows) => {
                    let next = rows.iter().fold(from, |from, row| Some(behind(from, row)));
                    if !rows.is_empty() && from.is_some() && next <= from {
                        return Some(Err(Damaged("the order of a list").into()));
                    }
                    from = next;
                    page = rows.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
        page.next().map(Ok)
    })
}
