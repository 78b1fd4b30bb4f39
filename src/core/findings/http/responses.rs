//! Rules about the heads of responses: status and type.

use super::is_streamable;
use crate::decode::{Exchange, Kind};
use crate::findings::mcp_exchange::{is_event_stream, is_success, media_type};
use crate::findings::{Check, History, McpExchange, Report, Rule, Severity};
use crate::mcp::revision::Revision::{V2025_03_26, V2025_06_18, V2025_11_25};
use crate::mcp::{Revisions, Transport};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&REFUSED, &CONTENT_TYPE, &NOTIFICATION_STATUS, &GET_STATUS, &NO_CHALLENGE];

static REFUSED: Rule = Rule {
    id: "http-refused",
    severity: Severity::Warning,
    title: "The server refused the HTTP request that carried a JSON-RPC request",
    spec: "basic/transports \"Sending Messages to the Server\"; basic/authorization \"Error Handling\"",
    why: "The request was not processed. With 401 or 403 the client has to log in, or its rights do not suffice.",
    example: "POST with tools/call answered with 401 and WWW-Authenticate: Bearer resource_metadata=\"…\"",
    remedy: "401: log in as WWW-Authenticate says. 403: ask for the scope that it names. 404: check the URL. 5xx: look into the server's log.",
    checks: &[Check::Exchange(refused)],
    ..Rule::BLANK
};

fn refused(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(status @ 400..) = exchange.status else { return };
    let Some(request) = mcp.sent.iter().find(|sent| sent.kind == Kind::Request) else { return };
    let is_authorization = matches!(status, 401 | 403);
    // A JSON-RPC error explains itself, and another rule covers a session that was forgotten.
    let is_explained = mcp.received.iter().any(|received| received.kind == Kind::Error);
    let is_session_lost = status == 404 && history.endpoint.assigned.is_some() && mcp.names_session;
    if !is_authorization && (is_explained || is_session_lost) {
        return;
    }
    let what = request.method_name.as_deref().unwrap_or("a request");
    let asked = exchange.response.fields.get("www-authenticate").filter(|_| is_authorization);
    let mut text = format!("{what} was answered with {status}");
    if let Some(reason) = exchange.reason.as_deref().filter(|reason| !reason.is_empty()) {
        text.push_str(&format!(" {reason}"));
    }
    if let Some(explanation) = &exchange.explanation {
        text.push_str(&format!(": {explanation}"));
    }
    if let Some(asked) = asked {
        text.push_str(&format!("; WWW-Authenticate asks for {asked}"));
    }
    // A login begins with a request that is refused.
    let begins_login = status == 401 && exchange.request.fields.get("authorization").is_none();
    let severity = if begins_login { Severity::Info } else { REFUSED.severity };
    report.add_as_about(severity, &[request.number], text);
}

static CONTENT_TYPE: Rule = Rule {
    id: "http-response-content-type",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_03_26),
    title: "The response to a request is neither application/json nor text/event-stream",
    spec: "basic/transports \"Sending Messages to the Server\" 5: \"the server MUST either return Content-Type: text/event-stream … or Content-Type: application/json\"",
    why: "Clients choose by the type how to read the response, and refuse any other type.",
    example: "HTTP/1.1 200 OK with Content-Type: text/plain",
    remedy: "Send the correct type. Check whether a proxy or framework changes it.",
    checks: &[Check::Response(content_type)],
};

fn content_type(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let has_request = mcp.sent.iter().any(|sent| sent.kind == Kind::Request);
    // 202 may belong to HTTP+SSE, which answers on its stream. That stream may still arrive, or may
    // have begun before the capture.
    let is_undecided = history.earlier_may_follow || history.transport == Transport::Http;
    let may_be_legacy = exchange.status == Some(202) && is_undecided;
    if !is_streamable(history) || !has_request || !is_success(exchange) || may_be_legacy {
        return;
    }
    let named = media_type(&exchange.response);
    if !matches!(named.as_deref(), Some("application/json" | "text/event-stream")) {
        report.add(format!("the Content-Type is {}", named.as_deref().unwrap_or("missing")));
    }
}

static NOTIFICATION_STATUS: Rule = Rule {
    id: "http-notification-status",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_03_26),
    title: "An accepted notification or response was not answered with 202 and no body",
    spec: "basic/transports \"Sending Messages to the Server\" 4: \"the server MUST return HTTP status code 202 Accepted with no body\"",
    why: "Clients that read the body wait for JSON that never comes, or fail to parse it.",
    example: "POST of notifications/initialized answered with 200 and {}",
    remedy: "Answer 202 with Content-Length: 0.",
    checks: &[Check::Exchange(notification_status)],
};

fn notification_status(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let needs_no_response = |kind: Kind| matches!(kind, Kind::Notification | Kind::Response | Kind::Error);
    let needs_only_202 = !mcp.sent.is_empty() && mcp.sent.iter().all(|sent| needs_no_response(sent.kind));
    if !is_streamable(history) || !needs_only_202 || !is_success(exchange) {
        return;
    }
    let (status, bytes) = (exchange.status.unwrap_or_default(), exchange.response.body_bytes);
    if status != 202 {
        report.add(format!("the status is {status}"));
    } else if bytes > 0 {
        report.add(format!("202 has a body of {bytes} bytes"));
    }
}

static GET_STATUS: Rule = Rule {
    id: "http-get-status",
    severity: Severity::Error,
    revisions: Revisions::between(V2025_03_26, V2025_11_25),
    title: "A GET was answered with neither text/event-stream nor 405",
    spec: "basic/transports \"Listening for Messages from the Server\" 3",
    why: "The client reads a page of text as a stream, or tries again and again.",
    example: "GET answered with 200 and text/html",
    remedy: "Answer 405 if the server offers no stream.",
    checks: &[Check::Response(get_status)],
};

