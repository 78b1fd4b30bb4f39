//! The rules about correct traffic, and the findings: the places that break them.
//!
//! A rule is data: its id, its manual page and its check functions ([`Rule`], [`Check`]). The rules
//! of one topic are in one file, with their tests, and [`FAMILIES`] lists these files. A check
//! function gets a message with its context ([`MessageContext`]), or an HTTP exchange, an event or
//! the end of a session. It also gets the state of the session before that ([`History`]), and adds
//! what it finds to a [`Report`]. [`checker::Checker`] runs the functions.
//!
//! To add a rule: declare a `static` in the file of its topic, add it to `RULES` of that file,
//! and write the check function. Write two tests: one in which the rule fires and one in which
//! it must not. A rule that a decoder finds has no check function: it is an `Anomaly`, and
//! `transport.rs` maps it to the rule.
//!
//! To add a topic: write a file with `RULES`, and add it to [`FAMILIES`]. State of the session that
//! several rules need belongs into `history/`, one noun a file. `docs/findings.md` is generated
//! from the rules (`UPDATE_EXPECT=1 cargo test -p mcptap-core findings::manual`).

pub mod baseline;
mod caching;
mod cancellation;
mod capabilities;
mod checker;
mod completion;
mod content;
#[cfg(test)]
mod defects;
mod elicitation;
mod history;
mod http;
pub mod http2;
mod jsonrpc;
mod known_lists;
mod lifecycle;
mod logging;
pub mod manual;
mod mcp_exchange;
mod message_context;
mod message_facts;
mod methods;
mod mismatch;
mod mrtr;
mod pagination;
mod progress;
mod prompts;
mod resources;
mod roots;
mod rule;
mod sampling;
mod schema;
mod server_versions;
mod sse;
mod stateless;
mod stdio;
mod subscriptions;
mod tasks;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls;
mod tools;
mod trace;
pub mod transport;

pub use checker::Checker;
pub use history::ProcessChange;
pub use rule::{Finding, Rule, Severity};

// Names that nearly every file of rules imports.
use history::History;
use mcp_exchange::McpExchange;
use message_context::MessageContext;
use rule::{ANSWERS, ASKS, ERRORS, INVALID, MESSAGES, NOTIFICATIONS, REQUESTS, RESULTS};
use rule::{Check, Report};

/// The rules, file by file, with their topics: the headings of the manual, in its order.
const FAMILIES: &[(&str, &[&Rule])] = &[
    ("capture", transport::CAPTURE),
    ("tcp", transport::TCP),
    ("http", transport::HTTP),
    ("capture", transport::DECODING),
    ("ip", transport::IP),
    ("tls", tls::RULES),
    ("http", http2::RULES),
    ("baseline", baseline::RULES),
    ("stdio", stdio::RULES),
    ("stdio", stdio::framing::RULES),
    ("stdio", stdio::process::RULES),
    ("jsonrpc", jsonrpc::envelope::RULES),
    ("jsonrpc", jsonrpc::ids::RULES),
    ("jsonrpc", jsonrpc::errors::RULES),
    ("errors", jsonrpc::errors::CODES),
    ("errors", jsonrpc::error_data::RULES),
    ("jsonrpc", jsonrpc::batch::RULES),
    ("lifecycle", lifecycle::RULES),
    ("lifecycle", lifecycle::versions::RULES),
    ("lifecycle", capabilities::UNDECLARED),
    ("sampling", capabilities::OF_SAMPLING),
    ("elicitation", capabilities::OF_ELICITATION),
    ("lifecycle", capabilities::WRONG),
    ("schema", methods::RULES),
    ("schema", schema::RULES),
    ("tools", tools::RULES),
    ("tools", tools::listing::RULES),
    ("tools", tools::hidden::RULES),
    ("tools", tools::unchecked::RULES),
    ("tools", tools::headers::ANNOTATIONS),
    ("http", tools::headers::HEADERS),
    ("tools", content::RULES),
    ("resources", resources::RULES),
    ("prompts", prompts::RULES),
    ("sampling", sampling::RULES),
    ("elicitation", elicitation::RULES),
    ("stateless", stateless::RULES),
    ("mrtr", mrtr::RULES),
    ("subscriptions", subscriptions::RULES),
    ("caching", caching::RULES),
    ("tasks", tasks::RULES),
    ("tasks", tasks::status::RULES),
    ("http", http::session_id::RULES),
    ("http", http::requests::RULES),
    ("http", http::responses::RULES),
    ("http", http::streams::RULES),
    ("http", http::modern::RULES),
    ("sse", sse::events::RULES),
    ("sse", sse::resumption::RULES),
    ("sse", sse::legacy::RULES),
    ("completion", completion::RULES),
    ("pagination", pagination::RULES),
    ("progress", progress::RULES),
    ("cancellation", cancellation::RULES),
    ("logging", logging::RULES),
    ("roots", roots::RULES),
    ("trace", trace::RULES),
];

/// All rules, in the order of `FAMILIES`.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|(_, rules)| rules.iter().copied())
}

/// Finds a rule by its id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_manuals_are_written() {
        let mut ids: Vec<&str> = all().map(|rule| rule.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for rule in all() {
            for (part, text) in [
                ("layer", rule.layer()),
                ("title", rule.title),
                ("spec", rule.spec),
                ("why", rule.why),
                ("example", rule.example),
                ("remedy", rule.remedy),
            ] {
                assert!(!text.trim().is_empty(), "{}: {part} is missing", rule.id);
                assert!(text.trim() == text && !text.contains('\n'), "{}: {part} is not one trimmed line", rule.id);
            }
            assert!(!rule.title.ends_with('.') && rule.why.ends_with('.') && rule.remedy.ends_with('.'), "{}", rule.id);
        }
    }
}
