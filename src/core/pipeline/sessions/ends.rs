//! The ends of exchanges and connections.

use std::collections::BTreeMap;

use super::{Sessions, emit_findings};
use crate::decode::ConnectionId;
use crate::decode::exchange::Exchange;
use crate::decode::stack::ConnectionInfo;
use crate::decode::tcp::Facts;
use crate::event::{ConnectionKind, Emit, Event};

/// Connections without a session that closed while the tracker remembers an exchange of them, which
/// may join a session later. Then their packets have to be stored. The tracker remembers few.
pub(super) type Closing = BTreeMap<ConnectionId, (Box<ConnectionInfo>, Option<Facts>)>;

impl Sessions {
    /// Emits an exchange that ended. All its messages were emitted before.
    pub(super) fn exchange_ended(&mut self, exchange: Box<Exchange>, emit: &mut Emit<'_>) {
        if exchange.method.as_deref() == Some("POST") && !exchange.response.complete {
            let state = self.connections.get_mut(&exchange.connection);
            state.into_iter().for_each(|state| state.has_cut_exchange = true);
        }
        // The notes about it precede it, because they belong to its requests.
        let mut forgotten = None;
        self.track(emit, |tracker, sink| forgotten = tracker.exchange_ended(&exchange, sink));
        let found = self.checker.exchange(&exchange);
        self.counts.exchanges += 1;
        emit(Event::Exchange(exchange));
        emit_findings(found, emit);
        if let Some(connection) = forgotten {
            self.close(connection, emit);
        }
    }

    /// Adds the bytes of a connection to its sessions: captured and lost, since the last call. A
    /// session that joins later gets all of them, so the moment of the call does not matter.
    pub(in crate::pipeline) fn count_bytes(&mut self, id: ConnectionId, connected: &ConnectionInfo) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        let [captured, lost] = [connected.seen, connected.lost]
            .map(|sides| sides.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)));
        for (session, captured, lost) in state.uncounted_bytes((captured, lost)) {
            self.tracker.count_bytes(session, captured, lost);
        }
    }

    /// Takes the end of a connection. The facts of TCP are final now.
    pub(super) fn closed(
        &mut self,
        id: ConnectionId,
        connected: &ConnectionInfo,
        facts: Option<&Facts>,
        emit: &mut Emit<'_>,
    ) {
        self.tracker.forget_on(id);
        let has_no_session = self.connections.get(&id).is_some_and(|state| state.sessions.is_empty());
        self.closing.insert(id, (Box::new(connected.clone()), facts.copied()));
        if !(has_no_session && self.tracker.remembers(id)) {
            self.close(id, emit);
        }
    }

    /// Ends a connection that closed. Does nothing if it is open.
    pub(super) fn close(&mut self, id: ConnectionId, emit: &mut Emit<'_>) {
        let Some((connected, facts)) = self.closing.remove(&id) else {
            if !self.connections.contains_key(&id) {
                self.tracker.connection_closed(id, None);
            }
            return;
        };
        self.count_bytes(id, &connected);
        self.tracker.connection_closed(id, facts.map(|facts| facts.last));
        let Some(mut state) = self.connections.remove(&id) else { return };
        self.encrypted.count(&state);
        if let Some(facts) = &facts {
            self.checker.connection_closed(id, facts);
            self.connection_ended(&state, facts, emit);
        }
        if self.stores() {
            if let Some(facts) = facts {
                state.record.kind = ConnectionKind::Tcp(facts);
            }
            emit(Event::Connection(Box::new(state.record)));
            emit(Event::Closed(id));
        }
    }

    /// Ends the oldest connections that closed, so that another one may open.
    pub(super) fn make_room(&mut self, emit: &mut Emit<'_>) {
        while self.connections.len() >= self.options.limits.connections
            && let Some((id, _)) = self.closing.first_key_value()
        {
            self.close(*id, emit);
        }
    }

    /// Ends all connections that closed.
    pub(super) fn close_all(&mut self, emit: &mut Emit<'_>) {
        while let Some((id, _)) = self.closing.first_key_value() {
            self.close(*id, emit);
        }
    }
}
