//! Rules about resources.

use super::mismatch::{Topic, report_mismatches};
use super::{Check, ERRORS, MESSAGES, MessageContext, NOTIFICATIONS, RESULTS, Report, Rule, Severity};
use crate::mcp::{Method, Revisions, Transport};

pub(super) const RULES: &[&Rule] = &[&NOT_FOUND_CODE, &EMPTY_CONTENTS, &UPDATED_UNSUBSCRIBED, &URI_INVALID];

static NOT_FOUND_CODE: Rule = Rule {
    id: "resources-not-found-code",
    severity: Severity::Warning,
    title: "A missing resource was reported with the wrong error code",
    spec: "server/resources \"Error Handling\": -32002 (SHOULD) up to 2025-11-25, -32602 (MUST) from 2026-07-28 on",
    why: "The client cannot distinguish a wrong URI from a failure of the server.",
    example: "{\"code\":0,\"message\":\"Unknown resource: file:///x\"}",
    remedy: "Answer -32002 up to 2025-11-25, and -32602 later.",
    checks: &[Check::Any(ERRORS, &[Method::ResourcesRead], not_found_code)],
    ..Rule::BLANK
};

fn not_found_code(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(code) = context.body().get("code").and_then(|code| code.parse::<i64>().ok()) else { return };
    let message = context.body().text("message").unwrap_or_default().to_ascii_lowercase();
    // Only the server knows which resources exist, so its error message decides. A missing method
    // or session is a different error.
    let is_missing =
        ["not found", "unknown resource", "no such", "does not exist"].iter().any(|words| message.contains(words));
    let is_other = code == -32601 || message.contains("session") || message.contains("method");
    if !is_missing || is_other {
        return;
    }
    if context.revisions().within(Revisions::MODERN) && code != -32602 {
        report.add_as(Severity::Error, format!("the code is {code}, and -32602 is required"));
    } else if context.revisions().within(Revisions::LEGACY) && code != -32002 {
        report.add(format!("the code is {code}, and -32002 is recommended"));
    }
}

static EMPTY_CONTENTS: Rule = Rule {
    id: "resources-empty-contents",
    severity: Severity::Warning,
    revisions: Revisions::MODERN,
    title: "The contents of a resource are an empty list",
    spec: "2026-07-28 server/resources \"Error Handling\"",
    why: "Nobody can distinguish an empty resource from one that does not exist.",
    example: "{\"contents\":[]}",
    remedy: "Answer -32602 for a resource that does not exist, and one empty text for an empty resource.",
    checks: &[Check::Message(RESULTS, &[Method::ResourcesRead], empty_contents)],
};

fn empty_contents(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let contents = context.body().get("contents").and_then(|text| text.strip_prefix('[')?.strip_suffix(']'));
    if contents.is_some_and(|inside| inside.trim().is_empty()) {
        let uri = context.request.and_then(|request| request.subject.as_deref()).unwrap_or("the resource");
        report.add(format!("{uri} has no contents"));
    }
}

static UPDATED_UNSUBSCRIBED: Rule = Rule {
    id: "resources-updated-unsubscribed",
    severity: Severity::Warning,
    revisions: Revisions::LEGACY,
    title: "An update of a resource that the client did not subscribe to",
    spec: "server/resources \"Subscriptions\"; schema ResourceUpdatedNotification",
    why: "The client has no use for it. The server probably sends to every client what one of them requested.",
    example: "notifications/resources/updated for file:///b after resources/subscribe to file:///a",
    remedy: "Store subscriptions per session, and remove them on resources/unsubscribe.",
    checks: &[Check::Message(NOTIFICATIONS, &[Method::ResourcesUpdated], updated_unsubscribed)],
};

