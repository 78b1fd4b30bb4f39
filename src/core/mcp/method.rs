//! The methods that the revisions define: which peer sends them, and which capability allows them.

use super::capability::Capability;
use super::revision::Revision::{V2025_03_26, V2025_06_18, V2025_11_25};
use super::revision::Revisions;

/// The peer that may send a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Only the client.
    Client,
    /// Only the server.
    Server,
    /// Both of the peers.
    Both,
}

/// The definition of a method in the revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    /// Revisions that define it as a message.
    pub revisions: Revisions,
    pub sender: Sender,
    /// The capability that allows it. The receiver declares it for a request, the sender
    /// for a notification.
    pub gate: Option<Capability>,
}

macro_rules! methods {
    ($($method:ident $name:literal $revisions:expr, $sender:ident, $gate:expr;)*) => {
        /// A method. [`Method::Other`] stands for every method that no revision defines.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the table says what each is called")]
        pub enum Method { $($method,)* #[default] Other }

        impl Method {
            /// The number of variants, with [`Method::Other`].
            pub const COUNT: usize = Method::Other as usize + 1;
            /// All methods that a revision defines.
            pub const KNOWN: &[Method] = &[$(Method::$method),*];

            /// The method with this name.
            pub fn named(name: &str) -> Method {
                match name { $($name => Method::$method,)* _ => Method::Other }
            }

            /// The definition of the method; `None` for [`Method::Other`].
            pub fn definition(self) -> Option<Definition> {
                match self {
                    $(Method::$method => Some(Definition {
                        name: $name, revisions: $revisions, sender: Sender::$sender, gate: $gate,
                    }),)*
                    Method::Other => None,
                }
            }
        }
    };
}

use Capability as C;
const ALL: Revisions = Revisions::ALL;
const LEGACY: Revisions = Revisions::LEGACY;
const MODERN: Revisions = Revisions::MODERN;
/// Tasks are part of the core of 2025-11-25, and an extension of 2026-07-28.
const TASKS: Revisions = Revisions::only(V2025_11_25);

methods! {
    Initialize "initialize" LEGACY, Client, None;
    Ping "ping" LEGACY, Both, None;
    ToolsList "tools/list" ALL, Client, Some(C::Tools);
    ToolsCall "tools/call" ALL, Client, Some(C::Tools);
    PromptsList "prompts/list" ALL, Client, Some(C::Prompts);
    PromptsGet "prompts/get" ALL, Client, Some(C::Prompts);
    ResourcesList "resources/list" ALL, Client, Some(C::Resources);
    ResourcesTemplatesList "resources/templates/list" ALL, Client, Some(C::Resources);
    ResourcesRead "resources/read" ALL, Client, Some(C::Resources);
    ResourcesSubscribe "resources/subscribe" LEGACY, Client, Some(C::ResourcesSubscribe);
    ResourcesUnsubscribe "resources/unsubscribe" LEGACY, Client, Some(C::ResourcesSubscribe);
    CompletionComplete "completion/complete" ALL, Client, Some(C::Completions);
    LoggingSetLevel "logging/setLevel" LEGACY, Client, Some(C::Logging);
    SamplingCreateMessage "sampling/createMessage" LEGACY, Server, Some(C::Sampling);
    ElicitationCreate "elicitation/create" Revisions::between(V2025_06_18, V2025_11_25), Server, Some(C::Elicitation);
    RootsList "roots/list" LEGACY, Server, Some(C::Roots);
    TasksGet "tasks/get" TASKS.or(MODERN), Both, None;
    TasksResult "tasks/result" TASKS, Both, None;
    TasksList "tasks/list" TASKS, Both, None;
    TasksCancel "tasks/cancel" TASKS.or(MODERN), Both, None;
    TasksUpdate "tasks/update" MODERN, Client, None;
    ServerDiscover "server/discover" MODERN, Client, None;
    SubscriptionsListen "subscriptions/listen" MODERN, Client, None;
    Initialized "notifications/initialized" LEGACY, Client, None;
    Cancelled "notifications/cancelled" ALL, Both, None;
    Progress "notifications/progress" ALL, Both, None;
    LogMessage "notifications/message" ALL, Server, Some(C::Logging);
    ToolsListChanged "notifications/tools/list_changed" ALL, Server, Some(C::ToolsListChanged);
    PromptsListChanged "notifications/prompts/list_changed" ALL, Server, Some(C::PromptsListChanged);
    ResourcesListChanged "notifications/resources/list_changed" ALL, Server, Some(C::ResourcesListChanged);
    ResourcesUpdated "notifications/resources/updated" ALL, Server, Some(C::ResourcesSubscribe);
    RootsListChanged "notifications/roots/list_changed" LEGACY, Client, Some(C::RootsListChanged);
    ElicitationComplete "notifications/elicitation/complete" TASKS, Server, Some(C::ElicitationUrl);
    TasksStatus "notifications/tasks/status" TASKS, Both, None;
    TasksNotification "notifications/tasks" MODERN, Server, None;
    SubscriptionsAcknowledged "notifications/subscriptions/acknowledged" MODERN, Server, None;
}

impl Method {
    /// Requests whose results come in pages (server/utilities/pagination).
    pub const PAGED: &[Method] = &[
        Method::ToolsList,
        Method::PromptsList,
        Method::ResourcesList,
        Method::ResourcesTemplatesList,
        Method::TasksList,
    ];

    /// Whether its results come in pages.
    pub fn is_paged(self) -> bool {
        Method::PAGED.contains(&self)
    }

    /// Whether it is a notification.
    pub fn is_notification(self) -> bool {
        self.definition().is_some_and(|method| method.name.starts_with("notifications/"))
    }

    /// The capability that has to be declared for it in these revisions. 2024-11-05 has no
    /// `completions` capability.
    pub fn gate(self, revisions: Revisions) -> Option<Capability> {
        let gate = self.definition()?.gate?;
        let ungated = gate == C::Completions && !revisions.within(Revisions::since(V2025_03_26));
        (!ungated).then_some(gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::revision::Revision::{V2024_11_05, V2026_07_28};

    #[test]
    fn methods_are_known_by_name() {
        for method in Method::KNOWN {
            let definition = method.definition().expect("a known method");
            assert_eq!(Method::named(definition.name), *method);
        }
        assert_eq!(Method::named("tools/Call"), Method::Other);
        assert!(Method::Progress.is_notification() && !Method::Ping.is_notification());
        assert_eq!(Method::CompletionComplete.gate(Revisions::only(V2024_11_05)), None);
        assert_eq!(Method::CompletionComplete.gate(Revisions::only(V2026_07_28)), Some(C::Completions));
    }
}
