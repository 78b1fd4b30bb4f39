//! Rules about paged lists (server/utilities/pagination).

use super::{Check, ERRORS, History, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::Method;

pub(super) const RULES: &[&Rule] = &[&CURSOR_UNKNOWN, &LOOP, &INVALID_CODE, &UNFINISHED];

static CURSOR_UNKNOWN: Rule = Rule {
    id: "pagination-cursor-unknown",
    severity: Severity::Error,
    title: "A cursor that the server did not issue for this list",
    spec: "server/utilities/pagination \"Implementation Guidelines\" 3: \"Clients MUST treat cursors as opaque tokens: Don't make assumptions about cursor format; Don't attempt to parse or modify cursors; Don't persist cursors across sessions\"",
    why: "The server answers -32602, or returns an unexpected page.",
    example: "\"cursor\":\"2\" after \"nextCursor\":\"eyJwYWdlIjoyfQ\"",
    remedy: "Send nextCursor of the previous page unchanged. Begin a list without a cursor.",
    checks: &[Check::Message(REQUESTS, Method::PAGED, cursor_unknown)],
    ..Rule::BLANK
};

/// Whether the server certainly did not issue this cursor: the session was captured completely and
/// has one client.
fn was_never_issued(context: &MessageContext<'_, '_>, cursor: &str) -> bool {
    let issued = context.history.cursors.issued(context.method, cursor);
    issued == Some(false) && context.history.is_whole() && context.is_one_client()
}

fn shortened(cursor: &str) -> &str {
    &cursor[..cursor.floor_char_boundary(60)]
}

fn cursor_unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(cursor) = context.body().get("cursor").filter(|cursor| *cursor != "null") else { return };
    // While a list request is open, its response may still contain the cursor.
    let mut open = context.history.requests.iter().rev().take(64);
    if was_never_issued(context, cursor) && !open.any(|request| request.method == context.method) {
        report.add(format!("{} was never the nextCursor of {}", shortened(cursor), context.method_name()));
    }
}

static LOOP: Rule = Rule {
    id: "pagination-loop",
    severity: Severity::Warning,
    title: "The next page was already read",
    spec: "server/utilities/pagination \"Implementation Guidelines\" 1: servers SHOULD \"Provide stable cursors\"",
    why: "A client that reads all pages never finishes.",
    example: "tools/list with \"cursor\":\"b\" answered with \"nextCursor\":\"b\"",
    remedy: "Leave out nextCursor on the last page.",
    checks: &[Check::Message(RESULTS, Method::PAGED, repeated_page)],
    ..Rule::BLANK
};

fn repeated_page(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(request) = context.request else { return };
    let Some(next) = context.body().get("nextCursor") else { return };
    if request.cursor.as_deref() == Some(next) {
        report.add_about(&[request.number], format!("nextCursor is the cursor of this request, {}", shortened(next)));
    } else if context.is_one_client()
        && context.history.cursors.leads_back(context.method, request.cursor.as_deref(), next)
    {
        let text = format!("nextCursor {} was already used on the way to this page", shortened(next));
        report.add_about(&[request.number], text);
    }
}

static INVALID_CODE: Rule = Rule {
    id: "pagination-invalid-code",
    severity: Severity::Warning,
    title: "An invalid cursor was not answered with -32602",
    spec: "server/utilities/pagination \"Error Handling\": \"Invalid cursors SHOULD result in an error with code -32602 (Invalid params)\"",
    why: "The client takes it for a failure of the server, and tries again instead of starting from the first page.",
    example: "a cursor that was never issued, answered with -32603",
    remedy: "Answer -32602 if a cursor cannot be read.",
    checks: &[Check::Message(ERRORS, Method::PAGED, invalid_code)],
    ..Rule::BLANK
};

