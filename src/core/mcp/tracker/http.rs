//! Evidence from HTTP about sessions: heads, session ids, redirects, and the endpoint of HTTP+SSE.

use std::sync::Arc;

use super::tracked_session::TrackedSession;
use super::{Tracker, TrackerEvent, TrackerSink, network_peers};
use crate::decode::secrets::comparable;
use crate::decode::stack::{ConnectionInfo, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction, Exchange, ExchangeNumber, uri};
use crate::mcp::session_index::ExchangeEvidence;
use crate::mcp::{SessionNumber, Transport};

impl Tracker {
    /// Stores the head of a request or response. The texts of the exchange may need it.
    pub fn head(&mut self, exchange: &Exchange, direction: Direction, connected: &ConnectionInfo) {
        let Some(endpoints) = connected.endpoints else { return };
        let evidence = self.exchanges.entry(exchange.number).or_insert_with(|| {
            let client = endpoints[connected.sender(Direction::ClientToServer).index()];
            let server = endpoints[connected.sender(Direction::ServerToClient).index()];
            Box::new(ExchangeEvidence::new(exchange, client, server))
        });
        if direction == Direction::ServerToClient {
            evidence.status = exchange.status;
            evidence.assigned_id = exchange.response.fields.get("mcp-session-id").map(Arc::from);
            if matches!(exchange.status, Some(301 | 302 | 307 | 308)) {
                evidence.redirected_to = exchange.response.fields.get("location").map(str::to_owned);
            }
            if evidence.method.is_empty() {
                evidence.session_id = evidence.assigned_id.clone();
            }
        }
    }

    /// Applies the head of a response to its session, after the texts of the request.
    pub fn response_head(&mut self, exchange: &Exchange) {
        let Some(evidence) = self.exchanges.get_mut(&exchange.number) else { return };
        // The text of the request was lost, or there is none. The session id in the response names
        // the session all the same.
        // A refusal assigns none.
        if !evidence.has_request_text && evidence.session_id.is_none() && !evidence.is_refused() {
            evidence.session_id = evidence.assigned_id.clone();
            evidence.is_assigned = evidence.session_id.is_some();
        }
        let named =
            evidence.session_id.as_ref().and_then(|id| self.session_index.by_session_id(evidence.server.port(), id));
        let Some(session) = evidence.session.or(named) else { return };
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if let Some(id) = &evidence.assigned_id {
            if state.session.session_id.is_none() {
                state.session.session_id = Some(id.as_ref().to_owned());
                state.session.transport = Transport::StreamableHttp;
                state.changed = true;
                self.session_index.assign(evidence.server.port(), Arc::clone(id), session);
            }
        } else if matches!(exchange.status, Some(200..=299)) {
            self.session_index.stop_awaiting_id(session);
        }
        // The response to an accepted request travels elsewhere. Without a session id that happens
        // only on an HTTP+SSE stream. The capture may have begun in the middle of that stream.
        let accepted = exchange.status == Some(202) && !evidence.accepts_events && evidence.version.is_none();
        if accepted && state.is_stateless && state.pairing.awaits_in(exchange.number) {
            state.session.transport = Transport::HttpSse;
            state.session.session_id = id_of_endpoint(&evidence.target);
            state.is_stateless = false;
            state.has_beginning = state.is_initialized;
            state.changed = true;
            if state.session.session_id.is_some() {
                self.session_index.add_endpoint(evidence, session);
            }
        }
        let events = exchange.response.fields.get("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        if events && state.session.transport == Transport::Http {
            state.session.transport = Transport::StreamableHttp;
            state.changed = true;
        }
        self.redirect(exchange.number);
    }

    /// Applies a redirect, once the request is known. The server did not process the request, and
    /// the client will send it again in the same session. A server may redirect after the head,
    /// before it received the text.
    pub(super) fn redirect(&mut self, exchange: ExchangeNumber) {
        let Some(evidence) = self.exchanges.get(&exchange) else { return };
        let Some(to) = &evidence.redirected_to else { return };
        if let Some(state) = evidence.session.and_then(|session| self.sessions.get_mut(&session)) {
            state.redirected_to = uri::host(to).map(str::to_owned);
            state.pairing.take_exchange(exchange);
            self.session_index.add_redirect(evidence);
        }
    }

    /// The session of an open exchange, as far as it is known.
    pub fn session_at(&mut self, exchange: ExchangeNumber) -> Option<SessionNumber> {
        let evidence = self.exchanges.get(&exchange)?;
        let named = || self.session_index.by_session_id(evidence.server.port(), evidence.session_id.as_ref()?);
        evidence.session.or_else(named).or_else(|| self.session_index.of_bodiless_request(evidence))
    }

