//! Rules about 2026-07-28: every request states its revision, and servers send no requests.

use super::message_facts::Evidence;
use super::mismatch::{Topic, report_mismatches};
use super::{ANSWERS, Check, History, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::{Method, Revision, Revisions, Transport, meta};

pub(super) const RULES: &[&Rule] = &[
    &META_MISSING,
    &META_ACCEPTED,
    &PEER_INFO,
    &TYPE_MISSING,
    &TYPE_UNKNOWN,
    &SERVER_REQUEST,
    &CLIENT_RESPONSE,
    &NOT_SUPPORTED,
    &FALLBACK,
    &MIXED,
];

static META_MISSING: Rule = Rule {
    id: "modern-meta-missing",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A request does not state its revision or its client's capabilities",
    spec: "2026-07-28 basic/index \"_meta\": protocolVersion and clientCapabilities are required in every request",
    why: "There is no handshake that states them, so the server must refuse the request.",
    example: "tools/list without \"params\" after requests that had io.modelcontextprotocol/protocolVersion",
    remedy: "Add _meta with io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities to every request.",
    checks: &[Check::Message(REQUESTS, &[], meta_missing)],
};

fn meta_missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // Other clients at the same address may use this era. That proves nothing about this client.
    let is_known = context.in_force.evidence <= Evidence::Header || context.is_one_client();
    if !context.is_from_client() || !is_known {
        return;
    }
    let missing = [meta::VERSION, meta::CAPABILITIES].into_iter().filter(|name| context.meta().get(name).is_none());
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        report.add(format!("{} missing from _meta", missing.join(" and ")));
    } else {
        report_mismatches(context, Topic::Meta, report);
    }
}

static META_ACCEPTED: Rule = Rule {
    id: "modern-meta-missing-accepted",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The server accepted a request that does not state its revision or capabilities",
    spec: "2026-07-28 basic/index \"_meta\": -32602, over HTTP with status 400",
    why: "The server must guess what the client supports.",
    example: "a result for tools/list without _meta",
    remedy: "Answer -32602 if one of the two members is missing.",
    checks: &[Check::Message(RESULTS, &[], meta_accepted)],
};

fn meta_accepted(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(request) = context.request.filter(|request| request.breaks.contains(&META_MISSING.id)) {
        report.add_about(&[request.number], format!("message {} lacks required members of _meta", request.number.0));
    }
}

static PEER_INFO: Rule = Rule {
    id: "modern-peer-info-missing",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "A peer does not state its name",
    spec: "2026-07-28 basic/index \"_meta\": clientInfo in requests and serverInfo in results (SHOULD)",
    why: "Logs and people cannot tell which program sent the message.",
    example: "a request without io.modelcontextprotocol/clientInfo",
    remedy: "Add the name and version of the program.",
    checks: &[Check::Message(REQUESTS, &[], client_info), Check::Message(RESULTS, &[], server_info)],
};

// Reported once for each side of a session.
fn client_info(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let states_revision = context.in_force.evidence == Evidence::Meta && context.is_from_client();
    if states_revision && !context.history.stateless.unnamed[0] && context.meta().get(meta::CLIENT).is_none() {
        report.add(format!("the request has no {}", meta::CLIENT));
    }
}

fn server_info(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let states_revision = context.in_force.evidence == Evidence::Meta && context.history.stateless.server_supports_it;
    if states_revision && !context.history.stateless.unnamed[1] && context.meta().get(meta::SERVER).is_none() {
        report.add(format!("the result has no {}", meta::SERVER));
    }
}

static TYPE_MISSING: Rule = Rule {
    id: "modern-result-type-missing",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A result does not state its type",
    spec: "2026-07-28 basic/index \"ResultType\"",
    why: "Typed clients refuse it. Others treat it as a complete result, which may be wrong.",
    example: "{\"result\":{\"tools\":[…]}}",
    remedy: "Add \"resultType\":\"complete\".",
    checks: &[Check::Message(RESULTS, &[], type_missing)],
};

fn type_missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_result = context.body_text().is_some_and(|result| result.starts_with('{')) && !context.is_from_client();
    let is_paired = context.request.is_some() && context.in_force.evidence == Evidence::Meta;
    if !is_result || !is_paired || context.body().get("resultType").is_some() {
        return;
    }
    let text = format!("the result of {} has no resultType", context.method_name());
    match context.history.stateless.server_supports_it || context.method == Method::ServerDiscover {
        true => report.add(text),
        // "the client MUST treat the absent field as complete": this lets older servers respond.
        false => report.add_as(Severity::Warning, format!("{text}; the server may speak an older revision only")),
    }
}

static TYPE_UNKNOWN: Rule = Rule {
    id: "modern-result-type-unknown",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A result has an undefined resultType",
    spec: "2026-07-28 basic/index \"ResultType\": complete, input_required, or one of an extension",
    why: "The client cannot know what the result contains.",
    example: "\"resultType\":\"partial\"",
    remedy: "Use complete or input_required. Declare the extension that defines another type.",
    checks: &[Check::Message(RESULTS, &[], type_unknown)],
};