fn invalid_code(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((request, cursor)) = context.request.and_then(|request| Some((request, request.cursor.as_deref()?)))
    else {
        return;
    };
    let code = context.body().get("code").unwrap_or_default();
    // A server without this list answers -32601 for every cursor.
    if was_never_issued(context, cursor) && !matches!(code, "-32602" | "-32601") {
        report.add_about(&[request.number], format!("the cursor {} was answered with {code}", shortened(cursor)));
    }
}

static UNFINISHED: Rule = Rule {
    id: "pagination-unfinished",
    severity: Severity::Info,
    title: "The client stopped reading a list before its last page",
    spec: "server/utilities/pagination \"Implementation Guidelines\": a nextCursor means that more results exist; an empty string is a cursor, too",
    why: "The client does not know the later pages. It cannot call a tool that it has not listed.",
    example: "tools/list answered with \"nextCursor\":\"p2\", and no tools/list with that cursor until the session ended",
    remedy: "Request pages until nextCursor is missing.",
    checks: &[Check::End(unfinished)],
    ..Rule::BLANK
};

fn unfinished(history: &History, report: &mut Report<'_>) {
    // In a session that continues, the client may still request the page.
    let is_over = history.process.exit.is_some() || history.endpoint.terminated.is_some();
    for unread in history.cursors.unread.iter().filter(|_| is_over && history.is_whole()) {
        let method = unread.method.definition().map_or("the list", |method| method.name);
        let text = format!("nobody requested the page after message {} of {method}", unread.page.0);
        report.add_about(&[unread.page], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const VERSION: &str = "2025-06-18";

    fn list(id: u32, cursor: &str) -> String {
        let params = if cursor.is_empty() { String::new() } else { format!(r#","params":{{"cursor":"{cursor}"}}"#) };
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/list"{params}}}"#)
    }

    fn page(id: u32, next: &str) -> String {
        let next = if next.is_empty() { String::new() } else { format!(r#","nextCursor":"{next}""#) };
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]{next}}}}}"#)
    }

    fn error(id: u32, code: i32) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"x"}}}}"#)
    }

    fn conversation(steps: &[String]) -> Vec<String> {
        session(VERSION, &steps.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn cursors_are_the_servers() {
        let rule = "pagination-cursor-unknown";
        fires(rule, &conversation(&[list(1, ""), page(1, "a"), list(2, "b")]));
        let prompts = list(2, "a").replace("tools", "prompts");
        fires(rule, &conversation(&[list(1, ""), page(1, "a"), prompts]));
        silent(rule, &conversation(&[list(1, ""), page(1, "a"), list(2, "a"), page(2, "")]));
        silent(rule, &["~".to_owned(), list(1, "b")]);
        let rule = "pagination-invalid-code";
        fires(rule, &conversation(&[list(1, "b"), error(1, -32_603)]));
        silent(rule, &conversation(&[list(1, "b"), error(1, -32_602)]));
        silent(rule, &conversation(&[list(1, ""), page(1, "b"), list(2, "b"), error(2, -32_603)]));
    }

    #[test]
    fn pages_lead_on() {
        let rule = "pagination-loop";
        fires(rule, &conversation(&[list(1, ""), page(1, "a"), list(2, "a"), page(2, "a")]));
        fires(
            rule,
            &conversation(&[list(1, ""), page(1, "a"), list(2, "a"), page(2, "b"), list(3, "b"), page(3, "a")]),
        );
        // Every list may be read again from its first page.
        silent(rule, &conversation(&[list(1, ""), page(1, "a"), list(2, "a"), page(2, ""), list(3, ""), page(3, "a")]));
    }

    #[test]
    fn lists_are_read_to_their_end() {
        let rule = "pagination-unfinished";
        let exit = "! 0".to_owned();
        fires(rule, &conversation(&[list(1, ""), page(1, "a"), exit.clone()]));
        silent(rule, &conversation(&[list(1, ""), page(1, "a")]));
        silent(rule, &conversation(&[list(1, ""), page(1, "a"), list(2, "a"), page(2, ""), exit]));
    }
}
