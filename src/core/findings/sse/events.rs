//! Rules about the data and the type of events.

use crate::decode::jsonrpc::{self, JsonRpcText};
use crate::decode::{Exchange, sse};
use crate::findings::http::is_streamable;
use crate::findings::mcp_exchange::is_event_stream;
use crate::findings::{Check, History, INVALID, McpExchange, MessageContext, Report, Rule, Severity};
use crate::mcp::{Carrier, Revisions, Transport};

pub(in crate::findings) const RULES: &[&Rule] = &[&NOT_JSONRPC, &EVENT_TYPE, &ID_IN_MODERN, &BUFFERING];

static NOT_JSONRPC: Rule = Rule {
    id: "sse-data-not-jsonrpc",
    severity: Severity::Error,
    title: "The data of a server-sent event is not a JSON-RPC message",
    spec: "basic/transports \"Sending Messages to the Server\" 6; 2024-11-05 basic/transports \"HTTP with SSE\"",
    why: "Clients fail to parse it. Some log an error, others end the stream.",
    example: "data: {} where a priming event was replayed",
    remedy: "To keep a stream alive, send comments (a line that begins with a colon). To prime it, send an empty data line.",
    checks: &[Check::Any(INVALID, &[], not_jsonrpc)],
    ..Rule::BLANK
};

fn not_jsonrpc(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.message.carrier == Carrier::SseEvent && context.message.batch.is_none() {
        report.add(format!("the event's {} bytes of data are not a message", context.message.raw.len()));
    }
}

static EVENT_TYPE: Rule = Rule {
    id: "sse-event-type",
    severity: Severity::Warning,
    title: "A server-sent event has a type that MCP does not define",
    spec: "2024-11-05 basic/transports \"HTTP with SSE\": events endpoint and message; WHATWG HTML section 9.2.6",
    why: "Official clients accept events without a type and events of type message. They drop all others.",
    example: "event: response, with a JSON-RPC result as its data",
    remedy: "Leave out the event line, or use message.",
    checks: &[Check::Event(event_type)],
    ..Rule::BLANK
};

fn event_type(event: &sse::Event<'_>, _: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(kind) = event.kind.filter(|kind| *kind != "message") else { return };
    let Some(data) = event.data.filter(|data| !data.is_empty()) else { return };
    if kind == "endpoint" && history.transport == Transport::HttpSse {
        return;
    }
    let kind = &kind[..kind.floor_char_boundary(40)];
    match jsonrpc::parse(data, 64, 64) {
        // An MCP client loses nothing if this event is not a message.
        JsonRpcText::Invalid(_) => {
            report.add_as(Severity::Info, format!("an event of type {kind:?}, which clients drop"))
        }
        _ => report.add(format!("a message in an event of type {kind:?}, which clients drop")),
    }
}

static ID_IN_MODERN: Rule = Rule {
    id: "sse-id-in-modern",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "Event ids or retry times, which this revision does not have",
    spec: "2026-07-28 changelog 9; basic/transports/streamable-http \"Receiving Messages\"",
    why: "Clients no longer resume streams, so the server stores events for nobody.",
    example: "id: 7 before data under 2026-07-28",
    remedy: "Leave both out. Tasks and subscriptions replace them.",
    checks: &[Check::Exchange(id_in_modern)],
};

fn id_in_modern(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let what = match (mcp.event_counts.has_ids, mcp.event_counts.has_retry) {
        (true, true) => "ids and retry times",
        (true, false) => "ids",
        (false, true) => "retry times",
        (false, false) => return,
    };
    if is_streamable(history) {
        report.add(format!("the stream has {what}"));
    }
}

static BUFFERING: Rule = Rule {
    id: "sse-buffering-header",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "A stream of events without X-Accel-Buffering: no",
    spec: "2026-07-28 basic/transports/streamable-http \"Receiving Messages\": servers SHOULD send X-Accel-Buffering: no",
    why: "A reverse proxy may hold events back until the stream ends.",
    example: "Content-Type: text/event-stream without X-Accel-Buffering",
    remedy: "Add the header to every response that is a stream.",
    checks: &[Check::Response(buffering)],
};

/// Reported only at the first stream of a session. The others show the same omission. A GET has no
/// stream in these revisions.
fn buffering(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_stream = !mcp.is_get && is_event_stream(exchange);
    let is_buffered = exchange.response.fields.get("x-accel-buffering") != Some("no");
    if is_streamable(history) && is_stream && is_buffered && history.event_streams.buffered == 0 {
        report.add("the response has no such header");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, modern, post, silent};

    const VERSION: &str = "2025-06-18";
    const RESULT: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";

    fn streamed(events: &str) -> Vec<String> {
        let ping = post(&header(VERSION, true), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let answer = format!("< 200\nContent-Type: text/event-stream\n\n{events}");
        http_session(VERSION, true, &[ping, answer])
    }

    #[test]
    fn events_carry_messages() {
        fires("sse-data-not-jsonrpc", &streamed(&format!("data: {{}}\n\n{RESULT}")));
        silent("sse-data-not-jsonrpc", &streamed(&format!("id: 1\ndata:\n\n: alive\n\n{RESULT}")));
        let rule = "sse-event-type";
        assert_eq!(fires(rule, &streamed(&format!("event: result\n{RESULT}"))).severity.name(), "warning");
        assert_eq!(fires(rule, &streamed(&format!("event: ping\ndata: 7\n\n{RESULT}"))).severity.name(), "info");
        silent(rule, &streamed(&format!("event: message\n{RESULT}")));
    }

    #[test]
    fn streams_of_the_stateless_revision() {
        let request = |head: &str, events: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, modern(""));
            let ask = post("MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/list\n", &body);
            vec![ask, format!("< 200\nContent-Type: text/event-stream\n{head}\n{events}")]
        };
        fires("sse-id-in-modern", &request("", &format!("id: 1\n{RESULT}")));
        fires("sse-id-in-modern", &request("", &format!("retry: 10\n\n{RESULT}")));
        silent("sse-id-in-modern", &request("", RESULT));
        fires("sse-buffering-header", &request("", RESULT));
        silent("sse-buffering-header", &request("X-Accel-Buffering: no\n", RESULT));
    }
}
