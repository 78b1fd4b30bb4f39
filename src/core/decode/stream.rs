//! The record of a stream: the kind of its bytes, and the connection that it belongs to.

use super::exchange::ExchangeNumber;
use super::{ConnectionId, Direction, Side};
use crate::capture::StreamId;

/// A run of bytes in one direction, see the glossary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream's id in the capture.
    pub id: StreamId,
    /// The connection that the bytes travelled on.
    pub connection: ConnectionId,
    /// The kind of bytes in the stream.
    pub kind: StreamKind,
}

/// The kind of bytes in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// One direction of a TCP connection.
    Tcp(Side),
    /// One direction of the decrypted content of TLS.
    Plaintext(Side),
    /// One pipe of a process, by its file descriptor.
    Pipe(u8),
    /// The content of an HTTP message, after removing the transfer coding.
    Body(ExchangeNumber, Direction),
    /// The content of an HTTP message, after removing the content coding as well.
    Decoded(ExchangeNumber, Direction),
    /// The data of a response's server-sent events.
    EventData(ExchangeNumber),
    /// The messages of one direction of a WebSocket, unmasked and decompressed.
    WebSocket(ExchangeNumber, Direction),
    /// Texts of one direction after redaction.
    Redacted(Direction),
}