fn updated_unsubscribed(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(uri) = context.body().text("uri") else { return };
    if context.is_from_client() || !context.history.is_whole() || !context.is_one_client() {
        return;
    }
    // On a pipe, an update cannot overtake the response that ends a subscription. On a separate
    // stream it can.
    let now = context.history.transport == Transport::Stdio;
    if context.history.subscriptions.is_unsubscribed(&uri, now) {
        report.add(format!("no subscription covers {uri}"));
    }
}

static URI_INVALID: Rule = Rule {
    id: "resources-uri-invalid",
    severity: Severity::Error,
    title: "A URI or URI template with invalid syntax",
    spec: "server/resources \"Data Types\"; schema: \"format\": \"uri\" (RFC 3986), \"uri-template\" (RFC 6570)",
    why: "Clients that parse URIs refuse the whole list, or resolve the text against another base.",
    example: "\"uri\":\"C:\\\\docs\\\\a b.txt\"; \"uriTemplate\":\"file:///{path\"",
    remedy: "Send absolute URIs with a scheme. Percent-encode other characters: file:///C:/docs/a%20b.txt.",
    checks: &[Check::Any(MESSAGES, &[], |context, report| report_mismatches(context, Topic::Uri, report))],
    ..Rule::BLANK
};

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    const READ: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#;

    fn modern_read(answer: &str) -> [String; 2] {
        let params = modern(r#""uri":"file:///a""#);
        [
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{params}}}"#),
            format!(r#"< {{"jsonrpc":"2.0","id":1,{answer}}}"#),
        ]
    }

    #[test]
    fn missing_resources_have_their_code() {
        let rule = "resources-not-found-code";
        let error = |code: &str, message: &str| format!(r#""error":{{"code":{code},"message":"{message}"}}"#);
        let read = |error: String| session("2025-06-18", &[READ, &format!(r#"< {{"jsonrpc":"2.0","id":1,{error}}}"#)]);
        fires(rule, &read(error("0", "Unknown resource: file:///a")));
        silent(rule, &read(error("-32002", "Resource not found")));
        silent(rule, &read(error("-32603", "Disk failure")));
        assert_eq!(fires(rule, &modern_read(&error("-32002", "Resource not found"))).severity.name(), "error");
        silent(rule, &modern_read(&error("-32602", "Resource not found")));
    }

    #[test]
    fn contents_are_not_empty() {
        let result = |contents: &str| {
            let more = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
            modern_read(&format!(r#""result":{{"contents":[{contents}],{more}}}"#))
        };
        fires("resources-empty-contents", &result(" "));
        silent("resources-empty-contents", &result(r#"{"uri":"file:///a","text":""}"#));
    }

    #[test]
    fn updates_follow_subscriptions() {
        let rule = "resources-updated-unsubscribed";
        let ask = |id: u32, method: &str| {
            format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"file:///a"}}}}"#)
        };
        let done = |id: u32| format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let updated = |uri: &str| {
            format!(r#"< {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
        };
        let begun = [ask(1, "subscribe"), done(1)];
        let after = |steps: &[String]| {
            let steps: Vec<&str> = begun.iter().chain(steps).map(String::as_str).collect();
            session("2025-06-18", &steps)
        };
        silent(rule, &after(&[updated("file:///a"), updated("file:///a/b")]));
        fires(rule, &after(&[updated("file:///c")]));
        fires(rule, &after(&[ask(2, "unsubscribe"), done(2), updated("file:///a")]));
        silent(rule, &["~".to_owned(), updated("file:///c")]);
    }

    #[test]
    fn uris_are_uris() {
        let rule = "resources-uri-invalid";
        let list = r#"> {"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;
        let with = |uri: &str| {
            let listed =
                format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"resources":[{{"name":"n","uri":"{uri}"}}]}}}}"#);
            session("2025-06-18", &[list, &listed])
        };
        fires(rule, &with("docs/a b.txt"));
        silent("schema-result-invalid", &with("docs/a b.txt"));
        silent(rule, &with("file:///a%20b.txt"));
    }
}
