//! The bytes delivered last, to distinguish an honest retransmission from one with other content.
//!
//! A pool of rings, which grow up to a fixed size, is lent to the directions that deliver bytes.
//! When all are lent, the next direction takes the ring that was lent longest ago. Memory is
//! therefore bounded whatever the number of connections. A direction without a ring cannot compare
//! its retransmissions.

use super::difference::Difference;
use super::{ConnectionId, Side};
use crate::capture::Limits;

/// Bytes remembered of one direction: 16 KiB. A sender without an ACK repeats the start of its
/// window, at first ten segments (RFC 6928). Small rings stay in the processor's cache, and more
/// of them fit.
const RING: usize = 16 << 10;

/// The direction that borrows a ring.
type Owner = (ConnectionId, Side);

/// The last bytes of one direction, in a circular buffer.
#[derive(Debug)]
struct Ring {
    owner: Owner,
    /// Position of the byte at index 0 of `bytes`.
    base: u64,
    /// Position after the last byte remembered, and the number of bytes remembered before it.
    end: u64,
    filled: usize,
    /// The buffer. It has grown as far as bytes were written, at most to [`RING`].
    bytes: Vec<u8>,
}

impl Ring {
    /// The index in `bytes` of the byte at `position`.
    fn at(&self, position: u64) -> usize {
        position.wrapping_sub(self.base) as usize % RING
    }

    /// Writes bytes at an index. They end at [`RING`] at the latest.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.capacity() < end {
            self.bytes.reserve_exact(end.next_power_of_two() - self.bytes.len());
        }
        if self.bytes.len() < at {
            // More bytes arrived at once than are remembered. Those before the index follow when it
            // wraps.
            self.bytes.resize(at, 0);
        }
        let (over, behind) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
        self.bytes[at..at + over.len()].copy_from_slice(over);
        self.bytes.extend_from_slice(behind);
    }
}

/// The pool of rings.
#[derive(Debug)]
pub(super) struct RecentBytes {
    rings: Vec<Ring>,
    most: usize,
    oldest: usize,
}

/// The index of the ring that a direction used last. Another direction may have taken it since.
pub(super) type Hint = u32;

impl RecentBytes {
    /// An empty pool. It may use an eighth of the memory that reassembly may use.
    pub fn new(limits: &Limits) -> RecentBytes {
        RecentBytes { rings: Vec::new(), most: limits.reassembly_total / 8 / RING, oldest: 0 }
    }

    /// Remembers bytes that were just delivered at `position`.
    pub fn remember(&mut self, owner: Owner, hint: &mut Hint, position: u64, bytes: &[u8]) {
        let Some(ring) = self.ring(owner, hint) else { return };
        if ring.end != position {
            (ring.base, ring.filled) = (position, 0);
        }
        ring.end = position + bytes.len() as u64;
        ring.filled = (ring.filled + bytes.len()).min(RING);
        let bytes = &bytes[bytes.len().saturating_sub(RING)..];
        let at = ring.at(ring.end - bytes.len() as u64);
        let (low, high) = bytes.split_at(bytes.len().min(RING - at));
        ring.write(at, low);
        ring.write(0, high);
    }

    /// Compares retransmitted bytes for `position` with those delivered, as far as
    /// they are remembered.
    pub fn compare(&self, owner: Owner, hint: Hint, position: u64, bytes: &[u8]) -> Difference {
        let mut difference = Difference::default();
        let Some(ring) = self.rings.get(hint as usize).filter(|ring| ring.owner == owner) else { return difference };
        let from = position.max(ring.end - ring.filled as u64);
        let to = (position + bytes.len() as u64).min(ring.end);
        if from >= to {
            return difference;
        }
        let again = &bytes[(from - position) as usize..(to - position) as usize];
        let at = ring.at(from);
        let (low, high) = again.split_at(again.len().min(RING - at));
        difference.compare(from, &ring.bytes[at..at + low.len()], low);
        difference.compare(from + low.len() as u64, &ring.bytes[..high.len()], high);
        difference
    }

