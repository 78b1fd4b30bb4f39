//! Rules about multi round-trip requests (2026-07-28 basic/patterns/mrtr): a result asks for input,
//! and the client repeats the request with the input.

use super::history::{Retry, Round};
use super::mismatch::{Topic, report_mismatches};
use super::{Check, History, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::Object;
use crate::mcp::capability::Capability;
use crate::mcp::{Method, Revisions, Transport};

pub(super) const RULES: &[&Rule] = &[
    &METHOD_UNSUPPORTED,
    &EMPTY,
    &CAPABILITY,
    &INPUT_REQUEST,
    &SAME_ID,
    &STATE_NOT_ECHOED,
    &STATE_MISUSED,
    &RESPONSES_MISSING,
    &ABANDONED,
];

fn asks_for_input(context: &MessageContext<'_, '_>) -> bool {
    context.has_result_type("input_required")
}

static METHOD_UNSUPPORTED: Rule = Rule {
    id: "mrtr-method-unsupported",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A result asks for input, but its method does not support that",
    spec: "2026-07-28 basic/patterns/mrtr \"Supported Requests\": tools/call, prompts/get, resources/read",
    why: "The client does not expect it, and treats the result as an invalid list.",
    example: "resultType input_required for tools/list",
    remedy: "Ask for the input in the call that needs it.",
    checks: &[Check::Message(RESULTS, &[], method_unsupported)],
};

fn method_unsupported(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_supported = matches!(context.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
    // Extensions may define other rules for their methods.
    if !is_supported && context.method != Method::Other && asks_for_input(context) {
        report.add(format!("the result of {} asks for input", context.method_name()));
    }
}

static EMPTY: Rule = Rule {
    id: "mrtr-empty",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A result asks for input, but does not state which input or how to continue",
    spec: "2026-07-28 basic/patterns/mrtr \"Server Requirements\" 6: inputRequests or requestState, or both",
    why: "The client can only repeat the same request forever.",
    example: "{\"resultType\":\"input_required\"}",
    remedy: "Add inputRequests, or requestState if the server only needs time.",
    checks: &[Check::Message(RESULTS, &[], empty)],
};

fn empty(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let has = |name| context.body().get(name).is_some_and(|value| value != "null");
    if asks_for_input(context) && !has("inputRequests") && !has("requestState") {
        report.add("neither inputRequests nor requestState is present");
    }
}

static CAPABILITY: Rule = Rule {
    id: "mrtr-capability-undeclared",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A result asks for an input that the client did not declare",
    spec: "2026-07-28 basic/patterns/mrtr \"Server Requirements\" 7",
    why: "The client cannot provide it, so the call can never finish.",
    example: "sampling/createMessage in inputRequests for clientCapabilities {}",
    remedy: "Check the capabilities in the request's _meta. Answer -32021 if the call needs a missing one.",
    checks: &[Check::Message(RESULTS, &[], capability)],
};

fn capability(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if !asks_for_input(context) || context.request.is_none_or(|request| request.client.is_none()) {
        return;
    }
    for (key, request) in context.body().object("inputRequests").iter() {
        let request = Object::read(request);
        let params = request.object("params");
        let needs: &[Capability] = match request.text("method").as_deref() {
            Some("elicitation/create") if params.text("mode").is_some_and(|mode| mode == "url") => {
                &[Capability::ElicitationUrl]
            }
            Some("elicitation/create") => &[Capability::ElicitationForm],
            Some("sampling/createMessage") if params.get("tools").or(params.get("toolChoice")).is_some() => {
                &[Capability::Sampling, Capability::SamplingTools]
            }
            Some("sampling/createMessage") => &[Capability::Sampling],
            Some("roots/list") => &[Capability::Roots],
            _ => &[],
        };
        let missing = needs.iter().find(|need| context.history.client_has(**need, context.request) == Some(false));
        if let Some(missing) = missing {
            report.add(format!("{key} needs {}, which the request does not declare", missing.path()));
        }
    }
}

static INPUT_REQUEST: Rule = Rule {
    id: "mrtr-input-request-invalid",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "An input request has a method that is not defined for it",
    spec: "2026-07-28 basic/patterns/mrtr \"Server Requirements\" 2: elicitation/create, sampling/createMessage or roots/list",
    why: "The client cannot fulfil it.",
    example: "\"inputRequests\":{\"a\":{\"method\":\"ping\"}}",
    remedy: "Send an object with method and params of one of the three.",
    checks: &[Check::Message(RESULTS, &[], |context, report| report_mismatches(context, Topic::InputRequest, report))],
};

/// A retry, and the round that it continues.
fn retry_and_round<'s>(context: &MessageContext<'s, '_>) -> Option<(Retry, Option<&'s Round>)> {
    let retry = Retry::of(context)?;
    let round = context.history.rounds.of(context.method, &retry);
    Some((retry, round))
}

static SAME_ID: Rule = Rule {
    id: "mrtr-retry-same-id",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A retry has the JSON-RPC id of the request that it repeats",
    spec: "2026-07-28 basic/patterns/mrtr \"Client Requirements\" 3",
    why: "The two responses cannot be distinguished.",
    example: "id 4 is used again, with inputResponses",
    remedy: "Use a new id for every request.",
    checks: &[Check::Message(REQUESTS, &[], same_id)],
};

fn same_id(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((_, Some(round))) = retry_and_round(context) else { return };
    if round.request.1 == context.id() {
        report.add_about(&[round.request.0, round.number], format!("the retry has the id {} again", context.id()));
    }
}

static STATE_NOT_ECHOED: Rule = Rule {
    id: "mrtr-state-not-echoed",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A retry omits or changes requestState, or sends one that no result contained",
    spec: "2026-07-28 basic/patterns/mrtr \"Client Requirements\" 2",
    why: "The server stores nothing about the call: requestState is all that it has.",
    example: "inputResponses without the requestState of the result",
    remedy: "Send requestState back unchanged, and only if the result contained one.",
    checks: &[Check::Message(REQUESTS, &[], state_not_echoed)],
};

fn state_not_echoed(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((retry, round)) = retry_and_round(context) else { return };
    let Some(round) = round else {
        // Several clients behind one address may use each other's state.
        let is_all = context.history.is_whole() && !context.history.rounds.is_truncated;
        let is_pipe = context.history.transport == Transport::Stdio;
        if is_pipe && is_all && retry.state.is_some() && context.history.rounds.iter().next().is_none() {
            report.add("no result gave a requestState");
        }
        return;
    };
    let text = match (&round.state, &retry.state) {
        (Some(given), Some(brought)) if given != brought => "requestState differs from that of the result",
        (Some(_), None) => "requestState is missing",
        (None, Some(_)) => "the result gave no requestState",
        _ => return,
    };
    report.add_about(&[round.number], text);
}

static STATE_MISUSED: Rule = Rule {
    id: "mrtr-state-misused",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "requestState was sent with another request",
    spec: "2026-07-28 basic/patterns/mrtr \"Client Requirements\" 4",
    why: "Consent to one call is used for another call.",
    example: "the state of transfer{amount:1} with transfer{amount:1000}",
    remedy: "Repeat the method and params of the first request. Servers should bind the state to them.",
    checks: &[Check::Message(REQUESTS, &[], state_misused)],
};

fn state_misused(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((retry, Some(round))) = retry_and_round(context) else { return };
    if round.state.is_none() || round.state != retry.state {
        return;
    }
    let differ = round.params.is_some() && retry.params.is_some() && round.params != retry.params;
    if round.method != context.method {
        let text = format!("the state was given for another method than {}", context.method_name());
        report.add_about(&[round.number], text);
    } else if differ {
        report.add_about(&[round.number], "the state was given for other params");
    }
}

static RESPONSES_MISSING: Rule = Rule {
    id: "mrtr-responses-missing",
    severity: Severity::Warning,
    revisions: Revisions::MODERN,
    title: "A retry does not provide every requested input",
    spec: "2026-07-28 basic/patterns/mrtr \"Client Requirements\" 1, \"Error Handling\"",
    why: "The server asks again, so the user is asked twice.",
    example: "inputResponses {\"a\":…} for inputRequests {\"a\":…,\"b\":…}",
    remedy: "Respond to every key. Use decline or cancel if the user refuses.",
    checks: &[Check::Message(REQUESTS, &[], responses_missing)],
};

fn responses_missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((retry, Some(round))) = retry_and_round(context) else { return };
    let is_missing = |key: &&str| !retry.keys.iter().any(|brought| brought == key);
    let missing: Vec<&str> = round.inputs.iter().map(|wanted| wanted.key.as_str()).filter(is_missing).collect();
    if missing.is_empty() {
        return;
    }
    let all = missing.len() == round.inputs.len();
    let severity = if all { Severity::Error } else { RESPONSES_MISSING.severity };
    report.add_as_about(severity, &[round.number], format!("no response for {}", missing.join(", ")));
}

