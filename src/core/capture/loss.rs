//! Reports of a source about data that it could not deliver.

use super::Time;

/// Damage of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The path of the file.
    pub file: String,
    /// The offset of the damage, in the decompressed bytes if the file is compressed.
    pub offset: u64,
    /// The kind of damage, as words that follow "byte N: ".
    pub reason: String,
}

/// Packets that were dropped because neither memory nor disk had room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The number of these packets.
    pub packets: u64,
    /// The capture times of the first and the last of them.
    pub times: (Time, Time),
}

impl Dropped {
    /// The sum of these packets and later ones.
    pub fn and(self, later: Dropped) -> Dropped {
        Dropped { packets: self.packets + later.packets, times: (self.times.0, later.times.1) }
    }
}
