//! Sequence numbers widened to 64 bits, so that they order and subtract as plain numbers.
//!
//! A **position** is a sequence number with the number of its wraps in the high bits. Its low 32
//! bits are the number on the wire. The first number captured of a side gets [`ORIGIN`] added, so
//! that numbers before it have a position too.

use crate::capture::{Limits, Time};

/// One full wrap, which leaves room below the first number captured.
pub(super) const ORIGIN: u64 = 1 << 32;

/// The largest window: no valid position lies further ahead. The shift count is limited to 14,
/// "which allows windows of 2^30 = 1 GiB" (RFC 7323 section 2.3).
pub(super) const MAXIMUM_WINDOW: u64 = 1 << 30;

/// The position of `number` that lies nearest to `near` (RFC 9293 section 3.4: arithmetic modulo
/// 2^32).
pub(super) fn widen(number: u32, near: u64) -> u64 {
    let ahead = number.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

/// A moment in the life of a connection: the number of its packets, the number of segments of all
/// connections, and the capture time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub packets: u64,
    pub segments: u64,
    pub time: Time,
}

/// The patience of a connection that waits for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until `Limits::loss_packets` of the connection, or `Limits::loss_time`, have passed.
    Short,
    /// As `Short`, but in a quiet capture an eighth of `Limits::loss_quiet`. A SYN may be captured
    /// after a pause, and its connection should not lag behind other connections. A few segments
    /// must pass too: they would show that packets changed places.
    Start,
    /// As `Short`, but in a quiet capture `Limits::loss_quiet`: packets may have changed places
    /// across a pause.
    Long,
    /// As `Long`, but packets do not count: those of one direction are captured after those
    /// of the other.
    Late,
    /// Until `Limits::loss_time` has passed. Packets do not count.
    Time,
}

/// The number of segments after which packets out of order would show: their times do
/// not all increase.
const FEW: u64 = 8;

impl Patience {
    /// The longest waiting time, in nanoseconds.
    fn longest(self, limits: &Limits) -> i64 {
        match self {
            Patience::Short | Patience::Time => limits.loss_time,
            Patience::Start | Patience::Long | Patience::Late => limits.loss_quiet,
        }
    }
}

impl Stamp {
    /// Whether something awaited since this moment will not arrive any more.
    ///
    /// Packets may be captured `late` nanoseconds after later ones. Until then time proves nothing.
    pub fn has_aged(self, now: Stamp, patience: Patience, late: i64, limits: &Limits) -> bool {
        let time = now.time.since(self.time).saturating_sub(late);
        let packets = now.packets.saturating_sub(self.packets) >= u64::from(limits.loss_packets)
            && !matches!(patience, Patience::Late | Patience::Time);
        let segments = now.segments.saturating_sub(self.segments);
        let busy = time >= limits.loss_time && segments >= u64::from(limits.loss_segments);
        let orderly = patience == Patience::Start && time >= limits.loss_quiet / 8 && segments >= FEW;
        packets || busy || orderly || time >= patience.longest(limits)
    }

    /// The next time after `now` at which time alone may end the waiting.
    ///
    /// The candidate times depend on this moment only, so it does not matter when the clock is
    /// read. Their distances double, so a clock that jumps passes few of them.
    pub fn due(self, now: Time, patience: Patience, late: i64, limits: &Limits) -> Option<Time> {
        let (since, most) = (after(self.time, late)?, patience.longest(limits));
        let mut term = limits.loss_time.max(1);
        while term < most && after(since, term)? <= now {
            term = term.saturating_mul(2).min(most);
        }
        after(since, term)
    }
}

/// The time `nanoseconds` after `time`; `None` on overflow.
pub(super) fn after(time: Time, nanoseconds: i64) -> Option<Time> {
    time.0.checked_add(nanoseconds).map(Time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_position_is_found_again_from_anywhere_within_half_a_wrap(
            near in ORIGIN..1 << 40,
            ahead in -(1i64 << 31)..(1 << 31),
        ) {
            let position = near.saturating_add_signed(ahead);
            prop_assert_eq!(widen(position as u32, near), position);
        }
    }
}
