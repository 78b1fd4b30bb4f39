//! The revisions of the protocol, oldest first.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order_agree() {
        assert!(Revision::NAMES.is_sorted());
        assert!(Revision::NAMES.iter().all(|(revision, name)| Revision::named(name) == Some(*revision)));
        assert_eq!(Revision::named("2024-10-07"), None);
    }
}
