//! Whether the packets of a capture stand in the order of their times.
//!
//! What changes places on one connection TCP puts in order again. Between connections nothing does: queues of a network card are read in turns, files
//! of two interfaces are put behind each other. What was sent first may then be told last, so that for a while nobody can say that something was not
//! sent.

use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::decode::tcp::SegmentFact;

/// Nanoseconds by which packets may stand behind later ones of other connections and nothing is meant by it: the processors that fill one
/// buffer take turns within microseconds, and what a message causes comes later than that.
const TOLERANCE: i64 = 100_000;

/// Capture time, in nanoseconds, for which such a packet makes the order of others doubtful: as long as an answer waits for its question.
const DOUBT: i64 = 10_000_000_000;

/// Nanoseconds by which packets may be late (see [`SegmentFact::late`]) and nothing is meant by it: the first answer of a connection that the capture joined
/// comes as late as that.
const LATE: i64 = 100_000_000;

/// What the packets so far tell of it.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The latest packet of all, and the latest of any other connection than that one's.
    latest: Option<(Time, ConnectionId)>,
    before: Option<Time>,
    /// When a packet last stood behind later ones of other connections.
    broken: Option<Time>,
    /// Nanoseconds by which packets may be late.
    late: i64,
}

impl Order {
    /// A packet of a connection.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.late = self.late.max(fact.late);
        self.packet(fact.time, fact.connection);
    }

    fn packet(&mut self, time: Time, connection: ConnectionId) {
        let Some((latest, of)) = self.latest else {
            self.latest = Some((time, connection));
            return;
        };
        let others = if of == connection { self.before } else { Some(latest) };
        if others.is_some_and(|others| others.since(time) > TOLERANCE) {
            self.broken = Some(latest);
        }
        if of == connection {
            self.latest = Some((latest.max(time), connection));
        } else if time >= latest {
            (self.latest, self.before) = (Some((time, connection)), Some(latest));
        } else {
            self.before = self.before.max(Some(time));
        }
    }

    /// Whether something that was sent before may still come.
    pub(super) fn is_doubtful(&self) -> bool {
        let since = |broken: Time| self.latest.is_some_and(|(latest, _)| latest.since(broken) < DOUBT);
        self.late > LATE || self.broken.is_some_and(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets, each with its millisecond and its connection; whether their order is doubtful then.
    fn is_doubtful(packets: &[(i64, u32)]) -> bool {
        let mut order = Order::default();
        for (time, connection) in packets {
            order.packet(Time(time * 1_000_000), ConnectionId(*connection));
        }
        order.is_doubtful()
    }

    #[test]
    fn packets_that_stand_behind_later_ones_of_other_connections_make_doubt_for_a_while() {
        assert!(!is_doubtful(&[]));
        assert!(!is_doubtful(&[(1, 1), (2, 2), (2, 1), (5, 3)]));
        assert!(!is_doubtful(&[(1, 1), (5, 1), (3, 1), (4, 1), (5, 2)]), "within a connection there is none");
        assert!(is_doubtful(&[(5, 1), (3, 2)]));
        assert!(is_doubtful(&[(1, 2), (5, 1), (6, 2), (4, 1), (5, 2)]), "4 behind 6");
        assert!(is_doubtful(&[(5, 1), (9, 2), (7, 2), (4, 2)]), "4 behind 5");
        assert!(is_doubtful(&[(5, 1), (3, 2), (10_004, 2)]));
        assert!(!is_doubtful(&[(5, 1), (3, 2), (10_006, 2)]));
    }

    #[test]
    fn a_clock_that_is_late_makes_doubt_for_good() {
        let mut order = Order { late: LATE, ..Order::default() };
        assert!(!order.is_doubtful());
        order.late += 1;
        order.packet(Time(0), ConnectionId(1));
        order.packet(Time(3 * DOUBT), ConnectionId(1));
        assert!(order.is_doubtful());
    }

    #[test]
    fn what_processors_do_in_turns_makes_none() {
        let mut order = Order::default();
        for (time, connection) in [(100_000, 1), (1, 2), (200_000, 1), (100_001, 2)] {
            order.packet(Time(time), ConnectionId(connection));
        }
        assert!(!order.is_doubtful());
    }
}
