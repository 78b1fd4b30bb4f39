//! Counters of a capture.

use std::collections::BTreeMap;

use crate::capture::{Packet, PacketNumber, Time};

/// Packets with an invalid header that are listed. They are enough to find the cause.
const LISTED: usize = 8;

/// The name, among what was skipped, of contents whose bytes are not kept.
pub const BLANKED: &str = "coded contents, blanked in packets by redaction";

/// Counters of the capture so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of any kind.
    pub packets: u64,
    /// Captured bytes of packets, link headers included.
    pub bytes: u64,
    /// Packets that are neither decoded nor needed, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// TCP connections so far.
    pub tcp_connections: u64,
    /// HTTP exchanges that ended.
    pub exchanges: u64,
    /// JSON-RPC messages.
    pub messages: u64,
    /// The time of the earliest packet.
    pub first: Option<Time>,
    /// The time of the latest packet.
    pub last: Option<Time>,
    /// TCP segments that the snap length cut.
    pub cut: u64,
    /// The first packets with a header that contradicts itself.
    pub(super) malformed: Vec<PacketNumber>,
}

impl Counts {
    /// These counters of messages and exchanges, with those of packets and connections.
    pub(super) fn joined(&self, connections: &Counts) -> Counts {
        Counts { exchanges: self.exchanges, messages: self.messages, ..connections.clone() }
    }

    /// Counts one packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.data.len() as u64;
        self.first = Some(self.first.map_or(packet.time, |first| first.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |last| last.max(packet.time)));
    }

    /// Counts a packet that is not decoded.
    pub(super) fn skip(&mut self, packet: PacketNumber, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
        if is_malformed(reason) && self.malformed.len() < LISTED {
            self.malformed.push(packet);
        }
    }

    /// The reasons that name a header which contradicts itself, with the number of packets.
    pub(super) fn malformed_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.skipped.iter().map(|(reason, count)| (*reason, *count)).filter(|(reason, _)| is_malformed(reason))
    }
}

fn is_malformed(reason: &str) -> bool {
    reason.starts_with("malformed ")
}
