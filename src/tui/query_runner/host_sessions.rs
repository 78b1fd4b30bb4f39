//! The sessions that a host had with all its servers at the same time.

use anyhow::Result;

use super::super::data::HostSessions;
use super::QueryRunner;
use crate::mcp::{Peers, Session, SessionNumber};
use crate::store::Page;
use crate::view::parties::server;

/// Limit of the lifelines: as many as fit on a screen.
const SERVERS: usize = 8;

/// Limit of the messages of one session.
const LINES: usize = 2_000;

/// Neighbouring sessions that are checked for the same time.
const SEARCHED: usize = 256;

impl QueryRunner {
    /// The messages of a session, and of the host's other sessions at the same time or in
    /// the same capture.
    pub(super) fn host_sessions(&mut self, session: SessionNumber) -> Result<HostSessions> {
        let Some(own) = self.reader.session(session)? else { return Ok(HostSessions::default()) };
        let first = SessionNumber(session.0.saturating_sub(SEARCHED as u32));
        let capture = self.reader.capture_of(session)?;
        let mut sessions = Vec::new();
        for other in self.reader.sessions(Page::from(first, 2 * SEARCHED))? {
            // Sessions of one capture belong together, even if one ended before the other began.
            let overlaps = other.started <= own.ended && own.started <= other.ended;
            let near = overlaps || self.reader.capture_of(other.number)? == capture;
            if other.number == session || near && same_host(&own, &other) {
                sessions.push(other);
            }
        }
        // The session itself is always among the shown ones.
        let at = sessions.iter().position(|other| other.number == session).unwrap_or_default();
        sessions.drain(..at.saturating_sub(SERVERS / 2));
        let mut complete = sessions.len() <= SERVERS;
        sessions.truncate(SERVERS);
        let mut lines = Vec::new();
        for other in &sessions {
            let rows = self.reader.message_rows_at(other.number, 1, LINES)?;
            complete &= other.messages <= rows.len() as u64;
            lines.extend(self.lines(rows)?);
        }
        lines.sort_by_key(|line| (line.row.time, line.row.session, line.row.number));
        let sessions = sessions.iter().map(|other| (other.number, server(other))).collect();
        Ok(HostSessions { sessions, lines, complete })
    }
}

/// Whether two sessions have the same host. On a network a host is an address; on one machine it is
/// a client of the same name.
fn same_host(one: &Session, other: &Session) -> bool {
    match (&one.peers, &other.peers) {
        (Peers::Network { client: one, .. }, Peers::Network { client: other, .. }) => one.ip() == other.ip(),
        (Peers::Process { .. }, Peers::Process { .. }) => one.client == other.client,
        _ => false,
    }
}
