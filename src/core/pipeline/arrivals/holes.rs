//! Connections on which bytes are waited for: what other connections of the same session carry meanwhile may refer to them.

use std::collections::BTreeMap;

use crate::decode::tcp::{Analysis, Delivery, SegmentFact};
use crate::decode::{ConnectionId, Piece};

/// Connections with holes that are looked at one by one for each message. Where there are more, anything may still come.
const MANY: usize = 256;

/// The holes of all connections. Their number is bounded by that of the connections.
#[derive(Debug, Default)]
pub(super) struct Holes {
    open: BTreeMap<ConnectionId, Waiting>,
}

/// What waits on a connection.
#[derive(Debug, Default)]
struct Waiting {
    /// Where the bytes behind the last hole of each side begin.
    behind: [Option<u64>; 2],
    /// Whether it waits for the beginning of a stream.
    begins: bool,
}

impl Holes {
    /// A segment arrived; the bytes before it may not have, or it waits for the beginning of its stream. A single byte may be a probe, which is never delivered.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) {
        if fact.analysis.has(Analysis::PREVIOUS_NOT_CAPTURED) || fact.is_open && fact.length > 1 {
            let waiting = self.open.entry(fact.connection).or_default();
            let behind = &mut waiting.behind[fact.side.index()];
            *behind = (*behind).max(Some(fact.offset));
            waiting.begins |= fact.is_open;
        }
    }

    /// Bytes were delivered, or given up.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) {
        let Some(waiting) = self.open.get_mut(&delivery.connection) else { return };
        let end = match delivery.piece {
            Piece::Data(bytes) => delivery.offset.saturating_add(bytes.len() as u64),
            Piece::Gap(length) => delivery.offset.saturating_add(length),
            Piece::End(_) => u64::MAX,
        };
        let behind = &mut waiting.behind[delivery.side.index()];
        *behind = behind.filter(|behind| *behind > end);
        if waiting.behind.iter().all(Option::is_none) {
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

    /// Whether there are too many of them to look at each.
    pub(super) fn are_many(&self) -> bool {
        self.open.len() > MANY
    }

    /// Of the first of them those on which all waits, or waited and is being delivered, since their beginning was looked for.
    pub(super) fn beginning(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.iter().take(MANY).filter(|(_, waiting)| waiting.begins).map(|(id, _)| *id)
    }
}
