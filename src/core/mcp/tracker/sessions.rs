//! The list of sessions: opening, changes, connections, end.

use rustc_hash::FxHashSet;

use super::tracked_session::TrackedSession;
use super::{SESSIONS, Tracker, TrackerEvent, TrackerSink, notes};
use crate::capture::Time;
use crate::decode::stack::{ConnectionInfo, Process};
use crate::decode::{ConnectionId, Endpoints};
use crate::mcp::operations::Operations;
use crate::mcp::pairing::{Pairing, Pending};
use crate::mcp::session::are_between;
use crate::mcp::session_index::ExchangeEvidence;
use crate::mcp::{Peers, Session, SessionNumber, Transport};

impl Tracker {
    pub(super) fn open(
        &mut self,
        transport: Transport,
        (peers, name): (Peers, Option<String>),
        time: Time,
        sink: &mut TrackerSink<'_>,
    ) -> SessionNumber {
        self.last_session += 1;
        let number = SessionNumber(self.last_session);
        let session = Session { name, ..Session::opened(number, transport, peers, time) };
        sink(TrackerEvent::Opened(Box::new(session.clone())));
        let state = TrackedSession {
            session,
            pairing: Pairing::default(),
            events: FxHashSet::default(),
            has_beginning: true,
            is_initialized: false,
            is_stray: false,
            is_probe: true,
            is_stateless: false,
            redirected_to: None,
            operations: Operations::default(),
            changed: true,
            is_introduced: false,
        };
        self.sessions.insert(number, state);
        number
    }

    /// The sessions to end because there are too many: the half that was idle longest.
    pub fn surplus_sessions(&self) -> FxHashSet<SessionNumber> {
        if self.sessions.len() <= SESSIONS {
            return FxHashSet::default();
        }
        let mut by_age: Vec<_> = self.sessions.values().map(|s| (s.session.ended, s.session.number)).collect();
        by_age.sort_unstable();
        by_age[..by_age.len() / 2].iter().map(|(_, number)| *number).collect()
    }

    /// Ends these sessions, in order of their numbers.
    pub fn end(&mut self, gone: &FxHashSet<SessionNumber>, sink: &mut TrackerSink<'_>) {
        self.session_index.forget(|session| gone.contains(&session));
        let mut ended: Vec<TrackedSession> = gone.iter().filter_map(|number| self.sessions.remove(number)).collect();
        ended.sort_by_key(|state| state.session.number);
        for ended in ended {
            notes::ended_waits(&ended, None).into_iter().for_each(|note| sink(TrackerEvent::Note(Box::new(note))));
            ended.late_links(sink);
            let pending = unanswered_requests(&ended.pairing).into_iter().cloned().collect();
            sink(TrackerEvent::Ended(Box::new(ended.session), pending));
        }
    }

    /// Emits the links of all sessions that are known only now, when the capture ends.
    pub fn late_links(&self, sink: &mut TrackerSink<'_>) {
        for number in self.open_sessions() {
            if let Some(state) = self.sessions.get(&number) {
                state.late_links(sink);
            }
        }
    }

    pub(super) fn carries(&mut self, connection: ConnectionId, number: SessionNumber, sink: &mut TrackerSink<'_>) {
        let carried = self.carried.entry(connection).or_default();
        if carried.contains(&number) {
            return;
        }
        if carried.len() == SESSIONS {
            carried.pop_front();
        }
        carried.push_back(number);
        if carried.len() == 1 {
            self.first_carried(connection, number, sink);
        }
        let Some(state) = self.sessions.get_mut(&number) else { return };
        if state.session.connections.len() < self.limits.connections_listed {
            state.session.connections.push(connection);
            state.changed = true;
        }
        sink(TrackerEvent::Carries(connection, number));
    }

    /// The records of the sessions that changed since the last call, in order of their numbers.
    pub fn changed(&mut self) -> Vec<Session> {
        let states = self.sessions.values_mut().filter(|state| state.changed);
        let mut changed: Vec<Session> = states
            .map(|state| {
                state.changed = false;
                state.session.clone()
            })
            .collect();
        changed.sort_by_key(|session| session.number);
        changed
    }

    /// Counts bytes of a session's connections that were captured or lost.
    pub fn count_bytes(&mut self, number: SessionNumber, captured: u64, lost: u64) {
        if let Some(state) = self.sessions.get_mut(&number) {
            let (all_captured, all_sent) = &mut state.session.bytes;
            *all_captured = all_captured.saturating_add(captured);
            *all_sent = all_sent.saturating_add(captured).saturating_add(lost);
            state.changed |= captured > 0 || lost > 0;
        }
    }

    /// The requests of a session without a response, except cancelled ones.
    pub fn unanswered(&self, number: SessionNumber) -> Vec<&Pending> {
        self.sessions.get(&number).map(|state| unanswered_requests(&state.pairing)).unwrap_or_default()
    }

    /// Whether the beginning of a session was captured.
    pub fn has_beginning(&self, number: SessionNumber) -> bool {
        self.sessions.get(&number).is_some_and(|state| state.has_beginning)
    }

    /// The transport of an open session.
    pub fn transport(&self, number: SessionNumber) -> Option<Transport> {
        self.sessions.get(&number).map(|state| state.session.transport)
    }

    /// Whether a connection between these addresses could belong to the session: the client's host
    /// (any port) and the server.
    pub fn is_between(&self, number: SessionNumber, ends: Endpoints) -> bool {
        self.sessions.get(&number).is_some_and(|state| match &state.session.peers {
            Peers::Network { client, server, .. } => are_between(ends, *client, *server),
            Peers::Process { .. } => false,
        })
    }

    /// The session of the process with these pipes.
    pub fn session_on(&self, pipes: ConnectionId) -> Option<SessionNumber> {
        self.pipes.get(&pipes).copied()
    }

    /// The open sessions, in order of their numbers.
    pub fn open_sessions(&self) -> Vec<SessionNumber> {
        let mut numbers: Vec<SessionNumber> = self.sessions.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}

fn unanswered_requests(pairing: &Pairing) -> Vec<&Pending> {
    pairing.pending().filter(|pending| !pending.cancelled).collect()
}

pub(super) fn network_peers(evidence: &ExchangeEvidence, connected: &ConnectionInfo) -> Peers {
    let host = evidence.host.clone().or_else(|| connected.server_name.clone());
    Peers::Network { client: evidence.client, server: evidence.server, host }
}

/// A process with its command, and the name that the user gave to it.
pub(super) fn process_peers(process: &Process) -> (Peers, Option<String>) {
    let start = process.start.clone().unwrap_or_default();
    (Peers::Process { process: process.id, command: start.command }, start.name)
}
