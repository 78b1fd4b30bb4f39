//! Rules about the heads of requests: accepted types, content type, revision, credentials.

use super::is_streamable;
use crate::decode::http::without_parameters;
use crate::decode::{Exchange, Kind};
use crate::findings::mcp_exchange::{is_success, media_type};
use crate::findings::message_facts::Evidence;
use crate::findings::{Check, History, McpExchange, Report, Rule, Severity};
use crate::mcp::revision::Revision::{self, V2025_03_26, V2025_06_18, V2025_11_25};
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[
    &ACCEPT_POST,
    &ACCEPT_GET,
    &CONTENT_TYPE,
    &VERSION_MISSING,
    &VERSION_MISMATCH,
    &BAD_VERSION,
    &ORIGIN,
    &TOKEN_IN_QUERY,
    &AUTHORIZATION_DROPPED,
];

static ACCEPT_POST: Rule = Rule {
    id: "http-accept-post",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_03_26),
    title: "A POST does not accept both application/json and text/event-stream",
    spec: "basic/transports \"Sending Messages to the Server\" 2: \"MUST include an Accept header, listing both application/json and text/event-stream\"",
    why: "Official servers answer 406.",
    example: "Accept: application/json",
    remedy: "Send Accept: application/json, text/event-stream with every POST.",
    checks: &[Check::Response(accept_post)],
};

/// Whether an Accept header accepts this type, by name or by a range (RFC 9110 section 12.5.1).
fn accepts(exchange: &Exchange, wanted: &str) -> bool {
    let fields = exchange.request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let mut ranges = fields.flat_map(|(_, value)| value.split(',')).map(without_parameters);
    let kind = wanted.split('/').next();
    ranges.any(|range| range == wanted || range.strip_suffix("/*").is_some_and(|of| of == "*" || Some(of) == kind))
}

fn accept_post(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if !is_streamable(history) || mcp.sent.is_empty() || exchange.method.as_deref() != Some("POST") {
        return;
    }
    let missing = ["application/json", "text/event-stream"].into_iter().find(|wanted| !accepts(exchange, wanted));
    if let Some(missing) = missing {
        let accept = exchange.request.fields.get("accept").unwrap_or("nothing");
        report.add(format!("the POST accepts {accept}, which leaves out {missing}"));
    }
}

static ACCEPT_GET: Rule = Rule {
    id: "http-accept-get",
    severity: Severity::Error,
    revisions: Revisions::between(V2025_03_26, V2025_11_25),
    title: "A GET does not accept text/event-stream",
    spec: "basic/transports \"Listening for Messages from the Server\" 2",
    why: "Official servers answer 406, and the client never receives the server's own messages.",
    example: "GET with Accept: application/json",
    remedy: "Send Accept: text/event-stream.",
    checks: &[Check::Response(accept_get)],
};

fn accept_get(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if is_streamable(history) && mcp.is_get && !accepts(exchange, "text/event-stream") {
        report.add(format!("the GET accepts {}", exchange.request.fields.get("accept").unwrap_or("nothing")));
    }
}

static CONTENT_TYPE: Rule = Rule {
    id: "http-content-type-post",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_03_26),
    title: "A POST whose Content-Type is not application/json",
    spec: "basic/transports \"Sending Messages to the Server\" (in its examples)",
    why: "Official servers answer 415.",
    example: "Content-Type: text/plain",
    remedy: "Send Content-Type: application/json.",
    checks: &[Check::Response(content_type)],
};

fn content_type(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let named = media_type(&exchange.request);
    if is_streamable(history) && !mcp.sent.is_empty() && named.as_deref() != Some("application/json") {
        report.add(format!("the Content-Type is {}", named.as_deref().unwrap_or("missing")));
    }
}

static VERSION_MISSING: Rule = Rule {
    id: "http-protocol-version-missing",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_06_18),
    title: "A request without MCP-Protocol-Version",
    spec: "basic/transports \"Protocol Version Header\": \"the client MUST include the MCP-Protocol-Version … header on all subsequent requests\"",
    why: "The server assumes 2025-03-26, and may use a format that the client does not expect.",
    example: "a POST of tools/call without the header, under 2025-06-18",
    remedy: "Send the negotiated revision with every request after initialize, also with GET and DELETE.",
    checks: &[Check::Response(version_missing)],
};

/// Whether an exchange follows the handshake, or needs none.
fn follows_handshake(mcp: &McpExchange, history: &History) -> bool {
    let is_modern = mcp.in_force.is_some_and(|known| known.revisions.within(Revisions::MODERN));
    let is_initialize = mcp.sent.iter().any(|sent| sent.method == Method::Initialize);
    is_modern || (history.handshake.answered.is_some() && !is_initialize)
}

