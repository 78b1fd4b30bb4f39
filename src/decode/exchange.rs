//! An HTTP exchange as a record: request, response, and which packets carried them.

use super::ConnectionId;
use crate::capture::{PacketNumber, Time};

/// The number of an exchange in a capture, 1-based in order of its first head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeNumber(pub u64);

/// A header field as sent; where it is a secret, `value` is masked byte for byte unless secrets are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name as sent.
    pub name: String,
    /// The value; bytes that are no UTF-8 are replaced.
    pub value: String,
}

/// One direction of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Header fields in order as sent.
    pub fields: Vec<Field>,
    /// Time of the first byte.
    pub started: Option<Time>,
    /// Time of the last byte so far.
    pub ended: Option<Time>,
    /// Offset of the head in the connection's stream of this direction.
    pub head_start: u64,
    /// Offset behind the head.
    pub head_end: u64,
    /// Packets that carried it, each once, in stream order; at most `Limits::packets_listed`.
    pub packets: Vec<PacketNumber>,
    /// Packets that carried its head.
    pub head_packets: Vec<PacketNumber>,
    /// Bytes of the content, as decoded (transfer and content codings taken off).
    pub body_bytes: u64,
    /// SHA-256 of the decoded content, where asked for and whole.
    pub body_sha256: Option<[u8; 32]>,
    /// Whether it was seen whole.
    pub complete: bool,
}

/// An HTTP exchange, MCP or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Its number.
    pub number: ExchangeNumber,
    /// The connection.
    pub connection: ConnectionId,
    /// The HTTP/2 stream.
    pub h2_stream: Option<u32>,
    /// `1.0`, `1.1` or `2`.
    pub http_version: &'static str,
    /// The request method, where the request was seen.
    pub method: Option<String>,
    /// The request target.
    pub target: Option<String>,
    /// The status of the final response, where seen.
    pub status: Option<u16>,
    /// The reason phrase.
    pub reason: Option<String>,
    /// The request.
    pub request: Half,
    /// The response.
    pub response: Half,
}
