//! The state of one open connection: its record, its sessions, and findings and data that wait
//! until its use is known.

use rustc_hash::FxHashMap;

use super::unclaimed::Unclaimed;
use crate::decode::tcp::ClockDifference;
use crate::decode::tls::Secrecy;
use crate::decode::{ConnectionId, Endpoints};
use crate::event::{Connection, ConnectionKind};
use crate::findings::Finding;
use crate::mcp::SessionNumber;
use crate::mcp::tracker::SESSIONS;

/// Findings buffered for a connection until its protocol is known. Above, they are discarded: most
/// connections are not MCP.
const FINDINGS: usize = 64;

/// The state of an open connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) record: Connection,
    pub(super) sessions: Vec<SessionTraffic>,
    /// Findings that wait until the protocol of the connection is known.
    pub(super) waiting_findings: Vec<Finding>,
    /// Whether its beginning was captured: a SYN, or the start of a process.
    pub(super) has_beginning: bool,
    /// Whether bytes that may have held messages are missing or could not be decoded.
    pub(super) has_gaps: bool,
    /// Whether an exchange on it ended without its whole response.
    pub(super) has_cut_exchange: bool,
    /// Whether its directions were captured with different clocks.
    pub(super) clocks: ClockDifference,
    /// The next offset in each of the three streams of a process. TCP streams have
    /// the reassembler for that.
    pub(super) offsets: [u64; 3],
    /// Whether its TLS could be decrypted.
    pub(super) secrecy: Secrecy,
    /// Data for a store, until a session claims the connection.
    pub(super) unclaimed: Unclaimed,
}

/// A session of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionTraffic {
    pub(super) session: SessionNumber,
    /// Bytes of the connection, captured and lost, that the session has counted.
    counted: (u64, u64),
}

impl ConnectionState {
    pub(super) fn new(record: Connection) -> ConnectionState {
        let has_beginning = matches!(record.kind, ConnectionKind::Pipe { .. });
        ConnectionState {
            record,
            sessions: Vec::new(),
            waiting_findings: Vec::new(),
            has_beginning,
            has_gaps: false,
            has_cut_exchange: false,
            clocks: ClockDifference::None,
            offsets: [0; 3],
            secrecy: Secrecy::default(),
            unclaimed: Unclaimed::default(),
        }
    }

    /// Buffers a finding until the protocol of the connection is known.
    pub(super) fn hold(&mut self, finding: Finding) {
        if self.waiting_findings.len() < FINDINGS {
            self.waiting_findings.push(finding);
        }
    }

    /// Adds a session. Above the number of sessions in memory, the oldest is forgotten.
    pub(super) fn add_session(&mut self, session: SessionNumber) {
        if self.sessions.len() == SESSIONS {
            self.sessions.remove(0);
        }
        self.sessions.push(SessionTraffic { session, counted: (0, 0) });
    }

    /// For each session, the bytes captured and lost that it has not counted so far. A session that
    /// joined later counts all of them.
    pub(super) fn uncounted_bytes(&mut self, now: (u64, u64)) -> impl Iterator<Item = (SessionNumber, u64, u64)> {
        self.sessions.iter_mut().map(move |SessionTraffic { session, counted }| {
            let before = std::mem::replace(counted, now);
            (*session, now.0 - before.0, now.1 - before.1)
        })
    }
}

/// Returns the endpoints of open TCP connections.
pub(super) fn endpoints_of(
    connections: &FxHashMap<ConnectionId, Box<ConnectionState>>,
) -> impl Fn(ConnectionId) -> Option<Endpoints> {
    |id| match connections.get(&id)?.record.kind {
        ConnectionKind::Tcp(facts) => Some(facts.endpoints),
        ConnectionKind::Pipe { .. } => None,
    }
}
