//! `Mcp-Session-Id` (2025-03-26 to 2025-11-25, basic/transports "Session Management").

use super::is_streamable;
use crate::decode::Exchange;
use crate::findings::mcp_exchange::is_success;
use crate::findings::{Check, History, McpExchange, Report, Rule, Severity};
use crate::mcp::revision::Revision::{V2025_03_26, V2025_11_25};
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&CHARSET, &MISSING, &UNASSIGNED, &FORGOTTEN, &TERMINATED_STATUS, &IGNORED, &WEAK, &NOT_DELETED];

/// Revisions with session ids.
const SESSIONS: Revisions = Revisions::between(V2025_03_26, V2025_11_25);

static CHARSET: Rule = Rule {
    id: "http-session-id-charset",
    severity: Severity::Error,
    revisions: SESSIONS,
    title: "A session id contains characters other than visible ASCII",
    spec: "basic/transports \"Session Management\" 1: \"MUST only contain visible ASCII characters (ranging from 0x21 to 0x7E)\"",
    why: "Clients and proxies refuse or change the header, and the session is lost.",
    example: "Mcp-Session-Id: sesión 1",
    remedy: "Use a UUID, or hexadecimal or base64url digits.",
    checks: &[Check::Response(charset)],
};

fn charset(exchange: &Exchange, _: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(id) = exchange.response.fields.get("mcp-session-id") else { return };
    if is_streamable(history) && (id.is_empty() || !id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))) {
        report.add(format!("the server assigned {id:?}"));
    }
}

static MISSING: Rule = Rule {
    id: "http-session-id-missing",
    severity: Severity::Error,
    revisions: SESSIONS,
    title: "A request without the session id that the server assigned",
    spec: "basic/transports \"Session Management\" 2: \"If an Mcp-Session-Id is returned by the server during initialization, clients … MUST include it in the Mcp-Session-Id header on all of their subsequent HTTP requests\"",
    why: "The server answers 400, or begins a new session.",
    example: "tools/list without Mcp-Session-Id after a response to initialize that had one",
    remedy: "Send the id with every request after initialize, also with GET and DELETE.",
    checks: &[Check::Response(missing)],
};

fn missing(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_initialize = mcp.sent.iter().any(|sent| sent.method == Method::Initialize);
    let is_live = history.endpoint.assigned.is_some() && history.endpoint.terminated.is_none();
    if is_streamable(history) && is_live && !mcp.names_session && !is_initialize {
        let what = mcp.sent.first().and_then(|sent| sent.method_name.as_deref());
        report.add(format!("{} was sent without Mcp-Session-Id", what.unwrap_or("a request")));
    }
}

static UNASSIGNED: Rule = Rule {
    id: "http-session-id-unassigned",
    severity: Severity::Warning,
    revisions: SESSIONS,
    title: "A session id that the server did not assign, or an initialize with a session id",
    spec: "basic/transports \"Session Management\" 4: \"MUST start a new session by sending a new InitializeRequest without a session ID attached\"",
    why: "The server answers 404, or mixes up two sessions.",
    example: "Mcp-Session-Id: x on the POST of initialize",
    remedy: "Discard the id before you initialize again.",
    checks: &[Check::Response(unassigned)],
};

fn unassigned(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(id) = exchange.request.fields.get("mcp-session-id").filter(|_| is_streamable(history)) else { return };
    let is_initialize = mcp.sent.iter().any(|sent| sent.method == Method::Initialize);
    match &history.endpoint.assigned {
        _ if is_initialize => report.add(format!("initialize was sent with the session id {id:?}")),
        Some(assigned) if assigned != id => report.add(format!("{id:?} was sent, but {assigned:?} was assigned")),
        // The response to initialize was captured and had no id.
        None if history.handshake.answered.is_some() && history.is_whole() => {
            report.add(format!("{id:?} was sent, but no id was assigned"));
        }
        _ => {}
    }
}

static FORGOTTEN: Rule = Rule {
    id: "http-session-forgotten",
    severity: Severity::Warning,
    revisions: SESSIONS,
    title: "The server no longer knew a session id that it had assigned",
    spec: "basic/transports \"Session Management\" 3: \"The server MAY terminate the session at any time, after which it MUST respond to requests containing that session ID with HTTP 404 Not Found\"",
    why: "Requests fail until the client begins a new session, and many clients never do. Mostly the server was restarted, or a load balancer chose another instance.",
    example: "initialize assigns an id, and a later POST with that id is answered with 404",
    remedy: "Keep sessions where all instances of the server find them, or route by session id. In the client, initialize again after 404.",
    checks: &[Check::Exchange(forgotten)],
};

