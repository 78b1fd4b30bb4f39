//! Pages of messages. Any window of a list, however long, is a few index steps away: nothing
//! here uses OFFSET.

use std::collections::HashMap;

use anyhow::ensure;
use rusqlite::{OptionalExtension, Row, params};

use super::codec::{Code, Damaged};
use super::maintenance::HIDDEN;
use super::page::{ALL, PAGE_BYTES, PAGE_ROWS, Page, Scope, SortOrder};
use super::read::StoreReader;
use super::record::Columns;
use super::record::message::{self, MessageRow};
use super::text::Text;
use super::{CaptureId, RowKey};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::Kind;
use crate::findings;
use crate::mcp::link::Why;
use crate::mcp::{Message, MessageNumber, SessionNumber};

/// The number of messages of one kind and method in a session, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodCount {
    /// Request, response, notification and so on.
    pub kind: Kind,
    /// The method; for a response that of its request.
    pub method: Option<String>,
    /// The number of such messages.
    pub count: u64,
    /// The first such message.
    pub first: MessageNumber,
}

/// The first message of an operation, and the number of messages linked to it for each reason.
pub type OperationLinks = (MessageNumber, Vec<(Why, u64)>);

/// The text of a message, as a column after those of [`message::COLUMNS`].
const TEXT: &str = ", (SELECT text FROM message_text AS t WHERE t.id = message.id)";

impl StoreReader {
    /// Counts the messages of a session by kind and method.
    pub fn method_counts(&self, session: SessionNumber) -> anyhow::Result<Vec<MethodCount>> {
        // Grouped here, because SQLite would sort all messages of the session for it.
        let mut counts: HashMap<Vec<u8>, MethodCount> = HashMap::new();
        let mut select = self.db.prepare_cached("SELECT kind, method, id FROM message WHERE session = ?")?;
        let mut rows = select.query([session.0])?;
        let mut group = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: i64 = row.get(0)?;
            let method = row.get_ref(1)?.as_bytes_or_null()?;
            group.clear();
            group.extend(kind.to_le_bytes());
            group.push(u8::from(method.is_some()));
            group.extend(method.unwrap_or_default());
            let number = MessageNumber(RowKey(row.get(2)?).number());
            match counts.get_mut(&group) {
                Some(count) => (count.count, count.first) = (count.count + 1, count.first.min(number)),
                None => {
                    let (kind, method) = (Kind::from_code(kind)?, row.get(1)?);
                    counts.insert(group.clone(), MethodCount { kind, method, count: 1, first: number });
                }
            }
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by_key(|count| count.first);
        Ok(counts)
    }

    /// The first `limit` messages of a session that asked for input which a later message supplied
    /// (2026-07-28 basic/patterns/mrtr), in order.
    pub fn messages_asking_for_input(
        &self,
        session: SessionNumber,
        limit: usize,
    ) -> anyhow::Result<Vec<MessageNumber>> {
        self.select(
            "SELECT DISTINCT previous FROM link JOIN message ON message.id = link.message
             WHERE message.session = ? AND why IN (?, ?) ORDER BY previous LIMIT ?",
            params![session.0, Why::RequestState.code(), Why::InputResponses.code(), limit.min(PAGE_ROWS) as i64],
            |row| Ok(MessageNumber(Columns::new(row).key()?.number())),
        )
    }

    /// The first `limit` operations of a session: the first message of each, and the number of
    /// messages linked to it for each reason.
    pub fn operations(
        &self,
        capture: CaptureId,
        session: SessionNumber,
        limit: usize,
    ) -> anyhow::Result<Vec<OperationLinks>> {
        let mut select = self.db.prepare_cached(
            "SELECT link.operation, link.why FROM link JOIN message ON message.id = link.operation
             WHERE link.operation BETWEEN ? AND ? AND message.session = ? ORDER BY link.operation",
        )?;
        let (first, last) = RowKey::all(capture);
        let mut rows = select.query(params![first, last, session.0])?;
        let mut operations: Vec<OperationLinks> = Vec::new();
        while let Some(row) = rows.next()? {
            let mut columns = Columns::new(row);
            let (operation, why) = (MessageNumber(columns.key()?.number()), columns.code::<Why>()?);
            if operations.last().is_none_or(|(last, _)| *last != operation) {
                if operations.len() >= limit {
                    break;
                }
                operations.push((operation, Vec::new()));
            }
            let Some((_, links)) = operations.last_mut() else { break };
            match links.iter_mut().find(|(known, _)| *known == why) {
                Some((_, times)) => *times += 1,
                None => links.push((why, 1)),
            }
        }
        Ok(operations)
    }

