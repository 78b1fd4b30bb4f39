//! Rules about event ids and resumed streams (2025-03-26 to 2025-11-25, basic/transports
//! "Resumability and Redelivery").

use crate::capture::Time;
use crate::decode::{Exchange, sse};
use crate::findings::history::{EventStream, content_hash};
use crate::findings::http::is_streamable;
use crate::findings::mcp_exchange::{is_event_stream, is_success};
use crate::findings::{Check, History, McpExchange, Report, Rule, Severity};
use crate::mcp::revision::Revision::{V2025_03_26, V2025_11_25};
use crate::mcp::{Revision, Revisions};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&NOT_UNIQUE, &CROSS_STREAM, &UNKNOWN, &POINTLESS, &RETRY_IGNORED, &PRIMING];

/// Revisions with resumable streams.
const RESUMABLE: Revisions = Revisions::between(V2025_03_26, V2025_11_25);

static NOT_UNIQUE: Rule = Rule {
    id: "sse-event-id-not-unique",
    severity: Severity::Error,
    revisions: RESUMABLE,
    title: "Two different events have the same id",
    spec: "basic/transports \"Resumability and Redelivery\" 1: \"If present, the ID MUST be globally unique across all streams within that session\"",
    why: "A client that resumes after this id gets the events after the other event, or gets nothing.",
    example: "id: 1 for the first event of every stream",
    remedy: "Count over the whole session, or include the stream in the id.",
    checks: &[Check::Event(not_unique)],
};

/// The id that an event sets.
fn id_of<'e>(event: &sse::Event<'e>) -> Option<&'e str> {
    event.id.filter(|id| event.sets_id && !id.is_empty())
}

fn not_unique(event: &sse::Event<'_>, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    // A resumed stream repeats events, which the server may have serialised again.
    let Some(id) = id_of(event).filter(|_| is_streamable(history) && !mcp.resumes) else { return };
    let Some(issued) = history.event_streams.issued(id) else { return };
    // Events without data look alike. On two streams they are different events.
    let is_other = event.data.is_none_or(<[u8]>::is_empty) && issued.stream != mcp.number;
    if is_other || issued.data != content_hash(event.data.unwrap_or_default()) {
        report.add(format!("the id {:?} belongs to another event", &id[..id.floor_char_boundary(80)]));
    }
}

static CROSS_STREAM: Rule = Rule {
    id: "sse-replay-cross-stream",
    severity: Severity::Error,
    revisions: RESUMABLE,
    title: "A resumed stream delivers events of another stream",
    spec: "basic/transports \"Resumability and Redelivery\" 2: \"The server MUST NOT replay messages that would have been delivered on a different stream\"",
    why: "The client gets messages twice, and responses to requests that it made elsewhere.",
    example: "a GET with a Last-Event-ID from one call's stream replays the events of all calls",
    remedy: "Store events by stream. If one store serves the whole session, include the stream in the id.",
    checks: &[Check::Event(cross_stream)],
};

fn cross_stream(event: &sse::Event<'_>, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(id) = id_of(event).filter(|_| is_streamable(history) && mcp.resumes) else { return };
    let streams = &history.event_streams;
    let resumed = streams.carried_by(mcp.number, mcp.last_event_id.as_deref());
    if let (Some(resumed), Some(issued)) = (resumed, streams.issued(id))
        && issued.stream != resumed
    {
        let (first, here) = (issued.stream.0, resumed.0);
        report
            .add(format!("the event was sent on the stream of exchange {first}; that of exchange {here} was resumed"));
    }
}

static UNKNOWN: Rule = Rule {
    id: "sse-last-event-id-unknown",
    severity: Severity::Warning,
    revisions: RESUMABLE,
    title: "Last-Event-ID names an event that was never sent",
    spec: "basic/transports \"Resumability and Redelivery\" 2",
    why: "The server cannot tell which events the client has. It replays nothing, or answers 400.",
    example: "Last-Event-ID: 0 on the first GET",
    remedy: "Send the id of the last received event. Leave out the header if there was none.",
    checks: &[Check::Response(unknown)],
};

fn unknown(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(id) = mcp.last_event_id.as_deref().filter(|_| is_streamable(history)) else { return };
    if history.event_streams.issued(id).is_none() && history.is_whole() && !history.event_streams.has_discarded {
        report.add(format!("no event had the id {:?}", &id[..id.floor_char_boundary(80)]));
    }
}

