//! Rules about cancellation (basic/utilities/cancellation;
//! 2026-07-28: basic/patterns/cancellation).

use super::history::OpenRequest;
use super::{ANSWERS, Check, ERRORS, MessageContext, NOTIFICATIONS, Report, Rule, Severity};
use crate::mcp::revision::Revision::V2025_11_25;
use crate::mcp::{Method, Revisions, Transport};

pub(super) const RULES: &[&Rule] = &[&UNKNOWN, &GIVEN_UP, &ANSWERED, &TOO_SLOW, &NOT_REQUESTED, &BY_SERVER, &TASK];

static UNKNOWN: Rule = Rule {
    id: "cancel-unknown",
    severity: Severity::Warning,
    title: "A cancellation of a request that is not open",
    spec: "basic/utilities/cancellation \"Behavior Requirements\" 1: \"Cancellation notifications MUST only reference requests that: were previously issued in the same direction, are believed to still be in-progress\"",
    why: "Nothing is cancelled: the intended request continues.",
    example: "\"requestId\":\"3\" although the request had the id 3",
    remedy: "Copy the request's id, including its type. A cancellation that crosses the response is legal.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], unknown)],
    ..Rule::BLANK
};

/// Whether the server cancels a request of the client, which 2026-07-28 allows for subscriptions.
fn is_server_cancellation(context: &MessageContext<'_, '_>) -> bool {
    !context.is_from_client() && context.revisions().within(Revisions::MODERN)
}

fn unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().get("requestId").filter(|_| !is_server_cancellation(context)) else { return };
    let (sender, history) = (context.message.direction, context.history);
    if history.requests.with_id(sender, id).is_some() {
        return;
    }
    // On another connection the response may arrive first, and the request last.
    if history.earlier_may_follow {
        return;
    }
    if history.used_ids.contains(sender, id) {
        // "Both parties MUST handle the race condition": the response may have been in flight.
        return report.add_as(Severity::Info, format!("the request with id {id} was already answered"));
    }
    if history.is_whole() && context.is_one_client() && !history.used_ids.has_discarded(sender) {
        report.add_as(Severity::Error, format!("its sender made no request with id {id}"));
    }
}

static GIVEN_UP: Rule = Rule {
    id: "request-given-up",
    severity: Severity::Warning,
    title: "The client waited for a response, and gave up",
    spec: "basic/lifecycle \"Timeouts\": \"When the request has not received a success or error response within the timeout period, the sender SHOULD issue a cancellation notification for that request and stop waiting\"",
    why: "The user sees a timeout. The server hangs, or needs longer than the client is willing to wait.",
    example: "tools/call, eight seconds without a response, then notifications/cancelled",
    remedy: "Look at what the server did in that time, and at its stderr. For long work, send progress notifications, or give the client a longer timeout.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Cancelled], given_up)],
    ..Rule::BLANK
};

/// A client that cancels sooner (in nanoseconds) did not run out of patience.
const PATIENCE: i64 = 1_000_000_000;

/// A duration in words.
fn seconds(nanoseconds: i64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}

/// The method of a request and its subject.
fn named(request: &OpenRequest) -> String {
    let method = request.method.definition().map_or("a request", |method| method.name);
    let subject = request.subject.as_deref().map(|subject| format!(" {subject}")).unwrap_or_default();
    format!("{method}{subject} (message {})", request.number.0)
}

fn given_up(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().get("requestId") else { return };
    let Some(request) = context.history.requests.with_id(context.message.direction, id) else { return };
    let waited = context.message.time.since(request.time);
    let is_over = request.cancelled.is_some() || request.refused.is_some();
    if is_over || waited < PATIENCE || request.method == Method::SubscriptionsListen {
        return;
    }
    let (what, waited) = (named(request), seconds(waited));
    if context.history.has_gaps {
        let text = format!("{what} has no answer in the capture, of which bytes are missing; cancelled after {waited}");
        return report.add_as_about(Severity::Info, &[request.number], text);
    }
    report.add_about(&[request.number], format!("{what} had no answer for {waited}, then it was cancelled"));
}

static TOO_SLOW: Rule = Rule {
    id: "response-after-timeout",
    severity: Severity::Warning,
    title: "The response came after the client had given up",
    spec: "basic/lifecycle \"Timeouts\"",
    why: "The server did the work, and the user saw a timeout all the same.",
    example: "tools/call, notifications/cancelled after eight seconds, the result after twelve",
    remedy: "Make the call faster, send progress notifications, or give the client a longer timeout than the call needs.",
    checks: &[Check::Any(ANSWERS, &[], too_slow)],
    ..Rule::BLANK
};

