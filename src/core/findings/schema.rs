//! Rules about the members of messages: every request, notification and result must match its
//! revision's definition. Also the keys of `_meta`.

use super::message_facts::Evidence;
use super::methods::correct_name;
use super::mismatch::{Topic, report_mismatches};
use super::{ASKS, Check, MessageContext, NOTIFICATIONS, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::Revision::V2025_06_18;
use crate::mcp::{Revision, Revisions, shape};

pub(super) const RULES: &[&Rule] = &[&REQUEST, &NOTIFICATION, &RESULT, &NONSTANDARD, &META_KEY, &META_RESERVED];

static REQUEST: Rule = Rule {
    id: "schema-request-invalid",
    severity: Severity::Error,
    title: "A request does not match its definition in the revision",
    spec: "schema: the definition of the method",
    why: "The receiver answers -32602, or misreads a missing or mistyped parameter.",
    example: "tools/call with \"params\":{\"tool\":\"add\"} instead of \"name\"",
    remedy: "Send the members that the schema of the negotiated revision requires, with their types.",
    checks: &[Check::Any(REQUESTS, &[], differs)],
    ..Rule::BLANK
};

static NOTIFICATION: Rule = Rule {
    id: "schema-notification-invalid",
    severity: Severity::Error,
    title: "A notification does not match its definition in the revision",
    spec: "schema: the definition of the method",
    why: "The receiver ignores it silently, because notifications are never answered.",
    example: "notifications/progress without \"progress\"",
    remedy: "Send the members that the schema of the negotiated revision requires, with their types.",
    checks: &[Check::Any(NOTIFICATIONS, &[], differs)],
    ..Rule::BLANK
};

static RESULT: Rule = Rule {
    id: "schema-result-invalid",
    severity: Severity::Error,
    title: "A result does not match its definition in the revision",
    spec: "schema: the result type of the method",
    why: "Clients validate results: the call fails although the server did its work.",
    example: "a result of tools/call without \"content\"",
    remedy: "Send the members that the schema of the negotiated revision requires, with their types.",
    checks: &[Check::Any(RESULTS, &[], differs)],
    ..Rule::BLANK
};

fn differs(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    report_mismatches(context, Topic::Schema, report);
}

static NONSTANDARD: Rule = Rule {
    id: "params-nonstandard",
    severity: Severity::Info,
    title: "The params have a member that the method's definition does not name",
    spec: "schema: the params of the method; basic/index \"_meta\": the place for additions of clients and servers",
    why: "This is allowed, but nobody reads the member. A later revision may give it a meaning.",
    example: "notifications/initialized with \"params\":{\"ts\":1}",
    remedy: "Put it into _meta under your own prefix. Or use the member that MCP defines for this purpose.",
    checks: &[Check::Any(ASKS, &[], nonstandard)],
    ..Rule::BLANK
};

/// `_meta`, and members that other rules check.
const ELSEWHERE: [&str; 4] = ["_meta", "task", "inputResponses", "requestState"];

fn nonstandard(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // A member with a wrong name is already reported as missing.
    if !context.mismatches().is_empty() {
        return;
    }
    // A method name without its prefix still identifies the method.
    let name = context.method_name();
    let method = correct_name(name).filter(|correct_name| correct_name.ends_with(name)).unwrap_or(name);
    let is_named = |name: &str| context.revisions().iter().any(|revision| shape::defines_param(revision, method, name));
    let mut unnamed = context.body().iter().filter_map(|(name, _)| crate::decode::json::string(name));
    if let Some(name) = unnamed.find(|name| !ELSEWHERE.contains(&&**name) && !is_named(name)) {
        let shown = &name[..name.floor_char_boundary(60)];
        report.add(format!("{method} has no param {shown:?}"));
    }
}

static META_KEY: Rule = Rule {
    id: "meta-key-invalid",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_06_18),
    title: "A key of _meta does not follow the grammar for keys",
    spec: "basic/index \"_meta\": an optional prefix of dot-separated labels and a slash, and a name",
    why: "Receivers that check keys refuse the message or drop the key.",
    example: "\"_meta\":{\"my key\":1}",
    remedy: "Use a domain that you own, reversed, and a name: com.example/key.",
    checks: &[Check::Message(ASKS, &[], meta_key), Check::Message(RESULTS, &[], meta_key)],
};

/// "Labels MUST start with a letter and end with a letter or digit; interior characters can be
/// letters, digits, or hyphens".
fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let first = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    let last = bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    first && last && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// "Unless empty, MUST begin and end with an alphanumeric character. MAY contain hyphens,
/// underscores, dots, and alphanumerics in between."
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().flatten().all(u8::is_ascii_alphanumeric);
    ends && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn meta_key(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for (name, _) in context.meta().iter() {
        let Some(key) = crate::decode::json::string(name) else { continue };
        let fits = match key.rsplit_once('/') {
            Some((prefix, name)) => prefix.split('.').all(is_label) && is_name(name),
            None => is_name(&key),
        };
        if !fits {
            return report.add(format!("the key {key:?} is not valid"));
        }
    }
}