fn forgotten(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(id) = exchange.request.fields.get("mcp-session-id").filter(|_| is_streamable(history)) else { return };
    if history.endpoint.assigned.as_deref() != Some(id) || exchange.method.as_deref() == Some("DELETE") {
        return;
    }
    // After the first such response, another rule says that the client went on.
    let is_first = history.endpoint.terminated.as_ref().is_none_or(|terminated| {
        terminated.by == "404" && exchange.response.started.is_some_and(|time| time <= terminated.time)
    });
    let explanation = exchange.explanation.as_deref().unwrap_or_default();
    // Some servers answer 400 instead.
    let is_forgotten = match exchange.status {
        Some(404) => true,
        Some(400) => explanation.to_ascii_lowercase().contains("session"),
        _ => false,
    };
    if is_first && is_forgotten {
        let what = mcp.sent.first().and_then(|sent| sent.method_name.as_deref()).unwrap_or("a request");
        let reason = if explanation.is_empty() { String::new() } else { format!(": {explanation}") };
        let status = exchange.status.unwrap_or_default();
        report.add(format!("{what} was answered with {status} in the session that the server had assigned{reason}"));
    }
}

static TERMINATED_STATUS: Rule = Rule {
    id: "http-session-terminated-status",
    severity: Severity::Error,
    revisions: SESSIONS,
    title: "A request for a terminated session was not answered with 404",
    spec: "basic/transports \"Session Management\" 3: \"it MUST respond to requests containing that session ID with HTTP 404 Not Found\"",
    why: "Only 404 tells the client to initialize again. With another status it fails permanently.",
    example: "DELETE answered with 200, then a POST with the same id answered with 400",
    remedy: "Answer 404 for every unknown session id.",
    checks: &[Check::Response(terminated_status)],
};

/// Whether a request was sent after its session was terminated.
fn is_after_termination(exchange: &Exchange, mcp: &McpExchange, history: &History) -> bool {
    let ended = history.endpoint.terminated.as_ref().map(|terminated| terminated.time);
    let sent = exchange.request.started;
    let is_ordered = !history.earlier_may_follow;
    mcp.names_session
        && is_ordered
        && is_streamable(history)
        && ended.zip(sent).is_some_and(|(ended, sent)| sent > ended)
}

fn terminated_status(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let (Some(terminated), Some(status)) = (&history.endpoint.terminated, exchange.status) else { return };
    // Authorization, overload and failures are checked before sessions.
    let is_other = matches!(status, 401 | 403 | 404 | 429 | 500..);
    if is_after_termination(exchange, mcp, history) && !is_other {
        report.add(format!("{} ended the session, and a later request with its id got status {status}", terminated.by));
    }
}

static IGNORED: Rule = Rule {
    id: "http-session-404-ignored",
    severity: Severity::Error,
    revisions: SESSIONS,
    title: "The client used a session id again after the server answered 404",
    spec: "basic/transports \"Session Management\" 4: \"it MUST start a new session\"",
    why: "Every further request fails.",
    example: "404, then another POST with the same Mcp-Session-Id",
    remedy: "After 404, discard the id and send initialize without it.",
    checks: &[Check::Response(ignored)],
};

fn ignored(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let was_404 = history.endpoint.terminated.as_ref().is_some_and(|terminated| terminated.by == "404");
    if was_404 && is_after_termination(exchange, mcp, history) {
        report.add("the session id was used again after a 404");
    }
}

static WEAK: Rule = Rule {
    id: "http-session-id-weak",
    severity: Severity::Warning,
    revisions: SESSIONS,
    title: "A session id that can be guessed",
    spec: "basic/transports \"Session Management\" 1: \"The session ID SHOULD be globally unique and cryptographically secure\"",
    why: "Whoever guesses it can act in another client's session.",
    example: "Mcp-Session-Id: 42",
    remedy: "Use a random UUID or 128 random bits.",
    checks: &[Check::Response(weak)],
};

fn weak(exchange: &Exchange, _: &McpExchange, history: &History, report: &mut Report<'_>) {
    /// The length of 80 random bits in base64. Shorter ids cannot contain enough randomness.
    const LENGTH: usize = 14;
    let Some(id) = exchange.response.fields.get("mcp-session-id").filter(|_| is_success(exchange)) else { return };
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    if is_streamable(history) && history.endpoint.assigned.is_none() && (id.len() < LENGTH || is_number) {
        report.add(format!("the session id {id:?} can be guessed"));
    }
}

static NOT_DELETED: Rule = Rule {
    id: "http-session-not-deleted",
    severity: Severity::Info,
    revisions: SESSIONS,
    title: "The client left without ending its session",
    spec: "basic/transports \"Session Management\" 5: \"Clients that no longer need a particular session … SHOULD send an HTTP DELETE to the MCP endpoint with the Mcp-Session-Id header\"",
    why: "The server holds the resources of the session until a timeout.",
    example: "the client closes the GET stream, and no DELETE follows until the capture ends",
    remedy: "Send DELETE before closing. A server that does not allow it answers 405.",
    checks: &[Check::End(not_deleted)],
};