fn too_slow(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(request) = context.request else { return };
    let Some(patience) = request.cancelled.map(|cancelled| cancelled.since(request.time)) else { return };
    if patience >= PATIENCE {
        let took = seconds(context.message.time.since(request.time));
        let (what, patience) = (named(request), seconds(patience));
        report.add_about(&[request.number], format!("{what} took {took}, and the client gave up after {patience}"));
    }
}

static ANSWERED: Rule = Rule {
    id: "cancel-answered",
    severity: Severity::Info,
    title: "A cancelled request was answered",
    spec: "basic/utilities/cancellation \"Behavior Requirements\" 3: receivers SHOULD \"Not send a response for the cancelled request\"; 2026-07-28 basic/transports/stdio \"Cancellation\" (MUST NOT)",
    why: "The caller ignores the response, so the work was wasted. Shortly after the cancellation it is a race and nobody's fault.",
    example: "notifications/cancelled, then the result",
    remedy: "Pass the cancellation on to the code that does the work, and send nothing afterwards.",
    checks: &[Check::Message(ANSWERS, &[], answered)],
    ..Rule::BLANK
};

/// A response later than this (in nanoseconds) was not in flight when the cancellation arrived.
const RACE: i64 = 1_000_000_000;

fn answered(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((request, cancelled)) = context.request.and_then(|request| request.cancelled.map(|time| (request, time)))
    else {
        return;
    };
    let delay = context.message.time.since(cancelled).max(0);
    // A pipe preserves order, and 2026-07-28 has a MUST NOT for it. Everywhere else it may be a
    // race, or the rule is a SHOULD.
    let is_stdio = context.history.transport == Transport::Stdio && context.revisions().within(Revisions::MODERN);
    let severity = if is_stdio && delay > RACE { Severity::Warning } else { ANSWERED.severity };
    let text = format!("the response came {} ms after the cancellation", delay / 1_000_000);
    report.add_as_about(severity, &[request.number], text);
}

static NOT_REQUESTED: Rule = Rule {
    id: "cancel-without-notification",
    severity: Severity::Warning,
    title: "A request was answered as cancelled without a cancellation notification",
    spec: "basic/utilities/cancellation \"Cancellation Flow\": \"When a party wants to cancel an in-progress request, it sends a notifications/cancelled notification\"; -32800 is LSP's RequestCancelled",
    why: "A server that stops by itself should report what failed. A client that cancels without the notification leaves the server working.",
    example: "{\"error\":{\"code\":-32800,\"message\":\"cancelled\"}} without notifications/cancelled before it",
    remedy: "Send notifications/cancelled with the id of the request. After a timeout in the server, answer with an error that names the timeout.",
    checks: &[Check::Any(ERRORS, &[], not_requested)],
    ..Rule::BLANK
};

/// LSP 3.17: "The client has canceled a request and a server has detected the cancel".
const CANCELLED: &str = "-32800";

fn not_requested(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(request) = context.request.filter(|_| context.body().get("code") == Some(CANCELLED)) else { return };
    // Tasks have their own request for cancellation.
    let is_task = request.is_task || matches!(request.method, Method::TasksResult | Method::TasksGet);
    if request.cancelled.is_none() && !is_task && context.history.is_whole() {
        let text = format!("message {} was answered as cancelled, but no notification cancelled it", request.number.0);
        report.add_about(&[request.number], text);
    }
}

static BY_SERVER: Rule = Rule {
    id: "cancel-by-server",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The server cancelled something other than a subscription",
    spec: "2026-07-28 basic/patterns/cancellation: a server sends notifications/cancelled to end a subscriptions/listen request only",
    why: "Clients ignore it and continue to wait.",
    example: "notifications/cancelled from the server with the id of a tools/call",
    remedy: "Answer the request with an error.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], by_server)],
};

fn by_server(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().get("requestId").filter(|_| !context.is_from_client()) else { return };
    let client = context.message.direction.reversed();
    let exchange = context.message.exchange;
    // Clients of one server may use the same ids: over HTTP the request is that of the exchange.
    let open = context.history.requests.with_id(client, id).filter(|request| request.exchange == exchange);
    if let Some(request) = open
        && request.method != Method::SubscriptionsListen
    {
        let method = request.method.definition().map_or("a request", |method| method.name);
        report.add_about(&[request.number], format!("{method} (message {}) was cancelled", request.number.0));
    }
}

static TASK: Rule = Rule {
    id: "cancel-task",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "A task was cancelled with notifications/cancelled",
    spec: "2025-11-25 basic/utilities/cancellation \"Behavior Requirements\" 3: \"For task-augmented requests, the tasks/cancel request MUST be used instead\"",
    why: "The request ended when the task was created. The notification ends nothing, and the task continues.",
    example: "notifications/cancelled with the id of a tools/call that was answered with a task",
    remedy: "Send tasks/cancel with the taskId.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], task)],
};

