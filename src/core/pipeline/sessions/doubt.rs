//! Doubts about what was captured: messages that may be missing, or may follow later.

use std::net::IpAddr;

use super::Sessions;
use crate::decode::ConnectionId;
use crate::decode::tcp::ClockDifference;
use crate::event::ConnectionKind;
use crate::mcp::tracker::Tracker;
use crate::mcp::{Message, SessionNumber, Transport};
use crate::pipeline::connection_state::ConnectionState;

/// Pairs of hosts with two clocks that are remembered. A capture of two taps has few.
pub(super) const HOSTS: usize = 1_024;

impl Sessions {
    /// Records that messages on a connection may be missing. They may belong to any session that it
    /// carries or will carry. While it carries none, they may belong to any session between the
    /// same client and server.
    pub(super) fn messages_missing(&mut self, id: ConnectionId) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        state.has_gaps = true;
        let mut sessions: Vec<SessionNumber> = state.sessions.iter().map(|carried| carried.session).collect();
        if let (true, ConnectionKind::Tcp(facts)) = (sessions.is_empty(), &state.record.kind) {
            let endpoints = facts.endpoints;
            sessions = self.tracker.open_sessions();
            sessions.retain(|session| self.tracker.is_between(*session, endpoints));
        }
        for session in sessions {
            self.checker.messages_missing(session, transport_and_beginning(&self.tracker));
        }
    }

    /// Records that the packets of the two hosts of a connection were captured with two clocks.
    pub(super) fn note_two_clocks(&mut self, id: ConnectionId) {
        if self.two_clocks.len() < HOSTS
            && let Some(hosts) = self.connections.get(&id).and_then(|state| hosts_of(state))
        {
            self.two_clocks.insert(hosts);
        }
    }

    /// Whether the latency of a response may be true. With two clocks it is not.
    pub(super) fn is_credible(&self, latency: i64, response: &Message) -> bool {
        let connection = response.exchange.and_then(|exchange| self.tracker.connection_of(exchange));
        let state = connection.and_then(|id| self.connections.get(&id));
        let has_one_clock = |state: &ConnectionState| {
            state.clocks == ClockDifference::None
                && (self.two_clocks.is_empty() || hosts_of(state).is_none_or(|hosts| !self.two_clocks.contains(&hosts)))
        };
        latency >= 0 && state.is_none_or(|state| has_one_clock(state))
    }

    /// Whether a message that was sent before this one may be emitted after it.
    pub(super) fn is_order_doubtful(&self, message: &Message) -> bool {
        let may_carry = |id| self.may_carry(id, message.session);
        message.exchange.is_some() && self.arrivals.may_be_out_of_order(may_carry)
    }

    /// Whether a connection carries a session or may turn out to: it carries none so far, and it
    /// runs between the same client and server.
    pub(super) fn may_carry(&self, id: ConnectionId, session: SessionNumber) -> bool {
        let Some(state) = self.connections.get(&id) else { return false };
        match state.record.kind {
            ConnectionKind::Tcp(facts) if state.sessions.is_empty() => {
                self.tracker.is_between(session, facts.endpoints)
            }
            _ => state.sessions.iter().any(|carried| carried.session == session),
        }
    }
}

/// The hosts of a connection, in an order that does not depend on which of them opened it.
fn hosts_of(state: &ConnectionState) -> Option<[IpAddr; 2]> {
    let ConnectionKind::Tcp(facts) = state.record.kind else { return None };
    let mut hosts = facts.endpoints.map(|endpoint| endpoint.ip());
    hosts.sort();
    Some(hosts)
}

/// Gives the transport of an open session, and whether its beginning was captured.
pub(super) fn transport_and_beginning(tracker: &Tracker) -> impl Fn(SessionNumber) -> Option<(Transport, bool)> {
    |session| Some((tracker.transport(session)?, tracker.has_beginning(session)))
}
