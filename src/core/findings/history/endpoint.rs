//! The state of a session that HTTP heads show: its id, its end, its credentials.

use crate::capture::Time;
use crate::decode::secrets::comparable;
use crate::decode::tcp::Facts;
use crate::decode::uri::resolved;
use crate::decode::{ConnectionId, Exchange};
use crate::findings::mcp_exchange::is_success;

/// The end of a session id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminated {
    pub time: Time,
    /// The cause: `DELETE` of the client, or status `404` of the server.
    pub by: &'static str,
}

/// The state of a session that HTTP heads show.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// The `Mcp-Session-Id` that the server assigned.
    pub assigned: Option<String>,
    /// The endpoint that an HTTP+SSE stream announced for messages. Another one belongs
    /// to another session.
    pub announced: Option<String>,
    /// The end of the assigned id.
    pub terminated: Option<Terminated>,
    /// Whether a request with `Authorization` was accepted.
    pub is_authorized: bool,
    /// Whether the client sent a DELETE, with success or without.
    pub delete_sent: bool,
    /// The connection of the latest GET stream.
    get_connection: Option<ConnectionId>,
    /// When the client closed the GET stream, if no request followed.
    pub client_left: Option<Time>,
}

impl Endpoint {
    /// Records the head of a response.
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let fields = &exchange.request.fields;
        match exchange.method.as_deref() {
            Some("DELETE") => self.delete_sent = true,
            Some("GET") if is_success(exchange) => {
                (self.get_connection, self.client_left) = (Some(exchange.connection), None);
            }
            _ if exchange.request.ended > self.client_left => self.client_left = None,
            _ => {}
        }
        if is_success(exchange) {
            if let Some(id) = exchange.response.fields.get("mcp-session-id") {
                self.assigned.get_or_insert_with(|| id.to_owned());
            }
            self.is_authorized |= fields.get("authorization").is_some();
        }
        let by = match (exchange.method.as_deref(), exchange.status) {
            (Some("DELETE"), Some(200..=299)) => "DELETE",
            (_, Some(404)) => "404",
            _ => return,
        };
        if fields.get("mcp-session-id").is_some() && self.terminated.is_none() {
            let time = exchange.response.started.unwrap_or_default();
            self.terminated = Some(Terminated { time, by });
        }
    }

    /// Records the endpoint that a stream at `target` announces. A relative endpoint is resolved
    /// against the target.
    pub(in crate::findings) fn announce(&mut self, target: &str, endpoint: &str) {
        self.announced = Some(comparable(&resolved(target, endpoint.trim())).into_owned());
    }

    /// Records the end of a connection of the session.
    pub(in crate::findings) fn closed(&mut self, connection: ConnectionId, facts: &Facts) {
        let [client, server] = facts.ends;
        let by_client = [client.fin, client.rst].into_iter().flatten().min();
        let by_server = [server.fin, server.rst].into_iter().flatten().min();
        let first = by_client.is_some_and(|packet| by_server.is_none_or(|other| packet < other));
        if self.get_connection == Some(connection) && first {
            self.client_left = Some(facts.last);
        }
    }
}
