//! What HTTP says of sessions: heads, ids, redirects, the endpoint of HTTP+SSE.

use std::sync::Arc;

use super::state::State;
use super::{Reading, Sink, Tracker, network_peers};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::secrets::masked_uri;
use crate::decode::stack::{Connected, Text, TextCarrier};
use crate::decode::uri;
use crate::decode::{ConnectionId, Direction};
use crate::mcp::numbers::SessionNumber;
use crate::mcp::places::Place;
use crate::mcp::session::Transport;

impl Tracker {
    /// A head of an HTTP exchange is complete: what it says of the exchange itself. A text that waits for it may be taken then.
    pub fn head(&mut self, exchange: &Exchange, direction: Direction, connected: &Connected) {
        let Some(endpoints) = connected.endpoints else { return };
        let place = self.exchanges.entry(exchange.number).or_insert_with(|| {
            let client = endpoints[connected.sender(Direction::ClientToServer).index()];
            let server = endpoints[connected.sender(Direction::ServerToClient).index()];
            Place::new(exchange, client, server)
        });
        if direction == Direction::ServerToClient {
            place.status = exchange.status;
            place.assigned_id = exchange.response.fields.get("mcp-session-id").map(Arc::from);
            if matches!(exchange.status, Some(301 | 302 | 307 | 308)) {
                place.redirected_to = exchange.response.fields.get("location").map(str::to_owned);
            }
            if place.method.is_empty() {
                place.session_id = place.assigned_id.clone();
            }
        }
    }

    /// What the head of a response says of sessions: after the texts of its request.
    pub fn responded(&mut self, exchange: &Exchange) {
        let Some(place) = self.exchanges.get_mut(&exchange.number) else { return };
        // The text of the request was lost, or there is none: the answer says whose the exchange is all the same.
        if !place.asked && place.session_id.is_none() {
            place.session_id = place.assigned_id.clone();
            place.is_assigned = place.session_id.is_some();
        }
        let assigned = place.session_id.as_ref().and_then(|id| self.places.assigned(place.server.port(), id));
        let Some(session) = place.session.or(assigned) else { return };
        let Some(state) = self.sessions.get_mut(&session) else { return };
        if let Some(id) = &place.assigned_id {
            if state.session.session_id.is_none() {
                state.session.session_id = Some(id.as_ref().to_owned());
                state.session.transport = Transport::StreamableHttp;
                state.changed = true;
                self.places.assign(place.server.port(), Arc::clone(id), session);
            }
        } else if matches!(exchange.status, Some(200..=299)) {
            self.places.settle(session);
        }
        // A request that is accepted has its answer elsewhere, which without a session id happens on the stream of HTTP+SSE alone. The capture may begin
        // within that.
        let accepted = exchange.status == Some(202) && !place.accepts_events && place.version.is_none();
        if accepted && state.stateless && state.pairing.awaits_in(exchange.number) {
            state.session.transport = Transport::HttpSse;
            state.session.session_id = id_of_endpoint(&place.target);
            state.stateless = false;
            state.begun = state.is_initialized;
            state.changed = true;
            if state.session.session_id.is_some() {
                self.places.post_to(place, session);
            }
        }
        let events = exchange.response.fields.get("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        if events && state.session.transport == Transport::Http {
            state.session.transport = Transport::StreamableHttp;
            state.changed = true;
        }
        self.redirect(exchange.number);
    }

    /// The exchange was redirected, and what it asked is known: it was not taken and will be asked again, in the same session. A server may redirect
    /// by the head alone, before the text has come.
    pub(super) fn redirect(&mut self, exchange: ExchangeNumber) {
        let Some(place) = self.exchanges.get(&exchange) else { return };
        let Some(to) = &place.redirected_to else { return };
        if let Some(state) = place.session.and_then(|session| self.sessions.get_mut(&session)) {
            state.redirected_to = uri::host(to).map(str::to_owned);
            state.pairing.redirected(exchange);
            self.places.redirect(place);
        }
    }

    /// The session that an open exchange belongs to, as far as is known.
    pub fn session_at(&mut self, exchange: ExchangeNumber) -> Option<SessionNumber> {
        let place = self.exchanges.get(&exchange)?;
        let named = || self.places.assigned(place.server.port(), place.session_id.as_ref()?);
        place.session.or_else(named).or_else(|| self.places.bodiless(place))
    }