    /// Messages without their text. Those of a session are in order of time once the capture has
    /// ended, all others in order of number.
    pub fn message_rows(&self, scope: Scope, page: Page<RowKey>) -> anyhow::Result<Vec<MessageRow>> {
        self.read_run(&self.run(scope, page)?, "", message::read, |_| 0)
    }

    /// Messages with their text. The page ends early after 16 MiB of text, so only an empty page is
    /// the end of the list.
    pub fn messages(&self, scope: Scope, page: Page<RowKey>) -> anyhow::Result<Vec<Message>> {
        self.read_texts(&self.run(scope, page)?)
    }

    /// Rows `position`, `position + 1` … of a session (from 1), without their text, for a list
    /// that is scrolled. While the capture is recorded, they are in order of arrival, later in
    /// order of time. Positions grow from row to row. In a damaged file they may not, and who reads
    /// on from the last row would never end: that is an error.
    pub fn message_rows_at(
        &self,
        session: SessionNumber,
        position: u64,
        limit: usize,
    ) -> anyhow::Result<Vec<MessageRow>> {
        let Ok(first) = i64::try_from(position) else { return Ok(Vec::new()) };
        let run = MessageRun::positions(session, (first, i64::MAX), limit);
        let rows = self.read_run(&run, "", message::read, |_| 0)?;
        let is_ordered = rows.is_sorted_by(|one, next| one.position < next.position);
        ensure!(is_ordered && rows.first().is_none_or(|row| row.position >= position), Damaged("the order of a list"));
        Ok(rows)
    }

    /// The position of the message with this number in a session. If there is none, that of the
    /// message with the next larger number; then the number of messages plus one.
    pub fn message_position(&self, session: SessionNumber, number: MessageNumber) -> anyhow::Result<u64> {
        let Some(capture) = self.capture_of(session)? else { return Ok(1) };
        let position = self.position_for(session, RowKey::new(capture, number.0), SortOrder::Forward)?;
        Ok(position as u64)
    }

    /// Passes to `take` the exchange that carried each message of a capture, in order of message.
    pub fn visit_carriers(
        &self,
        capture: CaptureId,
        mut take: impl FnMut(ExchangeNumber, MessageNumber),
    ) -> anyhow::Result<()> {
        let (first, last) = RowKey::all(capture);
        let mut select = self.db.prepare_cached(
            "SELECT exchange, id FROM message WHERE id BETWEEN ? AND ? AND exchange IS NOT NULL ORDER BY id",
        )?;
        let mut rows = select.query(params![first, last])?;
        while let Some(row) = rows.next()? {
            let mut columns = Columns::new(row);
            take(ExchangeNumber(columns.u64()?), MessageNumber(columns.key()?.number()));
        }
        Ok(())
    }

    /// Messages of a session at these positions, with their text. The page ends early after 16 MiB
    /// of text, so only an empty page is the end of the list.
    pub(super) fn messages_at(
        &self,
        session: SessionNumber,
        position: i64,
        limit: usize,
    ) -> anyhow::Result<Vec<Message>> {
        self.read_texts(&MessageRun::positions(session, (position, i64::MAX), limit))
    }