static POINTLESS: Rule = Rule {
    id: "sse-resume-pointless",
    severity: Severity::Info,
    revisions: RESUMABLE,
    title: "The client resumed a stream whose response it already had",
    spec: "basic/transports \"Sending Messages to the Server\" 6: the stream ends with the response",
    why: "Nothing follows: the request is wasted, and the stream stays open without use.",
    example: "GET with Last-Event-ID after the error that ended the stream",
    remedy: "Resume only while a response is expected.",
    checks: &[Check::Response(pointless)],
};

/// The time at which the request of an exchange began, and the stream that it resumes.
fn resumed<'h>(exchange: &Exchange, mcp: &McpExchange, history: &'h History) -> Option<(Time, &'h EventStream)> {
    let id = mcp.last_event_id.as_deref().filter(|_| is_streamable(history))?;
    let stream = history.event_streams.carried_by(exchange.number, Some(id))?;
    Some((exchange.request.started?, history.event_streams.get(stream)?))
}

fn pointless(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some((requested_at, stream)) = resumed(exchange, mcp, history) else { return };
    if let Some(answered) = stream.answered.filter(|answered| requested_at > *answered) {
        let before = requested_at.since(answered) / 1_000_000;
        report.add(format!("the response arrived {before} ms earlier"));
    }
}

static RETRY_IGNORED: Rule = Rule {
    id: "sse-retry-ignored",
    severity: Severity::Error,
    revisions: Revisions::only(V2025_11_25),
    title: "The client reconnected sooner than retry allows",
    spec: "2025-11-25 basic/transports \"Sending Messages to the Server\" 6: \"The client MUST respect the retry field, waiting the given number of milliseconds before attempting to reconnect\"",
    why: "A server that closes streams so that clients poll gets too many requests.",
    example: "retry: 3000, the end of the stream, and a GET 100 ms later",
    remedy: "Wait for the given time before the GET.",
    checks: &[Check::Response(retry_ignored)],
};

fn retry_ignored(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some((requested_at, stream)) = resumed(exchange, mcp, history) else { return };
    let (Some(retry), Some(closed)) = (stream.retry, stream.closed) else { return };
    let waited = requested_at.since(closed) / 1_000_000;
    // Timers are inaccurate: a tenth and 10 ms of tolerance are allowed.
    let least = i64::try_from(retry).unwrap_or(i64::MAX) / 10 * 9 - 10;
    if (0..least).contains(&waited) {
        report.add(format!("the client waited {waited} ms of {retry} ms"));
    }
}

static PRIMING: Rule = Rule {
    id: "sse-priming-missing",
    severity: Severity::Info,
    revisions: Revisions::only(V2025_11_25),
    title: "A resumable stream has no priming event, or was closed before its response without retry",
    spec: "2025-11-25 basic/transports \"Sending Messages to the Server\" 6: \"The server SHOULD immediately send an SSE event consisting of an event ID and an empty data field\"; SHOULD send retry before it closes the connection",
    why: "A client that loses the connection before the first event has no id to resume from.",
    example: "the first event of a POST's stream has an id and a message as its data",
    remedy: "Send an event with an id and empty data first. Send retry before closing.",
    checks: &[Check::Event(not_primed), Check::Exchange(closed_without_retry)],
};

/// Only if the server uses event ids. Others do not offer resumption.
fn not_primed(event: &sse::Event<'_>, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let has_data = event.data.is_some_and(|data| !data.is_empty());
    let is_first = mcp.event_counts.events == 0 && !mcp.is_get;
    // A client whose header names an older revision than the agreed one is served in that revision.
    // The header has its own rule.
    let stated = mcp.version.as_deref().and_then(Revision::named);
    let may_prime = stated.is_none_or(|stated| stated >= V2025_11_25);
    if is_streamable(history) && is_first && has_data && may_prime && id_of(event).is_some() {
        report.add("the first event has data");
    }
}

