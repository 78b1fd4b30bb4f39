//! Decoders: they turn bytes into units. Each file decodes one protocol. No decoder does input or
//! output, reads a clock, or knows which decoder follows it.
//!
//! A stream decoder takes [`Piece`]s in order. It emits what it finds as slices of its input, with
//! offsets in its input stream. Missing bytes are an ordinary input, not an error: after a
//! [`Piece::Gap`] the decoder resumes at the next unit and reports which bytes it skipped. Only
//! `stack.rs` knows which decoder follows which.

pub mod coding;
pub mod dns;
pub mod exchange;
pub mod http;
pub mod http1;
pub mod http2;
pub mod json;
pub mod jsonrpc;
pub mod lines;
pub mod mask;
pub mod packet;
pub mod quic;
pub mod raw;
pub mod redact;
pub mod refusal;
mod secret_name;
mod secret_shape;
pub mod secrets;
pub mod sse;
pub mod stack;
pub mod stream;
pub mod tcp;
pub mod tls;
pub mod uri;
pub mod websocket;

use std::fmt;
use std::net::SocketAddr;

use crate::capture::pipe::Pipe;

pub use exchange::{Exchange, ExchangeNumber, Half};
pub use jsonrpc::Kind;

/// Upper bound of stream offsets, so that sums of offsets cannot overflow whatever lengths gaps
/// claim. No real stream is 2^62 bytes long.
const MAX_OFFSET: u64 = 1 << 62;

/// One step of input for a stream decoder. The decoder counts offsets itself: an offset grows by
/// the length of each piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes of the stream.
    Data(&'a [u8]),
    /// This many bytes are missing from the capture.
    Gap(u64),
    /// The stream ended; no piece follows.
    End(Ending),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The writer closed the stream (FIN, end of file, last chunk).
    Finished,
    /// The stream was aborted (RST).
    Reset,
    /// The stream was still open when the capture ended or the connection was discarded.
    Cut,
}

words! {
    /// The direction in which bytes of an MCP conversation flow.
    #[derive(Default)]
    pub enum Direction {
        /// From the client (the MCP host) to the server.
        #[default]
        ClientToServer = "client-to-server",
        /// From the server to the client.
        ServerToClient = "server-to-client",
    }
}

impl Direction {
    /// The opposite direction.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::ClientToServer => Direction::ServerToClient,
            Direction::ServerToClient => Direction::ClientToServer,
        }
    }
}

/// One of the two ends of a connection, as the sender of bytes.
///
/// `First` is the sender of the SYN. Without a handshake it is the sender of the first captured
/// packet, or the receiver if that packet is a SYN+ACK. Which side is the client is decided from
/// the bytes that they send, see `stack.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened the connection, as far as the capture shows.
    First,
    /// The end that accepted the connection.
    Second,
}

impl Side {
    /// The opposite end.
    pub fn other(self) -> Side {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }

