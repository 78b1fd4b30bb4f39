//! The use of a capability, beside its declaration.

use crate::mcp::MessageNumber;
use crate::mcp::capability::Capability;
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;

/// A capability of one side: whether it was declared, and how much it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityUse {
    /// The capability that was declared or used.
    pub capability: Capability,
    /// The message that declared it.
    pub declared: Option<MessageNumber>,
    /// The number of messages that used it, and the first of them.
    pub used: Option<(u64, MessageNumber)>,
}

impl CapabilityUse {
    /// Whether use of the capability can be observed: it has a method of its own.
    fn is_observable(&self) -> bool {
        Method::KNOWN.iter().any(|method| method.gate(Revisions::ALL) == Some(self.capability))
    }

    /// A description in words.
    pub fn words(&self) -> String {
        match (self.declared, self.used) {
            (Some(_), Some((times, _))) => format!("declared, used {}", super::times(times)),
            (Some(_), None) if self.is_observable() => "declared, not used".to_owned(),
            // Such a capability is used inside other messages.
            (Some(_), None) => "declared".to_owned(),
            (None, Some((times, _))) => format!("used {} undeclared", super::times(times)),
            (None, None) => String::new(),
        }
    }
}
