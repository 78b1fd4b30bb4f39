//! Connections on which bytes are waited for: what other connections of the same session carry meanwhile may refer to them.

use std::collections::BTreeMap;

use crate::decode::tcp::{Analysis, Delivery, SegmentFact};
use crate::decode::{ConnectionId, Piece};

/// The holes of all connections. Their number is bounded by that of the connections.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// By connection, where the bytes behind the last hole of each side begin.
    open: BTreeMap<ConnectionId, [Option<u64>; 2]>,
}

impl Holes {
    /// A segment arrived; the bytes before it may not have, or it waits for the beginning of its stream. A single byte may be a probe, which is never delivered.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) {
        if fact.analysis.has(Analysis::PREVIOUS_NOT_CAPTURED) || fact.is_open && fact.length > 1 {
            let side = &mut self.open.entry(fact.connection).or_default()[fact.side.index()];
            *side = (*side).max(Some(fact.offset));
        }
    }

    /// Bytes were delivered, or given up.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) {
        let Some(sides) = self.open.get_mut(&delivery.connection) else { return };
        let end = match delivery.piece {
            Piece::Data(bytes) => delivery.offset.saturating_add(bytes.len() as u64),
            Piece::Gap(length) => delivery.offset.saturating_add(length),
            Piece::End(_) => u64::MAX,
        };
        let side = &mut sides[delivery.side.index()];
        *side = side.filter(|behind| *behind > end);
        if sides.iter().all(Option::is_none) {
            self.open.remove(&delivery.connection);
        }
    }

    /// A connection is over.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
    }

    /// The connections that have one.
    pub(super) fn iter(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.keys().copied()
    }
}
