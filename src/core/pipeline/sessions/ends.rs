//! The ends of exchanges and connections.

use std::collections::BTreeMap;

use super::Sessions;
use crate::decode::ConnectionId;
use crate::decode::exchange::Exchange;
use crate::decode::stack::ByteCounts;
use crate::decode::tcp::Facts;
use crate::event::{ConnectionKind, Event};
use crate::pipeline::tracked::{Tracked, TrackedSink};

/// Connections without a session that closed while the tracker remembers an exchange of them, which
/// may join a session later. Then their packets have to be stored. The tracker remembers few.
pub(super) type Closing = BTreeMap<ConnectionId, (ByteCounts, Option<Box<Facts>>)>;

impl Sessions {
    /// Emits an exchange that ended. All its messages were emitted before.
    pub(super) fn exchange_ended(&mut self, exchange: Box<Exchange>, emit: &mut TrackedSink<'_>) {
        if exchange.method.as_deref() == Some("POST") && !exchange.response.complete {
            let state = self.connections.get_mut(&exchange.connection);
            state.into_iter().for_each(|state| state.has_cut_exchange = true);
        }
        // The notes about it precede it, because they belong to its requests.
        let mut forgotten = None;
        self.track(emit, |tracker, sink| forgotten = tracker.exchange_ended(&exchange, sink));
        self.counts.exchanges += 1;
        emit(Tracked::Exchange(exchange));
        if let Some(connection) = forgotten {
            self.close(connection, emit);
        }
    }

    /// Adds the bytes of a connection to its sessions: captured and lost, since the last call. A
    /// session that joins later gets all of them, so the moment of the call does not matter.
    pub(in crate::pipeline) fn count_bytes(&mut self, id: ConnectionId, bytes: ByteCounts) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        for (session, captured, lost) in state.uncounted_bytes((bytes.captured, bytes.lost)) {
            self.tracker.count_bytes(session, captured, lost);
        }
    }

    /// Takes the end of a connection. The facts of TCP are final now.
    pub(super) fn closed(
        &mut self,
        id: ConnectionId,
        bytes: ByteCounts,
        facts: Option<Box<Facts>>,
        emit: &mut TrackedSink<'_>,
    ) {
        self.tracker.forget_on(id);
        let has_no_session = self.connections.get(&id).is_some_and(|state| state.sessions.is_empty());
        self.closing.insert(id, (bytes, facts));
        if !(has_no_session && self.tracker.remembers(id)) {
            self.close(id, emit);
        }
    }

    /// Ends a connection that closed. Does nothing if it is open.
    pub(super) fn close(&mut self, id: ConnectionId, emit: &mut TrackedSink<'_>) {
        let Some((bytes, facts)) = self.closing.remove(&id) else {
            if !self.connections.contains_key(&id) {
                self.tracker.connection_closed(id, None);
            }
            return;
        };
        self.count_bytes(id, bytes);
        self.tracker.connection_closed(id, facts.as_ref().map(|facts| facts.last));
        let Some(mut state) = self.connections.remove(&id) else { return };
        self.encrypted.count(&state);
        if let Some(facts) = &facts {
            emit(Tracked::ConnectionClosed(id, facts.clone()));
            self.connection_ended(&state, facts, emit);
        }
        if self.stores() {
            if let Some(facts) = facts {
                state.record.kind = ConnectionKind::Tcp(*facts);
            }
            emit(Event::Connection(Box::new(state.record)).into());
            emit(Event::Closed(id).into());
        }
    }

    /// Ends the oldest connections that closed, so that another one may open.
    pub(super) fn make_room(&mut self, emit: &mut TrackedSink<'_>) {
        while self.connections.len() >= self.options.limits.connections
            && let Some((id, _)) = self.closing.first_key_value()
        {
            self.close(*id, emit);
        }
    }

    /// Ends all connections that closed.
    pub(super) fn close_all(&mut self, emit: &mut TrackedSink<'_>) {
        while let Some((id, _)) = self.closing.first_key_value() {
            self.close(*id, emit);
        }
    }
}
