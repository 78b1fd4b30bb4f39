//! What is odd: rules, and the places that break them.

pub mod jsonrpc;
pub mod tls;
pub mod transport;

use crate::capture::{PacketNumber, Span};
use crate::mcp::{MessageNumber, SessionNumber};

/// Declares the rules of one file: constants, and the list of them.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $severity:ident $id:literal, $title:literal, $spec:literal;)*) => {
        $($(#[$doc])* pub static $name: $crate::findings::Rule = $crate::findings::Rule {
            id: $id,
            severity: $crate::findings::Severity::$severity,
            title: $title,
            spec: $spec,
        };)*
        /// The rules of this file.
        pub const RULES: &[&$crate::findings::Rule] = &[$(&$name),*];
    };
}
use rules;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Probably not meant.
    Warning,
    /// Against a MUST, or loss of data.
    Error,
}

impl Severity {
    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A rule: data that its findings share.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id, as in the JSON lines.
    pub id: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// Where the specification says so.
    pub spec: &'static str,
}

/// Something odd at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The session, where it belongs to one.
    pub session: Option<SessionNumber>,
    /// The messages it is about.
    pub messages: Vec<MessageNumber>,
    /// The packets it is about.
    pub packets: Vec<PacketNumber>,
    /// The bytes it is about.
    pub span: Option<Span>,
    /// One sentence.
    pub text: String,
}

impl Finding {
    /// A finding of this rule, its place and sentence still to be filled in.
    pub fn of(rule: &'static Rule) -> Finding {
        Finding { rule, session: None, messages: Vec::new(), packets: Vec::new(), span: None, text: String::new() }
    }
}

/// Every rule, by topic.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    transport::RULES.iter().chain(tls::RULES).chain(jsonrpc::RULES).copied()
}

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = all().map(|rule| rule.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
