//! Connections with holes: bytes that are missing and may still arrive. Meanwhile other connections
//! of the same session may carry messages that refer to them.

use std::collections::BTreeMap;

use crate::decode::tcp::{Analysis, Delivery, SegmentFact};
use crate::decode::{ConnectionId, Piece};

/// Connections with holes that are checked one by one for each message. If there are more, anything
/// may still arrive.
const MANY: usize = 256;

/// The connections with holes. Their number is bounded by that of the connections.
#[derive(Debug, Default)]
pub(super) struct Holes {
    open: BTreeMap<ConnectionId, ConnectionHoles>,
}

/// The holes of one connection.
#[derive(Debug, Default)]
struct ConnectionHoles {
    /// For each side, the offset of the first byte after its last hole.
    after_hole: [Option<u64>; 2],
    /// Whether the beginning of a stream is missing.
    lacks_beginning: bool,
}

impl Holes {
    /// Takes a captured segment, and notes a hole before it if bytes are missing there or if the
    /// beginning of its stream is still awaited. A segment of one byte may be a keep-alive probe,
    /// which is never delivered, so it notes no hole.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) {
        if fact.analysis.has(Analysis::PREVIOUS_NOT_CAPTURED) || fact.is_open && fact.length > 1 {
            let holes = self.open.entry(fact.connection).or_default();
            let after_hole = &mut holes.after_hole[fact.side.index()];
            *after_hole = (*after_hole).max(Some(fact.offset));
            holes.lacks_beginning |= fact.is_open;
        }
    }

    /// Takes bytes that TCP delivered, or a gap.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) {
        let Some(holes) = self.open.get_mut(&delivery.connection) else { return };
        let end = match delivery.piece {
            Piece::Data(bytes) => delivery.offset.saturating_add(bytes.len() as u64),
            Piece::Gap(length) => delivery.offset.saturating_add(length),
            Piece::End(_) => u64::MAX,
        };
        let after_hole = &mut holes.after_hole[delivery.side.index()];
        *after_hole = after_hole.filter(|after_hole| *after_hole > end);
        if holes.after_hole.iter().all(Option::is_none) {
            self.open.remove(&delivery.connection);
        }
    }

    /// Forgets a closed connection.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
    }

    /// The connections with holes.
    pub(super) fn iter(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.keys().copied()
    }

    /// Whether there are too many connections with holes to check each.
    pub(super) fn are_many(&self) -> bool {
        self.open.len() > MANY
    }

    /// The connections whose beginning is or was missing, among the first that are checked
    /// one by one.
    pub(super) fn lacking_beginning(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.iter().take(MANY).filter(|(_, holes)| holes.lacks_beginning).map(|(id, _)| *id)
    }
}