fn type_unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(kind) = context.body().get("resultType") else { return };
    let Some(name) = context.body().text("resultType") else {
        return report.add(format!("resultType is {}, not a string", &kind[..kind.floor_char_boundary(60)]));
    };
    // `task` has its own rules. An extension that the client declared may define other types.
    let is_known = matches!(&*name, "complete" | "input_required" | "task");
    let declared = context.request.and_then(|request| request.client.as_deref());
    if !is_known && declared.is_some_and(|client| client.extensions.is_empty()) {
        report.add(format!("resultType is {name:?}, and the client declared no extension"));
    }
}

static SERVER_REQUEST: Rule = Rule {
    id: "modern-server-request",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The server sent a request",
    spec: "2026-07-28 basic/patterns/index; basic/transports/stdio and streamable-http \"Receiving Messages\"",
    why: "The client does not respond, so the tool that waits for it hangs.",
    example: "elicitation/create on the stream of a tools/call",
    remedy: "Send a result with resultType input_required, and put the question into inputRequests.",
    checks: &[Check::Message(REQUESTS, &[], server_request)],
};

fn server_request(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // A server that refused the first request of this era may be an older one, which
    // may send requests.
    let is_pipe = context.is_one_client() && context.history.stateless.server_supports_it;
    let is_known = context.in_force.evidence <= Evidence::Header || is_pipe;
    if !context.is_from_client() && is_known {
        report.add(format!("the server sent {}", context.method_name()));
    }
}

static CLIENT_RESPONSE: Rule = Rule {
    id: "modern-client-response",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The client sent a response",
    spec: "2026-07-28 basic/transports/stdio \"Sending Messages\"; streamable-http \"Sending Messages\" 4",
    why: "Servers of this revision send no requests, and refuse responses.",
    example: "{\"id\":1,\"result\":{}} from the client",
    remedy: "Repeat the request, and put the answers into inputResponses.",
    checks: &[Check::Message(ANSWERS, &[], client_response)],
};

fn client_response(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_known = context.in_force.evidence <= Evidence::Header || context.is_one_client();
    if context.is_from_client() && is_known {
        report.add(format!("the client answered id {}", context.id()));
    }
}

static NOT_SUPPORTED: Rule = Rule {
    id: "modern-version-not-supported",
    severity: Severity::Warning,
    revisions: Revisions::MODERN,
    title: "The client continues with a revision that the server does not support",
    spec: "2026-07-28 basic/versioning \"Protocol Version Negotiation\" (SHOULD)",
    why: "Every request fails with -32022.",
    example: "2027-01-01 after server/discover listed only 2026-07-28",
    remedy: "Choose from supportedVersions, or from data.supported of the error.",
    checks: &[Check::Any(REQUESTS, &[], not_supported)],
};

fn not_supported(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((number, supported)) = &context.history.stateless.supported else { return };
    if context.in_force.evidence != Evidence::Meta {
        return;
    }
    let Some(version) = context.meta().text(meta::VERSION) else { return };
    // With server/discover a client finds out which revisions there are.
    if context.method != Method::ServerDiscover && !supported.iter().any(|name| *name == version) {
        report.add_about(&[*number], format!("{version:?} is not among {}", supported.join(", ")));
    }
}

static FALLBACK: Rule = Rule {
    id: "modern-fallback-after-modern-error",
    severity: Severity::Warning,
    revisions: Revisions::MODERN,
    title: "The client fell back to initialize although the server supports 2026-07-28",
    spec: "2026-07-28 basic/transports/stdio and streamable-http \"Backward Compatibility\"",
    why: "The error told the client what to correct. The older revision has fewer features, or is not supported at all.",
    example: "-32022 with supported [\"2026-07-28\"], then initialize",
    remedy: "After -32020, -32021 or -32022, correct the request and send it again.",
    checks: &[Check::Any(REQUESTS, &[Method::Initialize], fallback)],
};

fn fallback(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let stateless = &context.history.stateless;
    let Some(refused) = stateless.refused.filter(|_| context.is_one_client() && context.is_from_client()) else {
        return;
    };
    // A server that also supports a revision with a handshake invites the fallback.
    let is_legacy = |name: &String| Revision::named(name).is_none_or(|revision| !revision.is_stateless());
    let offers = stateless.supported.as_ref().is_some_and(|(_, names)| names.iter().any(is_legacy));
    if !offers {
        report.add_about(&[refused], format!("message {} is an error of 2026-07-28", refused.0));
    }
}

static MIXED: Rule = Rule {
    id: "modern-era-mixed",
    severity: Severity::Info,
    title: "One session used both eras: a handshake, and requests that state their revision",
    spec: "2026-07-28 basic/versioning \"Backward Compatibility\" (legal)",
    why: "Different rules apply to different messages. Read each message by its own revision.",
    example: "initialize answered with 2025-11-25, and tools/list with _meta of 2026-07-28 on the same pipe",
    remedy: "Nothing, if this is intended.",
    checks: &[Check::End(mixed)],
    ..Rule::BLANK
};

