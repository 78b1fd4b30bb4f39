//! The revisions of the protocol, oldest first, and sets of them.

use std::fmt;

/// A published revision of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05, the first.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the last with a handshake.
    V2025_11_25,
    /// 2026-07-28, the first without one.
    V2026_07_28,
}

impl Revision {
    /// All of them, oldest first, with their name on the wire.
    pub const NAMES: [(Revision, &'static str); 5] = [
        (Revision::V2024_11_05, "2024-11-05"),
        (Revision::V2025_03_26, "2025-03-26"),
        (Revision::V2025_06_18, "2025-06-18"),
        (Revision::V2025_11_25, "2025-11-25"),
        (Revision::V2026_07_28, "2026-07-28"),
    ];

    /// The revision of this name; `None` for a draft or anything else that was never published.
    pub fn named(name: &str) -> Option<Revision> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(revision, _)| *revision)
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(revision, _)| *revision == self).map_or("", |(_, name)| name)
    }

    /// Whether each request says its revision and there is no handshake (2026-07-28, basic/index "_meta").
    pub fn is_stateless(self) -> bool {
        self >= Revision::V2026_07_28
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of revisions: those that a rule is part of, or those that may be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revisions(u8);

impl Revisions {
    /// All that were published.
    pub const ALL: Revisions = Revisions::between(Revision::V2024_11_05, Revision::V2026_07_28);
    /// Those with a handshake (`initialize`) and a session.
    pub const LEGACY: Revisions = Revisions::between(Revision::V2024_11_05, Revision::V2025_11_25);
    /// Those without: every request speaks for itself.
    pub const MODERN: Revisions = Revisions::only(Revision::V2026_07_28);

    /// This one alone.
    pub const fn only(revision: Revision) -> Revisions {
        Revisions(1 << revision as u8)
    }

    /// From one to another, both included.
    pub const fn between(first: Revision, last: Revision) -> Revisions {
        Revisions(((1 << (last as u8 + 1)) - 1) & !((1 << first as u8) - 1))
    }

    /// From this one on.
    pub const fn since(first: Revision) -> Revisions {
        Revisions::between(first, Revision::V2026_07_28)
    }

    /// Those of either.
    pub const fn or(self, other: Revisions) -> Revisions {
        Revisions(self.0 | other.0)
    }

    /// Those of this set that are not in the other.
    pub const fn without(self, other: Revisions) -> Revisions {
        Revisions(self.0 & !other.0)
    }

    /// Whether every revision of this set is one of `other`: what holds in `other` holds whichever of these is in force.
    pub const fn within(self, other: Revisions) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether this revision is one of them.
    pub const fn contains(self, revision: Revision) -> bool {
        self.0 & (1 << revision as u8) != 0
    }

    /// Whether none is in both.
    pub const fn is_disjoint(self, other: Revisions) -> bool {
        self.0 & other.0 == 0
    }

    /// The one revision of the set, where there is but one.
    pub fn single(self) -> Option<Revision> {
        if self.0.count_ones() == 1 { self.iter().next() } else { None }
    }

    /// They, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Revision> {
        Revision::NAMES.iter().map(|(revision, _)| *revision).filter(move |revision| self.contains(*revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order_agree() {
        assert!(Revision::NAMES.is_sorted());
        assert!(Revision::NAMES.iter().all(|(revision, name)| Revision::named(name) == Some(*revision)));
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
