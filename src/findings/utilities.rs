//! Rules about progress, cancellation, pagination, completion, logging and roots.

use super::report::Report;
use super::rule::{NOTIFICATIONS, REQUESTS, RESULTS};
use super::seen::Seen;
use super::{Check, Rule, Severity};
use crate::decode::json::{self, Object};
use crate::mcp::Transport;
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;

/// The rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &TOKEN_DUPLICATE,
    &TOKEN_UNKNOWN,
    &AFTER_COMPLETION,
    &NOT_INCREASING,
    &OVER_TOTAL,
    &CANCEL_UNKNOWN,
    &CANCEL_ANSWERED,
    &CANCEL_BY_SERVER,
    &CURSOR_UNKNOWN,
    &LOOP,
    &TOO_MANY,
    &BELOW_LEVEL,
    &ROOT_SCHEME,
];

static TOKEN_DUPLICATE: Rule = Rule {
    id: "progress-token-duplicate",
    severity: Severity::Error,
    layer: "progress",
    title: "Two open requests of one sender share a progressToken, or it is neither string nor integer",
    spec: "basic/utilities/progress \"Progress Flow\": \"Progress tokens MUST be unique across all active requests\"",
    why: "Nobody can tell whose progress is reported.",
    example: "\"progressToken\":1 in two calls that run side by side",
    remedy: "Use the id of the request, or count.",
    checks: &[Check::Message(REQUESTS, &[], token_duplicate)],
    ..Rule::BLANK
};

fn token_duplicate(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(token) = seen.meta().get("progressToken") else { return };
    let digits = token.strip_prefix('-').unwrap_or(token);
    if !token.starts_with('"') && !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return report.say(format!("the token is {}", &token[..token.floor_char_boundary(40)]));
    }
    // Several clients of a server without sessions choose tokens on their own.
    if !seen.is_one_client() {
        return;
    }
    if let Some(asked) = seen.history.requests.with_token(seen.message.direction, token) {
        report.say_with(&[asked.number], format!("message {} has the token {token} too", asked.number.0));
    }
}

static TOKEN_UNKNOWN: Rule = Rule {
    id: "progress-token-unknown",
    severity: Severity::Error,
    layer: "progress",
    title: "Progress with a token that no request of the other side gave",
    spec: "basic/utilities/progress \"Behavior Requirements\" 1: \"MUST only reference tokens that were provided in an active request\"",
    why: "The receiver drops it: the user sees no progress.",
    example: "\"progressToken\":9 where no request has it",
    remedy: "Copy the token of the request with its type; send no progress where there is none.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Progress], progress_token)],
    ..Rule::BLANK
};

static AFTER_COMPLETION: Rule = Rule {
    id: "progress-after-completion",
    severity: Severity::Error,
    layer: "progress",
    title: "Progress of a request that was answered",
    spec: "basic/utilities/progress \"Implementation Notes\": \"Progress notifications MUST stop after completion\"",
    why: "Clients log an error for a token that they have forgotten.",
    example: "the result, and 100 % behind it",
    remedy: "Send the last progress before the answer.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Progress], progress_late)],
    ..Rule::BLANK
};

/// Whether progress names a request that is open; `Err` tells whether its token was seen before.
fn progress(seen: &Seen<'_, '_>) -> Option<Result<(), bool>> {
    let token = seen.body().get("progressToken")?;
    let receiver = seen.message.direction.reversed();
    if seen.history.requests.with_token(receiver, token).is_some() {
        return Some(Ok(()));
    }
    Some(Err(seen.history.progress.is_known(receiver, token)))
}

fn progress_token(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    if seen.history.is_whole() && progress(seen) == Some(Err(false)) {
        report.say(format!("no request gave the token {}", seen.body().get("progressToken").unwrap_or_default()));
    }
}

fn progress_late(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    // "For task-augmented requests, the progressToken … remains valid throughout the task's lifetime" (2025-11-25).
    if progress(seen) == Some(Err(true)) && !seen.history.has_tasks {
        let token = seen.body().get("progressToken").unwrap_or_default();
        report.say(format!("the request with the token {token} was answered before"));
    }
}

static NOT_INCREASING: Rule = Rule {
    id: "progress-not-increasing",
    severity: Severity::Error,
    layer: "progress",
    title: "Progress does not increase",
    spec: "basic/utilities/progress \"Progress Flow\": \"The progress value MUST increase with each notification\"",
    why: "Bars jump back, and clients that watch for progress time out.",
    example: "\"progress\":5 and then \"progress\":5",
    remedy: "Send progress only when there is some.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Progress], not_increasing)],
    ..Rule::BLANK
};