/// Silent while packets may be out of order: the handshake may still arrive.
fn version_missing(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if is_streamable(history) && !history.earlier_may_follow && mcp.version.is_none() && follows_handshake(mcp, history)
    {
        let what = mcp.sent.first().and_then(|sent| sent.method_name.as_deref());
        report.add(format!(
            "{} was sent without MCP-Protocol-Version",
            what.unwrap_or(if mcp.is_get { "a GET" } else { "a request" })
        ));
    }
}

static VERSION_MISMATCH: Rule = Rule {
    id: "http-protocol-version-mismatch",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_06_18),
    title: "MCP-Protocol-Version differs from the agreed revision",
    spec: "2025-06-18 basic/transports \"Protocol Version Header\" (SHOULD); 2026-07-28 streamable-http (MUST match _meta)",
    why: "Proxies route by the header, and the server acts on the body. Official servers answer 400.",
    example: "MCP-Protocol-Version: 2025-11-25 although 2025-06-18 was negotiated",
    remedy: "Send the version from the response to initialize, not the requested one. From 2026-07-28 on, send the version from _meta.",
    checks: &[Check::Response(version_mismatch)],
};

fn version_mismatch(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(header) = mcp.version.as_deref().filter(|_| is_streamable(history)) else { return };
    if let Some(request) = mcp.sent.iter().find(|sent| sent.version.is_some()) {
        let named = request.version.as_deref().unwrap_or_default();
        if named != header {
            report.add(format!("the header is {header}, but _meta has {named}"));
        }
    } else if let Some(given) = history.handshake.agreed_version.as_deref()
        && follows_handshake(mcp, history)
        && mcp.in_force.is_none_or(|known| known.evidence != Evidence::Header)
        && given != header
    {
        report.add_as(Severity::Warning, format!("the header is {header}, but initialize agreed on {given}"));
    }
}

static BAD_VERSION: Rule = Rule {
    id: "http-bad-version-status",
    severity: Severity::Error,
    title: "An unknown MCP-Protocol-Version was not answered with 400",
    spec: "basic/transports \"Protocol Version Header\": \"it MUST respond with 400 Bad Request\"",
    why: "The client believes that the server supports this revision.",
    example: "MCP-Protocol-Version: 2099-01-01 answered with 200",
    remedy: "Check the header against the supported revisions before anything else.",
    checks: &[Check::Response(bad_version)],
    ..Rule::BLANK
};

fn bad_version(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(version) = mcp.version.as_deref().filter(|_| is_streamable(history)) else { return };
    // 2024-10-07 is a pre-release that official servers accept.
    if Revision::named(version).is_none() && version != "2024-10-07" && is_success(exchange) {
        report.add(format!("{version:?} was answered with {}", exchange.status.unwrap_or_default()));
    }
}

static ORIGIN: Rule = Rule {
    id: "http-origin-accepted",
    severity: Severity::Warning,
    title: "A request from a foreign Origin was accepted",
    spec: "basic/transports \"Security Warning\": \"Servers MUST validate the Origin header on all incoming connections to prevent DNS rebinding attacks\"",
    why: "Any web page that a user opens can send requests to the server.",
    example: "Origin: https://evil.example and Host: localhost:3000, answered with 200",
    remedy: "Answer 403 unless the Origin is a known one.",
    checks: &[Check::Response(origin)],
    ..Rule::BLANK
};

fn host_of(authority: &str) -> &str {
    let host = authority.rsplit_once("://").map_or(authority, |(_, rest)| rest);
    match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or(bracketed),
        None => host.split([':', '/']).next().unwrap_or(host),
    }
}

fn origin(exchange: &Exchange, mcp: &McpExchange, _: &History, report: &mut Report<'_>) {
    let fields = &exchange.request.fields;
    let (Some(origin), Some(host)) = (fields.get("origin"), fields.get("host")) else { return };
    let is_local = |host: &str| matches!(host, "localhost" | "::1") || host.starts_with("127.");
    let is_in_no_possible_revision = host_of(origin) != host_of(host) && !is_local(host_of(origin));
    if is_in_no_possible_revision && is_success(exchange) && !mcp.sent.is_empty() {
        report.add(format!("Origin {origin} at Host {host} was answered with {}", exchange.status.unwrap_or_default()));
    }
}

static TOKEN_IN_QUERY: Rule = Rule {
    id: "http-token-in-query",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_03_26),
    title: "An access token is in the URL",
    spec: "basic/authorization \"Token Requirements\" 2: \"Access tokens MUST NOT be included in the URI query string\"",
    why: "URLs are stored in logs, histories and Referer headers, together with the token.",
    example: "POST /mcp?access_token=…",
    remedy: "Send Authorization: Bearer.",
    checks: &[Check::Response(token_in_query)],
};