static ABANDONED: Rule = Rule {
    id: "mrtr-abandoned",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "A result asked for input, and the client did not continue",
    spec: "2026-07-28 basic/patterns/mrtr \"Server Requirements\" 8 (legal)",
    why: "The call never finished: the user refused, or the client does not support such results.",
    example: "input_required as the last result of a session",
    remedy: "Nothing, if this is intended. Servers should hold no resources for waiting calls.",
    checks: &[Check::End(abandoned)],
};

fn abandoned(history: &History, report: &mut Report<'_>) {
    for round in history.rounds.iter().filter(|round| round.retried.is_none()) {
        let text = format!("nobody provided the input that message {} asked for", round.number.0);
        report.add_about(&[round.request.0, round.number], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, silent};

    const ROOTS: &str = r#""inputRequests":{"r":{"method":"roots/list"}}"#;
    const BROUGHT: &str = r#""inputResponses":{"r":{"roots":[]}}"#;

    fn call(id: u32, more: &str) -> String {
        let params = modern(&format!(r#""name":"t"{more}"#)).replace(
            r#""io.modelcontextprotocol/clientCapabilities":{}"#,
            r#""io.modelcontextprotocol/clientCapabilities":{"roots":{}}"#,
        );
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    }

    fn asks(id: u32, more: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required"{more}}}}}"#)
    }

    /// A call, its result, and the retry.
    fn round(given: &str, retry: String) -> [String; 3] {
        [call(1, ""), asks(1, given), retry]
    }

    #[test]
    fn results_ask_for_defined_input() {
        let given = format!(r#","requestState":"s",{ROOTS}"#);
        let good = round(&given, call(2, &format!(r#","requestState":"s",{BROUGHT}"#)));
        for rule in super::RULES {
            silent(rule.id, &good);
        }
        silent("schema-result-invalid", &good);
        let list = format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, modern(""));
        fires("mrtr-method-unsupported", &[list, asks(1, &given)]);
        fires("mrtr-empty", &round("", call(2, "")));
        let sampling =
            r#","inputRequests":{"x":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}"#;
        fires("mrtr-capability-undeclared", &round(sampling, call(2, "")));
        fires("mrtr-input-request-invalid", &round(r#","inputRequests":{"x":{"method":"ping"}}"#, call(2, "")));
        fires("mrtr-abandoned", &round(&given, call(2, "")));
    }

    #[test]
    fn retries_bring_the_requested_input() {
        let given = format!(r#","requestState":"s",{ROOTS}"#);
        let with = |id: u32, state: &str| round(&given, call(id, &format!("{state},{BROUGHT}")));
        fires("mrtr-retry-same-id", &with(1, r#","requestState":"s""#));
        fires("mrtr-state-not-echoed", &with(2, r#","requestState":"t""#));
        fires("mrtr-state-not-echoed", &with(2, ""));
        fires(
            "mrtr-state-not-echoed",
            &round(&format!(",{ROOTS}"), call(2, &format!(r#","requestState":"s",{BROUGHT}"#))),
        );
        fires("mrtr-state-not-echoed", &[call(1, r#","requestState":"s""#)]);
        fires("mrtr-state-misused", &with(2, r#","arguments":{"a":1},"requestState":"s""#));
        let none = fires("mrtr-responses-missing", &round(&given, call(2, r#","requestState":"s""#)));
        assert_eq!(none.severity.name(), "error");
    }
}