fn not_increasing(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let number = |name: &str| seen.body().get(name).and_then(|value| value.parse::<f64>().ok());
    let (Some(token), Some(now)) = (seen.body().get("progressToken"), number("progress")) else { return };
    // Several clients of a server without sessions choose tokens on their own.
    if let Some(before) = seen.history.progress.last(seen.message.direction.reversed(), token)
        && seen.is_one_client()
        && now <= before
    {
        report.say(format!("{now} after {before} for the token {token}"));
    }
}

static OVER_TOTAL: Rule = Rule {
    id: "progress-over-total",
    severity: Severity::Info,
    layer: "progress",
    title: "Progress beyond its total",
    spec: "basic/utilities/progress \"Progress Flow\"",
    why: "Bars pass 100 %.",
    example: "\"progress\":11,\"total\":10",
    remedy: "Raise the total as more work is found, or leave it out.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Progress], over_total)],
    ..Rule::BLANK
};

fn over_total(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let number = |name: &str| seen.body().get(name).and_then(|value| value.parse::<f64>().ok());
    if let (Some(progress), Some(total)) = (number("progress"), number("total"))
        && progress > total
    {
        report.say(format!("{progress} of {total}"));
    }
}

static CANCEL_UNKNOWN: Rule = Rule {
    id: "cancel-unknown",
    severity: Severity::Warning,
    layer: "cancellation",
    title: "A cancellation of a request that its sender never sent, or that was answered",
    spec: "basic/utilities/cancellation \"Behavior Requirements\" 1: \"MUST only reference requests that were previously issued in the same direction and are believed to still be in-progress\"",
    why: "Nothing is cancelled: the request that was meant goes on.",
    example: "\"requestId\":\"7\" where the request has the id 7",
    remedy: "Copy the id with its type.",
    checks: &[Check::Any(NOTIFICATIONS, &[Method::Cancelled], cancel_unknown)],
    ..Rule::BLANK
};

fn cancel_unknown(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = seen.body().get("requestId") else { return };
    let sender = seen.message.direction;
    if seen.history.requests.with_id(sender, id).is_some() || !seen.is_one_client() || !seen.history.is_whole() {
        return;
    }
    if seen.history.ids.contains(sender, id) {
        // On one pipe the order is known; cancellation and answer on two connections cross without anybody's fault.
        if seen.history.transport == Transport::Stdio {
            report.say_as(Severity::Info, format!("the request {id} was answered before; they may have crossed"));
        }
    } else {
        report.say_as(Severity::Error, format!("no request with the id {id} was sent"));
    }
}

static CANCEL_ANSWERED: Rule = Rule {
    id: "cancel-answered",
    severity: Severity::Info,
    layer: "cancellation",
    title: "A request was answered after it was cancelled",
    spec: "basic/utilities/cancellation \"Behavior Requirements\" 3: \"SHOULD … Not send a response for the cancelled request\"",
    why: "The work went on to its end, or the two crossed; the client ignores the answer.",
    example: "notifications/cancelled for 7, and the result of 7 behind it",
    remedy: "Nothing where they crossed; where it comes late, let the tool look for cancellation.",
    checks: &[Check::Any(RESULTS, &[], cancel_answered), Check::Any(super::rule::ERRORS, &[], cancel_answered)],
    ..Rule::BLANK
};

fn cancel_answered(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(asked) = seen.asked else { return };
    if let Some(cancelled) = asked.cancelled {
        // Over HTTP the two travel on connections of their own, and which came first is a matter of chance.
        if seen.history.transport != Transport::Stdio {
            return;
        }
        let late = seen.message.time.since(cancelled) / 1_000_000;
        report.say_with(&[asked.number], format!("answered {late} ms after it was cancelled"));
    }
}

static CANCEL_BY_SERVER: Rule = Rule {
    id: "cancel-by-server",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    layer: "cancellation",
    title: "The server cancelled something else than a subscription",
    spec: "2026-07-28 basic/patterns/cancellation",
    why: "Servers send no requests: there is nothing of theirs to cancel.",
    example: "notifications/cancelled from the server for a tools/call",
    remedy: "Answer the request with an error instead.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::Cancelled], cancel_by_server)],
};

fn cancel_by_server(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = seen.body().get("requestId").filter(|_| !seen.is_from_client()) else { return };
    if let Some(asked) = seen.history.requests.with_id(seen.message.direction.reversed(), id)
        && asked.method != Method::SubscriptionsListen
    {
        report.say_with(&[asked.number], format!("the request {id} is no subscription"));
    }
}

