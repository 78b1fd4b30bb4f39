//! Sessions with the facts of their recordings, as lists show them. A row costs a few index steps,
//! however many messages and findings the session has.

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::codec::{Code, Damaged};
use super::filter::condition::Condition;
use super::page::{ALL, Page};
use super::record::capture::Capture;
use super::record::figures::LatencyHistogram;
use super::record::{Columns, session};
use super::{CaptureId, CaptureKind, StoreReader};
use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::filter::Filter;
use crate::mcp::{Session, SessionNumber};

/// A session, and the facts of its recording.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSession {
    /// The session, with its number in the database.
    pub session: Session,
    /// The capture that it belongs to, which several sessions may share.
    pub capture: Arc<Capture>,
    /// Numbers of its findings: info, warning, error.
    pub findings: [u64; 3],
    /// No deletion removes it.
    pub is_pinned: bool,
    /// Median and 95th percentile of the latency in nanoseconds, exact to 2 percent. For a session
    /// of an earlier version: of its first 4,096 messages.
    pub latency: Option<(i64, i64)>,
}

impl ListedSession {
    /// Whether the capture is still being written and the server has not ended.
    pub fn is_live(&self, now: Time) -> bool {
        self.session.exit.is_none() && self.capture.is_live(now)
    }
}

/// Messages of a session, the first ones, from which its latency is computed if its row has none.
const SAMPLE: i64 = 4_096;

/// Columns behind those of a session.
const FACTS: &str = "infos, warnings, severe, pinned, latencies";

impl StoreReader {
    /// A page of the sessions with the facts of their recordings, by number. With a filter: only
    /// sessions with a message that matches it.
    pub fn listed_sessions(
        &self,
        filter: Option<&Filter>,
        page: Page<SessionNumber>,
    ) -> anyhow::Result<Vec<ListedSession>> {
        let (first, last) = page.range(ALL, |number| number.0.into());
        let condition = filter.map(|filter| Condition::new(filter, 4));
        let matches = condition.as_ref().map_or_else(String::new, |condition| {
            format!("AND EXISTS (SELECT 1 FROM message WHERE message.session = session.id AND ({}))", condition.sql)
        });
        let (columns, order) = (session::COLUMNS, page.order.sql());
        let sql = format!(
            "SELECT {FACTS}, {columns} FROM session WHERE id BETWEEN ?1 AND ?2 AND NOT deleting {matches} ORDER BY id {order} LIMIT ?3"
        );
        let parameters = [first, last, page.limit()].map(Value::Integer);
        let parameters = parameters.into_iter().chain(condition.into_iter().flat_map(|condition| condition.parameters));
        let rows = self.select(&sql, params_from_iter(parameters), |row| {
            let mut columns = Columns::new(row);
            let findings = [columns.u64()?, columns.u64()?, columns.u64()?];
            let is_pinned: bool = columns.get()?;
            let latencies: Option<Vec<u8>> = columns.get()?;
            let (capture, session) = session::read_from(&mut columns)?;
            let latencies = match latencies {
                Some(latencies) => LatencyHistogram::read(&latencies)?,
                None => self.sampled_latencies(session.number)?,
            };
            let latency = latencies.percentile(50).zip(latencies.percentile(95));
            Ok((capture, session, findings, is_pinned, latency))
        })?;
        let mut last: Option<Arc<Capture>> = None;
        let mut listed = Vec::with_capacity(rows.len());
        for (id, mut session, findings, is_pinned, latency) in rows {
            let capture = match last.take() {
                Some(capture) if capture.id == id => capture,
                _ => Arc::new(self.capture(id)?.ok_or(Damaged("a session"))?),
            };
            let connections = session::read_connections(&self.db, session.number)?;
            session.connections = connections.into_iter().map(|key| ConnectionId(key.number() as u32)).collect();
            last = Some(Arc::clone(&capture));
            listed.push(ListedSession { session, capture, findings, is_pinned, latency });
        }
        Ok(listed)
    }

    /// The latencies of a session that an earlier version wrote.
    fn sampled_latencies(&self, session: SessionNumber) -> anyhow::Result<LatencyHistogram> {
        let mut latencies = LatencyHistogram::default();
        let mut select = self.db.prepare_cached(
            "SELECT latency FROM message
             WHERE session = ? AND position BETWEEN 1 AND ? AND answers IS NOT NULL AND latency IS NOT NULL",
        )?;
        let mut rows = select.query(params![session.0, SAMPLE])?;
        while let Some(row) = rows.next()? {
            latencies.add(row.get(0)?);
        }
        Ok(latencies)
    }

    /// The session with this number, and the facts of its recording.
    pub fn listed_session(&self, number: SessionNumber) -> anyhow::Result<Option<ListedSession>> {
        Ok(self.listed_sessions(None, Page::from(number, 1))?.pop().filter(|listed| listed.session.number == number))
    }

    /// The session that was recorded last. Replays do not count: they are made to be compared
    /// with the recording that is looked at.
    pub fn latest_recording(&self) -> anyhow::Result<Option<SessionNumber>> {
        let latest = self.select(
            "SELECT session.id FROM session JOIN capture ON capture.id = session.capture
             WHERE NOT deleting AND capture.kind <> ? ORDER BY session.id DESC LIMIT 1",
            [CaptureKind::Replay.code()],
            |row| Ok(SessionNumber(Columns::new(row).get()?)),
        )?;
        Ok(latest.into_iter().next())
    }

    /// The sessions of a capture, by number.
    pub fn sessions_of(&self, capture: CaptureId) -> anyhow::Result<Vec<SessionNumber>> {
        self.select("SELECT id FROM session WHERE capture = ? AND NOT deleting ORDER BY id", [capture.0], |row| {
            Ok(SessionNumber(Columns::new(row).get()?))
        })
    }

    /// The sessions of the first earlier import of the same packets: of as many packets and bytes,
    /// between the same times. Empty if there is none.
    pub fn earlier_import(&self, capture: CaptureId) -> anyhow::Result<Vec<SessionNumber>> {
        let earlier = self.select(
            "SELECT earlier.id FROM capture AS own JOIN capture AS earlier USING (kind, packets, bytes, first_time, last_time)
             WHERE own.id = ? AND own.kind = ? AND earlier.id < own.id AND earlier.ended IS NOT NULL
               AND EXISTS (SELECT 1 FROM session WHERE capture = earlier.id AND NOT deleting)
             ORDER BY earlier.id LIMIT 1",
            params![capture.0, CaptureKind::Import.code()],
            |row| Ok(Columns::new(row).capture()?),
        )?;
        earlier.first().map_or(Ok(Vec::new()), |earlier| self.sessions_of(*earlier))
    }
}