    /// The ring of a direction, borrowed if necessary.
    fn ring(&mut self, owner: Owner, hint: &mut Hint) -> Option<&mut Ring> {
        let owned = self.rings.get(*hint as usize).is_some_and(|ring| ring.owner == owner);
        if !owned {
            if self.rings.len() < self.most {
                *hint = self.rings.len() as Hint;
                self.rings.push(Ring { owner, base: 0, end: 0, filled: 0, bytes: Vec::new() });
            } else {
                *hint = self.oldest as Hint;
                self.oldest = (self.oldest + 1) % self.most.max(1);
                let ring = self.rings.get_mut(*hint as usize)?;
                (ring.owner, ring.filled) = (owner, 0);
            }
        }
        self.rings.get_mut(*hint as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = (ConnectionId(1), Side::First);

    #[test]
    fn what_came_again_is_compared_as_far_as_it_is_remembered() {
        let mut recent = RecentBytes::new(&Limits::default());
        let mut hint = 0;
        let bytes: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
        for (number, piece) in bytes.chunks(1_460).enumerate() {
            recent.remember(OWNER, &mut hint, 1_000 + number as u64 * 1_460, piece);
        }
        let end = 1_000 + bytes.len() as u64;
        let mut again = bytes[190_000..].to_vec();
        assert_eq!(recent.compare(OWNER, hint, 191_000, &again).position(), None);
        again[5_000] ^= 1;
        again[5_007] ^= 1;
        let difference = recent.compare(OWNER, hint, 191_000, &again);
        assert_eq!((difference.position(), difference.bytes), (Some(196_000), 2));
        assert_eq!(recent.compare(OWNER, hint, 1_000, b"long forgotten").position(), None);
        assert_eq!(recent.compare(OWNER, hint, end, b"not yet").position(), None);
    }

    #[test]
    fn one_piece_longer_than_a_ring_leaves_its_end() {
        let mut recent = RecentBytes::new(&Limits::default());
        let mut hint = 0;
        recent.remember(OWNER, &mut hint, 7, &vec![1; RING + 100]);
        assert_eq!(recent.compare(OWNER, hint, 107, &[1; 10]).bytes, 0);
        assert_eq!(recent.compare(OWNER, hint, 107, &[2; 10]).bytes, 10);
        assert_eq!(recent.compare(OWNER, hint, 7, &[2; 10]).bytes, 0, "forgotten");
    }

    #[test]
    fn a_ring_takes_no_more_than_was_remembered() {
        let mut recent = RecentBytes::new(&Limits::default());
        let mut hint = 0;
        for (position, piece) in [(10, b"request".as_slice()), (17, b"again"), (1_000, b"behind a hole")] {
            recent.remember(OWNER, &mut hint, position, piece);
            assert!(recent.rings[hint as usize].bytes.len() <= 16);
        }
        assert_eq!(recent.compare(OWNER, hint, 17, b"aga?n").bytes, 0, "what stands before a hole is forgotten");
        assert_eq!(recent.compare(OWNER, hint, 1_007, b"a ?ole").position(), Some(1_009));
    }

    #[test]
    fn a_ring_lent_on_no_longer_speaks_for_its_former_owner() {
        let limits = Limits { reassembly_total: RING * 8, ..Limits::default() };
        let mut recent = RecentBytes::new(&limits);
        let (mut mine, mut theirs) = (0, 0);
        recent.remember(OWNER, &mut mine, 0, b"abc");
        recent.remember((ConnectionId(2), Side::First), &mut theirs, 0, b"xyz");
        assert_eq!(recent.compare(OWNER, mine, 0, b"???").bytes, 0);
        assert_eq!(recent.compare((ConnectionId(2), Side::First), theirs, 0, b"?y?").bytes, 2);
        let mut none = RecentBytes::new(&Limits { reassembly_total: 0, ..Limits::default() });
        none.remember(OWNER, &mut mine, 0, b"abc");
    }
}
