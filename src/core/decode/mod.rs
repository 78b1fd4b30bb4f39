//! Bytes to units: each file is one protocol, without input or output, clock or knowledge of what follows it.
//!
//! A decoder of a stream is fed [`Piece`]s in order and gives back what it found as slices of what it was given, with the
//! offset in its input stream. Loss is a case, never an exception: after a [`Piece::Gap`] it resumes at the next unit and says what was
//! lost. `stack.rs` alone knows which decoder follows which.

pub mod coding;
pub mod dns;
pub mod exchange;
pub mod http;
pub mod http1;
pub mod http2;
pub mod json;
pub mod jsonrpc;
pub mod lines;
pub mod packet;
pub mod quic;
pub mod raw;
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

/// Where offsets stop, whatever lengths of gaps add up to: no stream is that long, and sums of offsets stay in range.
const MAX_OFFSET: u64 = 1 << 62;

/// What a stream decoder is fed. The decoder counts offsets itself: they grow by the length of each piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes.
    Data(&'a [u8]),
    /// So many bytes were never seen.
    Gap(u64),
    /// Nothing follows.
    End(Ending),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Its writer closed it (FIN, end of file, last chunk).
    Finished,
    /// It was torn down (RST).
    Reset,
    /// The capture ended, or the connection was given up, while it was open.
    Cut,
}

/// Which way bytes of an MCP conversation flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the host (client) to the server.
    ClientToServer,
    /// From the server to the host.
    ServerToClient,
}

impl Direction {
    /// The other way.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::ClientToServer => Direction::ServerToClient,
            Direction::ServerToClient => Direction::ClientToServer,
        }
    }

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        match self {
            Direction::ClientToServer => "client-to-server",
            Direction::ServerToClient => "server-to-client",
        }
    }
}

/// One of the two ends of a connection, as sender.
///
/// `First` sent the SYN; without a handshake, `First` sent the first packet that was seen (a SYN+ACK makes its receiver `First`). Which of
/// the two is the client is decided by what they say, see `stack.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened the connection, as far as is known.
    First,
    /// The other.
    Second,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }

    /// 0 or 1, to index pairs.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Names a connection (TCP, or the pipes of one process) within one capture, 1-based in order of appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two ends of a TCP connection, indexed by [`Side`].
pub type Endpoints = [SocketAddr; 2];

/// Something odd that a decoder met. It states facts; `findings/` words them.
///
/// `offset` is always an offset in the decoder's input stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Bytes sent again with other content: the first copy is kept. TCP.
    OverlapConflict {
        /// Where in the stream the copies begin to differ.
        offset: u64,
        /// How many bytes differ.
        length: u64,
    },
    /// Bytes that the peer acknowledged (or that later bytes prove) and the capture does not hold. TCP.
    Lost {
        /// Where in the stream.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A line of an HTTP head ended in LF alone.
    BareLineFeed {
        /// Of the line feed.
        offset: u64,
    },
    /// A header line was continued on the next (obsolete line folding, RFC 9112 section 5.2).
    FoldedHeader {
        /// Of the continuation.
        offset: u64,
    },
    /// The head says in two ways, or in no valid way, how long the body is (RFC 9112 section 6.3).
    AmbiguousFraming {
        /// Of the head.
        offset: u64,
        /// What contradicts what.
        why: &'static str,
    },
    /// Bytes where an HTTP message, chunk or head should be.
    NotHttp {
        /// Of the first such byte.
        offset: u64,
        /// What was expected.
        expected: &'static str,
    },
    /// Bytes were passed over until the next place where decoding could resume.
    Skipped {
        /// Of the first byte passed over.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Fields of an HTTP/2 head refer to entries of the table of its direction (HPACK) which the capture does not hold.
    UnknownFields {
        /// Of the header block's first frame.
        offset: u64,
        /// How many fields.
        count: u32,
    },
    /// One side gave an HTTP/2 stream up and named an error.
    StreamReset {
        /// Of the RST_STREAM frame.
        offset: u64,
        /// The stream.
        stream: u32,
        /// The error code (RFC 9113 section 7).
        code: u32,
    },
    /// One side ends an HTTP/2 connection and names an error.
    GoingAway {
        /// Of the GOAWAY frame.
        offset: u64,
        /// The error code (RFC 9113 section 7).
        code: u32,
    },
    /// Bytes where a WebSocket frame should be; nothing behind them is read.
    NotWebSocket {
        /// Of the first such byte.
        offset: u64,
        /// What was expected.
        expected: &'static str,
    },
    /// A response that no request on the connection asked for.
    ResponseWithoutRequest {
        /// Of its head.
        offset: u64,
    },
    /// A body is not what its Content-Encoding says; it is kept as sent.
    BadCoding {
        /// The coding named.
        coding: String,
        /// What the decoder said.
        why: String,
    },
    /// A Content-Encoding this program does not decode; the body is kept as sent.
    UnknownCoding {
        /// The coding named.
        coding: String,
    },
    /// A named limit stopped decoding of this unit.
    LimitReached {
        /// The member of `Limits`.
        limit: &'static str,
        /// Where.
        offset: u64,
    },
    /// An IP or TCP header contradicts itself or the packet's length.
    BadHeader {
        /// What is wrong.
        why: &'static str,
    },
    /// TLS records of one direction were lost; the next was found by trying record numbers.
    TlsRecordsLost {
        /// Where the first of them stood.
        offset: u64,
        /// Their bytes.
        length: u64,
        /// How many.
        records: u64,
    },
    /// TLS records do not open, though there are secrets of their session.
    TlsNotOpened {
        /// Of the record at which that was noticed.
        offset: u64,
        /// Whether records of this direction opened before.
        before: bool,
    },
    /// TLS records are protected in a way that is not opened.
    TlsUnsupported {
        /// The cipher suite and version.
        what: String,
    },
    /// IP fragments overlap with different content.
    FragmentConflict,
    /// What stands between the messages of a pipe is not LF alone. Stated once a pipe and kind.
    FramingNoise {
        /// The pipe.
        pipe: Pipe,
        /// Of the line.
        offset: u64,
        /// What it is.
        what: &'static str,
    },
    /// A pipe was closed inside a line.
    Unterminated {
        /// The pipe.
        pipe: Pipe,
        /// Of the line.
        offset: u64,
        /// Bytes of it.
        length: u64,
    },
    /// A line of stderr is a JSON-RPC message.
    MessageOnStderr {
        /// 1-based number of the line.
        line: u64,
    },
}