fn closed_without_retry(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let is_stream = is_event_stream(exchange);
    let is_closed = is_stream && is_success(exchange) && exchange.response.complete && !mcp.is_truncated();
    // A cancelled request, or one of a terminated session, is not answered. The cancellation may
    // still arrive if packets are out of order.
    let is_open =
        mcp.request().is_some_and(|request| history.awaits_response(request.number)) && !history.earlier_may_follow;
    let served = mcp.event_counts;
    if is_streamable(history) && is_closed && is_open && served.has_ids && !served.has_retry {
        report.add("the stream was closed before the answer, and no event had retry");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, post, silent};

    const VERSION: &str = "2025-11-25";

    fn ask(id: u32) -> String {
        post(
            &header(VERSION, true),
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a"}}}}"#),
        )
    }

    fn result(id: u32) -> String {
        format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n\n")
    }

    fn log(text: &str) -> String {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{text}\"}}}}\n\n"
        )
    }

    fn stream(events: &str) -> String {
        format!("< 200\nContent-Type: text/event-stream\n\n{events}")
    }

    fn resume(last: &str) -> String {
        format!("> GET /mcp\nAccept: text/event-stream\nLast-Event-ID: {last}\n{}\n", header(VERSION, true))
    }

    fn conversation(steps: &[String]) -> Vec<String> {
        http_session(VERSION, true, steps)
    }

    #[test]
    fn ids_name_one_event() {
        let rule = "sse-event-id-not-unique";
        let first = stream(&format!("id: 1\n{}", result(1)));
        fires(rule, &conversation(&[ask(1), first.clone(), ask(2), stream(&format!("id: 1\n{}", result(2)))]));
        silent(rule, &conversation(&[ask(1), first, ask(2), stream(&format!("id: 2\n{}", result(2)))]));
        let primed = |prime: u32, id: u32| stream(&format!("id: {prime}\ndata: \n\n{}", result(id)));
        fires(rule, &conversation(&[ask(1), primed(1, 1), ask(2), primed(1, 2)]));
        silent(rule, &conversation(&[ask(1), primed(1, 1), ask(2), primed(2, 2)]));
    }

    #[test]
    fn a_stream_is_resumed_alone() {
        let rule = "sse-replay-cross-stream";
        let one = stream(&format!("id: a1\ndata:\n\nid: a2\n{}", log("a")));
        let two = stream(&format!("id: b1\ndata:\n\nid: b2\n{}id: b3\n{}", log("b"), result(2)));
        let both = stream(&format!("id: b2\n{}id: a3\n{}", log("b"), result(1)));
        let own = stream(&format!("id: a2\n{}id: a3\n{}", log("a"), result(1)));
        fires(rule, &conversation(&[ask(1), one.clone(), ask(2), two.clone(), resume("a1"), both]));
        silent(rule, &conversation(&[ask(1), one, ask(2), two, resume("a1"), own]));
    }

    #[test]
    fn only_known_events_are_resumed() {
        let one = stream(&format!("id: a1\nretry: 1000\ndata:\n\nid: a2\n{}", log("a")));
        let done = stream(&format!("id: a1\ndata:\n\nid: a2\n{}", result(1)));
        let rest = stream(&format!("id: a3\n{}", result(1)));
        let wait = "+ 1000".to_owned();
        let fine = conversation(&[ask(1), one.clone(), wait, resume("a2"), rest.clone()]);
        fires("sse-last-event-id-unknown", &conversation(&[ask(1), one.clone(), resume("zz"), rest.clone()]));
        fires("sse-resume-pointless", &conversation(&[ask(1), done, resume("a2"), stream(": nothing\n\n")]));
        fires("sse-retry-ignored", &conversation(&[ask(1), one, "+ 100".to_owned(), resume("a2"), rest]));
        for rule in ["sse-last-event-id-unknown", "sse-resume-pointless", "sse-retry-ignored"] {
            silent(rule, &fine);
        }
    }

    #[test]
    fn resumable_streams_are_primed() {
        let rule = "sse-priming-missing";
        fires(rule, &conversation(&[ask(1), stream(&format!("id: 1\n{}", result(1)))]));
        fires(rule, &conversation(&[ask(1), stream("id: 1\ndata:\n\n")]));
        silent(rule, &conversation(&[ask(1), stream(&format!("id: 1\ndata:\n\nid: 2\n{}", result(1)))]));
        silent(rule, &conversation(&[ask(1), stream("id: 1\nretry: 10\ndata:\n\n")]));
        let older = ask(1).replace(VERSION, "2025-06-18");
        silent(rule, &conversation(&[older, stream(&format!("id: 1\n{}", result(1)))]));
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let cancelled = ["@ 1".to_owned(), ask(1), "@ 2".to_owned(), post(&header(VERSION, true), cancel)];
        let ended = ["< 202\n\n".to_owned(), "@ 1".to_owned(), stream("id: 1\ndata:\n\n")];
        silent(rule, &conversation(&[cancelled.as_slice(), &ended].concat()));
        silent(rule, &conversation(&[ask(1), stream(&result(1))]));
    }
}
