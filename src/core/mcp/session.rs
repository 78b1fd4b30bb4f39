//! The record of one MCP session.

use std::net::SocketAddr;

use super::numbers::SessionNumber;
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::{ConnectionId, Endpoints};

/// The transport of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// The pipes of a process.
    Stdio,
    /// HTTP+SSE (2024-11-05).
    HttpSse,
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHttp,
    /// Plain JSON-RPC over POST.
    Http,
    /// Messages of a WebSocket. No revision defines it.
    WebSocket,
}

impl Transport {
    /// Each transport with its word in the output of `--json`.
    pub const NAMES: [(Transport, &'static str); 5] = [
        (Transport::Stdio, "stdio"),
        (Transport::HttpSse, "http-sse"),
        (Transport::StreamableHttp, "streamable-http"),
        (Transport::Http, "http"),
        (Transport::WebSocket, "websocket"),
    ];

    /// The word in the output of `--json`.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(transport, _)| *transport == self).map_or("", |(_, name)| name)
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
        /// The name that the user gave to the server.
        name: Option<String>,
    },
}

/// Whether a connection runs between the client's host (any port) and the server's address.
pub fn are_between([one, other]: Endpoints, client: SocketAddr, server: SocketAddr) -> bool {
    [(one, other), (other, one)].iter().any(|(from, to)| from.ip() == client.ip() && *to == server)
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
    /// Connections that carried the session, oldest first. A TLS connection to the target of a
    /// redirect counts too.
    pub connections: Vec<ConnectionId>,
    /// The capture time of the first message.
    pub started: Time,
    /// The capture time of the last message, or of the end of the process.
    pub ended: Time,
    /// All messages. Each member of a batch counts.
    pub messages: u64,
    /// Requests of both peers.
    pub requests: u64,
    /// Responses with a result.
    pub responses: u64,
    /// Notifications of both peers.
    pub notifications: u64,
    /// Responses with an error.
    pub errors: u64,
    /// Texts that are no JSON-RPC message.
    pub invalid: u64,
    /// Requests without a response so far.
    pub unanswered: u64,
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
            connections: Vec::new(),
            started: time,
            ended: time,
            messages: 0,
            requests: 0,
            responses: 0,
            notifications: 0,
            errors: 0,
            invalid: 0,
            unanswered: 0,
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
