//! Rules about capabilities: features that one side uses although the other did not declare them.

use super::{Check, MessageContext, NOTIFICATIONS, REQUESTS, Report, Rule, Severity};
use crate::mcp::capability::Capability;
use crate::mcp::revision::Revision::{V2024_11_05, V2025_03_26, V2025_11_25};
use crate::mcp::{Method, Revisions};

pub(super) const UNDECLARED: &[&Rule] = &[&SERVER, &CLIENT, &NOTIFICATION];
pub(super) const OF_SAMPLING: &[&Rule] = &[&SAMPLING_TOOLS];
pub(super) const OF_ELICITATION: &[&Rule] = &[&ELICITATION_MODE];
pub(super) const WRONG: &[&Rule] = &[&WRONG_SIDE];

/// Revisions with a SHOULD where later ones have a MUST (basic/lifecycle "Operation").
const SHOULD: Revisions = Revisions::between(V2024_11_05, V2025_03_26);

static SERVER: Rule = Rule {
    id: "capability-server-undeclared",
    severity: Severity::Error,
    title: "The client used a capability that the server did not declare",
    spec: "2025-06-18 basic/lifecycle \"Operation\": \"Both parties MUST … Only use capabilities that were successfully negotiated\"; before: SHOULD",
    why: "The server answers -32601, or returns a result that means nothing.",
    example: "prompts/list to a server whose capabilities are {\"tools\":{}}",
    remedy: "Check the capabilities in the response to initialize before the request. Or declare the capability in the server.",
    checks: &[Check::Message(REQUESTS, &[], server)],
    ..Rule::BLANK
};

fn severity(context: &MessageContext<'_, '_>, rule: &Rule) -> Severity {
    if context.revisions().within(SHOULD) { Severity::Warning } else { rule.severity }
}

/// The subject that is listed once in a session. A peer that ignores a capability does
/// so each time.
fn name(context: &MessageContext<'_, '_>) -> &'static str {
    context.method.definition().map_or("", |method| method.name)
}

/// Whether no revision that may be in force has the method. That has its own rule, and nobody
/// could declare it.
fn is_in_no_possible_revision(context: &MessageContext<'_, '_>) -> bool {
    context.method.definition().is_some_and(|method| method.revisions.is_disjoint(context.revisions()))
}

fn server(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if !context.is_from_client() {
        return;
    }
    let gate = match context.method {
        Method::TasksGet | Method::TasksResult if is_core_tasks(context) => Some(Capability::ServerTasks),
        Method::TasksList => Some(Capability::ServerTasksList),
        Method::TasksCancel if is_core_tasks(context) => Some(Capability::ServerTasksCancel),
        method => method.gate(context.revisions()),
    };
    let Some(gate) = gate.filter(|_| !is_in_no_possible_revision(context)) else { return };
    // If the capture does not contain the declaration, there is no finding.
    if context.history.server_has(gate) == Some(false) {
        let text = format!("{} was sent, and the server did not declare {}", context.method_name(), gate.path());
        report.add_once(severity(context, &SERVER), name(context), text);
    }
}

/// Tasks are part of the core of 2025-11-25 alone; later they are an extension.
fn is_core_tasks(context: &MessageContext<'_, '_>) -> bool {
    context.revisions().within(Revisions::only(V2025_11_25))
}

static CLIENT: Rule = Rule {
    id: "capability-client-undeclared",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "The server used a capability that the client did not declare",
    spec: "basic/lifecycle \"Operation\"; client/sampling, client/roots, client/elicitation \"Capabilities\"",
    why: "The client answers -32601 and the server's tool fails, or the user is never asked.",
    example: "sampling/createMessage to a client whose capabilities are {}",
    remedy: "Check the capabilities in initialize before the request, and work without the missing ones.",
    checks: &[Check::Message(REQUESTS, &[], client)],
};

