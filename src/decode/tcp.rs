//! TCP: segments to two streams of bytes in order, with gaps where bytes are missing.

use std::net::SocketAddr;

use super::{Anomaly, ConnectionId, Endpoints, Piece, Side};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

/// The flag bits of a TCP header (RFC 9293 section 3.1), low byte and NS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from sender.
    pub const FIN: u16 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u16 = 0x02;
    /// Reset the connection.
    pub const RST: u16 = 0x04;
    /// Push.
    pub const PSH: u16 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u16 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u16 = 0x20;
    /// ECN echo.
    pub const ECE: u16 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u16 = 0x80;

    /// Whether any bit of `mask` is set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask != 0
    }
}

/// One TCP segment as the packet layer hands it over.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// When the packet that completed it was captured.
    pub time: Time,
    /// That packet (its own, or the last fragment to arrive).
    pub packet: PacketNumber,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number as sent.
    pub sequence: u32,
    /// Acknowledgment number as sent.
    pub acknowledgment: u32,
    /// Flag bits.
    pub flags: Flags,
    /// Window as sent, not scaled.
    pub window: u16,
    /// The raw options.
    pub options: &'a [u8],
    /// The payload as captured.
    pub payload: &'a [u8],
    /// Payload bytes that the capture cut off behind `payload` (snap length).
    pub missing: u32,
    /// Where the bytes of `payload` stand in packets: one range, or several for a fragmented datagram.
    pub origin: &'a [PacketRange],
}

/// What a SYN offered (RFC 9293, 7323, 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale: the shift count.
    pub window_scale: Option<u8>,
    /// Selective acknowledgment permitted.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: bool,
}

/// One step of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The packet.
    pub packet: PacketNumber,
    /// When.
    pub time: Time,
}

/// What is known of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Packets sent.
    pub packets: u64,
    /// Payload bytes of the stream that were seen, each once.
    pub bytes: u64,
    /// Payload bytes of the stream that were never seen.
    pub lost: u64,
    /// Options of its SYN.
    pub options: Options,
    /// Segments sent again, each counted once under the name Wireshark gives it first.
    pub retransmissions: u32,
    /// Duplicate acknowledgments.
    pub duplicate_acks: u32,
    /// Keep-alive probes.
    pub keep_alives: u32,
    /// Times it announced a window of zero.
    pub zero_windows: u32,
    /// The packet of its FIN.
    pub fin: Option<PacketNumber>,
    /// The packet of its RST.
    pub rst: Option<PacketNumber>,
}

/// What is known of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Addresses, by [`Side`].
    pub endpoints: Endpoints,
    /// Time of the first packet seen.
    pub opened: Time,
    /// Time of the last packet seen.
    pub last: Time,
    /// SYN, SYN+ACK and the ACK that completed the handshake, where seen.
    pub handshake: [Option<Step>; 3],
    /// Each end, by [`Side`].
    pub ends: [End; 2],
}

impl Facts {
    /// Nanoseconds from SYN to the ACK of the SYN+ACK (as Wireshark's initial round trip), where both were seen.
    pub fn round_trip(&self) -> Option<i64> {
        Some(self.handshake[2]?.time.since(self.handshake[0]?.time))
    }
}

/// What Wireshark's TCP analysis calls a segment; bits, since some go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Analysis(pub u32);

impl Analysis {
    /// TCP Retransmission.
    pub const RETRANSMISSION: u32 = 1 << 0;
    /// TCP Fast Retransmission.
    pub const FAST_RETRANSMISSION: u32 = 1 << 1;
    /// TCP Spurious Retransmission.
    pub const SPURIOUS_RETRANSMISSION: u32 = 1 << 2;
    /// TCP Out-Of-Order.
    pub const OUT_OF_ORDER: u32 = 1 << 3;
    /// TCP Previous segment not captured.
    pub const PREVIOUS_NOT_CAPTURED: u32 = 1 << 4;
    /// TCP ACKed unseen segment.
    pub const ACKED_UNSEEN: u32 = 1 << 5;
    /// TCP Dup ACK.
    pub const DUPLICATE_ACK: u32 = 1 << 6;
    /// TCP Keep-Alive.
    pub const KEEP_ALIVE: u32 = 1 << 7;
    /// TCP Keep-Alive ACK.
    pub const KEEP_ALIVE_ACK: u32 = 1 << 8;
    /// TCP ZeroWindow.
    pub const ZERO_WINDOW: u32 = 1 << 9;
    /// TCP ZeroWindowProbe.
    pub const ZERO_WINDOW_PROBE: u32 = 1 << 10;
    /// TCP ZeroWindowProbeAck.
    pub const ZERO_WINDOW_PROBE_ACK: u32 = 1 << 11;
    /// TCP Window Update.
    pub const WINDOW_UPDATE: u32 = 1 << 12;
    /// TCP Window Full.
    pub const WINDOW_FULL: u32 = 1 << 13;
    /// TCP Port numbers reused.
    pub const PORT_REUSED: u32 = 1 << 14;

