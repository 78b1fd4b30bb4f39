//! What is known of an open connection: its record, the sessions that it carries, and what waits until that is known.

use rustc_hash::FxHashMap;

use super::unclaimed::Unclaimed;
use crate::decode::tls::Secrecy;
use crate::decode::{ConnectionId, Endpoints};
use crate::event::{Connection, ConnectionKind};
use crate::findings::Finding;
use crate::mcp::SessionNumber;
use crate::mcp::tracker::SESSIONS;

/// Findings held for a connection until it is known what runs on it. Beyond, they are dropped: most connections are not MCP.
const FINDINGS: usize = 64;

/// What is known of an open connection.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) record: Connection,
    pub(super) sessions: Vec<Carried>,
    /// Findings that wait until it is known what runs on the connection.
    pub(super) held: Vec<Finding>,
    /// Whether its beginning was captured: a SYN, or the start of a process.
    pub(super) has_begun: bool,
    /// Whether bytes of it that may have held messages are missing or could not be decoded.
    pub(super) has_gaps: bool,
    /// Offsets in the streams of pipes, which no reassembler counts.
    pub(super) offsets: [u64; 3],
    /// Whether TLS could be opened on it.
    pub(super) secrecy: Secrecy,
    /// What a store may want of it, until a session claims it.
    pub(super) unclaimed: Unclaimed,
}

/// A session on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) session: SessionNumber,
    /// Bytes of the connection, seen and lost, that the session has counted.
    counted: (u64, u64),
}

impl Known {
    pub(super) fn new(record: Connection) -> Known {
        let has_begun = matches!(record.kind, ConnectionKind::Pipe { .. });
        Known {
            record,
            sessions: Vec::new(),
            held: Vec::new(),
            has_begun,
            has_gaps: false,
            offsets: [0; 3],
            secrecy: Secrecy::default(),
            unclaimed: Unclaimed::default(),
        }
    }

    /// Holds a finding until it is known what runs on the connection.
    pub(super) fn hold(&mut self, finding: Finding) {
        if self.held.len() < FINDINGS {
            self.held.push(finding);
        }
    }

    /// The connection carries a session. Beyond as many as are in memory at once, the first is forgotten.
    pub(super) fn carries(&mut self, session: SessionNumber) {
        if self.sessions.len() == SESSIONS {
            self.sessions.remove(0);
        }
        self.sessions.push(Carried { session, counted: (0, 0) });
    }

    /// For each session, the bytes seen and lost that it has not counted so far. A session that joins later counts all of them, so that it does not
    /// matter when this is asked.
    pub(super) fn traffic(&mut self, now: (u64, u64)) -> impl Iterator<Item = (SessionNumber, u64, u64)> {
        self.sessions.iter_mut().map(move |Carried { session, counted }| {
            let before = std::mem::replace(counted, now);
            (*session, now.0 - before.0, now.1 - before.1)
        })
    }
}

/// Gives the ends of a TCP connection that is open.
pub(super) fn ends(connections: &FxHashMap<ConnectionId, Known>) -> impl Fn(ConnectionId) -> Option<Endpoints> {
    |id| match connections.get(&id)?.record.kind {
        ConnectionKind::Tcp(facts) => Some(facts.endpoints),
        ConnectionKind::Pipe { .. } => None,
    }
}