    /// The smallest and the largest message number of a session.
    pub fn number_range(&self, session: SessionNumber) -> anyhow::Result<Option<(RowKey, RowKey)>> {
        let mut select = self.db.prepare_cached("SELECT min(id), max(id) FROM message WHERE session = ?")?;
        let range: (Option<i64>, Option<i64>) = select.query_row([session.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(range.0.map(RowKey).zip(range.1.map(RowKey)))
    }

    /// The keys of messages of a session in order of their numbers. Nothing is sorted by time: a
    /// response follows its request.
    pub(super) fn keys(&self, session: SessionNumber) -> anyhow::Result<Vec<RowKey>> {
        self.select("SELECT id FROM message WHERE session = ? ORDER BY id", [session.0], |row| Ok(RowKey(row.get(0)?)))
    }

    /// The keys of a capture's messages in order of time, then number.
    pub(super) fn keys_by_time(&self, capture: CaptureId) -> anyhow::Result<Vec<RowKey>> {
        let (first, last) = RowKey::all(capture);
        let sql = "SELECT id FROM message WHERE id BETWEEN ? AND ? AND session NOT IN (SELECT id FROM session WHERE deleting) ORDER BY time, id";
        self.select(sql, [first, last], |row| Ok(RowKey(row.get(0)?)))
    }

    /// Messages of a session with keys from `first` on, in order of arrival, with their text. Only
    /// the messages of the capture from that key on are looked at. An empty page is the end.
    pub(super) fn arrivals(&self, session: SessionNumber, first: RowKey, limit: usize) -> anyhow::Result<Vec<Message>> {
        let (_, last) = RowKey::all(first.capture());
        let of_session = MessageRun::positions(session, (first.0, last), limit);
        self.read_texts(&MessageRun { by: "id", which: "+session = ?4 AND id".to_owned(), ..of_session })
    }

    /// The number of messages in a part of the database.
    pub fn message_count(&self, scope: Scope) -> anyhow::Result<u64> {
        // Positions have no holes, so the last position of a session is its number of messages.
        let (which, value) = match scope {
            Scope::All => ("?1 IS NOT NULL", 0),
            Scope::Capture(capture) => ("capture = ?1", capture.0),
            Scope::Session(session) => ("id = ?1", session.0),
        };
        let last = "SELECT max(position) FROM message WHERE message.session = session.id";
        let sql = format!("SELECT coalesce(sum(({last})), 0) FROM session WHERE {which} AND NOT deleting");
        let count: i64 = self.db.prepare_cached(&sql)?.query_row([value], |row| row.get(0))?;
        Ok(count as u64)
    }

    /// The message with this key, without its text.
    pub fn message_row(&self, key: RowKey) -> anyhow::Result<Option<MessageRow>> {
        let row = self.message_rows(Scope::Capture(key.capture()), Page::from(key, 1))?.pop();
        Ok(row.filter(|row| row.key() == key))
    }

    /// The message with this key, with its text.
    pub fn message(&self, key: RowKey) -> anyhow::Result<Option<Message>> {
        let message = self.messages(Scope::Capture(key.capture()), Page::from(key, 1))?.pop();
        Ok(message.filter(|message| message.number.0 == key.number()))
    }

    /// The message of a session with this number, with its text.
    pub fn message_of(&self, session: SessionNumber, number: MessageNumber) -> anyhow::Result<Option<Message>> {
        let Some(capture) = self.capture_of(session)? else { return Ok(None) };
        let message = self.message(RowKey::new(capture, number.0))?;
        Ok(message.filter(|message| message.session == session))
    }

    /// The run of messages that is a page of a part of the database.
    fn run(&self, scope: Scope, page: Page<RowKey>) -> anyhow::Result<MessageRun> {
        let keys = match scope {
            Scope::Session(session) => {
                let range = self.positions_of(session, &page)?;
                return Ok(MessageRun { order: page.order, ..MessageRun::positions(session, range, page.limit) });
            }
            Scope::Capture(capture) => RowKey::all(capture),
            Scope::All => ALL,
        };
        // Parameter 4 stands here too, because SQLite refuses one that a statement does not have.
        let (which, range) = (format!("?4 IS NULL AND session NOT IN {HIDDEN} AND id"), page.range(keys, |key| key.0));
        Ok(MessageRun { by: "id", which, session: None, range, order: page.order, limit: page.limit })
    }

    /// The first and the last position of a page of a session.
    pub(super) fn positions_of(&self, session: SessionNumber, page: &Page<RowKey>) -> anyhow::Result<(i64, i64)> {
        let from = page.from.map(|key| self.position_for(session, key, page.order)).transpose()?;
        Ok(Page { from, order: page.order, limit: 0 }.range((1, i64::MAX), |position| *position))
    }

    /// The position at which a page of a session begins: that of the message `key`. If there is no
    /// such message, that of the next one by number, forward or backward.
    fn position_for(&self, session: SessionNumber, key: RowKey, order: SortOrder) -> anyhow::Result<i64> {
        // The plus keeps SQLite from reading the whole session to sort it.
        let (first, last) = RowKey::all(key.capture());
        let next = format!(
            "SELECT position FROM message WHERE +session = ? AND id BETWEEN ? AND ? ORDER BY id {} LIMIT 1",
            order.sql()
        );
        let (from, to) = if order == SortOrder::Forward { (key.0, last) } else { (first, key.0) };
        let found =
            self.db.prepare_cached(&next)?.query_row(params![session.0, from, to], |row| row.get(0)).optional()?;
        Ok(match (found, order) {
            (Some(position), _) => position,
            (None, SortOrder::Forward) => self.message_count(Scope::Session(session))? as i64 + 1,
            (None, SortOrder::Backward) => 0,
        })
    }

    /// Reads messages with their texts.
    fn read_texts(&self, run: &MessageRun) -> anyhow::Result<Vec<Message>> {
        self.read_run(run, TEXT, |row| self.read_message(row), |message| message.raw.len())
    }

    /// Reads the rows of a run, until the sizes of what they contain are [`PAGE_BYTES`] together.
    fn read_run<T>(
        &self,
        run: &MessageRun,
        more_columns: &str,
        read: impl Fn(&Row<'_>) -> anyhow::Result<T>,
        size: impl Fn(&T) -> usize,
    ) -> anyhow::Result<Vec<T>> {
        let MessageRun { by, which, session, range: (first, last), order, limit } = run;
        let (columns, order) = (message::COLUMNS, order.sql());
        let sql = format!(
            "SELECT {columns}{more_columns} FROM message WHERE {which} BETWEEN ?1 AND ?2 ORDER BY {by} {order} LIMIT ?3"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![first, last, (*limit).min(PAGE_ROWS) as i64, session])?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(row) = rows.next()?
        {
            let one = read(row)?;
            bytes += size(&one);
            found.push(one);
        }
        Ok(found)
    }

    /// The message of a row that has its text after the columns of [`message::COLUMNS`].
    fn read_message(&self, row: &Row<'_>) -> anyhow::Result<Message> {
        let small = message::read(row)?;
        let text = Text::read(row.get_ref(message::WIDTH)?)?;
        let mut rules = Vec::new();
        if small.findings > 0 {
            for finding in self.message_findings(small.key())? {
                // A rule that only another version knows is reported by its `FindingRow`.
                if let Some(rule) = findings::rule(&finding.rule).filter(|rule| !rules.contains(&rule.id)) {
                    rules.push(rule.id);
                }
            }
        }
        Ok(small.with_text(text, rules, &self.limits))
    }
}

/// A run of messages in a list: positions of a session, or keys.
struct MessageRun {
    /// The column that orders the list.
    by: &'static str,
    /// The condition up to the range of that column. Parameter 4 is the session.
    which: String,
    session: Option<u32>,
    /// The first and the last value of the column.
    range: (i64, i64),
    order: SortOrder,
    limit: usize,
}

impl MessageRun {
    fn positions(session: SessionNumber, range: (i64, i64), limit: usize) -> MessageRun {
        let (by, which) = ("position", "session = ?4 AND position".to_owned());
        MessageRun { by, which, session: Some(session.0), range, order: SortOrder::Forward, limit }
    }
}
