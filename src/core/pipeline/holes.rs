//! Connections with holes: bytes that are missing and may still arrive. Meanwhile other connections
//! of the same session may carry messages that refer to them.

use rustc_hash::FxHashMap;

use super::observation::Observation;
use crate::decode::tcp::{Analysis, SegmentFact};
use crate::decode::{ConnectionId, Side};

/// The connections with holes. Their number is bounded by that of the connections.
#[derive(Debug, Default)]
pub(super) struct Holes {
    open: FxHashMap<ConnectionId, ConnectionHoles>,
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
    /// which is never delivered, so it notes no hole. Returns a change.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) -> Option<Observation> {
        let has_hole = fact.analysis.has(Analysis::PREVIOUS_NOT_CAPTURED) || fact.is_open && fact.length > 1;
        if !has_hole {
            return None;
        }
        let is_new = !self.open.contains_key(&fact.connection);
        let holes = self.open.entry(fact.connection).or_default();
        let after_hole = &mut holes.after_hole[fact.side.index()];
        *after_hole = (*after_hole).max(Some(fact.offset));
        let lacks_beginning = holes.lacks_beginning | fact.is_open;
        let is_change = is_new || lacks_beginning != holes.lacks_beginning;
        holes.lacks_beginning = lacks_beginning;
        is_change.then_some(Observation::Holes { connection: fact.connection, lacks_beginning })
    }

    /// Records that TCP delivered the bytes of one side up to offset `end`, or declared a gap.
    /// Returns a change.
    pub(super) fn delivered(&mut self, connection: ConnectionId, side: Side, end: u64) -> Option<Observation> {
        let holes = self.open.get_mut(&connection)?;
        let after_hole = &mut holes.after_hole[side.index()];
        *after_hole = after_hole.filter(|after_hole| *after_hole > end);
        if holes.after_hole.iter().any(Option::is_some) {
            return None;
        }
        self.open.remove(&connection);
        Some(Observation::NoHoles(connection))
    }

    /// Forgets a connection that TCP closed.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
    }
}