/// Requests whose results come in pages.
const LISTS: &[Method] =
    &[Method::ToolsList, Method::PromptsList, Method::ResourcesList, Method::ResourcesTemplatesList, Method::TasksList];

static CURSOR_UNKNOWN: Rule = Rule {
    id: "pagination-cursor-unknown",
    severity: Severity::Error,
    layer: "pagination",
    title: "A cursor that the server did not give for this list",
    spec: "server/utilities/pagination \"Implementation Guidelines\" 3: \"Clients MUST treat cursors as opaque tokens\"",
    why: "The server answers -32602, or shows another part of the list than was meant.",
    example: "\"cursor\":\"2\" where the last page said \"nextCursor\":\"eyJwYWdlIjoyfQ\"",
    remedy: "Send nextCursor back as it is; do not keep it over sessions.",
    checks: &[Check::Any(REQUESTS, LISTS, cursor_unknown)],
    ..Rule::BLANK
};

fn cursor_unknown(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let Some(cursor) = seen.body().get("cursor").filter(|cursor| *cursor != "null") else { return };
    if seen.is_from_client() && seen.history.is_whole() && !seen.history.cursors.was_given(seen.method, cursor) {
        report.say(format!("the server gave no cursor {}", &cursor[..cursor.floor_char_boundary(80)]));
    }
}

static LOOP: Rule = Rule {
    id: "pagination-loop",
    severity: Severity::Warning,
    layer: "pagination",
    title: "A list leads back to a page that was there before",
    spec: "server/utilities/pagination \"Implementation Guidelines\"",
    why: "Clients that read to the end never come to it.",
    example: "\"nextCursor\":\"a\" in the answer to \"cursor\":\"a\"",
    remedy: "Leave nextCursor out on the last page.",
    checks: &[Check::Any(RESULTS, LISTS, leads_back)],
    ..Rule::BLANK
};

fn leads_back(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let (Some(asked), Some(next)) = (seen.asked, seen.body().get("nextCursor").filter(|next| *next != "null")) else {
        return;
    };
    let same = asked.cursor.as_deref() == Some(next);
    if same || (asked.cursor.is_some() && seen.is_one_client() && seen.history.cursors.was_visited(seen.method, next)) {
        report.say_with(
            &[asked.number],
            format!("nextCursor {} was asked for before", &next[..next.floor_char_boundary(80)]),
        );
    }
}

static TOO_MANY: Rule = Rule {
    id: "completion-too-many",
    severity: Severity::Error,
    layer: "completion",
    title: "A completion has more than a hundred values",
    spec: "server/utilities/completion \"Completion Results\": \"Maximum 100 items per response\"",
    why: "Clients that validate refuse all of them.",
    example: "completion.values with 250 items",
    remedy: "Send the hundred best and \"hasMore\":true.",
    checks: &[Check::Any(RESULTS, &[Method::CompletionComplete], too_many)],
    ..Rule::BLANK
};

fn too_many(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let values = seen.body().object("completion").get("values").unwrap_or_default();
    if json::array(values, 101).len() > 100 {
        report.say("more than 100 values");
    }
}

static BELOW_LEVEL: Rule = Rule {
    id: "logging-below-level",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    layer: "logging",
    title: "A log message below the level that the client set",
    spec: "server/utilities/logging; schema SetLevelRequest: \"The server should send all logs at this level and higher\"",
    why: "The client asked not to have it; logs flood the connection.",
    example: "\"level\":\"debug\" after logging/setLevel with \"warning\"",
    remedy: "Hold each message against the level of its session.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::LogMessage], below_level)],
};

/// RFC 5424 section 6.2.1, least severe first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn below_level(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let rank = |name: &str| LEVELS.iter().position(|level| *level == name);
    let (Some(set), Some(level)) = (seen.history.log_level.as_deref(), seen.body().text("level")) else { return };
    if seen.is_one_client() && rank(&level) < rank(set) && rank(&level).is_some() {
        report.say(format!("{level} was sent, {set} was asked for"));
    }
}

static ROOT_SCHEME: Rule = Rule {
    id: "roots-uri-scheme",
    severity: Severity::Error,
    layer: "roots",
    title: "The URI of a root is not file://",
    spec: "client/roots \"Root\": \"This MUST be a file:// URI in the current specification\"",
    why: "Servers refuse it or take it for a path.",
    example: "{\"uri\":\"/home/me\"}",
    remedy: "Send file:///home/me.",
    checks: &[Check::Any(RESULTS, &[Method::RootsList], root_scheme)],
    ..Rule::BLANK
};

