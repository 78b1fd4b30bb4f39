//! A rule is data, its manual included, and the functions that look for it.

use super::carried::Carried;
use super::history::History;
use super::report::Report;
use super::seen::Seen;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::jsonrpc::Kind;
use crate::decode::sse;
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;

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
    /// All of them, with the word of the JSON lines.
    pub const NAMES: [(Severity, &'static str); 3] =
        [(Severity::Info, "info"), (Severity::Warning, "warning"), (Severity::Error, "error")];

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// A rule and its manual: what its findings share.
#[derive(Debug)]
pub struct Rule {
    /// Its id, as in the JSON lines. Never changed once released: people suppress rules by it.
    pub id: &'static str,
    /// Its severity; that of a finding may differ, where its revision says SHOULD or the evidence is thin.
    pub severity: Severity,
    /// The revisions that it is part of. It is looked for where every revision that may be in force is one of them.
    pub revisions: Revisions,
    /// What it is about: the name of its file.
    pub layer: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// Where the specification says so: page and section, or the standard's section.
    pub spec: &'static str,
    /// Why it matters: what goes wrong for whom.
    pub why: &'static str,
    /// What breaks it, as it is seen on the wire.
    pub example: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// How it is looked for; empty for what a decoder or the tracker states by itself.
    pub(crate) checks: &'static [Check],
}

impl Rule {
    /// A rule of all revisions that nothing looks for: what a declaration fills in.
    #[doc(hidden)]
    pub const BLANK: Rule = Rule {
        id: "",
        severity: Severity::Info,
        revisions: Revisions::ALL,
        layer: "",
        title: "",
        spec: "",
        why: "",
        example: "",
        remedy: "",
        checks: &[],
    };
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

/// When a rule looks, and how. The functions see the history as it was *before* what they look at.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// At messages of these kinds, and, where the list is not empty, of these methods (for an answer: that of its request).
    Message(&'static [Kind], &'static [Method], fn(&Seen<'_, '_>, &mut Report<'_>)),
    /// The same, whichever revision is in force: the function decides.
    Any(&'static [Kind], &'static [Method], fn(&Seen<'_, '_>, &mut Report<'_>)),
    /// At an HTTP exchange whose request was read and whose response has its head.
    Response(fn(&Exchange, &Carried, &History, &mut Report<'_>)),
    /// At an HTTP exchange that is over.
    Exchange(fn(&Exchange, &Carried, &History, &mut Report<'_>)),
    /// At a server-sent event, behind the message that it carried.
    Event(fn(&sse::Event<'_>, ExchangeNumber, &Carried, &History, &mut Report<'_>)),
    /// At the end of a session, or of the capture.
    End(fn(&History, &mut Report<'_>)),
}

/// Requests and notifications.
pub const ASKS: &[Kind] = &[Kind::Request, Kind::Notification];
/// Requests.
pub const REQUESTS: &[Kind] = &[Kind::Request];
/// Notifications.
pub const NOTIFICATIONS: &[Kind] = &[Kind::Notification];
/// Answers with a result.
pub const RESULTS: &[Kind] = &[Kind::Response];
/// Answers with an error.
pub const ERRORS: &[Kind] = &[Kind::Error];
/// Answers of both kinds.
pub const ANSWERS: &[Kind] = &[Kind::Response, Kind::Error];
/// Whatever is no message.
pub const INVALID: &[Kind] = &[Kind::Invalid];
/// Whatever is a message.
pub const MESSAGES: &[Kind] = &[Kind::Request, Kind::Notification, Kind::Response, Kind::Error];
