//! Detects captures whose packets are out of order across connections.
//!
//! TCP puts the packets of one connection in order. Between connections nothing does: a network
//! card has several queues, and files of two interfaces are concatenated. A message that was sent
//! first may then be emitted last, so for a while no rule can know that something was not sent.

use super::observation::Observation;
use crate::capture::Time;
use crate::decode::ConnectionId;
use crate::decode::tcp::SegmentFact;

/// Nanoseconds by which packets of different connections may be out of order without consequence.
/// The processors that fill one buffer take turns within microseconds, and the effect of a message
/// comes later than that.
const TOLERANCE: i64 = 100_000;

/// Nanoseconds of capture time for which one packet out of order makes the order doubtful. A
/// response may wait that long for its request.
const DOUBT_TIME: i64 = 10_000_000_000;

/// Nanoseconds by which packets may be late (see [`SegmentFact::late`]) without consequence. The
/// first response on a connection that the capture joined is as late as that.
const DELAY_TOLERANCE: i64 = 100_000_000;

/// The order of the packets so far.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The latest packet time with its connection, and the latest time on any other connection.
    latest: Option<(Time, ConnectionId)>,
    latest_elsewhere: Option<Time>,
    /// The latest packet time when a packet of another connection was last out of order.
    last_disorder: Option<Time>,
    /// The largest delay of a packet, in nanoseconds.
    late: i64,
}

impl Order {
    /// Takes a captured segment. Returns a change.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>) -> Option<Observation> {
        let before = (self.is_doubtful(), self.late);
        self.late = self.late.max(fact.late);
        self.packet(fact.time, fact.connection);
        let now @ (is_doubtful, late) = (self.is_doubtful(), self.late);
        (now != before).then_some(Observation::Order { is_doubtful, late })
    }

    fn packet(&mut self, time: Time, connection: ConnectionId) {
        let Some((latest, of)) = self.latest else {
            self.latest = Some((time, connection));
            return;
        };
        let others = if of == connection { self.latest_elsewhere } else { Some(latest) };
        if others.is_some_and(|others| others.since(time) > TOLERANCE) {
            self.last_disorder = Some(latest);
        }
        if of == connection {
            self.latest = Some((latest.max(time), connection));
        } else if time >= latest {
            (self.latest, self.latest_elsewhere) = (Some((time, connection)), Some(latest));
        } else {
            self.latest_elsewhere = self.latest_elsewhere.max(Some(time));
        }
    }

    /// Whether a message that was sent earlier may still be emitted.
    fn is_doubtful(&self) -> bool {
        let since =
            |last_disorder: Time| self.latest.is_some_and(|(latest, _)| latest.since(last_disorder) < DOUBT_TIME);
        self.late > DELAY_TOLERANCE || self.last_disorder.is_some_and(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the order is doubtful after these packets, each given as millisecond and connection.
    fn is_doubtful(packets: &[(i64, u32)]) -> bool {
        let mut order = Order::default();
        for (time, connection) in packets {
            order.packet(Time(time * 1_000_000), ConnectionId(*connection));
        }
        order.is_doubtful()
    }

    #[test]
    fn packets_out_of_order_between_connections_make_the_order_doubtful_for_a_while() {
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
    fn a_late_clock_makes_the_order_doubtful_for_good() {
        let mut order = Order { late: DELAY_TOLERANCE, ..Order::default() };
        assert!(!order.is_doubtful());
        order.late += 1;
        order.packet(Time(0), ConnectionId(1));
        order.packet(Time(3 * DOUBT_TIME), ConnectionId(1));
        assert!(order.is_doubtful());
    }

    #[test]
    fn processors_that_take_turns_do_not_make_the_order_doubtful() {
        let mut order = Order::default();
        for (time, connection) in [(100_000, 1), (1, 2), (200_000, 1), (100_001, 2)] {
            order.packet(Time(time), ConnectionId(connection));
        }
        assert!(!order.is_doubtful());
    }
}
