//! Facts about a connection as a whole: addresses, handshake, counters.

use super::segment::{Flags, Segment, SynOptions};
use super::{Analysis, Endpoints, Side};
use crate::capture::{PacketNumber, Time};

/// A packet of the TCP handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakePacket {
    /// The number of the packet.
    pub packet: PacketNumber,
    /// Its capture time.
    pub time: Time,
}

/// Facts about one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Number of packets sent.
    pub packets: u64,
    /// Payload bytes of the stream that were captured, each counted once.
    pub bytes: u64,
    /// Payload bytes of the stream that were not captured.
    pub lost: u64,
    /// The options of its SYN.
    pub options: SynOptions,
    /// Number of retransmitted segments. Each is counted once, under the first of
    /// Wireshark's names.
    pub retransmissions: u32,
    /// Number of duplicate acknowledgments.
    pub duplicate_acks: u32,
    /// Number of keep-alive probes.
    pub keep_alives: u32,
    /// Number of times that it announced a window of zero.
    pub zero_windows: u32,
    /// The packet of its first FIN.
    pub fin: Option<PacketNumber>,
    /// The packet of its first RST.
    pub rst: Option<PacketNumber>,
}

/// Facts about a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The addresses of its ends, by [`Side`].
    pub endpoints: Endpoints,
    /// Time of the first packet captured.
    pub opened: Time,
    /// Time of the last packet captured.
    pub last: Time,
    /// SYN, SYN+ACK and the ACK that completed the handshake, where captured.
    pub handshake: [Option<HandshakePacket>; 3],
    /// The facts about each end, by [`Side`].
    pub ends: [End; 2],
}

impl Facts {
    /// Nanoseconds from the SYN to the ACK of the SYN+ACK, if both were captured. Wireshark calls
    /// this the initial round trip.
    pub fn round_trip(&self) -> Option<i64> {
        Some(self.handshake[2]?.time.since(self.handshake[0]?.time))
    }

    /// The facts about a connection that `segment` opens, sent by `side`.
    pub(super) fn new(segment: &Segment<'_>, side: Side) -> Facts {
        let endpoints = match side {
            Side::First => [segment.source, segment.destination],
            Side::Second => [segment.destination, segment.source],
        };
        let (opened, last) = (segment.time, segment.time);
        Facts { endpoints, opened, last, handshake: [None; 3], ends: [End::default(); 2] }
    }

    /// Counts a segment. Notes its place in the handshake, and the options of a SYN.
    pub(super) fn add_segment(&mut self, side: Side, segment: &Segment<'_>) {
        self.last = segment.time;
        let end = &mut self.ends[side.index()];
        end.packets += 1;
        let step = Some(HandshakePacket { packet: segment.packet, time: segment.time });
        let syn = segment.flags.has(Flags::SYN);
        if syn {
            end.options = SynOptions::read(segment.options);
        }
        match (side, syn, segment.flags.has(Flags::ACK)) {
            // A SYN that was retransmitted: the round trip counts from the last one, as in
            // Wireshark.
            (Side::First, true, false) if self.handshake[2].is_none() => self.handshake[0] = step,
            (Side::Second, true, true) if self.handshake[1].is_none() => self.handshake[1] = step,
            (Side::First, false, true) if self.handshake[1].is_some() && self.handshake[2].is_none() => {
                self.handshake[2] = step;
            }
            _ => {}
        }
    }

    /// Counts the names that Wireshark gives to a segment of `side`.
    pub(super) fn count_names(&mut self, side: Side, analysis: Analysis) {
        if analysis == Analysis::default() {
            return;
        }
        let end = &mut self.ends[side.index()];
        let bump = |counter: &mut u32, mask: u32| *counter += u32::from(analysis.has(mask));
        bump(&mut end.retransmissions, Analysis::ANY_RETRANSMISSION);
        bump(&mut end.duplicate_acks, Analysis::DUPLICATE_ACK);
        bump(&mut end.keep_alives, Analysis::KEEP_ALIVE);
        bump(&mut end.zero_windows, Analysis::ZERO_WINDOW);
    }

    /// The number of bytes that the window field of a segment of `side` means. "The window field in
    /// a segment where the SYN bit is set [...] MUST NOT be scaled". Scaling needs the option in
    /// both SYNs (RFC 7323 section 2.2).
    pub(super) fn window(&self, side: Side, segment: &Segment<'_>) -> u32 {
        let scale = |side: Side| self.ends[side.index()].options.window_scale;
        match (scale(side), scale(side.other())) {
            (Some(shift), Some(_)) if !segment.flags.has(Flags::SYN) => u32::from(segment.window) << shift,
            _ => u32::from(segment.window),
        }
    }
}