    /// 0 for `First` and 1 for `Second`, to index arrays of two.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The number of a connection (TCP, or the pipes of one process) in a capture. Numbers start at 1
/// and follow the order of appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The addresses and ports of both ends of a TCP connection, indexed by [`Side`].
pub type Endpoints = [SocketAddr; 2];

/// An irregularity that a decoder met. It carries facts only; `findings/` puts them into words.
///
/// Each `offset` counts in the decoder's input stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// TCP: bytes were sent again with different content. The first copy counts.
    OverlapConflict {
        /// Offset of the first byte that differs.
        offset: u64,
        /// Number of bytes that differ.
        length: u64,
    },
    /// TCP: bytes are missing from the capture although the peer acknowledged them, or later bytes
    /// prove that they were sent.
    Lost {
        /// Offset of the first missing byte.
        offset: u64,
        /// Number of missing bytes.
        length: u64,
    },
    /// TCP: the two directions were captured with different clocks.
    ClocksDiffer {
        /// The sender of the packets whose clock is ahead.
        ahead: SocketAddr,
        /// The sender of the other packets.
        behind: SocketAddr,
        /// The smallest and the largest difference that explains all acknowledgments.
        nanoseconds: (i64, i64),
    },
    /// A line of an HTTP head ended in LF alone.
    BareLineFeed {
        /// Offset of the line feed.
        offset: u64,
    },
    /// A header line continues on the next line (obsolete line folding, RFC 9112 section 5.2).
    FoldedHeader {
        /// Offset of the continuation line.
        offset: u64,
    },
    /// The length of the body is declared in contradictory or invalid ways (RFC 9112 section 6.3).
    AmbiguousFraming {
        /// Offset of the head.
        offset: u64,
        /// The contradiction in words.
        why: &'static str,
    },
    /// Other bytes stand where an HTTP message, chunk or head must begin.
    NotHttp {
        /// Offset of the first unexpected byte.
        offset: u64,
        /// The syntax element that was expected.
        expected: &'static str,
    },
    /// Bytes were skipped up to the next place where decoding could resume.
    Skipped {
        /// Offset of the first skipped byte.
        offset: u64,
        /// Number of skipped bytes.
        length: u64,
    },
    /// Fields of an HTTP/2 head refer to entries of the HPACK table that the capture
    /// does not contain.
    UnknownFields {
        /// Offset of the first frame of the header block.
        offset: u64,
        /// Number of such fields.
        count: u32,
    },
    /// One side aborted an HTTP/2 stream and sent an error code.
    StreamReset {
        /// Offset of the RST_STREAM frame.
        offset: u64,
        /// Identifier of the HTTP/2 stream.
        stream: u32,
        /// The error code (RFC 9113 section 7).
        code: u32,
    },
    /// One side is closing an HTTP/2 connection and sent an error code.
    GoingAway {
        /// Offset of the GOAWAY frame.
        offset: u64,
        /// The error code (RFC 9113 section 7).
        code: u32,
    },
    /// Other bytes stand where a WebSocket frame must begin.
    NotWebSocket {
        /// Offset of the first unexpected byte.
        offset: u64,
        /// The syntax element that was expected.
        expected: &'static str,
    },
    /// A response for which no request was seen on the connection.
    ResponseWithoutRequest {
        /// Offset of the response's head.
        offset: u64,
    },
    /// A body that cannot be decoded by its Content-Encoding. If nothing was decoded before, the
    /// body is used as sent. Otherwise the rest is only counted.
    BadCoding {
        /// The coding from the header field.
        coding: String,
        /// The decoder's reason.
        why: String,
    },
    /// A Content-Encoding that mcptap does not support. The bytes of the body are counted, and
    /// no message is read from it.
    UnknownCoding {
        /// The coding from the header field.
        coding: String,
    },
    /// Decoding of this unit stopped because a limit was reached.
    LimitReached {
        /// The limit's name: a member of `Limits`.
        limit: &'static str,
        /// Offset at which decoding stopped.
        offset: u64,
    },
    /// TLS records of one direction are missing. The next record was found by
    /// trying record numbers.
    TlsRecordsLost {
        /// Offset of the first missing record.
        offset: u64,
        /// Number of missing bytes.
        length: u64,
        /// Number of missing records.
        records: u64,
    },
    /// TLS records that cannot be decrypted although secrets of their session are available.
    TlsNotOpened {
        /// Offset of the record at which decryption failed.
        offset: u64,
        /// Whether earlier records of this direction could be decrypted.
        before: bool,
    },
    /// TLS records with a protection that mcptap does not support.
    TlsUnsupported {
        /// The cipher suite and the version of TLS.
        what: String,
    },
    /// A server answered a ClientHello without TLS.
    TlsToClearServer {
        /// Offset of the answer.
        offset: u64,
        /// The address of the server.
        server: SocketAddr,
        /// The status of the answer; `None` if it has no head.
        status: Option<u16>,
    },
    /// A server that speaks TLS answered a request without TLS.
    ClearToTlsServer {
        /// Offset of the answer.
        offset: u64,
        /// The address of the server.
        server: SocketAddr,
        /// The status of the answer; `None` if it is a TLS alert.
        status: Option<u16>,
    },
    /// Messages on a pipe are separated by something other than LF. Reported once for each pipe and
    /// kind of separator.
    FramingNoise {
        /// The pipe on which it was found.
        pipe: Pipe,
        /// Offset of the line.
        offset: u64,
        /// The unexpected separator in words.
        what: &'static str,
    },
    /// Bytes that passed through a pipe were not recorded.
    PipeLost {
        /// The pipe that carried them.
        pipe: Pipe,
        /// Offset of the first of them.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// A pipe was closed in the middle of a line.
    Unterminated {
        /// The pipe that was closed.
        pipe: Pipe,
        /// Offset of the line.
        offset: u64,
        /// Length of the unfinished line in bytes.
        length: u64,
    },
    /// A line of stderr that is a JSON-RPC message. It belongs on stdout.
    MessageOnStderr {
        /// Number of the line, starting at 1.
        line: u64,
    },
}
