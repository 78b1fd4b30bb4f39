//! The output of the first stage: what the input showed about connections, in order. It owns its
//! data, so that the second stage can run on another thread.

use std::net::SocketAddr;

use super::Counts;
use crate::capture::{PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::decode::dns::ResolvedName;
use crate::decode::stack::Unit;
use crate::decode::tcp::ClockDifference;
use crate::event::{ConnectionKind, Event};
use crate::findings::ProcessChange;

/// An observation about a connection or about the capture.
#[derive(Debug)]
pub enum Observation {
    /// A connection was found.
    Opened(ConnectionId, Box<ConnectionKind>),
    /// The beginning of a connection was captured.
    Beginning(ConnectionId),
    /// Whether the directions of a connection were captured with different clocks.
    Clocks(ConnectionId, ClockDifference),
    /// Bytes of a connection are missing that may still arrive.
    Holes {
        /// The connection with the holes.
        connection: ConnectionId,
        /// Whether the beginning of a stream is or was missing.
        lacks_beginning: bool,
    },
    /// The missing bytes of a connection arrived, or they are lost.
    NoHoles(ConnectionId),
    /// The order of the packets so far.
    Order {
        /// Whether a message that was sent earlier may still be emitted.
        is_doubtful: bool,
        /// The largest delay, in nanoseconds, of packets behind others that were captured later.
        late: i64,
    },
    /// The decoders of a connection emitted a unit.
    Unit(Unit),
    /// A packet of the pipes of a process was captured.
    Process(ConnectionId, Option<ProcessChange>, Time),
    /// A DNS response names hosts.
    Names(Vec<ResolvedName>),
    /// A client and a server use QUIC, which is not decoded.
    Quic {
        /// The address of the client.
        client: SocketAddr,
        /// The address of the server.
        server: SocketAddr,
        /// The version of the protocol.
        version: u8,
        /// The packet that showed it.
        packet: PacketNumber,
    },
    /// A fragment differs from an earlier one of its datagram where they overlap.
    FragmentsDiffer(PacketNumber),
    /// The latest capture time. It precedes a unit whose processing depends on it.
    Now(Time),
    /// An event that needs no session.
    Event(Event),
    /// The capture ended. The counters are those of this stage.
    End(Box<Counts>),
}

/// Receives observations in order.
pub type ObservationSink<'s> = dyn FnMut(Observation) + 's;

impl Observation {
    /// Bytes of traffic in it, beyond a fixed size.
    pub fn size(&self) -> usize {
        match self {
            Observation::Unit(Unit::Text(text)) => text.raw.len(),
            Observation::Unit(Unit::Plaintext(.., bytes)) => bytes.len(),
            Observation::Unit(Unit::Event(sent)) => sent.size(),
            Observation::Unit(Unit::Head(exchange, ..)) => exchange.size(),
            Observation::Unit(Unit::Exchange(exchange)) => exchange.size(),
            Observation::Unit(Unit::Stderr(_, line)) => line.bytes.len(),
            _ => 0,
        }
    }
}