static META_RESERVED: Rule = Rule {
    id: "meta-key-reserved",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_06_18),
    title: "A key of _meta has a prefix that is reserved for MCP, and MCP defines no such key",
    spec: "basic/index \"_meta\": \"Any prefix beginning with zero or more valid labels, followed by modelcontextprotocol or mcp … is reserved\"",
    why: "A later revision may define it with another meaning.",
    example: "\"_meta\":{\"io.modelcontextprotocol/mine\":1}",
    remedy: "Use a domain that you own, reversed: com.example/mine.",
    checks: &[Check::Message(ASKS, &[], meta_reserved), Check::Message(RESULTS, &[], meta_reserved)],
};

/// Keys with the prefix `io.modelcontextprotocol/` that a revision or a known extension defines.
const DEFINED: &[&str] = &[
    "protocolVersion",
    "clientCapabilities",
    "clientInfo",
    "serverInfo",
    "logLevel",
    "subscriptionId",
    "related-task",
    "model-immediate-response",
    "ui",
];

fn meta_reserved(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_modern = context.revisions().within(Revisions::only(Revision::V2026_07_28));
    for (name, _) in context.meta().iter() {
        let Some(key) = crate::decode::json::string(name) else { continue };
        let Some((prefix, name)) = key.rsplit_once('/') else { continue };
        let labels: Vec<&str> = prefix.split('.').collect();
        let is_mcp = |label: &&str| matches!(*label, "modelcontextprotocol" | "mcp");
        let is_reserved = if is_modern {
            labels.get(1).is_some_and(is_mcp)
        } else {
            labels.iter().rev().skip(1).any(is_mcp) || labels.last().is_some_and(is_mcp)
        };
        if is_reserved && !(prefix == "io.modelcontextprotocol" && DEFINED.contains(&name)) {
            return report.add(format!("the key {key:?} is reserved"));
        }
    }
}

/// The revision whose definitions are used for shapes and schemas, if it is known.
pub(super) fn revision(context: &MessageContext<'_, '_>) -> Option<Revision> {
    let known = context.in_force.evidence != Evidence::None;
    // If several may be in force, the newest is the most lenient about schemas.
    context.revisions().single().or_else(|| context.revisions().iter().last().filter(|_| known))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    #[test]
    fn messages_have_the_members_of_their_revision() {
        let call = |params: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let good = call(r#"{"name":"add"}"#);
        fires("schema-request-invalid", &session("2025-06-18", &[&call(r#"{"tool":"add"}"#)]));
        silent("schema-request-invalid", &session("2025-06-18", &[&good]));
        let answer = |result: &str| format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        fires("schema-result-invalid", &session("2025-06-18", &[&good, &answer("{}")]));
        // "2025-09-22" is unknown, but content is required in all revisions.
        fires("schema-result-invalid", &session("2025-09-22", &[&good, &answer("{}")]));
        silent("schema-result-invalid", &session("2025-06-18", &[&good, &answer(r#"{"content":[]}"#)]));
        let progress =
            |params: &str| format!(r#"< {{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        fires("schema-notification-invalid", &session("2025-06-18", &[&progress(r#"{"progressToken":1}"#)]));
        silent(
            "schema-notification-invalid",
            &session("2025-06-18", &[&progress(r#"{"progressToken":1,"progress":1}"#)]),
        );
    }

    #[test]
    fn params_have_the_members_of_their_definition() {
        let rule = "params-nonstandard";
        let initialized = |name: &str, params: &str| {
            let mut all = session("2025-06-18", &[]);
            all[2] = format!(r#"> {{"jsonrpc":"2.0","method":"{name}","params":{params}}}"#);
            all
        };
        let found = fires(rule, &initialized("notifications/initialized", r#"{"ts":1}"#));
        assert_eq!(found.text, "notifications/initialized has no param \"ts\"");
        // The name of the notification in LSP is checked in the same way.
        fires(rule, &initialized("initialized", r#"{"ts":1}"#));
        silent(rule, &initialized("notifications/initialized", r#"{"_meta":{"ts":1}}"#));
        silent(rule, &initialized("example/own", r#"{"ts":1}"#));
        let call = |params: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        fires(rule, &session("2025-06-18", &[&call(r#"{"name":"a","timeout":5}"#)]));
        silent(rule, &session("2025-06-18", &[&call(r#"{"tool":"a"}"#)]));
        silent(rule, &session("2025-11-25", &[&call(r#"{"name":"a","arguments":{},"task":{"ttl":1}}"#)]));
    }

    #[test]
    fn keys_of_meta() {
        let ping =
            |key: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"{key}":1}}}}}}"#);
        let with = |key: &str| session("2025-06-18", &[&ping(key)]);
        fires("meta-key-invalid", &with("my key"));
        fires("meta-key-reserved", &with("io.modelcontextprotocol/mine"));
        for key in ["progressToken", "com.example/key", "a-b.c/d_e.f", "io.modelcontextprotocol/related-task"] {
            silent("meta-key-invalid", &with(key));
            silent("meta-key-reserved", &with(key));
        }
    }
}
