//! A session as a record: one MCP conversation.

use std::net::SocketAddr;

use super::numbers::SessionNumber;
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::{ConnectionId, Endpoints};

/// How a session travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Pipes of a process.
    Stdio,
    /// HTTP+SSE of 2024-11-05.
    HttpSse,
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHttp,
    /// Plain JSON-RPC over POST.
    Http,
    /// Messages of a WebSocket.
    WebSocket,
}

impl Transport {
    /// All of them, with the word of the JSON lines.
    pub const NAMES: [(Transport, &'static str); 5] = [
        (Transport::Stdio, "stdio"),
        (Transport::HttpSse, "http-sse"),
        (Transport::StreamableHttp, "streamable-http"),
        (Transport::Http, "http"),
        (Transport::WebSocket, "websocket"),
    ];

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(transport, _)| *transport == self).map_or("", |(_, name)| name)
    }
}

/// `clientInfo` or `serverInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// `name`.
    pub name: String,
    /// `version`.
    pub version: String,
}

/// Between whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Addresses of the first connection; the host's name for the server where DNS, the Host header or SNI told it.
    Network {
        /// The client's.
        client: SocketAddr,
        /// The server's.
        server: SocketAddr,
        /// The server's name.
        host: Option<String>,
    },
    /// A process under the wrapper.
    Process {
        /// Its id.
        process: u32,
        /// The command line, program first.
        command: Vec<String>,
        /// The name the person gave it.
        name: Option<String>,
    },
}

/// Whether a connection between these ends is one of the client's host to the server.
pub fn are_between([one, other]: Endpoints, client: SocketAddr, server: SocketAddr) -> bool {
    [(one, other), (other, one)].iter().any(|(from, to)| from.ip() == client.ip() && *to == server)
}

/// One MCP conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number.
    pub number: SessionNumber,
    /// How it travels.
    pub transport: Transport,
    /// The protocol revision in force, where known.
    pub protocol_version: Option<String>,
    /// `Mcp-Session-Id`, or the session's part of the HTTP+SSE endpoint.
    pub session_id: Option<String>,
    /// The client, by its own account.
    pub client: Option<Party>,
    /// The server, by its own account.
    pub server: Option<Party>,
    /// Between whom.
    pub peers: Peers,
    /// Connections that carried it, or belong to it otherwise (a redirect's target), in order.
    pub connections: Vec<ConnectionId>,
    /// Time of the first message.
    pub started: Time,
    /// Time of the last message or of its end.
    pub ended: Time,
    /// Messages, members of batches counted each.
    pub messages: u64,
    /// Requests of both sides.
    pub requests: u64,
    /// Answers with a result.
    pub responses: u64,
    /// Notifications.
    pub notifications: u64,
    /// Answers with an error.
    pub errors: u64,
    /// What was no message.
    pub invalid: u64,
    /// Requests without an answer so far.
    pub unanswered: u64,
    /// Bytes of its connections that were seen, and that were sent as far as is known.
    pub bytes: (u64, u64),
    /// How the wrapped server ended.
    pub exit: Option<Exit>,
}

impl Session {
    /// One that begins: nothing was said yet.
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

    /// Bytes seen of bytes sent, 0 to 1.
    pub fn completeness(&self) -> f64 {
        let (seen, sent) = self.bytes;
        if sent == 0 { 1.0 } else { seen as f64 / sent as f64 }
    }
}
