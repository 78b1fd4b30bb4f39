//! What a source could not deliver: damaged parts of a file, and dropped packets.

use super::Time;

/// Where and how a capture file is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Offset in it (in the decompressed bytes of a compressed one).
    pub offset: u64,
    /// What is wrong, in words that follow "byte N: ".
    pub reason: String,
}

/// Packets that neither memory nor disk had room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// How many.
    pub packets: u64,
    /// When the first and the last of them were captured.
    pub times: (Time, Time),
}

impl Dropped {
    /// These, and later ones.
    pub fn and(self, later: Dropped) -> Dropped {
        Dropped { packets: self.packets + later.packets, times: (self.times.0, later.times.1) }
    }
}
