//! Rules about HTTP+SSE, the transport of 2024-11-05, which later revisions keep for compatibility.

use crate::decode::uri::authority;
use crate::decode::{Direction, sse};
use crate::findings::{
    Check, History, MESSAGES, McpExchange, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity,
};
use crate::mcp::revision::Revision::{self, V2025_03_26};
use crate::mcp::{Method, Transport};

pub(in crate::findings) const RULES: &[&Rule] = &[&ENDPOINT_FIRST, &POST_URI, &DEPRECATED];

static ENDPOINT_FIRST: Rule = Rule {
    id: "sse-legacy-endpoint-first",
    severity: Severity::Error,
    title: "The first event of an HTTP+SSE stream is not endpoint",
    spec: "2024-11-05 basic/transports \"HTTP with SSE\": \"When a client connects, the server MUST send an endpoint event\"; later: \"Backwards Compatibility\" (\"as the first event\")",
    why: "Clients of both transports distinguish them by the first event, and give up.",
    example: "event: message before event: endpoint",
    remedy: "Send endpoint before any other event. Comments do not count.",
    checks: &[Check::Event(endpoint_first)],
    ..Rule::BLANK
};

fn endpoint_first(event: &sse::Event<'_>, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let before = mcp.event_counts.dispatched;
    if event.kind == Some("endpoint") && history.transport == Transport::HttpSse && before > 0 {
        report.add(format!("endpoint is event {} of its stream", before + 1));
    }
}

static POST_URI: Rule = Rule {
    id: "sse-legacy-post-uri",
    severity: Severity::Error,
    title: "The endpoint that an HTTP+SSE stream announces has another origin, or messages are posted elsewhere",
    spec: "2024-11-05 basic/transports \"HTTP with SSE\": \"All subsequent client messages MUST be sent as HTTP POST requests to this endpoint\"; WHATWG Fetch section 3.2 \"origin\"",
    why: "Official clients refuse to post to another origin: an attacker who writes the stream could redirect requests and tokens. Messages that are posted elsewhere reach nobody.",
    example: "GET at Host: mcp.example, then event: endpoint, data: http://10.0.0.7:8000/messages; or a POST to /messages although /messages?session_id=1 was announced",
    remedy: "Announce a path (/messages?session_id=…), and never the inner address behind a proxy. Post to the announced endpoint, including its query.",
    checks: &[Check::Event(post_uri), Check::Any(MESSAGES, &[], posted_elsewhere)],
    ..Rule::BLANK
};

fn post_uri(event: &sse::Event<'_>, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_endpoint = event.kind == Some("endpoint") && history.transport == Transport::HttpSse;
    let Some(host) = mcp.host.as_deref().filter(|_| is_endpoint) else { return };
    let Ok(uri) = std::str::from_utf8(event.data.unwrap_or_default()) else { return };
    let Some((scheme, authority)) = authority(uri.trim()) else { return };
    // RFC 9110 section 4.2.3: "a normalized scheme-based default port is equivalent to
    // a missing one".
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let bare = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    if bare(authority) != bare(host) {
        let announced = &authority[..authority.floor_char_boundary(80)];
        report.add(format!("the stream was requested at {host}, but the endpoint is at {announced}"));
    }
}

fn posted_elsewhere(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(mcp) =
        context.exchange.filter(|_| context.is_from_client() && context.history.transport == Transport::HttpSse)
    else {
        return;
    };
    if let Some(announced) = context.history.endpoint.announced.as_ref().filter(|announced| **announced != mcp.target) {
        let shown = |target: &str| target.chars().take(80).collect::<String>();
        let text = format!("posted to {}, but the stream announced {}", shown(&mcp.target), shown(announced));
        report.add_once(POST_URI.severity, "posted elsewhere", text);
    }
}

static DEPRECATED: Rule = Rule {
    id: "transport-deprecated",
    severity: Severity::Info,
    title: "The session uses HTTP+SSE, which Streamable HTTP replaced",
    spec: "2025-03-26 basic/transports \"Streamable HTTP\" (\"replaces the HTTP+SSE transport\"), \"Backwards Compatibility\"",
    why: "New clients do not support it, and its only stream cannot be resumed.",
    example: "GET /sse, event: endpoint, and 2025-11-25 agreed on",
    remedy: "Serve Streamable HTTP at one path. Offer HTTP+SSE only for old clients.",
    checks: &[
        Check::Any(RESULTS, &[Method::Initialize], deprecated),
        Check::Any(REQUESTS, &[], deprecated_without_handshake),
    ],
    ..Rule::BLANK
};

/// Reported once, at the first handshake. It depends on the agreed revision: for 2024-11-05 there
/// is no other transport.
fn deprecated(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_first = context.history.handshake.answered.is_none() && !context.history.began_without_handshake;
    let given = context.body().text("protocolVersion").and_then(|given| Revision::named(&given));
    let given = given.filter(|given| *given >= V2025_03_26 && context.history.transport == Transport::HttpSse);
    if let Some(given) = given.filter(|_| is_first) {
        report.add(format!("the session uses {} over HTTP+SSE", given.name()));
    }
}

