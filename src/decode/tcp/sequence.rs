//! Sequence numbers widened to 64 bits, so that they order and subtract as plain numbers.
//!
//! A **position** is a sequence number that counts its wraps: its low 32 bits are the number on the wire. The first
//! number seen of a side gets [`ORIGIN`] added, so that what turns out to lie before it has a position too.

use crate::capture::{Limits, Time};

/// One full wrap: room below the first number seen.
pub(super) const ORIGIN: u64 = 1 << 32;

/// The shift count is limited to 14, "which allows windows of 2^30 = 1 GiB" (RFC 7323 section 2.3): nothing valid lies
/// further ahead.
pub(super) const MAXIMUM_WINDOW: u64 = 1 << 30;

/// The position of `number` that lies nearest to `near` (RFC 9293 section 3.4: arithmetic modulo 2^32).
pub(super) fn widen(number: u32, near: u64) -> u64 {
    let ahead = number.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

/// A moment in the life of a connection: so many packets of it seen, and the capture time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub packets: u64,
    pub time: Time,
}

impl Stamp {
    /// Whether bytes missing since this moment count as lost `now`.
    pub fn has_aged(self, now: Stamp, limits: &Limits) -> bool {
        now.packets.saturating_sub(self.packets) >= u64::from(limits.loss_packets) || self.is_past(now, limits)
    }

    /// Whether the capture time alone makes them count as lost.
    pub fn is_past(self, now: Stamp, limits: &Limits) -> bool {
        now.time.since(self.time) >= limits.loss_time
    }

    /// When the capture time alone will make them count as lost.
    pub fn due(self, limits: &Limits) -> Option<Time> {
        after(self.time, limits.loss_time)
    }
}

/// The moment `nanoseconds` after `time`; `None` where a clock gone mad leaves no such moment.
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
