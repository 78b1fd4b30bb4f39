//! What the pipeline says, in order. The store, the live printer and the tests read the same events.

use std::ops::Range;

use crate::capture::pipe::{HEAD, Pipe};
use crate::capture::{Packet, PacketNumber, PacketRange, Part, Ranges, StreamId, Time};
use crate::decode::exchange::Exchange;
use crate::decode::tcp::{Analysis, Facts, Flags, SegmentFact};
use crate::decode::{ConnectionId, Side};
use crate::findings::Finding;
use crate::mcp::{Message, Session, SessionNumber};

pub use crate::decode::stream::{Stream, StreamKind};

/// One event. A session comes again when it changed: the last record counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A session was opened or changed.
    Session(Box<Session>),
    /// A message is complete.
    Message(Box<Message>),
    /// An HTTP exchange is over (or the capture is).
    Exchange(Box<Exchange>),
    /// Something odd.
    Finding(Box<Finding>),

    /// A session was ended to make room for others: nothing more is said of it, and its last record was the one before.
    Ended(SessionNumber),

    // The rest is for a store. It comes only when the pipeline was asked for it (`Detail::Store`), and is no part of the façade.
    /// An exchange that is open when the clock is told, as far as it went, where a head of it came since the last time: it may stay open for hours.
    /// `Exchange` replaces it.
    #[doc(hidden)]
    Head(Box<Exchange>),
    /// A connection, its facts so far. First of all that is said of it.
    #[doc(hidden)]
    Connection(Box<Connection>),
    /// This connection belongs to a session: its packets are to be kept, those before this moment too.
    #[doc(hidden)]
    Keep(ConnectionId),
    /// A connection is over; nothing more is said of it.
    #[doc(hidden)]
    Closed(ConnectionId),
    /// The packet just pushed belongs to a connection.
    #[doc(hidden)]
    Segment(Segment),
    /// Bytes `start..end` of one side's stream are a secret: to be masked in every packet that carries them.
    #[doc(hidden)]
    Secret {
        /// The connection.
        connection: ConnectionId,
        /// The sender.
        side: Side,
        /// First byte.
        start: u64,
        /// Behind the last.
        end: u64,
        /// What to put in place of each byte.
        mask: u8,
    },
    /// Everything below `offset` of one side's stream has been looked at for secrets: packets up to there may be written.
    #[doc(hidden)]
    Cleared {
        /// The connection.
        connection: ConnectionId,
        /// The sender.
        side: Side,
        /// Up to where.
        offset: u64,
    },
    /// A stream that a kept connection's messages stand in.
    #[doc(hidden)]
    Stream(Stream),
    /// Part of a stream that will not be asked for again.
    #[doc(hidden)]
    Part(StreamId, Part),
    /// Bytes of a stream that TLS carried, from an offset on, secrets masked: nothing else keeps them, since the keys are not kept.
    #[doc(hidden)]
    Plaintext(StreamId, u64, Vec<u8>),
    /// The TLS secrets of a connection, as lines of a key log; only where secrets are to be kept.
    #[doc(hidden)]
    Keys(ConnectionId, String),
}

/// Receives events in order.
pub type Emit<'e> = dyn FnMut(Event) + 'e;

/// How much the pipeline says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Sessions, messages, exchanges, findings.
    #[default]
    Messages,
    /// That, and what a store needs to show every layer later.
    Store,
}

/// A connection as a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its id in the capture.
    pub id: ConnectionId,
    /// What it is.
    pub kind: ConnectionKind,
    /// Which side is the client, once known.
    pub client: Option<Side>,
    /// What runs on it: `http/1.1`, `tls`, `pipe`, `unknown`.
    pub protocol: &'static str,
    /// The server's name (DNS, SNI, Host), where known.
    pub host: Option<String>,
    /// The steps of the TLS handshake and runs of TLS application data, in order, where it is TLS.
    pub tls: Vec<crate::decode::tls::Step>,
    /// What TLS agreed on, where it is TLS.
    pub agreed: Option<crate::decode::tls::Agreed>,
}

/// What a connection is.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every connection is TCP")]
pub enum ConnectionKind {
    /// A TCP connection.
    Tcp(Facts),
    /// The pipes of a wrapped process.
    Pipe {
        /// Its id.
        process: u32,
        /// When it was first seen.
        opened: Time,
    },
}

/// What the pipeline knows of the packet just pushed.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The connection.
    pub connection: ConnectionId,
    /// Who sent it (`First` is the host for a pipe: stdin).
    pub side: Side,
    /// The packet.
    pub packet: PacketNumber,
    /// Offset of its first payload byte in the sender's stream.
    pub offset: u64,
    /// Payload bytes on the wire.
    pub length: u32,
    /// Up to where of the peer's stream it acknowledges.
    pub acknowledged: Option<u64>,
    /// Window in bytes.
    pub window: u32,
    /// TCP flags.
    pub flags: Flags,
    /// Wireshark's names for it.
    pub analysis: Analysis,
    /// Where the payload stands in packets: usually the packet itself, several for fragments.
    pub origin: Ranges,
}

impl Segment {
    /// By what the reassembler says of it.
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