/// A client that is still there keeps its stream open or opens it again. Closing the stream means
/// that it left.
fn not_deleted(history: &History, report: &mut Report<'_>) {
    let endpoint = &history.endpoint;
    let has_sessions = history.handshake.in_force().is_some_and(|in_force| in_force.revisions.within(SESSIONS));
    let is_over = !has_sessions || endpoint.delete_sent || endpoint.terminated.is_some();
    if endpoint.assigned.is_some() && endpoint.client_left.is_some() && !is_over && !history.has_gaps {
        report.add("the client closed its stream and sent nothing after that");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, post, session, silent};

    const VERSION: &str = "2025-06-18";

    fn ping(id: u32) -> String {
        post(&header(VERSION, true), &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
    }

    fn pong(id: u32) -> String {
        json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
    }

    fn delete() -> String {
        format!("> DELETE /mcp\n{}\n", header(VERSION, true))
    }

    fn opened(assigned: &str) -> Vec<String> {
        let handshake = session(VERSION, &[]);
        vec![post("", &handshake[0][2..]), json(200, &format!("Mcp-Session-Id: {assigned}\n"), &handshake[1][2..])]
    }

    #[test]
    fn clients_end_their_session() {
        let rule = "http-session-not-deleted";
        let stream = format!("> GET /mcp\nAccept: text/event-stream\n{}\n", header(VERSION, true));
        let opened = ["@ 2".to_owned(), stream, "< 200\nContent-Type: text/event-stream\n\n".to_owned()];
        let back = "@ 1".to_owned();
        fires(rule, &http_session(VERSION, true, &opened));
        let deleted = [opened.as_slice(), &[back.clone(), delete(), "< 200\n\n".to_owned()]].concat();
        silent(rule, &http_session(VERSION, true, &deleted));
        let refused = [opened.as_slice(), &[back, delete(), "< 405\n\n".to_owned()]].concat();
        silent(rule, &http_session(VERSION, true, &refused));
        silent(rule, &http_session(VERSION, true, &[ping(1), pong(1)]));
        silent(rule, &http_session(VERSION, false, &opened));
    }

    #[test]
    fn a_server_may_forget_a_session() {
        let rule = "http-session-forgotten";
        let lost =
            json(404, "", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}"#);
        let text = fires(rule, &http_session(VERSION, true, &[ping(1), lost.clone()])).text;
        assert_eq!(text, "ping was answered with 404 in the session that the server had assigned: Session not found");
        let old = json(400, "", r#"{"error":{"message":"Bad Request: No valid session ID provided"}}"#);
        fires(rule, &http_session(VERSION, true, &[ping(1), old]));
        silent(rule, &http_session(VERSION, true, &[delete(), "< 200\n\n".to_owned(), ping(1), lost.clone()]));
        silent(rule, &http_session(VERSION, false, &[ping(1), lost]));
        silent(rule, &http_session(VERSION, true, &[ping(1), pong(1)]));
    }

    #[test]
    fn format_of_session_ids() {
        fires("http-session-id-charset", &opened("a b"));
        fires("http-session-id-weak", &opened("42"));
        let good = opened("5f0c3e6e-7b1f-4f0e-9d60-3f2c1f0f9a11");
        silent("http-session-id-charset", &good);
        silent("http-session-id-weak", &good);
    }

    #[test]
    fn an_id_is_the_servers_to_assign() {
        let reborrow = session(VERSION, &[])[0][2..].replace("\"id\":0", "\"id\":9");
        let rule = "http-session-id-unassigned";
        fires(rule, &http_session(VERSION, true, &[post(&header(VERSION, true), &reborrow), "< 400\n\n".to_owned()]));
        silent(rule, &http_session(VERSION, true, &[ping(1), pong(1)]));
        let rule = "http-session-id-missing";
        for version in [VERSION, "2025-03-26"] {
            let forgotten = post(&header(version, false), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
            fires(rule, &http_session(version, true, &[forgotten.clone(), "< 400\n\n".to_owned()]));
            silent(rule, &http_session(version, false, &[forgotten, pong(1)]));
        }
        silent(rule, &http_session(VERSION, true, &[ping(1), pong(1)]));
    }

    #[test]
    fn an_id_ends_once() {
        let (not_found, bad) = ("< 404\n\n".to_owned(), "< 400\n\n".to_owned());
        let deleted =
            |then: &str| http_session(VERSION, true, &[delete(), "< 200\n\n".into(), ping(1), then.to_owned()]);
        fires("http-session-terminated-status", &deleted(&bad));
        silent("http-session-terminated-status", &deleted(&not_found));
        silent("http-session-terminated-status", &http_session(VERSION, true, &[ping(1), pong(1), ping(2), bad]));
        let lost = [ping(1), not_found.clone(), ping(2), not_found.clone()];
        fires("http-session-404-ignored", &http_session(VERSION, true, &lost));
        silent("http-session-404-ignored", &http_session(VERSION, true, &lost[..2]));
    }
}
