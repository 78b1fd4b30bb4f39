//! A list of packet ranges. Mostly it has one range, and then needs no allocation.

use std::ops::{Deref, DerefMut};

use super::PacketRange;

/// The packet ranges of some bytes. Only fragmented data has several.
#[derive(Clone, Debug)]
pub enum Ranges {
    /// Exactly one range.
    One(PacketRange),
    /// No range, or several.
    Many(Box<[PacketRange]>),
}

impl Ranges {
    /// The ranges of the bytes `from..to`, counted from the first byte of `ranges`.
    pub fn cut(ranges: &[PacketRange], from: usize, to: usize) -> Ranges {
        let cut_one = |range: &PacketRange, before: usize| {
            let clamp = |at: usize| range.start.saturating_add(at.saturating_sub(before) as u32).min(range.end);
            PacketRange { packet: range.packet, start: clamp(from), end: clamp(to) }
        };
        if let [range] = ranges {
            return Ranges::One(cut_one(range, 0));
        }
        let mut before = 0;
        let cut = ranges.iter().map(|range| {
            let range_cut = cut_one(range, before);
            before += range.len() as usize;
            range_cut
        });
        cut.filter(|range| !range.is_empty()).collect()
    }
}

impl Default for Ranges {
    /// An empty list.
    fn default() -> Ranges {
        Ranges::Many(Box::default())
    }
}

impl Deref for Ranges {
    type Target = [PacketRange];

    fn deref(&self) -> &[PacketRange] {
        match self {
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Many(ranges) => ranges,
        }
    }
}

impl DerefMut for Ranges {
    fn deref_mut(&mut self) -> &mut [PacketRange] {
        match self {
            Ranges::One(range) => std::slice::from_mut(range),
            Ranges::Many(ranges) => ranges,
        }
    }
}

impl From<&[PacketRange]> for Ranges {
    fn from(ranges: &[PacketRange]) -> Ranges {
        match ranges {
            [range] => Ranges::One(*range),
            ranges => Ranges::Many(ranges.into()),
        }
    }
}

impl FromIterator<PacketRange> for Ranges {
    fn from_iter<I: IntoIterator<Item = PacketRange>>(ranges: I) -> Ranges {
        ranges.into_iter().collect::<Vec<_>>().as_slice().into()
    }
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Ranges) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::PacketNumber;

    #[test]
    fn ranges_are_cut_across_fragments() {
        let range = |packet, start, end| PacketRange { packet: PacketNumber(packet), start, end };
        let fragments = [range(1, 54, 60), range(2, 34, 40)];
        assert_eq!(*Ranges::cut(&fragments, 2, 9), [range(1, 56, 60), range(2, 34, 37)]);
        assert_eq!(*Ranges::cut(&fragments, 7, 12), [range(2, 35, 40)]);
        assert_eq!(*Ranges::cut(&fragments[..1], 1, 3), [range(1, 55, 57)]);
        assert!(Ranges::default().is_empty());
    }
}
