//! Figures of a capture.

use std::collections::BTreeMap;

use crate::capture::{Packet, Time};

/// Figures of the capture so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Captured bytes.
    pub bytes: u64,
    /// Packets that hold nothing for mcptap, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// TCP connections.
    pub tcp_connections: u64,
    /// HTTP exchanges that are over.
    pub exchanges: u64,
    /// Messages.
    pub messages: u64,
    /// Time of the earliest packet.
    pub first: Option<Time>,
    /// Time of the latest packet.
    pub last: Option<Time>,
    /// TCP segments that the snap length cut.
    pub cut: u64,
}

impl Counts {
    /// One more packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.data.len() as u64;
        self.first = Some(self.first.map_or(packet.time, |first| first.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |last| last.max(packet.time)));
    }
}
