//! Wireshark's names for a segment's relation to those before it.
//!
//! The rules are those of the Wireshark User's Guide, section "TCP Analysis", as version 4.0
//! applies them. They are heuristics over the last segment of each direction, in order of capture.
//! They name segments for people. The reassembler does not depend on them, so their known mistakes
//! (such as a reordered segment taken for a retransmission) cost no byte.

use super::segment::{Flags, Segment};
use super::{Facts, Side};
use crate::capture::Time;

/// Wireshark's names for a segment, as bits, since some occur together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Analysis(pub u32);

impl Analysis {
    /// Wireshark: TCP Retransmission.
    pub const RETRANSMISSION: u32 = 1 << 0;
    /// Wireshark: TCP Fast Retransmission.
    pub const FAST_RETRANSMISSION: u32 = 1 << 1;
    /// Wireshark: TCP Spurious Retransmission.
    pub const SPURIOUS_RETRANSMISSION: u32 = 1 << 2;
    /// Wireshark: TCP Out-Of-Order.
    pub const OUT_OF_ORDER: u32 = 1 << 3;
    /// Wireshark: TCP Previous segment not captured.
    pub const PREVIOUS_NOT_CAPTURED: u32 = 1 << 4;
    /// Wireshark: TCP ACKed unseen segment.
    pub const ACKED_UNSEEN: u32 = 1 << 5;
    /// Wireshark: TCP Dup ACK.
    pub const DUPLICATE_ACK: u32 = 1 << 6;
    /// Wireshark: TCP Keep-Alive.
    pub const KEEP_ALIVE: u32 = 1 << 7;
    /// Wireshark: TCP Keep-Alive ACK.
    pub const KEEP_ALIVE_ACK: u32 = 1 << 8;
    /// Wireshark: TCP ZeroWindow.
    pub const ZERO_WINDOW: u32 = 1 << 9;
    /// Wireshark: TCP ZeroWindowProbe.
    pub const ZERO_WINDOW_PROBE: u32 = 1 << 10;
    /// Wireshark: TCP ZeroWindowProbeAck.
    pub const ZERO_WINDOW_PROBE_ACK: u32 = 1 << 11;
    /// Wireshark: TCP Window Update.
    pub const WINDOW_UPDATE: u32 = 1 << 12;
    /// Wireshark: TCP Window Full.
    pub const WINDOW_FULL: u32 = 1 << 13;
    /// Wireshark: TCP Port numbers reused.
    pub const PORT_REUSED: u32 = 1 << 14;

    /// The three kinds of retransmission; a segment is at most one of them.
    pub const ANY_RETRANSMISSION: u32 =
        Self::RETRANSMISSION | Self::FAST_RETRANSMISSION | Self::SPURIOUS_RETRANSMISSION;

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

    /// Whether any bit of `mask` is set.
    pub fn has(self, mask: u32) -> bool {
        self.0 & mask != 0
    }
}

/// Nanoseconds after the last duplicate ACK for a Fast Retransmission: "within 20 ms".
const FAST: i64 = 20_000_000;
/// Nanoseconds for Out-Of-Order where the initial round trip was not captured: 3 ms.
const REORDERED: i64 = 3_000_000;

/// The state of one direction that the rules need. Sequence numbers are compared modulo 2^32.
#[derive(Debug, Default)]
struct SenderHistory {
    /// The highest sequence number after a segment, and the time when it was reached.
    next: Option<u32>,
    next_time: Time,
    /// The highest sequence number that the peer can acknowledge if the capture missed nothing.
    contiguous: Option<u32>,
    acknowledged: u32,
    acknowledged_time: Time,
    duplicates: u32,
    /// Whether it was reported that the peer acknowledged more than was captured of this side.
    unseen_reported: bool,
    /// The window as sent.
    window: Option<u16>,
    /// The peer's sequence number at which the window ends, where the scale was captured.
    edge: Option<u32>,
    /// The names of its last segment.
    last: Analysis,
}

/// Names the segments of one connection.
#[derive(Debug, Default)]
pub(super) struct Analyst {
    senders: [SenderHistory; 2],
}

impl Analyst {
    /// Returns the names for a segment of `side`, which `facts` have counted already.
    pub fn name(&mut self, side: Side, segment: &Segment<'_>, facts: &Facts) -> Analysis {
        let [first, second] = &mut self.senders;
        let (own, peer) = match side {
            Side::First => (first, second),
            Side::Second => (second, first),
        };
        let length = segment.length();
        let synchronizes = segment.flags.has(Flags::SYN | Flags::FIN);
        let plain = !segment.flags.has(Flags::SYN | Flags::FIN | Flags::RST);

        let mut named = own.name_by_window(peer, segment, plain);
        if segment.acknowledgment != own.acknowledged {
            own.duplicates = 0;
            own.unseen_reported = false;
        }
        if segment.flags.has(Flags::ACK) && peer.contiguous.is_some_and(|end| after(segment.acknowledgment, end)) {
            named |= peer.name_unseen();
        }
        if (length > 0 || synchronizes) && named & Analysis::KEEP_ALIVE == 0 {
            named |= own.name_repetition(peer, segment, facts);
        }

        let end = segment.sequence.wrapping_add(length).wrapping_add(u32::from(synchronizes));
        // A probe of a closed window was most likely not accepted.
        if named & Analysis::ZERO_WINDOW_PROBE == 0 {
            if own.next.is_none_or(|next| after(end, next)) {
                own.next = Some(end);
                own.next_time = segment.time;
            }
            if own.contiguous.is_none_or(|end| end == segment.sequence) {
                own.contiguous = own.next;
            }
        }
        own.window = Some(segment.window);
        let scale_known = facts.handshake[side.index()].is_some();
        own.edge = scale_known.then(|| segment.acknowledgment.wrapping_add(facts.window(side, segment)));
        own.acknowledged = segment.acknowledgment;
        own.acknowledged_time = segment.time;
        own.last = Analysis(named);
        own.last
    }
}