fn client(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.is_from_client() || is_in_no_possible_revision(context) {
        return;
    }
    let gate = match context.method {
        Method::SamplingCreateMessage => Capability::Sampling,
        Method::RootsList => Capability::Roots,
        Method::ElicitationCreate => Capability::Elicitation,
        Method::TasksGet | Method::TasksResult => Capability::ClientTasks,
        Method::TasksList => Capability::ClientTasksList,
        Method::TasksCancel => Capability::ClientTasksCancel,
        _ => return,
    };
    if context.history.client_has(gate, None) == Some(false) {
        let text = format!("{} was sent, and the client did not declare {}", context.method_name(), gate.path());
        report.add_once(severity(context, &CLIENT), name(context), text);
    }
}

static NOTIFICATION: Rule = Rule {
    id: "capability-notification-undeclared",
    severity: Severity::Warning,
    title: "A notification needs a capability that its sender did not declare",
    spec: "server/tools, server/prompts, server/resources, client/roots \"Capabilities\"; server/utilities/logging \"Capabilities\" (MUST)",
    why: "The receiver does not expect it and may ignore it. For example, it does not request a changed list again.",
    example: "notifications/tools/list_changed from a server with {\"tools\":{}}",
    remedy: "Declare listChanged, subscribe or logging.",
    checks: &[Check::Message(NOTIFICATIONS, &[], notification)],
    ..Rule::BLANK
};

fn notification(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(gate) = context.method.gate(context.revisions()).filter(|_| !is_in_no_possible_revision(context)) else {
        return;
    };
    if context.history.has(gate) == Some(false) {
        // server/utilities/logging: "Servers that emit log message notifications MUST declare
        // the logging capability".
        let severity = if gate == Capability::Logging { Severity::Error } else { NOTIFICATION.severity };
        let text = format!("{} was sent, and {} is not declared", context.method_name(), gate.path());
        report.add_once(severity, name(context), text);
    }
}

static SAMPLING_TOOLS: Rule = Rule {
    id: "capability-sampling-tools",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "A sampling request with tools to a client that did not declare sampling.tools",
    spec: "client/sampling \"Tools in Sampling\": \"Servers MUST NOT send tool-enabled sampling requests to Clients that have not declared support\"",
    why: "The client refuses the request, or samples without the tools.",
    example: "\"tools\":[…] in sampling/createMessage, and {\"sampling\":{}} in initialize",
    remedy: "Check for sampling.tools before you add tools or toolChoice.",
    checks: &[Check::Message(REQUESTS, &[Method::SamplingCreateMessage], sampling_tools)],
};

fn sampling_tools(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let used = ["tools", "toolChoice"].into_iter().find(|name| context.body().get(name).is_some());
    if let Some(used) = used
        && context.history.client_has(Capability::SamplingTools, None) == Some(false)
    {
        report.add(format!("the request contains {used}"));
    }
}

static ELICITATION_MODE: Rule = Rule {
    id: "capability-elicitation-mode",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "An elicitation in a mode that the client did not declare",
    spec: "client/elicitation \"Capabilities\": \"Servers MUST NOT send elicitation requests with modes that are not supported by the client\"",
    why: "The client cannot show it, so the user is never asked.",
    example: "\"mode\":\"url\" to a client with {\"elicitation\":{}}, which means forms only",
    remedy: "Check for elicitation.url or elicitation.form, and use a mode that is declared.",
    checks: &[Check::Message(REQUESTS, &[Method::ElicitationCreate], elicitation_mode)],
};

fn elicitation_mode(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_url = context.body().text("mode").is_some_and(|mode| mode == "url");
    let (mode, gate) = if is_url { ("url", Capability::ElicitationUrl) } else { ("form", Capability::ElicitationForm) };
    let declares_any = context.history.client_has(Capability::Elicitation, None) == Some(true);
    if declares_any && context.history.client_has(gate, None) == Some(false) {
        report.add(format!("mode {mode}, and the client did not declare {}", gate.path()));
    }
}

static WRONG_SIDE: Rule = Rule {
    id: "capability-wrong-side",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    title: "The client declared a capability that only servers have",
    spec: "basic/lifecycle \"Capability Negotiation\"; schema ClientCapabilities",
    why: "It has no meaning: servers ignore it, and the intended capability is not declared.",
    example: "{\"tools\":{},\"resources\":{}} in the client's initialize",
    remedy: "Declare only roots, sampling and elicitation, if the client supports them.",
    checks: &[Check::Any(REQUESTS, &[Method::Initialize], wrong_side)],
};

