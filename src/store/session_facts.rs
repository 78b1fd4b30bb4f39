//! Facts that explain a session. An index or the row of the session has them, so a session of a
//! million messages takes no longer than a short one. A function that reads all messages says so.

use std::collections::BTreeSet;

use anyhow::Result;
use rusqlite::{OptionalExtension, params};

use super::StoreReader;
use super::iterators::rows;
use super::page::Scope;
use super::record::finding::{self, FindingRow};
use super::record::message;
use super::record::note::NoteRow;
use crate::capture::Time;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// Notes that are read at once.
const PAGE: usize = 1_000;

/// The request whose response took longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowestRequest {
    /// Nanoseconds between request and response.
    pub latency: i64,
    /// The number of the request.
    pub request: MessageNumber,
}

impl StoreReader {
    /// The request for whose response the client waited longest.
    pub fn slowest_request(&self, session: &Session) -> Result<Option<SlowestRequest>> {
        let read = |row: &rusqlite::Row<'_>| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?));
        let stored = "SELECT slowest, slowest_request FROM session WHERE id = ? AND latencies IS NOT NULL";
        // An earlier version wrote the session.
        let computed =
            "SELECT latency, answers FROM message WHERE session = ? AND direction = 1 AND answers IS NOT NULL
            ORDER BY latency DESC, id LIMIT 1";
        let mut found = self.db.prepare_cached(stored)?.query_row([session.number.0], read).optional()?;
        if found.is_none() {
            found = self.db.prepare_cached(computed)?.query_row([session.number.0], read).optional()?;
        }
        let slowest =
            |(latency, request): (i64, i64)| SlowestRequest { latency, request: MessageNumber(request as u64) };
        Ok(found.flatten().map(slowest))
    }

    /// The number of calls of tools.
    pub fn tool_calls(&self, session: SessionNumber) -> Result<u64> {
        let stored: Option<i64> = self
            .db
            .prepare_cached("SELECT tool_calls FROM session WHERE id = ?")?
            .query_row([session.0], |row| row.get(0))
            .optional()?
            .flatten();
        let computed = "SELECT count(*) FROM message
            WHERE session = ? AND kind = 0 AND direction = 0 AND method = 'tools/call'";
        Ok(match stored {
            Some(calls) => calls,
            None => self.db.prepare_cached(computed)?.query_row([session.0], |row| row.get(0))?,
        } as u64)
    }

    /// Whether the client called this tool.
    pub fn was_called(&self, session: SessionNumber, tool: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM message
            WHERE session = ? AND kind = 0 AND direction = 0 AND method = 'tools/call' AND subject = ?)";
        Ok(self.db.prepare_cached(sql)?.query_row(params![session.0, tool], |row| row.get(0))?)
    }

    /// The tools that the client called, each once, and at most `limit` of them.
    /// It reads all messages of the session.
    pub fn called_tools(&self, session: SessionNumber, limit: usize) -> Result<BTreeSet<String>> {
        let sql = "SELECT DISTINCT subject FROM message WHERE session = ? AND kind = 0 AND direction = 0
            AND method = 'tools/call' AND subject IS NOT NULL LIMIT ?";
        let mut statement = self.db.prepare_cached(sql)?;
        let tools = statement.query_map(params![session.0, limit as i64], |row| row.get(0))?;
        Ok(tools.collect::<Result<_, _>>()?)
    }

    /// The time of the server's last response that reports no failure.
    pub fn last_success(&self, session: SessionNumber) -> Result<Option<Time>> {
        let sql = "SELECT time FROM message WHERE session = ? AND kind IN (2, 3) AND direction = 1
            AND status NOT IN (2, 3) ORDER BY position DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row([session.0], |row| row.get(0).map(Time)).optional()?)
    }

    /// The number of the server's responses that report a failure, and the first `limit` of them.
    pub fn failures(&self, session: SessionNumber, limit: usize) -> Result<(u64, Vec<Message>)> {
        const FAILED: &str = "session = ? AND direction = 1 AND kind IN (2, 3) AND status IN (2, 3)";
        let count = format!("SELECT count(*) FROM message WHERE {FAILED}");
        let count: i64 = self.db.prepare_cached(&count)?.query_row([session.0], |row| row.get(0))?;
        Ok((count as u64, self.messages_where(&format!("{FAILED} ORDER BY position LIMIT ?"), session, limit)?))
    }

    /// The first `limit` messages in which the server describes itself: the responses to
    /// `initialize`, `server/discover` and `tools/list`.
    pub fn listings(&self, session: SessionNumber, limit: usize) -> Result<Vec<Message>> {
        let sql = "session = ? AND kind = 2 AND method IN ('initialize', 'server/discover', 'tools/list')
            AND direction = 1 ORDER BY position LIMIT ?";
        self.messages_where(sql, session, limit)
    }

    fn messages_where(&self, which: &str, session: SessionNumber, limit: usize) -> Result<Vec<Message>> {
        let sql = format!("SELECT {} FROM message WHERE {which}", message::COLUMNS);
        let rows = self.select(&sql, params![session.0, limit as i64], message::read)?;
        rows.iter().filter_map(|row| self.message(row.key()).transpose()).collect()
    }

    /// The first `limit` findings of these rules that are in the capture of a session and belong to
    /// none of its sessions.
    pub fn unplaced_findings(&self, session: SessionNumber, rules: &[&str], limit: usize) -> Result<Vec<FindingRow>> {
        let Some(capture) = self.capture_of(session)? else { return Ok(Vec::new()) };
        let columns = finding::COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM finding JOIN rule ON rule.id = finding.rule
             WHERE capture = ?1 AND session IS NULL AND rule IN (SELECT value FROM json_each(?2)) ORDER BY finding.id LIMIT ?3"
        );
        self.select(&sql, params![capture.0, serde_json::to_string(rules)?, limit as i64], finding::read)
    }

    /// The notes of a session, in order of time.
    pub fn all_notes(&self, session: SessionNumber) -> impl Iterator<Item = Result<NoteRow>> {
        let read = move |after: Option<(Time, u64)>| self.notes(Scope::Session(session), after, PAGE);
        rows(None, read, |_, row: &NoteRow| (row.note.time, row.number))
    }
}
