//! The latest list of prompts, with their required arguments.

use std::collections::BTreeMap;

use crate::decode::Kind;
use crate::decode::json::{self, Object};
use crate::findings::message_facts::MessageFacts;
use crate::mcp::Method;

/// Limits of remembered prompts, of arguments of a prompt, and of the bytes of a name. A person
/// chooses among a few.
const PROMPTS: usize = 1_024;
const ARGUMENTS: usize = 32;
const NAME: usize = 256;

/// The prompts of a session.
#[derive(Debug, Default)]
pub struct Prompts {
    /// The names of required arguments, by prompt.
    required: BTreeMap<String, Vec<String>>,
    /// Whether the list is complete, and the server announced no change since. Then a prompt that
    /// is not listed does not exist.
    pub is_complete: bool,
}

impl Prompts {
    /// The required arguments of a prompt. `None` if it was not listed.
    pub fn required(&self, name: &str) -> Option<&[String]> {
        self.required.get(name).map(Vec::as_slice)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, is_first_page: bool) {
        match (facts.message.kind, facts.method) {
            // Prompts may have been removed or changed, so the old list is not valid any more.
            (Kind::Notification, Method::PromptsListChanged) => *self = Prompts::default(),
            (Kind::Response, Method::PromptsList) if facts.is_listing() => {
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

    /// Adds a prompt. `None` if there was no room or its name is missing.
    fn add(&mut self, prompt: &Object<'_>) -> Option<()> {
        let short = |text: &str| (text.len() <= NAME).then(|| text.to_owned());
        let name = short(&prompt.text("name")?).filter(|_| self.required.len() < PROMPTS)?;
        let arguments = json::array(prompt.get("arguments").unwrap_or_default(), ARGUMENTS);
        let required = arguments.into_iter().map(Object::read).filter(|it| it.get("required") == Some("true"));
        self.required.insert(name, required.filter_map(|it| short(&it.text("name")?)).collect());
        Some(())
    }
}
