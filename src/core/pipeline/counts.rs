//! Counters of a capture.

use std::collections::BTreeMap;

use crate::capture::{Packet, Time};

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
}

impl Counts {
    /// Counts one packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.data.len() as u64;
        self.first = Some(self.first.map_or(packet.time, |first| first.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |last| last.max(packet.time)));
    }
}
