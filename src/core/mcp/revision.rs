//! The revisions of the protocol, oldest first, and sets of them.

use std::fmt;

words! {
    /// A published revision of MCP.
    pub enum Revision {
        /// 2024-11-05, the first.
        V2024_11_05 = "2024-11-05",
        /// 2025-03-26.
        V2025_03_26 = "2025-03-26",
        /// 2025-06-18.
        V2025_06_18 = "2025-06-18",
        /// 2025-11-25, the last with a handshake.
        V2025_11_25 = "2025-11-25",
        /// 2026-07-28, the first without one.
        V2026_07_28 = "2026-07-28",
    }
}

impl Revision {
    /// Whether each request names its revision and there is no handshake (2026-07-28 basic/index
    /// "_meta").
    pub fn is_stateless(self) -> bool {
        self >= Revision::V2026_07_28
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of revisions. Examples: the revisions that have a rule, the revisions that may
/// be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revisions(u8);

impl Revisions {
    /// All published revisions.
    pub const ALL: Revisions = Revisions::between(Revision::V2024_11_05, Revision::V2026_07_28);
    /// The revisions with a handshake (`initialize`) and a session.
    pub const LEGACY: Revisions = Revisions::between(Revision::V2024_11_05, Revision::V2025_11_25);
    /// The revisions without a handshake.
    pub const MODERN: Revisions = Revisions::only(Revision::V2026_07_28);

    /// The set of one revision.
    pub const fn only(revision: Revision) -> Revisions {
        Revisions(1 << revision as u8)
    }

    /// The revisions from `first` to `last`, both included.
    pub const fn between(first: Revision, last: Revision) -> Revisions {
        Revisions(((1 << (last as u8 + 1)) - 1) & !((1 << first as u8) - 1))
    }

    /// The revisions from `first` on.
    pub const fn since(first: Revision) -> Revisions {
        Revisions::between(first, Revision::V2026_07_28)
    }

    /// The union of two sets.
    pub const fn or(self, other: Revisions) -> Revisions {
        Revisions(self.0 | other.0)
    }

    /// The revisions of this set that are not in `other`.
    pub const fn without(self, other: Revisions) -> Revisions {
        Revisions(self.0 & !other.0)
    }

    /// Whether this set is a subset of `other`. Then a statement about `other` holds for whichever
    /// revision of this set is in force.
    pub const fn within(self, other: Revisions) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether the set has this revision.
    pub const fn contains(self, revision: Revision) -> bool {
        self.0 & (1 << revision as u8) != 0
    }

    /// Whether the two sets have no revision in common.
    pub const fn is_disjoint(self, other: Revisions) -> bool {
        self.0 & other.0 == 0
    }

    /// The only revision of the set; `None` where there are several, or none.
    pub fn single(self) -> Option<Revision> {
        if self.0.count_ones() == 1 { self.iter().next() } else { None }
    }

    /// The revisions of the set, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().filter(move |revision| self.contains(*revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order_agree() {
        assert!(Revision::ALL.map(Revision::name).is_sorted());
        assert!(Revision::ALL.into_iter().all(|revision| Revision::named(revision.name()) == Some(revision)));
        assert_eq!(Revision::named("2024-10-07"), None);
    }

    #[test]
    fn sets_hold_what_their_names_say() {
        let names = |set: Revisions| set.iter().map(Revision::name).collect::<Vec<_>>();
        assert_eq!(names(Revisions::MODERN), ["2026-07-28"]);
        assert_eq!(names(Revisions::LEGACY), ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
        assert_eq!(names(Revisions::since(Revision::V2025_11_25)), ["2025-11-25", "2026-07-28"]);
        assert!(Revisions::only(Revision::V2025_03_26).within(Revisions::LEGACY));
        assert!(!Revisions::ALL.within(Revisions::LEGACY));
        assert_eq!(Revisions::MODERN.single(), Some(Revision::V2026_07_28));
        assert_eq!(Revisions::LEGACY.single(), None);
    }
}
