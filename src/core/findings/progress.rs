//! Rules about progress notifications (basic/utilities/progress;
//! 2026-07-28: basic/patterns/progress).

use super::history::{FLOOD, OpenRequest, canonical};
use super::{Check, MessageContext, NOTIFICATIONS, REQUESTS, Report, Rule, Severity};
use crate::decode::json;
use crate::mcp::Method;

pub(super) const RULES: &[&Rule] = &[&TOKEN_UNKNOWN, &NOT_INCREASING, &AFTER_COMPLETION, &TOKEN_DUPLICATE, &OVER_TOTAL];

static TOKEN_UNKNOWN: Rule = Rule {
    id: "progress-token-unknown",
    severity: Severity::Error,
    title: "Progress with a token that no request provided",
    spec: "basic/utilities/progress \"Behavior Requirements\" 1: \"Progress notifications MUST only reference tokens that were provided in an active request\"",
    why: "The receiver cannot tell which request makes progress, and drops the notification.",
    example: "\"progressToken\":\"1\" although the request had 1",
    remedy: "Copy _meta.progressToken of the request, including its type. Send no progress if there is no token.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Progress], token_unknown)],
    ..Rule::BLANK
};

/// The request of a progress notification. If several clients share a session, it is in
/// the same exchange.
fn request<'s>(context: &MessageContext<'s, '_>, token: &str) -> Option<&'s OpenRequest> {
    let exchange = context.message.exchange;
    let request = context.history.requests.progress_target(context.message.direction.reversed(), token, exchange);
    request.filter(|request| context.is_one_client() || request.exchange == exchange)
}

fn token_unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = context.body().get("progressToken").map(canonical) else { return };
    let receiver = context.message.direction.reversed();
    let tokens = &context.history.used_tokens;
    let is_known = tokens.contains(receiver, &token) || tokens.has_discarded(receiver);
    if !is_known && context.history.is_whole() && context.is_one_client() {
        let other = match json::string(&token) {
            Some(text) => text.into_owned(),
            None => format!("\"{token}\""),
        };
        let hint = if tokens.contains(receiver, &other) { format!(", but one gave {other}") } else { String::new() };
        report.add(format!("no request gave the token {token}{hint}"));
    }
}

static NOT_INCREASING: Rule = Rule {
    id: "progress-not-increasing",
    severity: Severity::Error,
    title: "Progress that does not increase",
    spec: "basic/utilities/progress \"Progress Flow\": \"The progress value MUST increase with each notification, even if the total is unknown\"",
    why: "Progress bars jump back or stop. Clients that renew a timeout with each step cannot distinguish progress from repetition.",
    example: "progress 0.5, then 0.5 again",
    remedy: "Count finished work. Send nothing while nothing is finished.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Progress], not_increasing)],
    ..Rule::BLANK
};

fn not_increasing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = context.body().get("progressToken").map(canonical) else { return };
    let now = context.body().get("progress").and_then(|value| value.parse::<f64>().ok());
    // The same notification on two streams is a broadcast, which has its own rule.
    let is_news = || context.history.server_messages.same_on_other_stream(context.message).is_none();
    if let (Some(request), Some(now)) = (request(context, &token), now)
        && let Some(before) = request.progress
        && now <= before
        && is_news()
    {
        let method = request.method.definition().map_or("the request", |method| method.name);
        let text = format!("{now} follows {before} for {method} (message {})", request.number.0);
        report.add_about(&[request.number], text);
    }
}

static AFTER_COMPLETION: Rule = Rule {
    id: "progress-after-completion",
    severity: Severity::Error,
    title: "Progress for a request that was already answered",
    spec: "basic/utilities/progress \"Implementation Notes\": \"Progress notifications MUST stop after completion\"",
    why: "The token may be reused: the receiver drops the notification, or assigns it to another request.",
    example: "the result of tools/call, then notifications/progress with its token",
    remedy: "Send remaining progress before the response, and stop workers when it is sent.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Progress], after_completion)],
    ..Rule::BLANK
};

fn after_completion(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = context.body().get("progressToken").map(canonical) else { return };
    let receiver = context.message.direction.reversed();
    if !context.is_one_client() || context.history.requests.with_token(receiver, &token).next().is_some() {
        return;
    }
    let Some(done) = context.history.answered_requests.with_token(receiver, &token) else { return };
    // 2025-11-25: "For task-augmented requests, the progressToken … remains valid … until the task
    // reaches a terminal status".
    if done.request.is_task || done.became_task {
        return;
    }
    // There is no order between two connections: the notification may have been sent first.
    let is_same = context.message.exchange == done.request.exchange;
    let severity = if is_same { AFTER_COMPLETION.severity } else { Severity::Warning };
    let (request, answer) = (done.request.number, done.answer);
    report.add_as_about(severity, &[request, answer], format!("message {} already answered the request", answer.0));
}

static TOKEN_DUPLICATE: Rule = Rule {
    id: "progress-token-duplicate",
    severity: Severity::Error,
    title: "Two open requests of one side have the same progress token, or a token is neither string nor integer",
    spec: "basic/utilities/progress \"Progress Flow\": \"Progress tokens MUST be a string or integer value … and MUST be unique across all active requests\"",
    why: "Nobody can tell which request makes progress.",
    example: "\"_meta\":{\"progressToken\":1} in two calls at the same time; or \"progressToken\":1.5",
    remedy: "Use the request's id, or a counter, as the token.",
    checks: &[Check::Message(REQUESTS, &[], token_duplicate)],
    ..Rule::BLANK
};

