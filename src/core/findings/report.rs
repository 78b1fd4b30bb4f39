//! Where a rule's function says what it found. Place, session and severity are filled in here.

use super::{Finding, Rule, Severity};
use crate::capture::{PacketNumber, Span};
use crate::mcp::{Message, MessageNumber, SessionNumber};

/// Findings of one rule and session that are said one by one; further ones are counted, and said once at the end of the
/// session. A hundred show the pattern; a million would bury everything else, and fill the disk.
pub const SAID: u64 = 100;

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
    pub(super) fn again(&mut self) -> Report<'_> {
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
    pub fn say(&mut self, text: impl Into<String>) {
        self.say_as(self.rule.severity, text);
    }

    /// The same with another severity than the rule's.
    pub fn say_as(&mut self, severity: Severity, text: impl Into<String>) {
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
    pub fn say_once(&mut self, severity: Severity, what: &'static str, text: impl Into<String>) {
        self.say_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.once = what;
        }
    }

    /// The same, about these messages too, that came before.
    pub fn say_with(&mut self, earlier: &[MessageNumber], text: impl Into<String>) {
        self.say_as_with(self.rule.severity, earlier, text);
    }

    /// Both.
    pub fn say_as_with(&mut self, severity: Severity, earlier: &[MessageNumber], text: impl Into<String>) {
        self.say_as(severity, text);
        if let Some(finding) = self.found.last_mut() {
            finding.messages.splice(0..0, earlier.iter().copied());
        }
    }
}