/// Reported at the first request of a session that begins without a handshake: the transport has
/// been replaced since.
fn deprecated_without_handshake(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let history = context.history;
    let is_first = context.is_from_client() && history.messages[Direction::ClientToServer as usize] == 0;
    let is_handshake = context.method == Method::Initialize;
    if is_first && !is_handshake && history.is_whole() && history.transport == Transport::HttpSse {
        report.add("the session uses HTTP+SSE, which 2025-03-26 replaced, and no revision was agreed on");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{findings, fires, session, silent};

    const ENDPOINT: &str = "event: endpoint\ndata: /messages?session_id=1\n\n";

    /// A stream with these events first, and then the handshake.
    fn opened(version: &str, events: &str) -> Vec<String> {
        let handshake = session(version, &[]);
        let post = format!("> POST /messages?session_id=1\nContent-Type: application/json\n\n{}", &handshake[0][2..]);
        let get = "> GET /sse\nAccept: text/event-stream\n\n".to_owned();
        let stream = format!(
            "< 200\nContent-Type: text/event-stream\n\n{events}event: message\ndata: {}\n\n",
            &handshake[1][2..]
        );
        vec![get, stream, post, "< 202\n\nAccepted".to_owned()]
    }

    #[test]
    fn a_stream_begins_with_its_endpoint() {
        let rule = "sse-legacy-endpoint-first";
        fires(rule, &opened("2024-11-05", &format!("event: hello\ndata: 1\n\n{ENDPOINT}")));
        silent(rule, &opened("2024-11-05", &format!(": hello\n\n{ENDPOINT}")));
    }

    #[test]
    fn a_newer_revision_has_a_newer_transport() {
        let spoken = |version: &str| {
            let handshake = session(version, &[]);
            let answer = format!("<_event: message\ndata: {}\n\n", &handshake[1][2..]);
            let [get, _, post, accepted] = opened(version, "").try_into().expect("four steps");
            let head = "<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned();
            let (one, two) = ("@ 1".to_owned(), "@ 2".to_owned());
            [one.clone(), get, format!("{head}{ENDPOINT}"), two, post, accepted, one, answer]
        };
        fires("transport-deprecated", &spoken("2025-11-25"));
        silent("transport-deprecated", &spoken("2024-11-05"));
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        let post = format!("> POST /messages?session_id=1\nContent-Type: application/json\n\n{call}");
        let bare = [opened("2024-11-05", ENDPOINT)[..2].to_vec(), vec![post, "< 202\n\n".to_owned()]].concat();
        fires("transport-deprecated", &bare);
    }

    #[test]
    fn endpoints_have_the_origin_of_their_stream() {
        let rule = "sse-legacy-post-uri";
        let at = |host: &str| opened("2024-11-05", &ENDPOINT.replace("data: ", &format!("data: http://{host}")));
        fires(rule, &at("192.0.2.1:8000"));
        fires(rule, &at("10.0.0.2"));
        silent(rule, &at("10.0.0.2:8000"));
        silent(rule, &opened("2024-11-05", ENDPOINT));
    }

    /// A stream that stays open, and POSTs to these targets.
    fn beside(targets: &[&str]) -> Vec<String> {
        let get = "> GET /sse\nAccept: text/event-stream\n\n".to_owned();
        let stream = format!("<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{ENDPOINT}");
        let mut steps = vec!["@ 1".to_owned(), get, stream, "@ 2".to_owned()];
        for (id, target) in targets.iter().enumerate() {
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            steps.push(format!("> POST {target}\nContent-Type: application/json\n\n{ping}"));
            steps.push("< 202\n\n".to_owned());
        }
        steps
    }

    #[test]
    fn messages_are_posted_to_the_endpoint() {
        let rule = "sse-legacy-post-uri";
        let announced = "/messages?session_id=1";
        silent(rule, &beside(&[announced, announced]));
        let found = fires(rule, &beside(&["/messages"]));
        assert_eq!(found.text, "posted to /messages, but the stream announced /messages?session_id=1");
        fires(rule, &beside(&[announced, "/sse"]));
        let twice = findings(&beside(&["/messages", "/messages?session_id=2", announced]));
        let texts: Vec<&str> = twice.iter().filter(|f| f.rule.id == rule).map(|f| f.text.as_str()).collect();
        assert_eq!(texts, [found.text.as_str(), "posted elsewhere once more, which is not listed"]);
        // Another path belongs to another service.
        silent(rule, &beside(&["/rpc"]));
        // A client may first try Streamable HTTP at the same path.
        let accepts =
            |step: String| step.replace("\nContent", "\nAccept: application/json, text/event-stream\nContent");
        silent(rule, &beside(&["/sse"]).into_iter().map(accepts).collect::<Vec<_>>());
    }
}
