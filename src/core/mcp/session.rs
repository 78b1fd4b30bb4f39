//! The record of one MCP session.

use std::net::SocketAddr;

use super::content::Status;
use super::numbers::SessionNumber;
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::{ConnectionId, Endpoints};

words! {
    /// The transport of a session.
    #[derive(Default)]
    pub enum Transport {
        /// The pipes of a process.
        #[default]
        Stdio = "stdio",
        /// HTTP+SSE (2024-11-05).
        HttpSse = "http-sse",
        /// Streamable HTTP (2025-03-26 and later).
        StreamableHttp = "streamable-http",
        /// Plain JSON-RPC over POST.
        Http = "http",
        /// Messages of a WebSocket. No revision defines it.
        WebSocket = "websocket",
    }
}

/// The name and version of an implementation: `clientInfo` or `serverInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The member `name`.
    pub name: String,
    /// The member `version`.
    pub version: String,
}

/// The addresses or the process of the two peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Peers on a network: the addresses of the first connection.
    Network {
        /// The client's address.
        client: SocketAddr,
        /// The server's address.
        server: SocketAddr,
        /// The server's host name, where DNS, the Host header or SNI gave it.
        host: Option<String>,
    },
    /// A server under `mcptap wrap`.
    Process {
        /// The process id.
        process: u32,
        /// The command line, program first.
        command: Vec<String>,
    },
}

/// Whether a connection runs between the client's host (any port) and the server's address.
pub fn are_between([one, other]: Endpoints, client: SocketAddr, server: SocketAddr) -> bool {
    [(one, other), (other, one)].iter().any(|(from, to)| from.ip() == client.ip() && *to == server)
}

/// How the requests of a client ended. Each request counts once, in the first member that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Answered with a result that is no tool error.
    pub ok: u64,
    /// Answered with a result that has `isError`: the tool failed.
    pub tool_errors: u64,
    /// Answered with a JSON-RPC error, or refused by the status of the HTTP response.
    pub errors: u64,
    /// Cancelled by the client, and not answered.
    pub cancelled: u64,
    /// Not answered so far.
    pub unanswered: u64,
}

impl Outcomes {
    /// The number of requests.
    pub fn requests(&self) -> u64 {
        let Outcomes { ok, tool_errors, errors, cancelled, unanswered } = self;
        [ok, tool_errors, errors, cancelled, unanswered].into_iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The requests that failed: those that are not ok, without those that are open.
    pub fn failed(&self) -> u64 {
        self.tool_errors.saturating_add(self.errors).saturating_add(self.cancelled)
    }

    /// Adds the requests of another session.
    pub fn add(&mut self, other: &Outcomes) {
        for (own, other) in [
            (&mut self.ok, other.ok),
            (&mut self.tool_errors, other.tool_errors),
            (&mut self.errors, other.errors),
            (&mut self.cancelled, other.cancelled),
            (&mut self.unanswered, other.unanswered),
        ] {
            *own = own.saturating_add(other);
        }
    }

    /// Moves a request that had no response so far to the member of its outcome.
    pub(super) fn settle(&mut self, was_cancelled: bool, outcome: Status) {
        let before = if was_cancelled { &mut self.cancelled } else { &mut self.unanswered };
        *before = before.saturating_sub(1);
        *match outcome {
            Status::Ok | Status::Negative => &mut self.ok,
            Status::ToolError => &mut self.tool_errors,
            Status::Error => &mut self.errors,
        } += 1;
    }

    /// Counts a request as cancelled that had no response so far.
    pub(super) fn cancel(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.cancelled += 1;
    }
}

/// One MCP conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number in the capture.
    pub number: SessionNumber,
    /// The transport of its messages.
    pub transport: Transport,
    /// The protocol revision in force, where it is known. It is the text that was sent, which may
    /// be no published revision.
    pub protocol_version: Option<String>,
    /// `Mcp-Session-Id`. For HTTP+SSE, the session that the query of the endpoint names.
    pub session_id: Option<String>,
    /// The client's `clientInfo`.
    pub client: Option<Party>,
    /// The server's `serverInfo`.
    pub server: Option<Party>,
    /// The addresses or the process of the two peers.
    pub peers: Peers,
    /// The name that the user gave to the server with `--name`.
    pub name: Option<String>,
    /// Connections that carried the session, oldest first. A TLS connection to the target of a
    /// redirect counts too.
    pub connections: Vec<ConnectionId>,
    /// The capture time of the first message.
    pub started: Time,
    /// The capture time of the last message, or of the end of the process.
    pub ended: Time,
    /// All messages. Each member of a batch counts.
    pub messages: u64,
    /// The requests of the client by their outcome.
    pub outcomes: Outcomes,
    /// Requests of the server.
    pub server_requests: u64,
    /// Responses with a result, of both peers.
    pub responses: u64,
    /// Notifications of both peers.
    pub notifications: u64,
    /// Texts that are no JSON-RPC message.
    pub invalid: u64,
    /// Bytes of its connections: captured, and sent as far as is known. The difference was lost.
    pub bytes: (u64, u64),
    /// The exit of the wrapped server.
    pub exit: Option<Exit>,
}

impl Session {
    /// A new session without messages.
    pub fn opened(number: SessionNumber, transport: Transport, peers: Peers, time: Time) -> Session {
        Session {
            number,
            transport,
            protocol_version: None,
            session_id: None,
            client: None,
            server: None,
            peers,
            name: None,
            connections: Vec::new(),
            started: time,
            ended: time,
            messages: 0,
            outcomes: Outcomes::default(),
            server_requests: 0,
            responses: 0,
            notifications: 0,
            invalid: 0,
            bytes: (0, 0),
            exit: None,
        }
    }

    /// The captured share of the bytes that were sent, from 0 to 1.
    pub fn completeness(&self) -> f64 {
        let (captured, sent) = self.bytes;
        if sent == 0 { 1.0 } else { captured as f64 / sent as f64 }
    }
}
