//! Rules, their check functions, and the findings that these report.

use super::history::History;
use super::mcp_exchange::McpExchange;
use super::message_context::MessageContext;
use crate::capture::{PacketNumber, Span};
use crate::decode::{Exchange, Kind, sse};
use crate::mcp::{Message, MessageNumber, Method, Revisions, SessionNumber};

words! {
    /// The severity of a rule or finding. `docs/findings.md` defines the three levels.
    pub enum Severity {
        /// Information that is worth knowing. Nothing is wrong.
        Info = "info",
        /// Legal or harmless, but probably unintended.
        Warning = "warning",
        /// Breaks a MUST of the specification, or loses data.
        Error = "error",
    }
}

/// A rule with its manual page.
#[derive(Debug)]
pub struct Rule {
    /// The id, as in the JSON lines. It never changes after a release, because people suppress
    /// rules by id.
    pub id: &'static str,
    /// The severity of most findings. A finding may differ if its revision has a SHOULD or the
    /// evidence is weak.
    pub severity: Severity,
    /// The revisions that contain the rule. It applies if every revision that may be in force is
    /// one of them.
    pub revisions: Revisions,
    /// The violation, in one line without a full stop.
    pub title: &'static str,
    /// The source: page and section of the specification, or section of another standard.
    pub spec: &'static str,
    /// The consequence: what goes wrong, and for whom.
    pub why: &'static str,
    /// A violation as it appears on the wire.
    pub example: &'static str,
    /// The advice: how to correct the violation.
    pub remedy: &'static str,
    /// The check functions. Empty if a decoder or the tracker finds the violation.
    pub(crate) checks: &'static [Check],
}

impl Rule {
    /// The defaults for a declaration: all revisions, no check functions.
    #[doc(hidden)]
    pub const BLANK: Rule = Rule {
        id: "",
        severity: Severity::Info,
        revisions: Revisions::ALL,
        title: "",
        spec: "",
        why: "",
        example: "",
        remedy: "",
        checks: &[],
    };

    /// The topic, as a heading of the manual.
    pub fn layer(&self) -> &'static str {
        super::FAMILIES.iter().find(|(_, rules)| rules.contains(&self)).map_or("", |(layer, _)| layer)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

/// A check function and what it is called for. The function gets the history as it was *before* the
/// checked message or exchange.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// Called for messages of these kinds and methods. An empty list means all methods. The method
    /// of a response is that of its request. The rule's revisions must be in force.
    Message(&'static [Kind], &'static [Method], fn(&MessageContext<'_, '_>, &mut Report<'_>)),
    /// The same, whichever revision is in force: the function checks that itself.
    Any(&'static [Kind], &'static [Method], fn(&MessageContext<'_, '_>, &mut Report<'_>)),
    /// Called once for an HTTP exchange when its request is complete and the response has its head.
    Response(fn(&Exchange, &McpExchange, &History, &mut Report<'_>)),
    /// Called when an HTTP exchange ends.
    Exchange(fn(&Exchange, &McpExchange, &History, &mut Report<'_>)),
    /// Called for a server-sent event, after the message that it carries.
    Event(fn(&sse::Event<'_>, &McpExchange, &History, &mut Report<'_>)),
    /// Called at the end of a session, or of the capture.
    End(fn(&History, &mut Report<'_>)),
}

pub const ASKS: &[Kind] = &[Kind::Request, Kind::Notification];
pub const REQUESTS: &[Kind] = &[Kind::Request];
pub const NOTIFICATIONS: &[Kind] = &[Kind::Notification];
/// Responses with a result.
pub const RESULTS: &[Kind] = &[Kind::Response];
/// Responses with an error.
pub const ERRORS: &[Kind] = &[Kind::Error];
/// Responses with a result or an error.
pub const ANSWERS: &[Kind] = &[Kind::Response, Kind::Error];
/// Texts that are not JSON-RPC messages.
pub const INVALID: &[Kind] = &[Kind::Invalid];
/// All JSON-RPC messages.
pub const MESSAGES: &[Kind] = &[Kind::Request, Kind::Notification, Kind::Response, Kind::Error];

/// A place where traffic breaks a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that the traffic breaks here.
    pub rule: &'static Rule,
    /// The severity here. It can differ from the rule's severity, as [`Rule::severity`] explains.
    pub severity: Severity,
    /// The session, if the finding belongs to one.
    pub session: Option<SessionNumber>,
    /// The messages that break the rule.
    pub messages: Vec<MessageNumber>,
    /// The packets that break the rule.
    pub packets: Vec<PacketNumber>,
    /// The bytes that break the rule.
    pub span: Option<Span>,
    /// One sentence without a full stop: what happened here.
    pub text: String,
    /// The number of findings that this one summarises, because they are not listed. Otherwise 0.
    pub repeated: u64,
    /// The subject that is listed only once in a session, such as a method. Empty if every
    /// finding is listed.
    pub once: &'static str,
}

impl Finding {
    /// A finding of this rule without a place and a text.
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

/// Collects the findings of one rule at one place.
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
    /// A report about a message.
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

    /// A report about the same place. The caller may replace some of its fields.
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

    /// Adds a finding: one sentence without a full stop.
    pub fn add(&mut self, text: impl Into<String>) {
        self.add_as(self.rule.severity, text);
    }

    /// Adds a finding with this severity instead of the rule's.
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

    /// Adds a finding that is listed only the first time in a session. Later ones about the same
    /// `what` are counted and summarised at the end.
    pub fn add_once(&mut self, severity: Severity, what: &'static str, text: impl Into<String>) {
        self.add_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.once = what;
        }
    }

    /// Adds a finding that also concerns these earlier messages.
    pub fn add_about(&mut self, earlier: &[MessageNumber], text: impl Into<String>) {
        self.add_as_about(self.rule.severity, earlier, text);
    }

    /// Adds a finding with this severity that also concerns these earlier messages.
    pub fn add_as_about(&mut self, severity: Severity, earlier: &[MessageNumber], text: impl Into<String>) {
        self.add_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.messages.splice(0..0, earlier.iter().copied());
        }
    }
}
