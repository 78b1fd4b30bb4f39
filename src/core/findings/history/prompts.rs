//! The prompts as last listed, with the arguments that they need.

use std::collections::BTreeMap;

use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::findings::message_facts::MessageFacts;
use crate::mcp::method::Method;

/// Prompts and arguments of each that are kept, and bytes of a name: a person chooses among a few.
const PROMPTS: usize = 1_024;
const ARGUMENTS: usize = 32;
const NAME: usize = 256;

/// The prompts of a session.
#[derive(Debug, Default)]
pub struct Prompts {
    /// Names of the arguments that each requires.
    required: BTreeMap<String, Vec<String>>,
    /// Every prompt is known, and the server did not say that they changed.
    is_complete: bool,
}

impl Prompts {
    /// The arguments that a prompt requires, where it was listed.
    pub fn required(&self, name: &str) -> Option<&[String]> {
        self.required.get(name).map(Vec::as_slice)
    }

    /// Whether one that is not there does not exist.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, is_first_page: bool) {
        match (facts.message.kind, facts.method) {
            // A prompt may be gone or changed: nothing is held against what was listed before.
            (Kind::Notification, Method::PromptsListChanged) => *self = Prompts::default(),
            (Kind::Response, Method::PromptsList) => {
                if is_first_page {
                    *self = Prompts { is_complete: true, ..Prompts::default() };
                }
                let listed = json::array(facts.body().get("prompts").unwrap_or_default(), PROMPTS + 1);
                for prompt in listed.into_iter().map(Object::read) {
                    self.is_complete &= self.add(&prompt).is_some();
                }
            }
            _ => {}
        }
    }

    /// `None` where there was no room.
    fn add(&mut self, prompt: &Object<'_>) -> Option<()> {
        let short = |text: &str| (text.len() <= NAME).then(|| text.to_owned());
        let name = short(&prompt.text("name")?).filter(|_| self.required.len() < PROMPTS)?;
        let arguments = json::array(prompt.get("arguments").unwrap_or_default(), ARGUMENTS);
        let required = arguments.into_iter().map(Object::read).filter(|it| it.get("required") == Some("true"));
        self.required.insert(name, required.filter_map(|it| short(&it.text("name")?)).collect());
        Some(())
    }
}
