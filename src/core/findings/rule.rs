//! A rule is data, its manual included, and the functions that look for it.

use super::history::History;
use super::mcp_exchange::McpExchange;
use super::message_context::MessageContext;
use crate::capture::{PacketNumber, Span};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::jsonrpc::Kind;
use crate::decode::sse;
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;
use crate::mcp::{Message, MessageNumber, SessionNumber};

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
    Message(&'static [Kind], &'static [Method], fn(&MessageContext<'_, '_>, &mut Report<'_>)),
    /// The same, whichever revision is in force: the function decides.
    Any(&'static [Kind], &'static [Method], fn(&MessageContext<'_, '_>, &mut Report<'_>)),
    /// At an HTTP exchange whose request was read and whose response has its head.
    Response(fn(&Exchange, &McpExchange, &History, &mut Report<'_>)),
    /// At an HTTP exchange that is over.
    Exchange(fn(&Exchange, &McpExchange, &History, &mut Report<'_>)),
    /// At a server-sent event, behind the message that it carried.
    Event(fn(&sse::Event<'_>, ExchangeNumber, &McpExchange, &History, &mut Report<'_>)),
    /// At the end of a session, or of the capture.
    End(fn(&History, &mut Report<'_>)),
}

pub const ASKS: &[Kind] = &[Kind::Request, Kind::Notification];
pub const REQUESTS: &[Kind] = &[Kind::Request];
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

/// Something odd at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that the traffic breaks here.
    pub rule: &'static Rule,
    /// How bad it is here, where the revision's words or the evidence make it something else than the rule says.
    pub severity: Severity,
    /// The session, where it belongs to one.
    pub session: Option<SessionNumber>,
    /// The messages it is about.
    pub messages: Vec<MessageNumber>,
    /// The packets it is about.
    pub packets: Vec<PacketNumber>,
    /// The bytes it is about.
    pub span: Option<Span>,
    /// One sentence without a full stop: what happened here.
    pub text: String,
    /// Where it stands for findings that are not listed one by one: how many.
    pub repeated: u64,
    /// What is told once in a session, where it is: a method. Empty for what is told at each place.
    pub once: &'static str,
}

impl Finding {
    /// A finding of this rule, its place and sentence still to be filled in.
    pub fn of(rule: &'static Rule) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            session: None,
            messages: Vec::new(),
            packets: Vec::new(),
            span: None,
            text: String::new(),
            repeated: 0,
            once: "",
        }
    }
}

/// Takes what one rule finds at one place.
#[derive(Debug)]
pub struct Report<'r> {
    pub(super) rule: &'static Rule,
    pub(super) session: Option<SessionNumber>,
    pub(super) messages: &'r [MessageNumber],
    pub(super) packets: &'r [PacketNumber],
    pub(super) span: Option<Span>,
    pub(super) found: &'r mut Vec<Finding>,
}

impl<'r> Report<'r> {
    /// For what is found at a message.
    pub(super) fn at_message(rule: &'static Rule, message: &'r Message, found: &'r mut Vec<Finding>) -> Report<'r> {
        let (session, span) = (Some(message.session), Some(message.span));
        Report {
            rule,
            session,
            messages: std::slice::from_ref(&message.number),
            packets: &message.packets,
            span,
            found,
        }
    }

    /// The same place again, for a report that says something else of it.
    pub(super) fn reborrow(&mut self) -> Report<'_> {
        Report {
            rule: self.rule,
            session: self.session,
            messages: self.messages,
            packets: self.packets,
            span: self.span,
            found: self.found,
        }
    }

    /// The rule is broken here: one sentence, without a full stop.
    pub fn add(&mut self, text: impl Into<String>) {
        self.add_as(self.rule.severity, text);
    }

    /// The same with another severity than the rule's.
    pub fn add_as(&mut self, severity: Severity, text: impl Into<String>) {
        self.found.push(Finding {
            severity,
            session: self.session,
            messages: self.messages.to_vec(),
            packets: self.packets.to_vec(),
            span: self.span,
            text: text.into(),
            ..Finding::of(self.rule)
        });
    }

    /// The same, at the first place of a session alone; what follows is counted, by `what`, and said once at the end.
    pub fn add_once(&mut self, severity: Severity, what: &'static str, text: impl Into<String>) {
        self.add_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.once = what;
        }
    }

    /// The same, about these messages too, that came before.
    pub fn add_about(&mut self, earlier: &[MessageNumber], text: impl Into<String>) {
        self.add_as_about(self.rule.severity, earlier, text);
    }

    /// Both.
    pub fn add_as_about(&mut self, severity: Severity, earlier: &[MessageNumber], text: impl Into<String>) {
        self.add_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.messages.splice(0..0, earlier.iter().copied());
        }
    }
}
