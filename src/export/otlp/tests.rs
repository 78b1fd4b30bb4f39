use proptest::prelude::*;
use serde_json::json;

use super::attributes::LONGEST;
use super::calls::{MAX_EVENT_BYTES, OPEN};
use super::proto::{CLIENT, ERROR};
use super::*;
use crate::export::testing::store;
use crate::mcp::{Message, Party, SessionNumber};
use crate::test_messages;

/// The lines that are exported for a conversation.
fn lines(session: &Session, messages: &[Message], wanted: Option<&BTreeSet<MessageNumber>>) -> Vec<serde_json::Value> {
    let reader = store(session, messages, []);
    let saved = reader.session(SessionNumber(1)).unwrap().expect("it was saved");
    let mut out = Vec::new();
    write_session(&reader, &saved, wanted, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

/// The spans of a conversation except that of the session, each with the name of its resource.
fn spans(conversation: &str) -> Vec<(String, serde_json::Value)> {
    let messages = test_messages::read(conversation);
    let party = |name: &str| Some(Party { name: name.to_owned(), version: "1".to_owned() });
    let session = Session { client: party("host"), server: party("server"), ..test_messages::session(&messages) };
    spans_of(&lines(&session, &messages, None))
}

fn spans_of(lines: &[serde_json::Value]) -> Vec<(String, serde_json::Value)> {
    let mut spans = Vec::new();
    for line in lines {
        let resource = &line["resourceSpans"][0];
        let name = resource["resource"]["attributes"][0]["value"]["stringValue"].as_str().expect("a name");
        for span in resource["scopeSpans"][0]["spans"].as_array().expect("spans") {
            if span["kind"] == CLIENT {
                spans.push((name.to_owned(), span.clone()));
            }
        }
    }
    spans
}

fn attribute<'v>(of: &'v serde_json::Value, key: &str) -> &'v serde_json::Value {
    let all = of["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&serde_json::Value::Null, |found| {
        found["value"].as_object().expect("a value").values().next().expect("one")
    })
}

#[test]
fn a_call_with_its_progress_is_one_span() {
    let spans = spans(
        r#"
        -> {"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"add","_meta":{"progressToken":7}}}
        <- {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2,"message":"half"}}
        <- {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":8,"progress":1}}
        -> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a\u0062","reason":"late"}}
        <- {"jsonrpc":"2.0","id":"a\u0062","result":{"content":[],"isError":true}}
        "#,
    );
    let [(resource, span)] = spans.as_slice() else { panic!("one span: {spans:?}") };
    assert_eq!((&**resource, &span["name"]), ("host", &json!("tools/call add")));
    assert_eq!((&span["startTimeUnixNano"], &span["endTimeUnixNano"]), (&json!("0"), &json!("4000000")));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("jsonrpc.request.id", "ab"),
        ("gen_ai.tool.name", "add"),
        ("gen_ai.operation.name", "execute_tool"),
        ("error.type", "tool_error"),
        ("service.peer.name", "server"),
        ("mcptap.outcome", "tool-error"),
        ("mcptap.answer", "5"),
    ] {
        assert_eq!(attribute(span, key), value, "{key}");
    }
    assert_eq!(span["status"], json!({ "code": ERROR }));
    let events = span["events"].as_array().expect("events");
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["name"], &events[0]["timeUnixNano"]), (&json!("notifications/progress"), &json!("1000000")));
    assert_eq!(
        (attribute(&events[0], "mcptap.total"), attribute(&events[0], "mcptap.message")),
        (&json!(2), &json!("half"))
    );
    assert_eq!(attribute(&events[1], "mcptap.reason"), "late");
}

#[test]
fn errors_have_their_code_and_what_the_server_asks_is_its_own() {
    let spans = spans(
        r#"
        -> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}
        <- {"jsonrpc":"2.0","id":1,"method":"roots/list"}
        <- {"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no such file"}}
        -> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
        -> {"jsonrpc":"2.0","id":2,"method":"ping"}
        "#,
    );
    let named: Vec<_> =
        spans.iter().map(|(resource, span)| (&**resource, span["name"].as_str().expect("a name"))).collect();
    assert_eq!(named, [("host", "resources/read"), ("host", "ping"), ("server", "roots/list")]);
    let [(_, read), (_, ping), _] = spans.as_slice() else { panic!("three spans") };
    assert_eq!(read["status"], json!({ "code": ERROR, "message": "no such file" }));
    assert_eq!(
        (attribute(read, "rpc.response.status_code"), attribute(read, "error.type")),
        (&json!("-32002"), &json!("-32002"))
    );
    assert_eq!(attribute(read, "mcp.resource.uri"), "file:///a");
    assert_eq!((attribute(ping, "mcptap.outcome"), ping.get("status")), (&json!("unanswered"), None));
}

