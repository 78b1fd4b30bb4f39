//! Capabilities: what a side says that it can do (basic/lifecycle "Capability Negotiation"; 2026-07-28: basic/index "_meta"
//! and server/discover).

use std::ops::ControlFlow;

use crate::decode::json;

/// One capability. Those of clients and of servers stand apart, also where their names are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the table says what each is called")]
pub enum Capability {
    Roots,
    RootsListChanged,
    Sampling,
    SamplingTools,
    SamplingContext,
    Elicitation,
    ElicitationForm,
    ElicitationUrl,
    ClientTasks,
    ClientTasksList,
    ClientTasksCancel,
    ClientTasksSampling,
    ClientTasksElicitation,
    Tools,
    ToolsListChanged,
    Prompts,
    PromptsListChanged,
    Resources,
    ResourcesSubscribe,
    ResourcesListChanged,
    Logging,
    Completions,
    ServerTasks,
    ServerTasksList,
    ServerTasksCancel,
    ServerTasksToolsCall,
}

use Capability::*;

/// Who declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declarer {
    /// The client, in `initialize` or in the `_meta` of each request.
    Client,
    /// The server, in its answer to `initialize` or `server/discover`.
    Server,
}

/// The members of `capabilities` that make a capability, by who declares them, in the order of the enumeration.
const TABLE: [(Declarer, &str, Capability); 26] = [
    (Declarer::Client, "roots", Roots),
    (Declarer::Client, "roots.listChanged", RootsListChanged),
    (Declarer::Client, "sampling", Sampling),
    (Declarer::Client, "sampling.tools", SamplingTools),
    (Declarer::Client, "sampling.context", SamplingContext),
    (Declarer::Client, "elicitation", Elicitation),
    (Declarer::Client, "elicitation.form", ElicitationForm),
    (Declarer::Client, "elicitation.url", ElicitationUrl),
    (Declarer::Client, "tasks", ClientTasks),
    (Declarer::Client, "tasks.list", ClientTasksList),
    (Declarer::Client, "tasks.cancel", ClientTasksCancel),
    (Declarer::Client, "tasks.requests.sampling.createMessage", ClientTasksSampling),
    (Declarer::Client, "tasks.requests.elicitation.create", ClientTasksElicitation),
    (Declarer::Server, "tools", Tools),
    (Declarer::Server, "tools.listChanged", ToolsListChanged),
    (Declarer::Server, "prompts", Prompts),
    (Declarer::Server, "prompts.listChanged", PromptsListChanged),
    (Declarer::Server, "resources", Resources),
    (Declarer::Server, "resources.subscribe", ResourcesSubscribe),
    (Declarer::Server, "resources.listChanged", ResourcesListChanged),
    (Declarer::Server, "logging", Logging),
    (Declarer::Server, "completions", Completions),
    (Declarer::Server, "tasks", ServerTasks),
    (Declarer::Server, "tasks.list", ServerTasksList),
    (Declarer::Server, "tasks.cancel", ServerTasksCancel),
    (Declarer::Server, "tasks.requests.tools.call", ServerTasksToolsCall),
];

impl Capability {
    /// Its path in `capabilities`: `tools.listChanged`.
    pub fn path(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Whose it is.
    pub fn declarer(self) -> Declarer {
        TABLE[self as usize].0
    }
}

/// Extension ids remembered of one declaration; real ones have a few.
const EXTENSIONS: usize = 64;

/// What one side declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    bits: u32,
    /// Ids of the extensions that it declared.
    pub extensions: Vec<String>,
}

impl Capabilities {
    /// Reads the text of a `capabilities` member, leniently: what is there counts as declared, whatever its type, unless it is
    /// `false` or null.
    pub fn read(declarer: Declarer, text: &str) -> Capabilities {
        let mut declared = Capabilities::default();
        declared.walk(declarer, text, "", 0);
        declared
    }

    fn walk(&mut self, declarer: Declarer, object: &str, prefix: &str, depth: usize) {
        // `tasks.requests.sampling.createMessage` is the longest path.
        if depth > 3 || !object.starts_with('{') {
            return;
        }
        json::members(object, &mut |name, value| {
            let Some(name) = json::string(name) else { return ControlFlow::Continue(()) };
            if matches!(value, "false" | "null") {
                return ControlFlow::Continue(());
            }
            if prefix == "extensions" {
                if self.extensions.len() < EXTENSIONS {
                    self.extensions.push(name.into_owned());
                }
                return ControlFlow::Continue(());
            }
            let path = if prefix.is_empty() { name.into_owned() } else { format!("{prefix}.{name}") };
            if let Some((.., capability)) = TABLE.iter().find(|(who, known, _)| *who == declarer && *known == path) {
                self.bits |= 1 << *capability as u32;
            }
            let leads_on = path == "extensions"
                || TABLE.iter().any(|(who, known, _)| {
                    *who == declarer && known.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
                });
            if leads_on {
                self.walk(declarer, value, &path, depth + 1);
            }
            ControlFlow::Continue(())
        });
        // client/elicitation "Capabilities": "For backwards compatibility, an empty capabilities object is equivalent to
        // declaring support for form mode only".
        if depth == 0 && self.has(Elicitation) && !self.has(ElicitationUrl) {
            self.bits |= 1 << ElicitationForm as u32;
        }
    }

    /// Whether it was declared.
    pub fn has(&self, capability: Capability) -> bool {
        self.bits & (1 << capability as u32) != 0
    }

    /// Those that were declared.
    pub fn iter(&self) -> impl Iterator<Item = Capability> {
        TABLE.iter().map(|(.., capability)| *capability).filter(|capability| self.has(*capability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enumeration() {
        for (position, (.., capability)) in TABLE.iter().enumerate() {
            assert_eq!(*capability as usize, position);
        }
    }

    #[test]
    fn what_is_there_is_declared_unless_it_is_false() {
        let text = r#"{"tools":{"listChanged":false},"resources":{"subscribe":true},"logging":{},
            "tasks":{"requests":{"tools":{"call":{}}}},"extensions":{"a/b":{}},"sampling":{}}"#;
        let declared = Capabilities::read(Declarer::Server, text);
        let paths: Vec<&str> = declared.iter().map(Capability::path).collect();
        let expected = ["tools", "resources", "resources.subscribe", "logging", "tasks", "tasks.requests.tools.call"];
        assert_eq!(paths, expected);
        assert_eq!(declared.extensions, ["a/b"]);
    }

    #[test]
    fn an_empty_elicitation_means_forms() {
        let declared = Capabilities::read(Declarer::Client, r#"{"elicitation":{}}"#);
        assert!(declared.has(ElicitationForm) && !declared.has(ElicitationUrl));
        let declared = Capabilities::read(Declarer::Client, r#"{"elicitation":{"url":{}}}"#);
        assert!(!declared.has(ElicitationForm) && declared.has(ElicitationUrl));
    }
}