fn is_token(token: &str) -> bool {
    token.starts_with('"') || token.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
}

fn token_duplicate(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = context.meta().get("progressToken").map(canonical) else { return };
    if !is_token(&token) {
        let shown = &token[..token.floor_char_boundary(40)];
        return report.add(format!("the token is {shown}"));
    }
    // A cancelled request, or one that HTTP refused, is not active any more.
    let mut open = context.history.requests.with_token(context.message.direction, &token);
    let active = open.find(|request| request.cancelled.is_none() && request.refused.is_none());
    // The response that ended the first request may be missing from the capture.
    if let Some(active) = active.filter(|_| context.is_one_client() && !context.history.may_lack_messages()) {
        let method = active.method.definition().map_or("a request", |method| method.name);
        let text = format!("{method} (message {}) is open with the token {token}", active.number.0);
        report.add_about(&[active.number], text);
    }
}

static OVER_TOTAL: Rule = Rule {
    id: "progress-over-total",
    severity: Severity::Info,
    title: "Progress exceeds its total, or too many notifications are sent",
    spec: "basic/utilities/progress \"Progress Flow\": total is the \"Total number of items to process (or total progress required), if known\"; \"Implementation Notes\": \"Both parties SHOULD implement rate limiting to prevent flooding\"",
    why: "A bar shows more than 100 %. Nobody reads a hundred notifications in a second, and each costs work on both sides.",
    example: "\"progress\":12,\"total\":10; or a notification for each of a million rows",
    remedy: "Leave out total if it is unknown. Send progress only a few times in a second.",
    checks: &[
        Check::Message(NOTIFICATIONS, &[Method::Progress], over_total),
        Check::Message(NOTIFICATIONS, &[Method::Progress], flood),
    ],
    ..Rule::BLANK
};

fn over_total(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let number = |name: &str| context.body().get(name).and_then(|value| value.parse::<f64>().ok());
    if let (Some(progress), Some(total)) = (number("progress"), number("total"))
        && progress > total
    {
        report.add(format!("{progress} of {total}"));
    }
}

fn flood(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = context.body().get("progressToken").map(canonical) else { return };
    let Some(request) = request(context, &token) else { return };
    if request.next_progress_rate(context.message.time).1 == FLOOD {
        let text = format!("{FLOOD} notifications for message {} in one second", request.number.0);
        report.add_about(&[request.number], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const VERSION: &str = "2025-06-18";
    const ANSWER: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

    fn call(id: u32, token: &str) -> String {
        format!(
            r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a","_meta":{{"progressToken":{token}}}}}}}"#
        )
    }

    fn progress(token: &str, value: &str) -> String {
        format!(
            r#"< {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{value},"total":10}}}}"#
        )
    }

    fn conversation(steps: &[&str]) -> Vec<String> {
        session(VERSION, steps)
    }

    #[test]
    fn tokens_are_those_of_requests() {
        let rule = "progress-token-unknown";
        let found = fires(rule, &conversation(&[&call(1, "1"), &progress("\"1\"", "1")]));
        assert!(found.text.ends_with("but one gave 1"), "{}", found.text);
        fires(rule, &conversation(&[&progress("7", "1")]));
        silent(rule, &conversation(&[&call(1, "\"a\""), &progress("\"\\u0061\"", "1"), ANSWER]));
        silent(rule, &["~", &progress("7", "1")]);
    }

    #[test]
    fn progress_increases_and_stops() {
        let (first, second) = (progress("1", "1"), progress("1", "2.5"));
        let fine = conversation(&[&call(1, "1"), &first, &second, ANSWER]);
        fires("progress-not-increasing", &conversation(&[&call(1, "1"), &second, &first, ANSWER]));
        fires("progress-not-increasing", &conversation(&[&call(1, "1"), &first, &first, ANSWER]));
        fires("progress-after-completion", &conversation(&[&call(1, "1"), ANSWER, &first]));
        fires("progress-over-total", &conversation(&[&call(1, "1"), &progress("1", "11"), ANSWER]));
        let steps: Vec<String> = (1..=150).map(|step| progress("1", &format!("{}", f64::from(step) / 100.0))).collect();
        let request = call(1, "1");
        let flood: Vec<&str> = std::iter::once(request.as_str()).chain(steps.iter().map(String::as_str)).collect();
        let found = fires("progress-over-total", &conversation(&flood));
        assert_eq!(found.text, "100 notifications for message 4 in one second");
        let slowly: Vec<&str> = flood.iter().flat_map(|step| ["+ 20", *step]).collect();
        silent("progress-over-total", &conversation(&slowly));
        for rule in ["progress-not-increasing", "progress-after-completion", "progress-over-total"] {
            silent(rule, &fine);
        }
        // A token may be reused after the response.
        silent("progress-after-completion", &conversation(&[&call(1, "1"), ANSWER, &call(2, "1"), &first]));
        let task = call(1, "1").replace("\"name\"", "\"task\":{},\"name\"");
        silent("progress-after-completion", &session("2025-11-25", &[&task, ANSWER, &first]));
    }

    #[test]
    fn tokens_are_unique() {
        let rule = "progress-token-duplicate";
        fires(rule, &conversation(&[&call(1, "1"), &call(2, "1")]));
        fires(rule, &conversation(&[&call(1, "1.5")]));
        silent(rule, &conversation(&[&call(1, "1"), ANSWER, &call(2, "1")]));
        let cancel = r#"> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        silent(rule, &conversation(&[&call(1, "1"), cancel, &call(2, "1")]));
    }
}
