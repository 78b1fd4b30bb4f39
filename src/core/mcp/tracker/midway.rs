//! Finds the session of texts whose request was not captured, because the capture began in the
//! middle of a stream or heads were lost.
//!
//! The other messages of the connection are the best evidence (`SessionIndex::find`). A stream that
//! stays open for hours has a connection of its own. Then the evidence is:
//!
//! - on an HTTP+SSE stream, the id of a response, if only one session between client and server
//!   waits for it;
//! - the two addresses, if only one session is known between them. A session that was opened during
//!   the capture has no stream that began before the capture.
//!
//! Otherwise the stream opens a session, called a stray. The first request between the two
//! addresses joins the stray, unless it opens a session itself.
//!
//! A response on such a stream, except on HTTP+SSE, has no captured request: its request was sent
//! in the same exchange before the capture began, or was lost.

use super::tracked_session::TrackedSession;
use super::{Text, Tracker};
use crate::decode::jsonrpc::Envelope;
use crate::decode::stack::{ConnectionInfo, TextCarrier};
use crate::decode::{Direction, Kind};
use crate::mcp::session_index::ExchangeEvidence;
use crate::mcp::{Peers, SessionNumber, Transport};

/// Whether a text belongs to a stream whose request was not captured, or to a WebSocket that was
/// opened before the capture.
pub(super) fn is_midway(evidence: &ExchangeEvidence, text: &Text) -> bool {
    let is_stream = text.direction == Direction::ServerToClient || matches!(text.carrier, TextCarrier::WebSocket(_));
    evidence.lacks_head() && is_stream
}

impl Tracker {
    /// The open session that a text belongs to. `single` is the message of a text that is no batch.
    pub(super) fn existing_session(
        &self,
        evidence: &ExchangeEvidence,
        text: &Text,
        single: Option<&Envelope>,
        initialize: bool,
    ) -> Option<SessionNumber> {
        // No other connection or stream carries messages of a WebSocket's session.
        if let TextCarrier::WebSocket(_) = text.carrier {
            return evidence.session.filter(|number| self.sessions.contains_key(number));
        }
        let found =
            || self.session_index.find(evidence, initialize).filter(|number| self.sessions.contains_key(number));
        // An HTTP+SSE stream whose announcement was lost looks like this one.
        let lacks_announcement = evidence.method == "GET"
            && evidence.session_id.is_none()
            && !self.session_index.has_announced(evidence.exchange);
        match is_midway(evidence, text) {
            true => self
                .awaiting_response(evidence, text, single)
                .or_else(found)
                .or_else(|| self.only_session_between(evidence, &text.connected)),
            false if lacks_announcement => self.awaiting_response(evidence, text, single).or_else(found),
            false if initialize => found()
                .or_else(|| self.opened_by_later_requests(evidence, text))
                .or_else(|| self.refused_probe_on(evidence)),
            false => found().or_else(|| self.stray_between(evidence)),
        }
    }

    /// The session without an id that this `initialize` begins, where later requests on other
    /// connections were tracked first.
    ///
    /// The decoder sometimes waits for the beginning of a connection, which delays its texts.
    fn opened_by_later_requests(&self, evidence: &ExchangeEvidence, text: &Text) -> Option<SessionNumber> {
        let state = self.sessions.get(&self.session_index.without_id(evidence)?)?;
        let is_later = !state.is_initialized && state.session.session_id.is_none() && text.time < state.session.started;
        is_later.then_some(state.session.number)
    }

    /// The session of the `server/discover` probe that was refused on the connection of this
    /// `initialize`.
    fn refused_probe_on(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        let number = self.session_index.by_connection(evidence.connection)?;
        self.sessions.get(&number).is_some_and(TrackedSession::is_refused_probe).then_some(number)
    }

    /// Whether a text is the response to a GET or DELETE that the server refused. Such a request
    /// carries no message, so the response opens no session.
    pub(super) fn is_refusal(evidence: &ExchangeEvidence, direction: Direction) -> bool {
        let has_no_body = matches!(evidence.method.as_str(), "GET" | "DELETE" | "HEAD" | "OPTIONS");
        direction == Direction::ServerToClient && has_no_body && evidence.is_refused()
    }

    /// The only HTTP+SSE session that waits for this response on a stream whose request
    /// was not captured.
    fn awaiting_response(
        &self,
        evidence: &ExchangeEvidence,
        text: &Text,
        envelope: Option<&Envelope>,
    ) -> Option<SessionNumber> {
        let envelope = envelope.filter(|envelope| matches!(envelope.kind, Some(Kind::Response | Kind::Error)))?;
        let id = text.raw.part(envelope.id.clone()?)?;
        let asks = |state: &&TrackedSession| {
            state.session.transport == Transport::HttpSse && state.pairing.awaits(Direction::ClientToServer, id)
        };
        only(self.between(evidence).filter(asks))
    }

    /// The only session between the two addresses, for a text on a stream whose request
    /// was not captured.
    fn only_session_between(&self, evidence: &ExchangeEvidence, connected: &ConnectionInfo) -> Option<SessionNumber> {
        let may_be = |state: &TrackedSession| !(connected.is_midway && state.is_initialized);
        only(self.between(evidence)).filter(|number| self.sessions.get(number).is_some_and(may_be))
    }

    /// The stray that a captured request joins, if the request opens no session.
    fn stray_between(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        only(self.between(evidence)).filter(|number| self.sessions.get(number).is_some_and(|state| state.is_stray))
    }

    /// The sessions between the client's host and the server.
    fn between<'t>(&'t self, evidence: &'t ExchangeEvidence) -> impl Iterator<Item = &'t TrackedSession> {
        self.sessions.values().filter(|state| match &state.session.peers {
            Peers::Network { client, server, .. } => client.ip() == evidence.client.ip() && *server == evidence.server,
            Peers::Process { .. } => false,
        })
    }
}

fn only<'t>(mut states: impl Iterator<Item = &'t TrackedSession>) -> Option<SessionNumber> {
    let number = states.next()?.session.number;
    states.next().is_none().then_some(number)
}