    /// An exchange is over, and no text of it is held.
    pub fn exchange_over(&mut self, exchange: ExchangeNumber) {
        self.places.over(exchange);
        self.exchanges.remove(&exchange);
    }

    /// The session that a text would join now, and how that travels.
    pub fn session_of_text(
        &self,
        text: &Text<'_>,
        reading: &Reading,
        connected: &Connected,
    ) -> Option<(SessionNumber, Transport)> {
        let place = self.exchanges.get(&text.exchange()?)?;
        let number = self.home(place, text, reading.single(), reading.begins_session, connected)?;
        Some((number, self.transport(number)?))
    }

    /// The `initialize` of this exchange begins a session that was opened before by the id which its response assigns.
    pub(super) fn begun(&mut self, exchange: ExchangeNumber, session: SessionNumber) {
        self.unbegun.begun(session);
        let (Some(place), Some(state)) = (self.exchanges.get(&exchange), self.sessions.get_mut(&session)) else {
            return;
        };
        state.begun = true;
        if let Some(id) = state.session.session_id.clone() {
            self.places.assign(place.server.port(), id.into(), session);
        }
    }

    /// A TLS connection to a host that a session was redirected to belongs to that session.
    pub fn encrypted(&mut self, connection: ConnectionId, connected: &Connected, sink: &mut Sink<'_>) {
        let Some(name) = connected.server_name.as_deref() else { return };
        let fits = |state: &State| state.redirected_to.as_deref() == Some(name);
        let fitting = self.sessions.values().filter(|state| fits(state)).map(|state| state.session.number).max();
        if let Some(number) = fitting {
            self.carries(connection, number, sink);
        }
    }

    /// Whether what is no message should have been one: on a pipe always; over HTTP where MCP is spoken and nothing failed.
    pub(super) fn expects_message(&self, text: &Text<'_>) -> bool {
        let Some(exchange) = text.exchange() else { return true };
        let Some(place) = self.exchanges.get(&exchange) else { return false };
        let successful = matches!(place.status, None | Some(200..=299));
        match (&text.carrier, text.direction) {
            (TextCarrier::SseEvent { kind, .. }, _) => {
                matches!(kind, None | Some("message")) && (place.asked || place.session_id.is_some())
            }
            (TextCarrier::WebSocket(_), _) => place.session.is_some(),
            (_, Direction::ClientToServer) => place.session_id.is_some(),
            (_, Direction::ServerToClient) => place.asked && successful,
        }
    }

    /// An HTTP+SSE stream says where to post to (2024-11-05, basic/transports "HTTP with SSE"): the session begins here.
    pub(super) fn endpoint(
        &mut self,
        exchange: ExchangeNumber,
        text: &Text<'_>,
        connected: &Connected,
        sink: &mut Sink<'_>,
    ) {
        let Some(place) = self.exchanges.get(&exchange) else { return };
        let announced = String::from_utf8_lossy(&text.raw);
        let target = &*masked_uri(&uri::resolved(&place.target, announced.trim())).into_owned();
        let server = place.server;
        let number = match self.places.announced(server, target) {
            Some(number) => number,
            None => {
                let place = place.clone();
                let posted = self.places.posted(place.client.ip(), server, target);
                let is_its = |number: &SessionNumber| {
                    let session = self.sessions.get(number).map(|state| &state.session);
                    session.is_some_and(|it| it.session_id.is_none() || it.transport == Transport::HttpSse)
                };
                let number = match posted.filter(is_its) {
                    Some(number) => number,
                    None => self.open(Transport::HttpSse, network_peers(&place, connected), text.time, sink),
                };
                if let Some(state) = self.sessions.get_mut(&number) {
                    state.session.session_id = id_of_endpoint(target);
                    state.session.transport = Transport::HttpSse;
                    state.begun = true;
                    state.changed = true;
                }
                number
            }
        };
        if let Some(place) = self.exchanges.get_mut(&exchange) {
            place.session = Some(number);
            self.places.announce(place, target, number);
        }
        self.carries(text.connection, number, sink);
    }
}

/// The session that the endpoint of an HTTP+SSE stream names in its query.
fn id_of_endpoint(target: &str) -> Option<String> {
    let (_, query) = target.split_once('?')?;
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut named = values.filter(|(name, _)| name.to_ascii_lowercase().contains("session"));
    named.next().map(|(_, value)| value.to_owned())
}
