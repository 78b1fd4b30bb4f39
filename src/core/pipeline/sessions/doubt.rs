//! Doubts about what was captured: messages that may be missing, or may follow later.

use super::Sessions;
use crate::decode::ConnectionId;
use crate::event::ConnectionKind;
use crate::mcp::tracker::Tracker;
use crate::mcp::{Message, SessionNumber, Transport};

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

/// Gives the transport of an open session, and whether its beginning was captured.
pub(super) fn transport_and_beginning(tracker: &Tracker) -> impl Fn(SessionNumber) -> Option<(Transport, bool)> {
    |session| Some((tracker.transport(session)?, tracker.has_beginning(session)))
}