fn wrong_side(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let declared = context.body().object("capabilities");
    let servers = ["tools", "resources", "prompts", "logging", "completions"];
    let wrong: Vec<&str> = servers.into_iter().filter(|name| declared.get(name).is_some()).collect();
    if !wrong.is_empty() {
        report.add(format!("the client declared {}", wrong.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{findings, fires, session, session_of, silent};

    #[test]
    fn requests_need_the_capability_of_their_receiver() {
        let list = r#"> {"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#;
        let rule = "capability-server-undeclared";
        assert_eq!(fires(rule, &session_of("2025-06-18", "{}", r#"{"tools":{}}"#, &[list])).severity.name(), "error");
        assert_eq!(fires(rule, &session_of("2024-11-05", "{}", r#"{"tools":{}}"#, &[list])).severity.name(), "warning");
        silent(rule, &session("2025-06-18", &[list]));
        let complete = r#"> {"jsonrpc":"2.0","id":1,"method":"completion/complete"}"#;
        silent(rule, &session_of("2024-11-05", "{}", "{}", &[complete]));

        let ask = r#"< {"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        fires("capability-client-undeclared", &session_of("2025-06-18", "{}", "{}", &[ask]));
        silent("capability-client-undeclared", &session("2025-06-18", &[ask]));
    }

    #[test]
    fn notifications_need_the_capability_of_their_sender() {
        let changed = r#"< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let rule = "capability-notification-undeclared";
        fires(rule, &session_of("2025-06-18", "{}", r#"{"tools":{}}"#, &[changed]));
        silent(rule, &session("2025-06-18", &[changed]));
        let log = r#"< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        assert_eq!(fires(rule, &session_of("2025-06-18", "{}", "{}", &[log])).severity.name(), "error");
        // Once a method, and how often at the end.
        let found = findings(&session_of("2025-06-18", "{}", "{}", &[log, changed, log, log]));
        let texts: Vec<&str> = found.iter().filter(|f| f.rule.id == rule).map(|f| f.text.as_str()).collect();
        assert_eq!(texts[0], "notifications/message was sent, and logging is not declared");
        assert_eq!(texts[1], "notifications/tools/list_changed was sent, and tools.listChanged is not declared");
        assert_eq!(texts[2], "notifications/message 2 more times, which are not listed");
        assert_eq!((texts.len(), found.iter().map(|finding| finding.repeated).sum::<u64>()), (3, 2));
        let roots = r#"> {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
        fires(rule, &session_of("2025-06-18", r#"{"roots":{}}"#, "{}", &[roots]));
    }

    #[test]
    fn each_side_has_its_capabilities() {
        fires("capability-wrong-side", &session_of("2025-06-18", r#"{"tools":{}}"#, "{}", &[]));
        silent("capability-wrong-side", &session("2025-06-18", &[]));
    }

    #[test]
    fn modes_and_tools_are_capabilities_too() {
        let sample = r#"< {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}"#;
        let rule = "capability-sampling-tools";
        fires(rule, &session_of("2025-11-25", r#"{"sampling":{}}"#, "{}", &[sample]));
        silent(rule, &session_of("2025-11-25", r#"{"sampling":{"tools":{}}}"#, "{}", &[sample]));
        let elicit = r#"< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","url":"https://a","message":"m","elicitationId":"1"}}"#;
        let rule = "capability-elicitation-mode";
        fires(rule, &session_of("2025-11-25", r#"{"elicitation":{}}"#, "{}", &[elicit]));
        silent(rule, &session_of("2025-11-25", r#"{"elicitation":{"url":{}}}"#, "{}", &[elicit]));
        let form = elicit.replace("url\"", "form\"");
        silent(rule, &session_of("2025-11-25", r#"{"elicitation":{}}"#, "{}", &[&form]));
    }
}
