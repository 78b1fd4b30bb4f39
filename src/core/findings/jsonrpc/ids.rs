//! Rules about ids: their types, their reuse, and the pairing of responses.

use crate::decode::{Exchange, Kind, json};
use crate::findings::mcp_exchange::is_success;
use crate::findings::{Check, History, McpExchange, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::pairing::Pending;
use crate::mcp::revision::Revision::V2025_03_26;
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[
    &NULL,
    &TYPE,
    &UNSAFE_INTEGER,
    &REUSED,
    &IN_FLIGHT,
    &UNKNOWN,
    &TYPE_CHANGED,
    &DUPLICATE,
    &AMBIGUOUS,
    &NOTIFICATION_ANSWERED,
    &UNANSWERED,
];

pub(super) static NULL: Rule = Rule {
    id: "jsonrpc-id-null",
    severity: Severity::Error,
    title: "The \"id\" of a request is null",
    spec: "basic/index \"Requests\": \"Unlike base JSON-RPC, the ID MUST NOT be null\"",
    why: "The response looks like one to a request that could not be read. The client waits forever.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
    remedy: "Count from 1, or leave out \"id\" if no response is wanted.",
    ..Rule::BLANK
};

static TYPE: Rule = Rule {
    id: "jsonrpc-id-type",
    severity: Severity::Error,
    title: "An \"id\" is neither a string nor an integer",
    spec: "basic/index \"Requests\": \"Requests MUST include a string or integer ID\"",
    why: "Typed SDKs refuse the message. Fractions may come back rounded and then match no request.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
    remedy: "Use whole numbers or strings.",
    checks: &[Check::Message(&[Kind::Request, Kind::Response, Kind::Error], &[], id_type)],
    ..Rule::BLANK
};

fn id_type(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.message.id.as_deref() else { return };
    let digits = id.strip_prefix('-').unwrap_or(id);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A response must repeat the id of its request, whatever that is.
    let repeats = context.request.is_some_and(|request| request.id == id);
    if !is_integer && !id.starts_with('"') && id != "null" && !repeats {
        report.add(format!("the id is {id}"));
    }
}

static UNSAFE_INTEGER: Rule = Rule {
    id: "jsonrpc-id-unsafe-integer",
    severity: Severity::Info,
    title: "An integer \"id\" is beyond 2^53 - 1",
    spec: "RFC 8259 section 6: integers in [-(2**53)+1, (2**53)-1] are interoperable",
    why: "Peers written in JavaScript round it silently, and their response matches no request.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"ping\"}",
    remedy: "Count from 1, or use strings.",
    checks: &[Check::Message(REQUESTS, &[], unsafe_integer)],
    ..Rule::BLANK
};

fn unsafe_integer(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    const SAFE: u64 = (1 << 53) - 1;
    let digits = context.id().trim_start_matches('-');
    // Numbers of at most 15 digits are safe, and nearly all are shorter.
    let all_digits = digits.len() > 15 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits && digits.parse::<u64>().map_or(true, |number| number > SAFE) {
        report.add(format!("JavaScript cannot represent the id {} exactly", context.id()));
    }
}

static REUSED: Rule = Rule {
    id: "jsonrpc-id-reused",
    severity: Severity::Error,
    revisions: Revisions::LEGACY,
    title: "A request has an id that its sender already used in the session",
    spec: "basic/index \"Requests\": \"MUST NOT have been previously used by the requestor within the same session\"",
    why: "A late response to the first request can be mistaken for the response to the second.",
    example: "two requests with \"id\":1 in one session",
    remedy: "Use a new id for each request, also for retries. Continue counting after a reconnect that keeps the session.",
    checks: &[Check::Message(REQUESTS, &[], reused)],
};

fn reused(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let id = context.id();
    if id != "null" && context.is_one_client() && context.history.used_ids.contains(context.message.direction, id) {
        let text = format!("the id {id} of {} was used before", context.method_name());
        // It may be the copy of a request whose redirect is missing from the capture.
        match context.history.may_lack_messages() {
            true => report.add_as(Severity::Warning, format!("{text}; bytes of the session are missing")),
            false => report.add(text),
        }
    }
}

pub(super) static IN_FLIGHT: Rule = Rule {
    id: "jsonrpc-id-in-flight",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A request has the id of another request that is still unanswered",
    spec: "2026-07-28 basic/index \"Requests\"",
    why: "Two responses with the same id will arrive, and nobody can tell which request each one answers.",
    example: "two requests with \"id\":1 on one pipe before either is answered",
    remedy: "Reuse an id only after its response has arrived, or better never.",
    ..Rule::BLANK
};

pub(super) static UNKNOWN: Rule = Rule {
    id: "jsonrpc-response-unknown-id",
    severity: Severity::Error,
    title: "A response matches no request of the other side",
    spec: "basic/index \"Responses\": \"MUST include the same ID as the request\"",
    why: "The intended request waits forever, and the receiver logs or drops the response.",
    example: "a response with \"id\":3 when only request 1 was sent",
    remedy: "Copy the id of the request unchanged. Answer each request once, and never answer notifications.",
    checks: &[Check::Any(RESULTS, &[], result_without_request)],
    ..Rule::BLANK
};

/// Only an error may have the id null: for a request that could not be read.
fn result_without_request(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // A notification that was answered has a more specific rule.
    if context.revisions().within(NOTIFICATION_ANSWERED.revisions)
        && context.exchange.is_some_and(McpExchange::is_notifying)
    {
        return;
    }
    match context.message.id.as_deref() {
        Some("null") if context.message.answers.is_none() => {
            report.add("the result has the id null, which no request has")
        }
        None => report.add("the result has no id"),
        Some(_) => {}
    }
}

pub(super) static TYPE_CHANGED: Rule = Rule {
    id: "jsonrpc-response-id-type",
    severity: Severity::Error,
    title: "A response has the id of a request, but with another JSON type",
    spec: "basic/index \"Responses\": \"MUST include the same ID as the request\"",
    why: "Typed clients do not match \"1\" to 1 and wait until they time out.",
    example: "\"id\":\"1\" in the response to a request with \"id\":1",
    remedy: "Keep the id as it was parsed, including its type. Do not format it into a string.",
    ..Rule::BLANK
};

/// Whether these ids differ only in their JSON type.
pub(super) fn is_coerced(one: &str, other: &str) -> bool {
    one.starts_with('"') != other.starts_with('"')
        && [(one, other), (other, one)].into_iter().any(|(text, number)| json::string(text).as_deref() == Some(number))
}

pub(super) static DUPLICATE: Rule = Rule {
    id: "jsonrpc-response-duplicate",
    severity: Severity::Error,
    title: "A request was answered twice",
    spec: "JSON-RPC 2.0 section 5",
    why: "The second response is dropped. If ids are reused, it can be mistaken for the response to another request.",
    example: "a result, and later an error for the same id after a timeout",
    remedy: "Whatever ends a request first (result, error, timeout, cancellation) must also remove it from the open requests.",
    ..Rule::BLANK
};

pub(super) static AMBIGUOUS: Rule = Rule {
    id: "jsonrpc-response-ambiguous",
    severity: Severity::Warning,
    title: "A response matches several open requests with the same id",
    spec: "basic/index \"Requests\"",
    why: "Nobody can tell which request was answered. mcptap therefore pairs none of them.",
    example: "two open requests with \"id\":1, and one response with \"id\":1",
    remedy: "Give each request an id of its own.",
    ..Rule::BLANK
};

static NOTIFICATION_ANSWERED: Rule = Rule {
    id: "jsonrpc-notification-answered",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_03_26),
    title: "A notification was answered with a JSON-RPC response",
    spec: "basic/index \"Notifications\": \"The receiver MUST NOT send a response\"",
    why: "The client expects no response. It logs an error, or matches the response to a request with the same id.",
    example: "POST of notifications/initialized answered with {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}",
    remedy: "Answer the POST with 202 and no body.",
    checks: &[Check::Exchange(notification_answered)],
};

