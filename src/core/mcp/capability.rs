//! Capabilities that peers declare (basic/lifecycle "Capability Negotiation"; 2026-07-28:
//! basic/index "_meta" and server/discover).

use std::ops::ControlFlow;

use crate::decode::json;

/// The peer that declares a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declarer {
    /// The client, in `initialize` or in the `_meta` of each request.
    Client,
    /// The server, in its response to `initialize` or `server/discover`.
    Server,
}

macro_rules! capabilities {
    ($($capability:ident $declarer:ident $path:literal;)*) => {
        /// A capability. The `tasks` of clients and of servers are two capabilities, though their
        /// names are equal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the table says what each is called")]
        pub enum Capability { $($capability,)* }

        const TABLE: &[(Declarer, &str, Capability)] =
            &[$((Declarer::$declarer, $path, Capability::$capability)),*];
    };
}

capabilities! {
    Roots Client "roots";
    RootsListChanged Client "roots.listChanged";
    Sampling Client "sampling";
    SamplingTools Client "sampling.tools";
    SamplingContext Client "sampling.context";
    Elicitation Client "elicitation";
    ElicitationForm Client "elicitation.form";
    ElicitationUrl Client "elicitation.url";
    ClientTasks Client "tasks";
    ClientTasksList Client "tasks.list";
    ClientTasksCancel Client "tasks.cancel";
    ClientTasksSampling Client "tasks.requests.sampling.createMessage";
    ClientTasksElicitation Client "tasks.requests.elicitation.create";
    Tools Server "tools";
    ToolsListChanged Server "tools.listChanged";
    Prompts Server "prompts";
    PromptsListChanged Server "prompts.listChanged";
    Resources Server "resources";
    ResourcesSubscribe Server "resources.subscribe";
    ResourcesListChanged Server "resources.listChanged";
    Logging Server "logging";
    Completions Server "completions";
    ServerTasks Server "tasks";
    ServerTasksList Server "tasks.list";
    ServerTasksCancel Server "tasks.cancel";
    ServerTasksToolsCall Server "tasks.requests.tools.call";
}

use Capability::*;

impl Capability {
    /// Its path in the member `capabilities`, for example `tools.listChanged`.
    pub fn path(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The peer that declares it.
    pub fn declarer(self) -> Declarer {
        TABLE[self as usize].0
    }
}

/// Extension ids stored for one declaration. Real declarations have a few.
const EXTENSIONS: usize = 64;

/// The capabilities that one peer declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    bits: u32,
    /// Ids of the declared extensions.
    pub extensions: Vec<String>,
}

impl Capabilities {
    /// Parses the text of a `capabilities` member, leniently. A member counts as declared whatever
    /// its type is, unless it is `false` or `null`.
    pub fn read(declarer: Declarer, text: &str) -> Capabilities {
        let mut declared = Capabilities::default();
        declared.walk(declarer, text, "", 0);
        declared
    }

    fn walk(&mut self, declarer: Declarer, object: &str, prefix: &str, depth: usize) {
        // The longest path, `tasks.requests.sampling.createMessage`, has four names.
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
            if let Some((.., capability)) = TABLE.iter().find(|(peer, name, _)| *peer == declarer && *name == path) {
                self.bits |= 1 << *capability as u32;
            }
            let leads_on = path == "extensions"
                || TABLE.iter().any(|(peer, name, _)| {
                    *peer == declarer && name.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))
                });
            if leads_on {
                self.walk(declarer, value, &path, depth + 1);
            }
            ControlFlow::Continue(())
        });
        // client/elicitation "Capabilities": "For backwards compatibility, an empty capabilities
        // object is equivalent to declaring support for form mode only".
        if depth == 0 && self.has(Elicitation) && !self.has(ElicitationUrl) {
            self.bits |= 1 << ElicitationForm as u32;
        }
    }

    /// Whether the capability was declared.
    pub fn has(&self, capability: Capability) -> bool {
        self.bits & (1 << capability as u32) != 0
    }

    /// The declared capabilities.
    pub fn iter(&self) -> impl Iterator<Item = Capability> {
        TABLE.iter().map(|(.., capability)| *capability).filter(|capability| self.has(*capability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_members_are_declared_unless_they_are_false() {
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
