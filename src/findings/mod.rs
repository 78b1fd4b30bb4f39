//! What is odd: rules, and the places that break them.

use crate::capture::{PacketNumber, Span};
use crate::mcp::{MessageNumber, SessionNumber};

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

/// Every rule, by topic.
pub const RULES: &[&Rule] = &[];

/// The rule of this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id).copied()
}
