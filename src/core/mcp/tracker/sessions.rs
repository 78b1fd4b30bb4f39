//! Which sessions there are: opened, carried by connections, told of changes, ended.

use rustc_hash::FxHashSet;

use super::state::State;
use super::{SESSIONS, Sink, Tracked, Tracker};
use crate::capture::Time;
use crate::decode::{ConnectionId, Endpoints};
use crate::mcp::numbers::SessionNumber;
use crate::mcp::operations::Operations;
use crate::mcp::pairing::{Pairing, Pending};
use crate::mcp::session::{Peers, Session, Transport, are_between};

impl Tracker {
    pub(super) fn open(
        &mut self,
        transport: Transport,
        peers: Peers,
        time: Time,
        sink: &mut Sink<'_>,
    ) -> SessionNumber {
        self.last_session += 1;
        let number = SessionNumber(self.last_session);
        let session = Session::opened(number, transport, peers, time);
        sink(Tracked::Opened(Box::new(session.clone())));
        let state = State {
            session,
            pairing: Pairing::default(),
            events: FxHashSet::default(),
            begun: true,
            is_initialized: false,
            is_stray: false,
            stateless: false,
            redirected_to: None,
            operations: Operations::default(),
            changed: true,
        };
        self.sessions.insert(number, state);
        number
    }

    /// The sessions to be ended to make room for others: where there are too many, the half that was idle longest.
    pub fn surplus(&self) -> FxHashSet<SessionNumber> {
        if self.sessions.len() <= SESSIONS {
            return FxHashSet::default();
        }
        let mut by_age: Vec<_> = self.sessions.values().map(|s| (s.session.ended, s.session.number)).collect();
        by_age.sort_unstable();
        by_age[..by_age.len() / 2].iter().map(|(_, number)| *number).collect()
    }

    /// Ends these sessions.
    pub fn end(&mut self, gone: &FxHashSet<SessionNumber>, sink: &mut Sink<'_>) {
        self.places.forget(|session| gone.contains(&session));
        let mut ended: Vec<State> = gone.iter().filter_map(|number| self.sessions.remove(number)).collect();
        ended.sort_by_key(|state| state.session.number);
        for ended in ended {
            let pending = waiting(&ended.pairing).into_iter().cloned().collect();
            sink(Tracked::Ended(Box::new(ended.fresh()), pending));
        }
    }

    pub(super) fn carries(&mut self, connection: ConnectionId, number: SessionNumber, sink: &mut Sink<'_>) {
        let carried = self.carried.entry(connection).or_default();
        if carried.contains(&number) {
            return;
        }
        if carried.len() == SESSIONS {
            carried.pop_front();
        }
        carried.push_back(number);
        let Some(state) = self.sessions.get_mut(&number) else { return };
        if state.session.connections.len() < self.limits.connections_listed {
            state.session.connections.push(connection);
            state.changed = true;
        }
        sink(Tracked::Carries(connection, number));
    }

    /// The records of sessions that changed since they were last asked for, in order of their numbers; `traffic` gives the bytes seen and lost
    /// of a connection that is open.
    pub fn changed(&mut self) -> Vec<Session> {
        let states = self.sessions.values_mut().filter(|state| state.changed);
        let mut changed: Vec<Session> = states
            .map(|state| {
                state.changed = false;
                state.fresh()
            })
            .collect();
        changed.sort_by_key(|session| session.number);
        changed
    }

    /// Bytes of a session's connection were seen, or found missing.
    pub fn traffic(&mut self, number: SessionNumber, seen: u64, lost: u64) {
        if let Some(state) = self.sessions.get_mut(&number) {
            let (all_seen, all_sent) = &mut state.session.bytes;
            *all_seen = all_seen.saturating_add(seen);
            *all_sent = all_sent.saturating_add(seen).saturating_add(lost);
            state.changed |= seen > 0 || lost > 0;
        }
    }

    /// The requests of a session that wait for their answer, and were not cancelled.
    pub fn unanswered(&self, number: SessionNumber) -> Vec<&Pending> {
        self.sessions.get(&number).map(|state| waiting(&state.pairing)).unwrap_or_default()
    }

    /// Whether the capture holds the beginning of a session.
    pub fn has_begun(&self, number: SessionNumber) -> bool {
        self.sessions.get(&number).is_some_and(|state| state.begun)
    }

    /// How a session in memory travels.
    pub fn transport(&self, number: SessionNumber) -> Option<Transport> {
        self.sessions.get(&number).map(|state| state.session.transport)
    }

    /// Whether these are the addresses of a client's host and of a session's server.
    pub fn is_between(&self, number: SessionNumber, ends: Endpoints) -> bool {
        self.sessions.get(&number).is_some_and(|state| match &state.session.peers {
            Peers::Network { client, server, .. } => are_between(ends, *client, *server),
            Peers::Process { .. } => false,
        })
    }

    /// The session of the process behind these pipes.
    pub fn session_on(&self, pipes: ConnectionId) -> Option<SessionNumber> {
        self.pipes.get(&pipes).copied()
    }

    /// The sessions in memory, in order.
    pub fn open_sessions(&self) -> Vec<SessionNumber> {
        let mut numbers: Vec<SessionNumber> = self.sessions.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}

fn waiting(pairing: &Pairing) -> Vec<&Pending> {
    pairing.pending().into_iter().filter(|pending| !pending.cancelled).collect()
}
