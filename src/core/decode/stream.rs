//! A stream as a record: what its bytes are, and which connection they belong to.

use super::exchange::ExchangeNumber;
use super::{ConnectionId, Direction, Side};
use crate::capture::StreamId;

/// A stream as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its id in the capture.
    pub id: StreamId,
    /// The connection below.
    pub connection: ConnectionId,
    /// What it is.
    pub kind: StreamKind,
}

/// What a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// One direction of a TCP connection.
    Tcp(Side),
    /// What TLS carried in one direction.
    Plaintext(Side),
    /// One pipe of a process, by file descriptor.
    Pipe(u8),
    /// The content of an HTTP message, transfer coding taken off.
    Body(ExchangeNumber, Direction),
    /// The same, content coding taken off.
    Decoded(ExchangeNumber, Direction),
    /// The data of the server-sent events of a response.
    EventData(ExchangeNumber),
    /// The messages of one direction of a WebSocket, unmasked and inflated.
    WebSocket(ExchangeNumber, Direction),
}
