//! Rules about log messages (server/utilities/logging).

use super::history::LogLevel;
use super::{Check, MessageContext, NOTIFICATIONS, Report, Rule, Severity};
use crate::decode::Direction;
use crate::mcp::{Method, Revisions, Transport};

pub(super) const RULES: &[&Rule] = &[&BELOW_LEVEL, &NOT_REQUESTED];

/// Limit of open requests that are checked, the latest first. Real sessions have tens.
const CHECKED: usize = 256;

static BELOW_LEVEL: Rule = Rule {
    id: "logging-below-level",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    title: "A log message less severe than the level that was set",
    spec: "server/utilities/logging \"Setting Log Level\"; schema SetLevelRequest: \"The server should send all logs at this level and higher\"",
    why: "The client did not want it. The message only fills logs and contexts.",
    example: "logging/setLevel warning, its result, then notifications/message with level debug",
    remedy: "Compare each message with the level that the session's client set.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::LogMessage], below_level)],
};

fn below_level(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(set) = context.history.log_level.filter(|_| context.is_one_client()) else { return };
    let Some(level) = context.body().text("level").and_then(|level| LogLevel::named(&level)) else { return };
    // A new level may apply before its request is answered.
    let mut open = context.history.requests.iter().rev().take(CHECKED);
    if level < set && !open.any(|request| request.method == Method::LoggingSetLevel) {
        report.add(format!("{} was sent, but the level is {}", level.name(), set.name()));
    }
}

static NOT_REQUESTED: Rule = Rule {
    id: "logging-not-requested",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A log message that no open request asked for",
    spec: "2026-07-28 server/utilities/logging \"Per-request log level\": the server MUST NOT send notifications/message for a request without io.modelcontextprotocol/logLevel",
    why: "Each request states whether its client wants logs, and which. Other log messages are dropped or shown in the wrong place.",
    example: "notifications/message on the stream of a tools/call without io.modelcontextprotocol/logLevel",
    remedy: "Send logs at or above the level in _meta of their request, on its stream.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::LogMessage], not_requested)],
};

fn not_requested(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let level = context.body().text("level").and_then(|level| LogLevel::named(&level));
    let is_pipe = context.history.transport == Transport::Stdio;
    if is_pipe && !context.history.is_whole() {
        return;
    }
    // On a pipe it may belong to any open request. Over HTTP it belongs to the request
    // of its stream.
    let open = context.history.requests.iter().rev().take(CHECKED);
    let fits = |exchange| is_pipe || context.message.exchange == exchange;
    let mut asking =
        open.filter(|request| request.sender == Direction::ClientToServer && fits(request.exchange)).peekable();
    if !is_pipe && asking.peek().is_none() {
        return;
    }
    match asking.filter_map(|request| request.log_level).min() {
        None => report.add("no open request asks for log messages"),
        Some(wanted) if level.is_some_and(|level| level < wanted) => {
            let sent = level.map_or("", LogLevel::name);
            report.add(format!("{sent} was sent, but {} was requested", wanted.name()));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, json, modern, post, session, silent};

    fn log(level: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#)
    }

    #[test]
    fn levels_that_were_set() {
        let set = r#"> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}"#;
        let done = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;
        let rule = "logging-below-level";
        fires(rule, &session("2025-06-18", &[set, done, &log("info")]));
        silent(rule, &session("2025-06-18", &[set, done, &log("error")]));
        silent(rule, &session("2025-06-18", &[set, &log("info"), done]));
    }

    #[test]
    fn levels_that_requests_contain() {
        let rule = "logging-not-requested";
        let call = |level: &str| {
            let params = modern(r#""name":"a""#).replace("\"_meta\":{", &format!("\"_meta\":{{{level}"));
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
        };
        let asks = call(r#""io.modelcontextprotocol/logLevel":"info","#);
        fires(rule, &[call(""), log("error")]);
        fires(rule, &[asks.clone(), log("debug")]);
        silent(rule, &[asks.clone(), log("info")]);
        silent(rule, &["~".to_owned(), log("info")]);
        let head = "MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: a\n";
        let events = format!("< 200\nContent-Type: text/event-stream\n\ndata: {}\n\n", &log("info")[2..]);
        fires(rule, &[post(head, &call("")[2..]), events.clone()]);
        silent(rule, &[post(head, &asks[2..]), events]);
        silent(rule, &[post(head, &call("")[2..]), json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)]);
    }
}