impl SenderHistory {
    /// Applies the rules about windows, probes and repeated ACKs. `plain`: without SYN,
    /// FIN and RST.
    fn name_by_window(&mut self, peer: &SenderHistory, segment: &Segment<'_>, plain: bool) -> u32 {
        let length = segment.length();
        let is_next = self.next == Some(segment.sequence);
        // "The segment is exactly 1 byte, the sequence number is the next expected one, the window
        // in the other direction is 0." Nothing else matters for it.
        if length == 1 && is_next && peer.window == Some(0) {
            return Analysis::ZERO_WINDOW_PROBE;
        }
        let mut named = 0;
        if segment.window == 0 && plain {
            named |= Analysis::ZERO_WINDOW;
        }
        if self.next.is_some_and(|next| after(segment.sequence, next)) && !segment.flags.has(Flags::RST) {
            named |= Analysis::PREVIOUS_NOT_CAPTURED;
        }
        if length <= 1 && self.next == Some(segment.sequence.wrapping_add(1)) && plain {
            named |= Analysis::KEEP_ALIVE;
        }
        if length > 0 && plain && peer.edge == Some(segment.sequence.wrapping_add(length)) {
            named |= Analysis::WINDOW_FULL;
        }
        // The remaining rules concern pure ACKs that repeat the last one.
        if length > 0 || !is_next || !plain {
            return named;
        }
        let same_acknowledgment = segment.acknowledgment == self.acknowledged;
        let same_window = self.window == Some(segment.window);
        match (segment.window, same_window) {
            (1.., false) if same_acknowledgment => named |= Analysis::WINDOW_UPDATE,
            (1.., true) if same_acknowledgment && peer.last.has(Analysis::KEEP_ALIVE) => {
                named |= Analysis::KEEP_ALIVE_ACK;
            }
            (1.., true) if same_acknowledgment => {
                self.duplicates += 1;
                named |= Analysis::DUPLICATE_ACK;
            }
            (0, true) if same_acknowledgment && peer.last.has(Analysis::ZERO_WINDOW_PROBE) => {
                named |= Analysis::ZERO_WINDOW_PROBE_ACK;
            }
            _ => {}
        }
        named
    }

    /// Handles an ACK of more than was captured. The name is given once per loss.
    fn name_unseen(&mut self) -> u32 {
        if self.contiguous != self.next {
            self.contiguous = self.next;
            return Analysis::ACKED_UNSEEN;
        }
        let already_reported = std::mem::replace(&mut self.unseen_reported, true);
        if already_reported || self.duplicates > 0 { 0 } else { Analysis::ACKED_UNSEEN }
    }

    /// Names a segment that does not advance the highest sequence number. The order of precedence
    /// is that of Wireshark.
    fn name_repetition(&self, peer: &SenderHistory, segment: &Segment<'_>, facts: &Facts) -> u32 {
        let length = segment.length();
        let end = segment.sequence.wrapping_add(length);
        let synchronizes = u32::from(segment.flags.has(Flags::SYN | Flags::FIN));
        let Some(next) = self.next else { return 0 };
        // One byte before the expected one, and more after it: the last segment was a probe, this
        // one is new.
        let probed = length > 1 && segment.sequence.wrapping_add(1) == next;
        let repeats = after(next, segment.sequence) && !probed;
        // A SYN acknowledges nothing, so its field is 0.
        if length > 0 && peer.acknowledged != 0 && !after(end, peer.acknowledged) {
            return Analysis::SPURIOUS_RETRANSMISSION;
        }
        if !repeats {
            return 0;
        }
        let within = |span: i64, since: Time| (0..span).contains(&segment.time.since(since));
        let fast =
            peer.duplicates >= 2 && peer.acknowledged == segment.sequence && within(FAST, peer.acknowledged_time);
        if fast {
            return Analysis::FAST_RETRANSMISSION;
        }
        let reordering = facts.round_trip().filter(|&time| time != 0).unwrap_or(REORDERED);
        if within(reordering, self.next_time) && next != end.wrapping_add(synchronizes) {
            return Analysis::OUT_OF_ORDER;
        }
        Analysis::RETRANSMISSION
    }
}

/// Whether sequence number `a` comes after `b` (RFC 9293 section 3.4: arithmetic modulo 2^32).
pub(super) fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