    /// Names of the bits, in the order of the constants, as Wireshark words them.
    pub const NAMES: [&'static str; 15] = [
        "Retransmission",
        "Fast Retransmission",
        "Spurious Retransmission",
        "Out-Of-Order",
        "Previous segment not captured",
        "ACKed unseen segment",
        "Dup ACK",
        "Keep-Alive",
        "Keep-Alive ACK",
        "ZeroWindow",
        "ZeroWindowProbe",
        "ZeroWindowProbeAck",
        "Window Update",
        "Window Full",
        "Port numbers reused",
    ];

    /// The names of the bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| *name)
    }
}

/// What the reassembler says of each segment, whether or not it brought anything new.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFact<'a> {
    /// The connection it belongs to.
    pub connection: ConnectionId,
    /// Who sent it.
    pub side: Side,
    /// The packet that completed it.
    pub packet: PacketNumber,
    /// Offset in the sender's stream of its first payload byte (relative sequence number minus one); for a
    /// keep-alive this lies before the bytes already seen.
    pub offset: u64,
    /// Offset in the peer's stream up to which it acknowledges; `None` without ACK.
    pub acknowledged: Option<u64>,
    /// Window in bytes, scaled where the scale is known.
    pub window: u32,
    /// Flag bits.
    pub flags: Flags,
    /// Wireshark's names for it.
    pub analysis: Analysis,
    /// Payload bytes on the wire.
    pub length: u32,
    /// Where the captured payload bytes stand in packets.
    pub origin: &'a [PacketRange],
}

/// Bytes in stream order, as soon as they are known to be next.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Who sent them.
    pub side: Side,
    /// Offset of the piece in the sender's stream.
    pub offset: u64,
    /// The bytes, the gap or the end.
    pub piece: Piece<'a>,
    /// Where the bytes stand in packets, in order; empty for a gap or end.
    pub origin: &'a [PacketRange],
    /// When the packet that brought them was captured (for a gap or end: when it was declared).
    pub time: Time,
    /// Offset in the other side's stream up to which the sender had acknowledged when it sent them: what it had
    /// seen of the other side. The other side's bytes below it were delivered (or declared a gap) before.
    pub acknowledged: u64,
}

/// What the reassembler tells. Connections are opened before anything else is said of them and closed last.
pub trait Sink {
    /// A connection was seen for the first time.
    fn opened(&mut self, connection: ConnectionId, facts: &Facts);
    /// A segment arrived; said before what it delivers.
    fn segment(&mut self, fact: &SegmentFact<'_>);
    /// A piece of a stream. `Piece::End` comes exactly once for each side, last.
    fn delivered(&mut self, delivery: Delivery<'_>);
    /// Something odd in one side's stream.
    fn anomaly(&mut self, connection: ConnectionId, side: Side, packet: PacketNumber, anomaly: Anomaly);
    /// The connection is over and forgotten.
    fn closed(&mut self, connection: ConnectionId, facts: &Facts);
}

/// The reassembler: every TCP connection of a capture.
#[derive(Debug)]
pub struct Tcp {
    limits: Limits,
}

impl Tcp {
    /// An empty one.
    pub fn new(limits: Limits) -> Tcp {
        Tcp { limits }
    }

    /// One segment. Segments may come in any order.
    pub fn push(&mut self, segment: &Segment<'_>, sink: &mut impl Sink) {
        let _ = (segment, sink, self.limits);
    }

    /// The capture clock moved to `now` (it never goes back inside): declares losses and forgets connections that are due.
    /// Called before each packet and on a live tick.
    pub fn advance(&mut self, now: Time, sink: &mut impl Sink) {
        let _ = (now, sink);
    }

    /// The capture is over: everything held is delivered, every connection closed.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let _ = sink;
    }

    /// What is known of an open connection.
    pub fn facts(&self, connection: ConnectionId) -> Option<&Facts> {
        let _ = connection;
        None
    }
}
