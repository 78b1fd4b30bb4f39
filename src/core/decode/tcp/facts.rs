//! What is known of a connection as a whole: addresses, handshake, counters.

use super::segment::{Flags, Options, Segment};
use super::{Analysis, Endpoints, Side};
use crate::capture::{PacketNumber, Time};

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

    /// Facts of a connection that `segment` opens, sent by `side`.
    pub(super) fn new(segment: &Segment<'_>, side: Side) -> Facts {
        let endpoints = match side {
            Side::First => [segment.source, segment.destination],
            Side::Second => [segment.destination, segment.source],
        };
        let (opened, last) = (segment.time, segment.time);
        Facts { endpoints, opened, last, handshake: [None; 3], ends: [End::default(); 2] }
    }

    /// Counts a segment and notes its step of the handshake and the options of a SYN.
    pub(super) fn note(&mut self, side: Side, segment: &Segment<'_>) {
        self.last = segment.time;
        let end = &mut self.ends[side.index()];
        end.packets += 1;
        let step = Some(Step { packet: segment.packet, time: segment.time });
        let syn = segment.flags.has(Flags::SYN);
        if syn {
            end.options = Options::read(segment.options);
        }
        match (side, syn, segment.flags.has(Flags::ACK)) {
            // A SYN that had to be sent again: the round trip counts from the last, as Wireshark's does.
            (Side::First, true, false) if self.handshake[2].is_none() => self.handshake[0] = step,
            (Side::Second, true, true) if self.handshake[1].is_none() => self.handshake[1] = step,
            (Side::First, false, true) if self.handshake[1].is_some() && self.handshake[2].is_none() => {
                self.handshake[2] = step;
            }
            _ => {}
        }
    }

    /// Counts what Wireshark would call a segment of `side`.
    pub(super) fn count(&mut self, side: Side, analysis: Analysis) {
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

    /// Bytes that a window field of `side` stands for. "The window field in a segment where the SYN bit is set [...]
    /// MUST NOT be scaled", and scaling needs the option in both SYNs (RFC 7323 section 2.2).
    pub(super) fn window(&self, side: Side, segment: &Segment<'_>) -> u32 {
        let scale = |side: Side| self.ends[side.index()].options.window_scale;
        match (scale(side), scale(side.other())) {
            (Some(shift), Some(_)) if !segment.flags.has(Flags::SYN) => u32::from(segment.window) << shift,
            _ => u32::from(segment.window),
        }
    }
}
