//! Rules about methods: whether the revision in force has them, and which side may send them.

use super::{ASKS, Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::decode::Kind;
use crate::mcp::method::Sender;
use crate::mcp::revision::Revision::{self, V2025_06_18};
use crate::mcp::{Method, Revisions};

pub(super) const RULES: &[&Rule] = &[&WRONG_DIRECTION, &NOT_IN_VERSION, &UNKNOWN];

static WRONG_DIRECTION: Rule = Rule {
    id: "method-wrong-direction",
    severity: Severity::Error,
    title: "A method was sent by the wrong side",
    spec: "schema: the unions ClientRequest, ServerRequest, ClientNotification, ServerNotification",
    why: "The receiver does not implement it and answers -32601.",
    example: "tools/call from the server",
    remedy: "Use a method that this side may send: a server that needs the model sends sampling/createMessage.",
    checks: &[Check::Any(ASKS, &[], wrong_direction)],
    ..Rule::BLANK
};

fn wrong_direction(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(definition) = context.method.definition() else { return };
    let (is_wrong, sender) = match definition.sender {
        Sender::Client => (!context.is_from_client(), "clients"),
        Sender::Server => (context.is_from_client(), "servers"),
        Sender::Both => return,
    };
    if is_wrong && !definition.revisions.is_disjoint(context.revisions()) {
        report.add(format!("{} is sent by {sender} only", definition.name));
    }
}

static NOT_IN_VERSION: Rule = Rule {
    id: "method-not-in-version",
    severity: Severity::Warning,
    title: "A method that another revision defines, but not the one in force",
    spec: "2025-06-18 basic/lifecycle \"Operation\": \"Respect the negotiated protocol version\"; schema",
    why: "The receiver does not implement it and answers -32601, or ignores the notification.",
    example: "elicitation/create under 2025-03-26; ping under 2026-07-28",
    remedy: "Request the revision that has the method, or work without it.",
    checks: &[Check::Any(ASKS, &[], not_in_version), Check::Any(RESULTS, &[Method::Initialize], not_negotiated)],
    ..Rule::BLANK
};

fn not_in_version(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(definition) = context.method.definition() else { return };
    let in_force = context.revisions();
    // A handshake chooses its own revision, whatever was in force on the endpoint before. A server
    // request under 2026-07-28 has its own rule.
    let is_asking = context.message.kind == Kind::Request && !context.is_from_client();
    let has_own_rule = context.method == Method::Initialize || (is_asking && in_force.within(Revisions::MODERN));
    if !definition.revisions.is_disjoint(in_force) || has_own_rule {
        return;
    }
    // "Both parties MUST … Respect the negotiated protocol version": a SHOULD before 2025-06-18.
    let severity = match in_force.within(Revisions::since(V2025_06_18)) {
        true => Severity::Error,
        false => Severity::Warning,
    };
    let names: Vec<&str> = definition.revisions.iter().map(|revision| revision.name()).collect();
    let in_force = in_force.single().map_or("the revision in force", |revision| revision.name());
    report.add_as(severity, format!("{} is not in {in_force}, but in {}", definition.name, names.join(", ")));
}

/// 2026-07-28 has no handshake, so a handshake cannot agree on it. A client that requests it
/// gets another revision.
fn not_negotiated(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let given = context.body().text("protocolVersion").and_then(|given| Revision::named(&given));
    if let Some(given) = given.filter(|given| given.is_stateless()) {
        let text = format!("initialize is not in {}, which the server gave as the agreed one", given.name());
        report.add_as(Severity::Error, text);
    }
}

static UNKNOWN: Rule = Rule {
    id: "method-unknown",
    severity: Severity::Info,
    title: "A method that no revision defines",
    spec: "schema; JSON-RPC 2.0 section 5.1: -32601 \"The method does not exist\"",
    why: "Only a peer that was made for it understands it. Others answer a request with -32601 and ignore a notification.",
    example: "the notification initialized instead of notifications/initialized",
    remedy: "Use MCP's method: tools/call for what a server can do, notifications/message for logs. Or declare an extension.",
    checks: &[Check::Any(ASKS, &[Method::Other], unknown)],
    ..Rule::BLANK
};

/// Wrong names from texts about MCP and from other protocols, with the correct method.
const WRONG_NAMES: [(&str, &str); 10] = [
    ("initialized", "notifications/initialized"),
    ("sampling/complete", "sampling/createMessage"),
    ("elicitation/request", "elicitation/create"),
    ("tools/list_changed", "notifications/tools/list_changed"),
    ("prompts/list_changed", "notifications/prompts/list_changed"),
    ("resources/list_changed", "notifications/resources/list_changed"),
    ("resources/updated", "notifications/resources/updated"),
    ("logEvent", "notifications/message"),
    ("$/cancelRequest", "notifications/cancelled"),
    ("$/progress", "notifications/progress"),
];

/// The correct method for a wrong name.
pub(super) fn correct_name(name: &str) -> Option<&'static str> {
    WRONG_NAMES.iter().find(|(known, _)| *known == name).map(|(_, correct_name)| *correct_name)
}

fn unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // A declared extension has its own methods, which are unknown here.
    let handshake = &context.history.handshake;
    let declared = [&handshake.client, &handshake.server, &context.history.discovered];
    if declared.into_iter().flatten().any(|declared| !declared.extensions.is_empty()) {
        return;
    }
    let name = context.method_name();
    match correct_name(name) {
        Some(correct_name) => report.add(format!("{name} is not a method of MCP, but {correct_name} is")),
        None => report.add(format!("{name} is not a method of MCP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{fires, modern, session, silent};

    #[test]
    fn each_side_has_its_methods() {
        fires(
            "method-wrong-direction",
            &session("2025-06-18", &[r#"< {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#]),
        );
        silent(
            "method-wrong-direction",
            &session("2025-06-18", &[r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#]),
        );
        silent("method-wrong-direction", &session("2025-06-18", &[r#"< {"jsonrpc":"2.0","id":1,"method":"ping"}"#]));
    }

    #[test]
    fn each_revision_has_its_methods() {
        let elicit = r#"< {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#;
        assert_eq!(fires("method-not-in-version", &session("2025-03-26", &[elicit])).severity, Severity::Warning);
        silent("method-not-in-version", &session("2025-06-18", &[elicit]));
        let ping = format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}}"#, modern(""));
        assert_eq!(fires("method-not-in-version", &[ping]).severity, Severity::Error);
    }

    #[test]
    fn wrong_names_get_the_correct_name() {
        let found = fires("method-unknown", &session("2025-06-18", &[r#"> {"jsonrpc":"2.0","method":"initialized"}"#]));
        assert!(found.text.ends_with("notifications/initialized is"), "{}", found.text);
        silent("method-unknown", &session("2025-06-18", &[r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#]));
    }
}