    /// The connection of an open exchange.
    pub fn connection_of(&self, exchange: ExchangeNumber) -> Option<ConnectionId> {
        self.exchanges.get(&exchange).map(|evidence| evidence.connection)
    }

    /// The session that a text would join now, and its transport.
    pub fn session_of_text(&self, text: &Text) -> Option<(SessionNumber, Transport)> {
        let evidence = self.exchanges.get(&text.exchange()?)?;
        let number = self.existing_session(evidence, text, text.parsed.single(), text.parsed.begins_session)?;
        Some((number, self.transport(number)?))
    }

    /// Records that the `initialize` of this exchange begins a session that was opened
    /// earlier by its id.
    pub(super) fn beginning_found(&mut self, exchange: ExchangeNumber, session: SessionNumber) {
        self.awaited_beginnings.beginning_found(session);
        let (Some(evidence), Some(state)) = (self.exchanges.get(&exchange), self.sessions.get_mut(&session)) else {
            return;
        };
        state.has_beginning = true;
        if let Some(id) = state.session.session_id.clone() {
            self.session_index.assign(evidence.server.port(), id.into(), session);
        }
    }

    /// Adds a TLS connection to the session that was redirected to its host.
    pub fn tls_connected(&mut self, connection: ConnectionId, connected: &ConnectionInfo, sink: &mut TrackerSink<'_>) {
        let Some(name) = connected.server_name.as_deref() else { return };
        let fits = |state: &TrackedSession| state.redirected_to.as_deref() == Some(name);
        let fitting = self.sessions.values().filter(|state| fits(state)).map(|state| state.session.number).max();
        if let Some(number) = fitting {
            self.carries(connection, number, sink);
        }
    }

    /// Whether a text that is no message violates the protocol. On a pipe it always does. Over HTTP
    /// it does if the exchange belongs to MCP and did not fail.
    pub(super) fn expects_message(&self, text: &Text) -> bool {
        let Some(exchange) = text.exchange() else { return true };
        let Some(evidence) = self.exchanges.get(&exchange) else { return false };
        let successful = matches!(evidence.status, None | Some(200..=299));
        match (&text.carrier, text.direction) {
            (TextCarrier::SseEvent { kind, .. }, _) => {
                matches!(kind.as_deref(), None | Some("message"))
                    && (evidence.has_request_text || evidence.session_id.is_some())
            }
            (TextCarrier::WebSocket(_), _) => evidence.session.is_some(),
            (_, Direction::ClientToServer) => evidence.session_id.is_some(),
            (_, Direction::ServerToClient) => evidence.has_request_text && successful,
        }
    }

    /// Opens the session of an HTTP+SSE stream when the stream announces its endpoint (2024-11-05,
    /// basic/transports "HTTP with SSE").
    pub(super) fn endpoint_announced(&mut self, exchange: ExchangeNumber, text: &Text, sink: &mut TrackerSink<'_>) {
        let Some(evidence) = self.exchanges.get(&exchange) else { return };
        let endpoint = String::from_utf8_lossy(&text.raw);
        let target = &*comparable(&uri::resolved(&evidence.target, endpoint.trim())).into_owned();
        let server = evidence.server;
        let number = match self.session_index.by_announced_endpoint(server, target) {
            Some(number) => number,
            None => {
                let evidence = evidence.clone();
                let opened = self.session_index.by_posted_target(evidence.client.ip(), server, target);
                let is_its = |number: &SessionNumber| {
                    let session = self.sessions.get(number).map(|state| &state.session);
                    session.is_some_and(|it| it.session_id.is_none() || it.transport == Transport::HttpSse)
                };
                let number = match opened.filter(is_its) {
                    Some(number) => number,
                    None => {
                        let number = self.open(
                            Transport::HttpSse,
                            (network_peers(&evidence, &text.connected), None),
                            text.time,
                            sink,
                        );
                        self.session_begins(&evidence, number, sink);
                        number
                    }
                };
                if let Some(state) = self.sessions.get_mut(&number) {
                    state.session.session_id = id_of_endpoint(target);
                    state.session.transport = Transport::HttpSse;
                    state.has_beginning = true;
                    state.changed = true;
                }
                number
            }
        };
        if let Some(evidence) = self.exchanges.get_mut(&exchange) {
            if evidence.session.replace(number).is_none() {
                sink(TrackerEvent::Belongs(exchange, number));
            }
            self.session_index.announce(evidence, target, number);
        }
        self.carries(text.connection, number, sink);
    }
}

/// The session that the query of an HTTP+SSE endpoint names.
fn id_of_endpoint(target: &str) -> Option<String> {
    let (_, query) = target.split_once('?')?;
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut named = values.filter(|(name, _)| name.to_ascii_lowercase().contains("session"));
    named.next().map(|(_, value)| value.to_owned())
}
