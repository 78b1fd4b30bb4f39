//! Rules about which messages belong on which stream of server-sent events.

use super::is_streamable;
use crate::decode::{Exchange, Kind};
use crate::findings::mcp_exchange::{is_event_stream, is_success};
use crate::findings::{ANSWERS, ASKS, Check, History, MESSAGES, McpExchange, MessageContext, Report, Rule, Severity};
use crate::mcp::revision::Revision::{V2025_03_26, V2025_11_25};
use crate::mcp::{Carrier, Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[&ON_GET, &BROADCAST, &CLOSED_EARLY, &AFTER_RESPONSE];

static ON_GET: Rule = Rule {
    id: "http-response-on-get",
    severity: Severity::Error,
    revisions: Revisions::between(V2025_03_26, V2025_11_25),
    title: "A response was sent on a GET stream that resumes nothing",
    spec: "basic/transports \"Listening for Messages from the Server\" 4: \"The server MUST NOT send a JSON-RPC response on the stream unless resuming a stream\"",
    why: "The client waits for it on the stream of its POST.",
    example: "the result of tools/call on the GET stream",
    remedy: "Send each response on the stream of its request.",
    checks: &[Check::Message(ANSWERS, &[], on_get)],
};

fn on_get(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // The refusal of a GET may be a JSON-RPC error in the body of its response.
    let is_streamed = context.message.carrier == Carrier::SseEvent;
    let is_answer_to_get = is_streamed && context.exchange.is_some_and(|mcp| mcp.is_get && !mcp.resumes);
    if is_answer_to_get && is_streamable(context.history) && !context.is_from_client() {
        report.add(format!("the response to id {} was sent on a GET stream", context.id()));
    }
}

static BROADCAST: Rule = Rule {
    id: "http-message-broadcast",
    severity: Severity::Error,
    revisions: Revisions::between(V2025_03_26, V2025_11_25),
    title: "The server sent one message on several streams",
    spec: "basic/transports \"Multiple Connections\" 2: \"The server MUST send each of its JSON-RPC messages on only one of the connected streams; that is, it MUST NOT broadcast the same message across multiple streams\"",
    why: "The client handles it twice: it asks the user twice, or answers one request twice.",
    example: "sampling/createMessage with \"id\":3 on two streams",
    remedy: "Choose one stream: that of the related request, or one GET stream.",
    checks: &[Check::Message(ASKS, &[], broadcast)],
};

/// The same notification on two streams within this time (in nanoseconds) is one notification.
/// Later it may be a new one.
const AT_ONCE: i64 = 1_000_000_000;

fn broadcast(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(mcp) = context.exchange.filter(|_| !context.is_from_client() && is_streamable(context.history)) else {
        return;
    };
    // A resumed stream repeats messages of the lost one. A server without sessions has streams
    // of several clients.
    if mcp.resumes || context.message.carrier != Carrier::SseEvent || !context.is_one_client() {
        return;
    }
    let Some(said) = context.history.server_messages.same_on_other_stream(context.message) else { return };
    // Requests with the same id are the same request, and progress has each value only once. Two
    // calls may cause the same other notification, but two GET streams may not.
    let at_once = context.message.time.since(said.time) < AT_ONCE;
    let is_one = context.message.kind == Kind::Request
        || at_once && (said.is_get && mcp.is_get || context.method == Method::Progress);
    if is_one {
        let text = format!("message {} on the stream of exchange {} is the same", said.number.0, said.exchange.0);
        report.add_about(&[said.number], text);
    }
}

static CLOSED_EARLY: Rule = Rule {
    id: "http-stream-closed-early",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_03_26),
    title: "The stream of a request ended without its response",
    spec: "basic/transports \"Sending Messages to the Server\" 6: \"The server SHOULD NOT close the SSE stream before sending the JSON-RPC response\"",
    why: "The client waits in vain, or must send the request again.",
    example: "a stream of progress notifications that ends without a result",
    remedy: "Send the response, at least an error, before the stream ends.",
    checks: &[Check::Exchange(closed_early)],
};