fn get_status(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if !is_streamable(history) || !mcp.is_get {
        return;
    }
    let is_stream = is_event_stream(exchange);
    // 404 may end a session, and 400 may report a mistake of the client. Here there is neither a
    // session nor a mistake.
    let accepts = exchange.request.fields.get("accept").is_some_and(|accept| accept.contains("text/event-stream"));
    let is_blameless = accepts && !mcp.names_session && history.endpoint.assigned.is_none() && history.is_whole();
    if let Some(status @ (400 | 404 | 501)) = exchange.status
        && is_blameless
    {
        report.add(format!("the status is {status}, but 405 means that there is no stream"));
    } else if is_success(exchange) && !is_stream && !mcp.may_hide_fields(history) {
        let named = media_type(&exchange.response).unwrap_or("no Content-Type".into());
        report.add(format!("the status is {} with {named}", exchange.status.unwrap_or_default()));
    }
}

static NO_CHALLENGE: Rule = Rule {
    id: "http-401-no-challenge",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_06_18),
    title: "401 without WWW-Authenticate",
    spec: "basic/authorization \"Authorization Server Location\"; RFC 9110 section 11.6.1",
    why: "The client cannot find out where to get a token.",
    example: "HTTP/1.1 401 Unauthorized without WWW-Authenticate",
    remedy: "Name the protected resource metadata: WWW-Authenticate: Bearer resource_metadata=\"…\".",
    checks: &[Check::Response(no_challenge)],
};

fn no_challenge(exchange: &Exchange, _: &McpExchange, _: &History, report: &mut Report<'_>) {
    if exchange.status == Some(401) && exchange.response.fields.get("www-authenticate").is_none() {
        report.add("the response does not state how to authenticate");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, post, session, silent};

    const VERSION: &str = "2025-06-18";

    fn request(body: &str, answer: &str) -> Vec<String> {
        http_session(VERSION, true, &[post(&header(VERSION, true), body), answer.to_owned()])
    }

    #[test]
    fn answers_to_requests() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        fires("http-response-content-type", &request(ping, "< 200\nContent-Type: text/plain\n\nhello"));
        silent("http-response-content-type", &request(ping, &json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)));
        // A session that begins like this may be HTTP+SSE, whose stream was open
        // before the capture.
        let initialize = &session(VERSION, &[])[0][2..];
        let begun =
            |answer: &str| [format!("> POST /mcp\nContent-Type: application/json\n\n{initialize}"), answer.to_owned()];
        silent("http-response-content-type", &begun("< 202\n\n"));
        fires("http-response-content-type", &begun("< 200\nContent-Type: text/plain\n\nhello"));
        fires("http-response-content-type", &request(ping, "< 202\n\n"));
        fires("http-401-no-challenge", &request(ping, "< 401\n\n"));
        silent("http-401-no-challenge", &request(ping, "< 401\nWWW-Authenticate: Bearer\n\n"));
    }

    #[test]
    fn refused_requests_say_what_is_missing() {
        let rule = "http-refused";
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let challenge = "< 401\nWWW-Authenticate: Bearer scope=\"mcp\"\n\n";
        let found = fires(rule, &request(ping, challenge));
        assert_eq!(found.severity.name(), "info", "a login begins so");
        assert!(found.text.ends_with("; WWW-Authenticate asks for Bearer scope=\"mcp\""), "{}", found.text);
        let found = fires(rule, &request(ping, "< 502\nContent-Type: text/plain\n\nno upstream"));
        assert!(found.text.contains("ping was answered with 502"), "{}", found.text);
        assert!(found.text.ends_with(": no upstream"), "{}", found.text);
        assert_eq!(found.severity.name(), "warning");
        silent(rule, &request(ping, &json(400, "", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#)));
        silent(rule, &request(ping, &json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)));
    }

    #[test]
    fn answers_to_notifications() {
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
        fires("http-notification-status", &request(changed, &json(200, "", "{}")));
        fires("http-notification-status", &request(changed, &json(202, "", "{}")));
        silent("http-notification-status", &request(changed, "< 202\n\n"));
        silent("http-notification-status", &request(changed, "< 400\n\n"));
    }

    #[test]
    fn answers_to_a_get() {
        let get = format!("> GET /mcp\nAccept: text/event-stream\n{}\n", header(VERSION, true));
        let answered = |answer: &str| http_session(VERSION, true, &[get.clone(), answer.to_owned()]);
        fires("http-get-status", &answered("< 200\nContent-Type: text/html\n\n<html>"));
        silent("http-get-status", &answered("< 405\n\n"));
        silent("http-get-status", &answered("< 200\nContent-Type: text/event-stream\n\n: hello\n\n"));
        // With a session id, 404 ends the session. A client that does not accept events is
        // answered with 400.
        silent("http-get-status", &answered("< 404\n\n"));
        let get = |accept: &str| format!("> GET /mcp\nAccept: {accept}\n{}\n", header(VERSION, false));
        let sessionless = |get: String, answer: &str| http_session(VERSION, false, &[get, answer.to_owned()]);
        let found = fires("http-get-status", &sessionless(get("text/event-stream"), "< 404\n\n"));
        assert_eq!(found.text, "the status is 404, but 405 means that there is no stream");
        let error = json(400, "", r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"empty"}}"#);
        fires("http-get-status", &sessionless(get("text/event-stream"), &error));
        silent("http-response-on-get", &sessionless(get("text/event-stream"), &error));
        silent("http-get-status", &sessionless(get("text/html"), "< 400\n\n"));
        silent("http-get-status", &sessionless(get("text/event-stream"), "< 405\n\n"));
    }
}