fn token_in_query(exchange: &Exchange, _: &McpExchange, _: &History, report: &mut Report<'_>) {
    let query = exchange.target.as_deref().and_then(|target| target.split_once('?')).map_or("", |(_, query)| query);
    let is_token = |pair: &str| pair.split('=').next().is_some_and(|name| name.eq_ignore_ascii_case("access_token"));
    if query.split('&').any(is_token) {
        report.add("the query has a member access_token");
    }
}

static AUTHORIZATION_DROPPED: Rule = Rule {
    id: "http-authorization-dropped",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_03_26),
    title: "A request without Authorization in a session whose other requests have it",
    spec: "basic/authorization \"Token Requirements\" 1: \"Authorization MUST be included in every HTTP request from client to server\"",
    why: "The server answers 401, or serves data that it should protect.",
    example: "the GET for the stream without the header that the POSTs have",
    remedy: "Send it with every request, also with DELETE.",
    checks: &[Check::Response(authorization_dropped)],
};

fn authorization_dropped(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_mcp = mcp.names_session || mcp.sent.iter().any(|sent| sent.kind != Kind::Invalid);
    if is_mcp && history.endpoint.is_authorized && exchange.request.fields.get("authorization").is_none() {
        report.add(format!("a {} was sent without Authorization", exchange.method.as_deref().unwrap_or("request")));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, post, silent};

    const VERSION: &str = "2025-06-18";
    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    fn pong() -> String {
        json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
    }

    /// A session in which this request was answered.
    fn with(request: String) -> Vec<String> {
        http_session(VERSION, true, &[request, pong()])
    }

    fn fine() -> Vec<String> {
        with(post(&header(VERSION, true), PING))
    }

    #[test]
    fn accept_and_content_type() {
        let text = |headers: &str| format!("> POST /mcp\n{headers}{}\n{PING}", header(VERSION, true));
        let json = "Content-Type: application/json\n";
        let rule = "http-accept-post";
        assert!(
            fires(rule, &with(text(&format!("Accept: application/json\n{json}")))).text.ends_with("text/event-stream")
        );
        silent(rule, &with(text(&format!("Accept: */*\n{json}"))));
        silent(rule, &fine());
        fires("http-content-type-post", &with(text("Accept: application/json, text/event-stream\n")));
        silent("http-content-type-post", &fine());
        let get = |accept: &str| format!("> GET /mcp\nAccept: {accept}\n{}\n", header(VERSION, true));
        let answered = |accept: &str| http_session(VERSION, true, &[get(accept), "< 405\n\n".to_owned()]);
        fires("http-accept-get", &answered("application/json"));
        silent("http-accept-get", &answered("text/event-stream"));
    }

    #[test]
    fn the_revision_is_in_every_request() {
        let session = "Mcp-Session-Id: s-1\n";
        fires("http-protocol-version-missing", &with(post(session, PING)));
        silent("http-protocol-version-missing", &fine());
        silent("http-protocol-version-missing", &http_session("2025-03-26", true, &[post(session, PING), pong()]));
        let other = header("2025-11-25", true);
        assert_eq!(fires("http-protocol-version-mismatch", &with(post(&other, PING))).severity.name(), "warning");
        silent("http-protocol-version-mismatch", &fine());
        fires("http-bad-version-status", &with(post(&header("2099-01-01", true), PING)));
        silent("http-bad-version-status", &fine());
    }

    #[test]
    fn origins_and_tokens() {
        let with_origin = |origin: &str| with(post(&format!("{}Origin: {origin}\n", header(VERSION, true)), PING));
        fires("http-origin-accepted", &with_origin("https://evil.example"));
        silent("http-origin-accepted", &with_origin("http://localhost:6274"));
        silent("http-origin-accepted", &with_origin("http://10.0.0.2:8000"));
        let query = post(&header(VERSION, true), PING).replace("/mcp", "/mcp?a=1&access_token=x");
        let found = fires("http-token-in-query", &with(query));
        assert!(!found.text.contains('x'), "{}", found.text);
        silent("http-token-in-query", &fine());
        let authorized = post(&format!("{}Authorization: Bearer t\n", header(VERSION, true)), PING);
        let bare = post(&header(VERSION, true), &PING.replace('1', "2"));
        let rule = "http-authorization-dropped";
        fires(rule, &http_session(VERSION, true, &[authorized.clone(), pong(), bare, "< 401\n\n".to_owned()]));
        silent(rule, &http_session(VERSION, true, &[authorized, pong()]));
    }
}
