//! The events that the pipeline emits, in order. The store, the live printer and the tests use the
//! same events.

use std::ops::Range;

use crate::capture::pipe::{HEAD, Pipe};
use crate::capture::{Packet, PacketNumber, PacketRange, Ranges, StreamId, StreamPart, Time, above_tls};
use crate::decode::mask::Mask;
use crate::decode::tcp::{Analysis, Facts, Flags, SegmentFact};
use crate::decode::{ConnectionId, Exchange, ExchangeNumber, Side};
use crate::findings::Finding;
use crate::mcp::link::Link;
use crate::mcp::{Message, MessageNumber, Note, Session, SessionNumber};

pub use crate::decode::stream::{Stream, StreamKind};

/// One event. Session records are emitted again when they change: the last one is valid.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The record of a session that was opened or changed.
    Session(Box<Session>),
    /// A complete message.
    Message(Box<Message>),
    /// An HTTP exchange that ended, or that was open at the end of the capture.
    Exchange(Box<Exchange>),
    /// A place where traffic breaks a rule.
    Finding(Box<Finding>),

    /// An occurrence around the messages of a session.
    Note(Box<Note>),
    /// The link of an earlier message, known only when its session ends: it repeats a call that was
    /// never answered. Messages of the operation that it began belong to that of the link.
    Linked(SessionNumber, MessageNumber, Link),

    /// A session was ended to make room for others. Its last record was emitted before.
    Ended(SessionNumber),

    // The other events are for a store. They are emitted only with `Detail::Store`, and are not
    // part of the façade.
    /// An exchange that is open at a tick, as far as it was captured. It is emitted again when it
    /// got another head. `Exchange` replaces it. A stream may stay open for hours.
    #[doc(hidden)]
    Head(Box<Exchange>),
    /// The record of a connection as far as it is known. It precedes all other events
    /// of the connection.
    #[doc(hidden)]
    Connection(Box<Connection>),
    /// An HTTP exchange belongs to a session. Emitted at most once for each exchange: while it is
    /// open, when it ends, or when a later request opens the session.
    #[doc(hidden)]
    Belongs(ExchangeNumber, SessionNumber),
    /// A session claims this connection. Its packets have to be stored, earlier ones included.
    #[doc(hidden)]
    Claimed(ConnectionId),
    /// A connection ended. No event of it follows.
    #[doc(hidden)]
    Closed(ConnectionId),
    /// The packet that was pushed last belongs to a connection.
    #[doc(hidden)]
    Segment(Segment),
    /// Bytes `start..end` of one side's stream are a secret. They have to be masked in every packet
    /// that carries them.
    #[doc(hidden)]
    Secret {
        connection: ConnectionId,
        /// The side that sent the bytes.
        side: Side,
        /// Offset of the first byte.
        start: u64,
        /// Offset after the last byte.
        end: u64,
        /// The bytes that replace the secret.
        mask: Mask,
    },
    /// One side's stream was searched for secrets up to `offset`. Packets up to there
    /// may be written.
    #[doc(hidden)]
    Cleared {
        connection: ConnectionId,
        /// The side that sent the bytes.
        side: Side,
        /// The offset in its stream.
        offset: u64,
    },
    /// A stream of a connection that a session claimed.
    #[doc(hidden)]
    Stream(Stream),
    /// A stream part that the decoder needs no longer.
    #[doc(hidden)]
    Part(StreamId, StreamPart),
    /// Decrypted bytes of a TLS stream, from an offset on, with secrets masked. Nothing else stores
    /// them, because the TLS secrets are not stored.
    #[doc(hidden)]
    Plaintext(StreamId, u64, Vec<u8>),
    /// The TLS secrets of a connection, as lines of a key log. Emitted only if secrets are
    /// to be stored.
    #[doc(hidden)]
    Keys(ConnectionId, String),
}

/// Receives events in order.
pub type Emit<'e> = dyn FnMut(Event) + 'e;

/// The kinds of events that the pipeline emits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Sessions, messages, exchanges, findings.
    #[default]
    Messages,
    /// These, and the events that a store needs to show every layer later.
    Store,
}

/// The record of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its id in the capture.
    pub id: ConnectionId,
    /// The kind of connection.
    pub kind: ConnectionKind,
    /// The side of the client, once known.
    pub client: Option<Side>,
    /// Its protocol: `http/1.1`, `http/2`, `websocket`, `tls`, `pipe` or `unknown`.
    pub protocol: &'static str,
    /// The server's host name (DNS, SNI, Host), where known.
    pub host: Option<String>,
    /// For TLS: the steps of the handshake and runs of application data, in order.
    pub tls: Vec<crate::decode::tls::RecordGroup>,
    /// For TLS: the parameters that the handshake agreed on.
    pub agreed: Option<crate::decode::tls::Agreed>,
}

impl Connection {
    /// The process whose text above TLS it carries. Then its lower layers are made up.
    pub fn above_tls(&self) -> Option<u32> {
        if let ConnectionKind::Tcp(facts) = &self.kind { above_tls::process(&facts.endpoints) } else { None }
    }
}

/// The kind of a connection.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every connection is TCP")]
pub enum ConnectionKind {
    /// A TCP connection.
    Tcp(Facts),
    /// The pipes of a wrapped process.
    Pipe {
        /// The process id.
        process: u32,
        /// The time of its first packet.
        opened: Time,
    },
}

/// The part of the packet pushed last that belongs to a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The connection that the packet belongs to.
    pub connection: ConnectionId,
    /// The sender. For a pipe, `First` is the host, which writes to stdin.
    pub side: Side,
    /// The packet that was pushed last.
    pub packet: PacketNumber,
    /// Offset of the first payload byte in the sender's stream.
    pub offset: u64,
    /// Payload bytes in the packet as transmitted.
    pub length: u32,
    /// The offset in the peer's stream up to which it acknowledges.
    pub acknowledged: Option<u64>,
    /// The receive window in bytes.
    pub window: u32,
    /// The TCP flags of the header.
    pub flags: Flags,
    /// Results of TCP analysis, named as in Wireshark.
    pub analysis: Analysis,
    /// The ranges of packets that hold the payload. Only fragments have several.
    pub origin: Ranges,
}

impl Segment {
    /// From the facts of the TCP reassembler.
    pub(crate) fn of(fact: &SegmentFact<'_>) -> Segment {
        Segment {
            connection: fact.connection,
            side: fact.side,
            packet: fact.packet,
            offset: fact.offset,
            length: fact.length,
            acknowledged: fact.acknowledged,
            window: fact.window,
            flags: fact.flags,
            analysis: fact.analysis,
            origin: fact.origin.into(),
        }
    }

    /// A chunk of a pipe, at these offsets of its stream.
    pub(crate) fn of_pipe(
        connection: ConnectionId,
        pipe: Pipe,
        packet: &Packet<'_>,
        offsets: Range<u64>,
        is_captured: bool,
    ) -> Segment {
        let (start, end) = (HEAD as u32, packet.data.len() as u32);
        let whole = Ranges::One(PacketRange { packet: packet.number, start, end });
        Segment {
            connection,
            side: if pipe == Pipe::Stdin { Side::First } else { Side::Second },
            packet: packet.number,
            offset: offsets.start,
            length: u32::try_from(offsets.end - offsets.start).unwrap_or(u32::MAX),
            acknowledged: None,
            window: 0,
            flags: Flags::default(),
            analysis: Analysis::default(),
            origin: if is_captured { whole } else { Ranges::default() },
        }
    }
}
