//! The comparison of two copies of the same bytes, as after a retransmission.

/// The number of bytes in which two copies differ, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    first: u64,
    pub bytes: u64,
}

impl Difference {
    /// Compares two copies of the bytes at `position`.
    pub fn compare(&mut self, position: u64, first_copy: &[u8], other: &[u8]) {
        if first_copy == other {
            return;
        }
        for (at, _) in first_copy.iter().zip(other).enumerate().filter(|(_, (first_copy, other))| first_copy != other) {
            if self.bytes == 0 {
                self.first = position + at as u64;
            }
            self.bytes += 1;
        }
    }

    /// Position of the first byte that differs.
    pub fn position(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.first)
    }
}