fn mixed(history: &History, report: &mut Report<'_>) {
    // Several clients behind one address may use different eras.
    if matches!(history.transport, Transport::StreamableHttp | Transport::Http) {
        return;
    }
    if let (Some(stateful), Some(stateless)) = (history.handshake.answered, history.stateless.first_result) {
        let text =
            format!("message {} completed a handshake, message {} is a result without one", stateful.0, stateless.0);
        report.add_about(&[stateful.min(stateless), stateful.max(stateless)], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    const HINTS: &str = r#""tools":[],"ttlMs":0,"cacheScope":"private""#;
    const SERVER: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#;

    fn list(id: u32, params: &str) -> String {
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#)
    }

    fn listed(id: u32, more: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{{HINTS},{more}}}}}"#)
    }

    fn complete() -> String {
        format!(r#""resultType":"complete",{SERVER}"#)
    }

    /// A request and its response, and then these steps.
    fn after(steps: &[String]) -> Vec<String> {
        [list(1, &modern("")), listed(1, &complete())].iter().chain(steps).cloned().collect()
    }

    #[test]
    fn requests_state_their_revision() {
        let bare = after(&[list(2, "{}"), listed(2, &complete())]);
        fires("modern-meta-missing", &bare);
        fires("modern-meta-missing-accepted", &bare);
        let part = modern("").replace("clientCapabilities", "capabilities");
        fires("modern-meta-missing", &after(&[list(2, &part)]));
        let refused = r#"< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"m"}}"#.to_owned();
        silent("modern-meta-missing-accepted", &after(&[list(2, "{}"), refused]));
        for rule in ["modern-meta-missing", "modern-meta-missing-accepted", "modern-peer-info-missing"] {
            silent(rule, &after(&[]));
        }
        fires("modern-peer-info-missing", &[list(1, &modern("").replace("clientInfo", "info"))]);
        fires("modern-peer-info-missing", &after(&[list(2, &modern("")), listed(2, r#""resultType":"complete""#)]));
    }

    #[test]
    fn results_state_their_type() {
        let answered = |more: &str| after(&[list(2, &modern("")), listed(2, more)]);
        fires("modern-result-type-missing", &answered(SERVER));
        silent("schema-result-invalid", &answered(SERVER));
        fires("modern-result-type-unknown", &answered(r#""resultType":"partial""#));
        for rule in ["modern-result-type-missing", "modern-result-type-unknown"] {
            silent(rule, &answered(&complete()));
        }
        let only = [list(1, &modern("")), listed(1, SERVER)];
        assert_eq!(fires("modern-result-type-missing", &only).severity.name(), "warning");
    }

    #[test]
    fn servers_do_not_ask() {
        let ask = r#"< {"jsonrpc":"2.0","id":7,"method":"roots/list"}"#.to_owned();
        let answer = r#"> {"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#.to_owned();
        fires("modern-server-request", &after(std::slice::from_ref(&ask)));
        fires("modern-client-response", &after(&[ask.clone(), answer.clone()]));
        silent("method-not-in-version", &after(std::slice::from_ref(&ask)));
        for rule in ["modern-server-request", "modern-client-response"] {
            silent(rule, &session("2025-06-18", &[&ask, &answer]));
            silent(rule, &after(&[]));
        }
    }

    #[test]
    fn revisions_are_chosen_from_the_servers() {
        let supported = |names: &str| {
            let data = format!(r#"{{"supported":[{names}],"requested":"2027-01-01"}}"#);
            format!(r#"< {{"jsonrpc":"2.0","id":1,"error":{{"code":-32022,"message":"m","data":{data}}}}}"#)
        };
        let future = modern("").replace("2026-07-28", "2027-01-01");
        let error = supported(r#""2026-07-28""#);
        fires("modern-version-not-supported", &[list(1, &future), error.clone(), list(2, &future)]);
        silent("modern-version-not-supported", &[list(1, &future), error.clone(), list(2, &modern(""))]);

        let initialize = session("2025-11-25", &[])[0].clone();
        let rule = "modern-fallback-after-modern-error";
        fires(rule, &[list(1, &future), error, initialize.clone()]);
        silent(rule, &[list(1, &future), supported(r#""2026-07-28","2025-11-25""#), initialize.clone()]);
        let unknown = r#"< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}"#.to_owned();
        silent(rule, &[list(1, &future), unknown, initialize]);
    }

    #[test]
    fn eras_mix() {
        let handshake = session("2025-11-25", &[]);
        fires("modern-era-mixed", &handshake.iter().cloned().chain(after(&[])).collect::<Vec<_>>());
        silent("modern-era-mixed", &handshake);
        silent("modern-era-mixed", &after(&[]));
    }
}
