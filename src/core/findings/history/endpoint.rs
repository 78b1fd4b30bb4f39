//! What the HTTP heads of a session said: its id, its end, its credentials.

use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::decode::exchange::Exchange;
use crate::decode::secrets::masked_uri;
use crate::decode::tcp::Facts;
use crate::decode::uri::resolved;
use crate::findings::mcp_exchange::is_success;

/// How a session id came to be worth nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminated {
    pub time: Time,
    /// `DELETE` by the client, or `404` of the server.
    pub by: &'static str,
}

/// A session as HTTP shows it.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// `Mcp-Session-Id` as the server assigned it.
    pub assigned: Option<String>,
    /// Where the stream of HTTP+SSE asked for messages: another place would be another session's.
    pub announced: Option<String>,
    /// The end of that id.
    pub terminated: Option<Terminated>,
    /// Whether a request of it carried `Authorization` and was taken.
    pub is_authorized: bool,
    /// Whether the client asked for the end of the session, with success or without.
    pub delete_sent: bool,
    /// The connection of the stream by which the server speaks first.
    get_connection: Option<ConnectionId>,
    /// When the client closed that, if nothing came behind it.
    pub client_left: Option<Time>,
}

impl Endpoint {
    /// A response has its head.
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

    /// A stream that was asked for at `target` says where messages are to be posted.
    pub(in crate::findings) fn announce(&mut self, target: &str, said: &str) {
        self.announced = Some(masked_uri(&resolved(target, said.trim())).into_owned());
    }

    /// A connection of the session is over.
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