fn closed_early(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_stream = is_event_stream(exchange);
    let Some(request) = mcp.request() else { return };
    let in_force = mcp.in_force.map_or(Revisions::ALL, |known| known.revisions);
    // 2025-11-25 allows it after an event id, by which the client resumes.
    let may_resume = mcp.event_counts.has_ids && !in_force.is_disjoint(Revisions::only(V2025_11_25));
    let was_whole = exchange.response.complete && is_success(exchange) && !mcp.is_truncated() && history.is_whole();
    // A cancelled request, or one of a terminated session, is not answered.
    let is_missing = is_stream && was_whole && history.awaits_response(request.number);
    if is_streamable(history) && is_missing && !may_resume && request.method != Method::SubscriptionsListen {
        report.add(format!(
            "the stream of {} (message {}) ended without its answer",
            request.method_name.as_deref().unwrap_or_default(),
            request.number.0
        ));
    }
}

static AFTER_RESPONSE: Rule = Rule {
    id: "http-stream-after-response",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_03_26),
    title: "A message was sent on the stream of a request after its response",
    spec: "basic/transports \"Sending Messages to the Server\" 6: \"After the JSON-RPC response has been sent, the server SHOULD close the SSE stream\"",
    why: "Clients close the stream when the response arrives, and never see later messages.",
    example: "notifications/progress after the result",
    remedy: "Send everything that belongs to a request before its response.",
    checks: &[Check::Message(MESSAGES, &[], after_response)],
};

fn after_response(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(mcp) = context.exchange.filter(|_| !context.is_from_client()) else { return };
    if mcp.received.is_empty() || !is_streamable(context.history) || context.message.batch.is_some() {
        return;
    }
    // A second response has its own rule.
    let is_again = matches!(context.message.kind, Kind::Response | Kind::Error) && context.message.answers.is_none();
    let answered = mcp.answer().filter(|answer| answer.kind != Kind::Invalid && !is_again);
    if let Some(answer) = answered {
        report.add_about(&[answer.number], format!("message {} already answered the request", answer.number.0));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, post, silent};

    const VERSION: &str = "2025-06-18";
    const RESULT: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    const LOG: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n";

    fn streamed(request: &str, events: &str) -> Vec<String> {
        let answer = format!("< 200\nContent-Type: text/event-stream\n\n{events}");
        http_session(VERSION, true, &[request.to_owned(), answer])
    }

    fn ping() -> String {
        post(&header(VERSION, true), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
    }

    #[test]
    fn answers_come_on_the_stream_of_their_request() {
        let get = format!("> GET /mcp\nAccept: text/event-stream\n{}\n", header(VERSION, true));
        fires("http-response-on-get", &streamed(&get, RESULT));
        let resumed = get.replace("\nMcp", "\nLast-Event-ID: 7\nMcp");
        silent("http-response-on-get", &streamed(&resumed, RESULT));
        silent("http-response-on-get", &streamed(&ping(), RESULT));
    }

    #[test]
    fn a_message_is_sent_once() {
        let rule = "http-message-broadcast";
        let get = format!("> GET /mcp\nAccept: text/event-stream\n{}\n", header(VERSION, true));
        let stream = |events: &str| format!("< 200\nContent-Type: text/event-stream\n\n{events}");
        let roots = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n";
        let conversation =
            |first: String, second: String| http_session(VERSION, true, &[get.clone(), first, ping(), second]);
        fires(rule, &conversation(stream(roots), stream(&format!("{roots}{RESULT}"))));
        silent(rule, &conversation(stream(roots), stream(&format!("{}{RESULT}", roots.replace('7', "8")))));
        // Two calls may log the same text.
        silent(rule, &conversation(stream(LOG), stream(&format!("{LOG}{RESULT}"))));
        let both = |wait: &str| {
            http_session(VERSION, true, &[get.clone(), stream(LOG), wait.to_owned(), get.clone(), stream(LOG)])
        };
        fires(rule, &both("+ 1"));
        silent(rule, &both("+ 5000"));
    }

    #[test]
    fn a_stream_ends_with_the_answer() {
        fires("http-stream-closed-early", &streamed(&ping(), LOG));
        fires("http-stream-after-response", &streamed(&ping(), &format!("{RESULT}{LOG}")));
        for rule in ["http-stream-closed-early", "http-stream-after-response"] {
            silent(rule, &streamed(&ping(), &format!("{LOG}{RESULT}")));
        }
    }
}