fn root_scheme(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    let roots = json::array(seen.body().get("roots").unwrap_or_default(), 1_000);
    for uri in roots.into_iter().filter_map(|root| Object::read(root).text("uri")) {
        if !uri.starts_with("file://") {
            report.say(format!("the root {:?}", &uri[..uri.floor_char_boundary(100)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    fn call(id: u32, token: &str) -> String {
        let meta = format!(r#""_meta":{{"progressToken":{token}}}"#);
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a",{meta}}}}}"#)
    }

    fn progress(token: &str, rest: &str) -> String {
        format!(
            r#"< {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},{rest}}}}}"#
        )
    }

    fn legacy(steps: &[&str]) -> Vec<String> {
        session("2025-06-18", steps)
    }

    const DONE: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

    #[test]
    fn progress_belongs_to_an_open_request_and_grows() {
        let (one, half, whole) =
            (call(1, "7"), progress("7", r#""progress":1,"total":2"#), progress("7", r#""progress":2"#));
        let good = legacy(&[&one, &half, &whole, DONE]);
        fires("progress-token-unknown", &legacy(&[&one, &progress("\"7\"", r#""progress":1"#)]));
        fires("progress-after-completion", &legacy(&[&one, &half, DONE, &whole]));
        fires("progress-not-increasing", &legacy(&[&one, &half, &half]));
        fires("progress-over-total", &legacy(&[&one, &progress("7", r#""progress":3,"total":2"#)]));
        fires("progress-token-duplicate", &legacy(&[&one, &call(2, "7")]));
        fires("progress-token-duplicate", &legacy(&[&call(1, "1.5")]));
        for rule in [
            "progress-token-unknown",
            "progress-after-completion",
            "progress-not-increasing",
            "progress-over-total",
            "progress-token-duplicate",
        ] {
            silent(rule, &good);
        }
    }

    #[test]
    fn cancellations() {
        let cancel = |mark: &str, id: &str| {
            format!(r#"{mark} {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let one = call(1, "7");
        assert_eq!(fires("cancel-unknown", &legacy(&[&one, &cancel(">", "\"1\"")])).severity.name(), "error");
        assert_eq!(fires("cancel-unknown", &legacy(&[&one, DONE, &cancel(">", "1")])).severity.name(), "info");
        silent("cancel-unknown", &legacy(&[&one, &cancel(">", "1")]));
        fires("cancel-answered", &legacy(&[&one, &cancel(">", "1"), DONE]));
        silent("cancel-answered", &legacy(&[&one, DONE]));
        let asked =
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#, modern(r#""name":"a""#));
        fires("cancel-by-server", &[asked.clone(), cancel("<", "1")]);
        silent("cancel-by-server", &[asked, cancel(">", "1")]);
    }

    #[test]
    fn pages() {
        let list = |id: u32, params: &str| {
            format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#)
        };
        let page = |id: u32, next: &str| format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]{next}}}}}"#);
        let (first, more) = (list(1, "{}"), page(1, r#","nextCursor":"b""#));
        let good = legacy(&[&first, &more, &list(2, r#"{"cursor":"b"}"#), &page(2, "")]);
        fires("pagination-cursor-unknown", &legacy(&[&first, &more, &list(2, r#"{"cursor":"c"}"#)]));
        let again = page(2, r#","nextCursor":"b""#);
        fires("pagination-loop", &legacy(&[&first, &more, &list(2, r#"{"cursor":"b"}"#), &again]));
        silent("pagination-cursor-unknown", &good);
        silent("pagination-loop", &good);
    }

    #[test]
    fn values_levels_and_roots() {
        let ask = r#"> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":"b"}}}"#;
        let values = |count: usize| {
            let values = vec!["\"a\""; count].join(",");
            format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"completion":{{"values":[{values}]}}}}}}"#)
        };
        fires("completion-too-many", &legacy(&[ask, &values(101)]));
        silent("completion-too-many", &legacy(&[ask, &values(100)]));
        let set = r#"> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}"#;
        let log = |level: &str| {
            format!(r#"< {{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#)
        };
        let done = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;
        fires("logging-below-level", &legacy(&[set, done, &log("info")]));
        silent("logging-below-level", &legacy(&[set, done, &log("error")]));
        let roots = r#"< {"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        let root = |uri: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"result":{{"roots":[{{"uri":"{uri}"}}]}}}}"#);
        fires("roots-uri-scheme", &legacy(&[roots, &root("/home")]));
        silent("roots-uri-scheme", &legacy(&[roots, &root("file:///home")]));
    }
}