#[test]
fn a_request_that_belongs_to_a_trace_stays_in_it() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let spans = spans(&format!(
        r#"
        -> {{"id":1,"method":"ping","params":{{"_meta":{{"traceparent":"00-{trace}-00f067aa0ba902b7-01","tracestate":"a=b"}}}}}}
        -> {{"id":2,"method":"ping","params":{{"_meta":{{"traceparent":"00-{trace}","tracestate":"a=b"}}}}}}
        "#
    ));
    let [(_, known), (_, unknown)] = spans.as_slice() else { panic!("two spans") };
    assert_eq!((&known["traceId"], &known["parentSpanId"]), (&json!(trace), &json!("00f067aa0ba902b7")));
    assert_eq!((&known["traceState"], &known["flags"]), (&json!("a=b"), &json!(1)));
    assert_ne!(unknown["traceId"], trace);
    assert_eq!(unknown.get("traceState"), None);
}

/// Each of very many requests is one span with its response. Its id is unique and the same
/// in every export.
#[test]
fn more_requests_than_are_held_are_spans_all_the_same() {
    let requests = OPEN + 100;
    let asked = (0..requests).map(|id| format!(r#"-> {{"id":{id},"method":"ping"}}"#));
    let answered = (0..requests).map(|id| format!(r#"<- {{"id":{id},"result":{{}}}}"#));
    let messages = test_messages::read(&asked.chain(answered).collect::<Vec<_>>().join("\n"));
    let session = test_messages::session(&messages);
    let spans = spans_of(&lines(&session, &messages, None));
    assert_eq!(spans.len(), requests);
    for (_, span) in &spans {
        let number = |key| attribute(span, key).as_str().expect("a number").parse::<usize>().expect("a number");
        assert_eq!(number("mcptap.answer"), number("mcptap.request") + requests);
    }
    let ids: BTreeSet<_> = spans.iter().map(|(_, span)| span["spanId"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), requests);
    assert_eq!(spans, spans_of(&lines(&session, &messages, None)));
    let wanted = BTreeSet::from([MessageNumber(1), MessageNumber(7)]);
    assert_eq!(spans_of(&lines(&session, &messages, Some(&wanted))).len(), 2);
}

/// The memory for notifications about open calls is bounded, and dropped ones are counted.
#[test]
fn more_events_than_are_held_are_counted() {
    let (requests, each, text) = (150, 100, "x".repeat(LONGEST));
    let asked = (0..requests)
        .map(|id| format!(r#"-> {{"id":{id},"method":"ping","params":{{"_meta":{{"progressToken":{id}}}}}}}"#));
    let notifications = (0..requests * each).map(|at| {
        let (token, method) = (at % requests, "notifications/progress");
        format!(r#"<- {{"method":"{method}","params":{{"progressToken":{token},"progress":1,"message":"{text}"}}}}"#)
    });
    let messages = test_messages::read(&asked.chain(notifications).collect::<Vec<_>>().join("\n"));
    let (mut written, mut bytes, mut dropped) = (0, 0, 0);
    for (_, span) in spans_of(&lines(&test_messages::session(&messages), &messages, None)) {
        let events = span["events"].as_array().expect("events");
        written += events.len();
        bytes += events.iter().map(|event| event.to_string().len()).sum::<usize>();
        dropped += span["droppedEventsCount"].as_u64().expect("a number") as usize;
    }
    assert_eq!(written + dropped, requests * each);
    assert!(dropped > 0 && bytes < MAX_EVENT_BYTES + 2 * LONGEST && bytes > MAX_EVENT_BYTES / 2, "{bytes}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_gives_valid_spans_with_short_attributes(text in ".{0,2000}", token in any::<String>()) {
        let (text, token) = (json!(text), json!(token));
        let conversation = format!(
            r#"
            -> {{"jsonrpc":"2.0","id":{text},"method":"tools/call","params":{{"name":{text},"_meta":{{"progressToken":{token},"traceparent":{text}}}}}}}
            <- {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"message":{text},"progress":1e999}}}}
            <- {{"jsonrpc":"2.0","id":{text},"error":{{"code":{text},"message":{text}}}}}
            "#
        );
        let messages = test_messages::read(&conversation);
        for (_, span) in spans_of(&lines(&test_messages::session(&messages), &messages, None)) {
            let event = span["events"].as_array().into_iter().flatten();
            for attribute in event.chain([&span]).flat_map(|of| of["attributes"].as_array().expect("attributes")) {
                let value = attribute["value"].as_object().expect("a value");
                prop_assert_eq!(value.len(), 1);
                let text = value.get("stringValue").and_then(|text| text.as_str()).unwrap_or_default();
                prop_assert!(text.len() <= LONGEST);
            }
        }
    }
}