fn notification_answered(exchange: &Exchange, mcp: &McpExchange, _: &History, report: &mut Report<'_>) {
    let answer = mcp.received.iter().find(|got| matches!(got.kind, Kind::Response | Kind::Error));
    if let (true, true, Some(answer)) = (mcp.is_notifying(), is_success(exchange), answer) {
        let method = mcp.sent[0].method_name.as_deref().unwrap_or_default();
        report.add(format!("{method} was answered with a {} (message {})", answer.kind.name(), answer.number.0));
    }
}

/// Reported by [`unanswered`], not by a check function.
pub static UNANSWERED: Rule = Rule {
    id: "jsonrpc-request-unanswered",
    severity: Severity::Warning,
    title: "A request was neither answered nor cancelled before its session ended",
    spec: "JSON-RPC 2.0 section 5; basic/transports \"Sending Messages\" 6",
    why: "The caller waited until it gave up, or it still waits.",
    example: "tools/call with \"id\":4, and no message with that id until the capture ends",
    remedy: "Look at what the server did at that time: a crash, a deadlock, a response on another stream. Or end the capture later.",
    ..Rule::BLANK
};

/// Reports a request without a response. A subscription is not reported: it stays open as long as
/// its client wants.
pub fn unanswered(pending: &Pending, history: &History, report: &mut Report<'_>) {
    let method = pending.method.as_deref().unwrap_or("request");
    let request = history.requests.get(pending.number);
    // A request that HTTP refused, or that was cancelled, is not open any more.
    let is_over = request.is_some_and(|request| request.refused.is_some() || request.cancelled.is_some());
    // A notification with an id expects no response.
    if is_over || Method::named(method) == Method::SubscriptionsListen || method.starts_with("notifications/") {
        return;
    }
    let packets = request.map_or(&[][..], |request| &request.packets);
    let mut report = Report { packets, ..report.reborrow() };
    let mut text = format!("{method} (message {}) has no answer", pending.number.0);
    // The unreadable response has its own finding.
    if let Some(garbled) = request.and_then(|request| request.bad_answer) {
        text.push_str(&format!("; message {} was probably meant to be it", garbled.0));
        return report.add_as_about(Severity::Info, &[pending.number, garbled], text);
    }
    let severity = if history.has_gaps { Severity::Info } else { UNANSWERED.severity };
    if history.has_gaps {
        text.push_str(" in the capture; bytes of the session are missing");
    }
    report.add_as_about(severity, &[pending.number], text);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, modern, post, session, silent};

    const PING: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    const PONG: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;

    fn legacy(steps: &[&str]) -> Vec<String> {
        session("2025-11-25", steps)
    }

    #[test]
    fn types_of_ids() {
        fires("jsonrpc-id-null", &legacy(&[r#"> {"jsonrpc":"2.0","id":null,"method":"ping"}"#]));
        fires("jsonrpc-id-type", &legacy(&[r#"> {"jsonrpc":"2.0","id":1.5,"method":"ping"}"#]));
        fires("jsonrpc-id-type", &legacy(&[r#"> {"jsonrpc":"2.0","id":{},"method":"ping"}"#]));
        let repeated =
            [r#"> {"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, r#"< {"jsonrpc":"2.0","id":1.5,"result":{}}"#];
        let found = crate::findings::testing::findings(&legacy(&repeated));
        assert_eq!(found.iter().filter(|finding| finding.rule.id == "jsonrpc-id-type").count(), 1);
        fires("jsonrpc-id-unsafe-integer", &legacy(&[r#"> {"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#]));
        let fine = legacy(&[PING, PONG, r#"> {"jsonrpc":"2.0","id":"9007199254740993","method":"ping"}"#]);
        for rule in ["jsonrpc-id-null", "jsonrpc-id-type", "jsonrpc-id-unsafe-integer"] {
            silent(rule, &fine);
        }
    }

    #[test]
    fn an_id_is_used_once_in_a_session() {
        fires("jsonrpc-id-reused", &legacy(&[PING, PONG, PING, PONG]));
        silent("jsonrpc-id-reused", &legacy(&[PING, PONG, &PING.replace('>', "<"), &PONG.replace('<', ">")]));
    }

    #[test]
    fn an_id_may_be_used_again_once_it_is_answered() {
        let list =
            |step: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}{step}"#, modern(""));
        let answer = r#"< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"public"}}"#;
        let (request, reborrow) = (list(""), list(""));
        fires("jsonrpc-id-in-flight", &[request.as_str(), &reborrow]);
        silent("jsonrpc-id-in-flight", &[request.as_str(), answer, &reborrow, answer]);
        silent("jsonrpc-id-reused", &[request.as_str(), answer, &reborrow, answer]);
    }

    #[test]
    fn answers_and_their_requests() {
        fires("jsonrpc-response-unknown-id", &legacy(&[PING, &PONG.replace('1', "3")]));
        let found = fires("jsonrpc-response-id-type", &legacy(&[PING, &PONG.replace(":1", ":\"1\"")]));
        assert_eq!(found.messages.len(), 2);
        fires("jsonrpc-response-duplicate", &legacy(&[PING, PONG, PONG]));
        fires("jsonrpc-response-ambiguous", &legacy(&[PING, PING, PONG]));
        fires("jsonrpc-request-unanswered", &legacy(&[PING]));
        let fine = legacy(&[PING, PONG]);
        for rule in [
            "jsonrpc-response-unknown-id",
            "jsonrpc-response-id-type",
            "jsonrpc-response-duplicate",
            "jsonrpc-response-ambiguous",
            "jsonrpc-request-unanswered",
        ] {
            silent(rule, &fine);
        }
    }

    #[test]
    fn notifications_are_not_answered() {
        let headers = header("2025-06-18", true);
        let notify = post(&headers, r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let answered = json(200, "", r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
        fires("jsonrpc-notification-answered", &http_session("2025-06-18", true, &[notify.clone(), answered]));
        silent("jsonrpc-notification-answered", &http_session("2025-06-18", true, &[notify, "< 202\n\n".to_owned()]));
    }
}