fn task(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().get("requestId").filter(|_| context.is_one_client()) else { return };
    let (sender, history) = (context.message.direction, context.history);
    if let Some(request) = history.requests.with_id(sender, id) {
        if request.is_task {
            // Before the task exists, there is no taskId by which to cancel it.
            let text = "the request asks for a task, which does not exist yet";
            report.add_as_about(Severity::Info, &[request.number], text);
        }
    } else if let Some(done) = history.answered_requests.with_id(sender, id).filter(|done| done.became_task) {
        let text = format!("message {} answered the request with a task", done.answer.0);
        report.add_about(&[done.request.number, done.answer], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    const VERSION: &str = "2025-11-25";
    const CALL: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    const ANSWER: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

    fn cancel(id: &str) -> String {
        format!(r#"> {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    }

    #[test]
    fn only_open_requests_are_cancelled() {
        let rule = "cancel-unknown";
        assert_eq!(fires(rule, &session(VERSION, &[CALL, &cancel("\"1\"")])).severity.name(), "error");
        assert_eq!(fires(rule, &session(VERSION, &[CALL, ANSWER, &cancel("1")])).severity.name(), "info");
        silent(rule, &session(VERSION, &[CALL, &cancel("1")]));
        silent(rule, &["~", &cancel("7")]);
    }

    #[test]
    fn cancelled_requests_are_not_answered() {
        let rule = "cancel-answered";
        assert_eq!(fires(rule, &session(VERSION, &[CALL, &cancel("1"), "+ 5000", ANSWER])).severity.name(), "info");
        silent(rule, &session(VERSION, &[CALL, ANSWER]));
        let call =
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, modern(r#""name":"a""#));
        let late = [call.as_str(), &cancel("1"), "+ 5000", ANSWER];
        assert_eq!(fires(rule, &late).severity.name(), "warning");
    }

    #[test]
    fn a_client_that_waited_gave_up() {
        let rule = "request-given-up";
        let given_up = session(VERSION, &[CALL, "+ 8000", &cancel("1")]);
        let found = fires(rule, &given_up);
        assert_eq!(found.text, "tools/call a (message 4) had no answer for 8.0 s, then it was cancelled");
        assert_eq!((found.messages.len(), found.severity.name()), (2, "warning"));
        silent(rule, &session(VERSION, &[CALL, "+ 300", &cancel("1")]));
        silent(rule, &session(VERSION, &[CALL, ANSWER, "+ 8000", &cancel("1")]));
        let slow = [CALL, "+ 8000", &cancel("1"), "+ 4000", ANSWER];
        let text = fires("response-after-timeout", &session(VERSION, &slow)).text;
        assert_eq!(text, "tools/call a (message 4) took 12.0 s, and the client gave up after 8.0 s");
        silent("response-after-timeout", &session(VERSION, &[CALL, &cancel("1"), "+ 4000", ANSWER]));
    }

    #[test]
    fn cancelled_answers_follow_a_cancellation() {
        let rule = "cancel-without-notification";
        let ended = r#"< {"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
        assert_eq!(fires(rule, &session(VERSION, &[CALL, ended])).messages.len(), 2);
        silent(rule, &session(VERSION, &[CALL, &cancel("1"), ended]));
        silent(rule, &session(VERSION, &[CALL, &ended.replace("-32800", "-32603")]));
        silent(rule, &["~", CALL, ended]);
    }

    #[test]
    fn servers_cancel_only_subscriptions() {
        let ask = |method: &str| {
            format!(
                r#"> {{"jsonrpc":"2.0","id":1,"method":"{method}","params":{}}}"#,
                modern(r#""name":"a","notifications":{}"#)
            )
        };
        let by_server = cancel("1").replace("> ", "< ");
        fires("cancel-by-server", &[ask("tools/call"), by_server.clone()]);
        silent("cancel-by-server", &[ask("subscriptions/listen"), by_server]);
    }

    #[test]
    fn tasks_have_their_own_cancellation() {
        let rule = "cancel-task";
        let call = CALL.replace("\"name\"", "\"task\":{},\"name\"");
        let created = ANSWER.replace("\"content\":[]", "\"task\":{\"taskId\":\"t\",\"status\":\"working\"}");
        let conversation = session(VERSION, &[&call, &created, &cancel("1")]);
        assert_eq!(fires(rule, &conversation).severity.name(), "error");
        assert_eq!(fires(rule, &session(VERSION, &[&call, &cancel("1")])).severity.name(), "info");
        silent(rule, &session(VERSION, &[CALL, &cancel("1")]));
    }
}
