//! Tests of conversations over several connections.

use super::{Input, Pipeline, PipelineConfig};
use crate::capture::Dropped;
use crate::capture::Time;
use crate::event::{Detail, Event};
use crate::findings::testing::{events, events_with, findings, http_session, json, modern, post, session};
use crate::mcp::{Message, Transport};

mod midway;
mod proportion;
mod silent_exchanges;

const STREAM: &str = "<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const ENDPOINT: &str = "<_event: endpoint\ndata: /messages?session_id=a\n\n";

fn ask(id: u32, method: &str) -> String {
    let params = r#"{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"n","version":"1"}}"#;
    format!(
        "> POST /messages?session_id=a\nContent-Type: application/json\n\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
    )
}

fn answer(id: u32) -> String {
    format!("<_event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n\n")
}

/// The messages of an HTTP+SSE conversation: the stream on the first connection, requests
/// on the second.
fn messages(steps: &[String]) -> Vec<Message> {
    let said = events(steps).into_iter();
    said.filter_map(|event| if let Event::Message(message) = event { Some(*message) } else { None }).collect()
}

/// The id of each message, and the id of the request that it answers.
fn pairs(messages: &[Message]) -> Vec<(&str, Option<&str>)> {
    let id = |message: &Message| messages.iter().find(|m| m.number == message.number).and_then(|m| m.id.as_deref());
    let asked = |message: &Message| messages.iter().find(|m| Some(m.number) == message.answers).and_then(id);
    messages.iter().map(|message| (message.id.as_deref().unwrap_or("-"), asked(message))).collect()
}

fn opened(steps: &[&[String]]) -> Vec<String> {
    let begin = ["> GET /sse".into(), STREAM.into(), ENDPOINT.into(), "@ 2".into(), ask(0, "initialize")];
    let rest = ["< 202".into(), "@ 0".into(), answer(0)];
    [&begin[..], &rest[..], &steps.concat()].concat()
}

/// A stream names a session whose id no response has assigned so far, and then carries events
/// without messages. They are held after its first message, which is released when there are too
/// many (`arrivals.rs` asserts the bound).
#[test]
fn events_behind_a_held_message_are_bounded_and_not_lost() {
    let handshake = session("2025-06-18", &[]);
    let head = "<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let ask = "data: {\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"roots/list\"}\n\n";
    let begun = ["@ 1".into(), post("", &handshake[0][2..]), "@ 4".into()];
    let stream = ["> GET /mcp\nMcp-Session-Id: a\n".into(), format!("{head}{ask}")];
    let noise: Vec<String> = (0..100).map(|_| format!("<_{}", "id: 1\n\n".repeat(20))).collect();
    let told = messages(&[&begun[..], &stream[..], &noise].concat());
    let methods: Vec<Option<&str>> = told.iter().map(|message| message.method.as_deref()).collect();
    assert_eq!(methods, [Some("initialize"), Some("roots/list")]);
}

#[test]
fn a_response_captured_before_its_request_waits_for_it() {
    let told = messages(&opened(&[&[answer(1), "@ 2".into(), ask(1, "tools/list"), "< 202".into()]]));
    assert_eq!(pairs(&told), [("0", None), ("0", Some("0")), ("1", None), ("1", Some("1"))]);
    assert_eq!(told[3].method.as_deref(), Some("tools/list"));
    assert!(told[3].packets < told[2].packets, "it was captured first");
}

/// Progress and cancellations are held for the request that they refer to, and are emitted between
/// it and its response.
#[test]
fn progress_and_cancellations_captured_before_their_request_wait_for_it() {
    let event = |body: &str| format!("<_event: message\ndata: {body}\n\n");
    let progress = |token: &str| {
        event(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        ))
    };
    let sent = |body: &str| format!("> POST /messages?session_id=a\nContent-Type: application/json\n\n{body}");
    let call =
        sent(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p"}}}"#);
    let cancel = sent(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let posted = |body: &str, connection: u8| [format!("@ {connection}"), body.to_owned(), "< 202".into()];
    let early = [&[progress("\"p\"")], &posted(&cancel, 3)[..], &["@ 0".into(), answer(1)], &posted(&call, 2)].concat();
    let told = messages(&opened(&[&early]));
    let said: Vec<&str> = told.iter().skip(2).filter_map(|message| message.method.as_deref()).collect();
    assert_eq!(said, ["tools/call", "notifications/progress", "notifications/cancelled", "tools/call"]);
    assert!(told.iter().skip(3).all(|message| message.packets < told[2].packets), "they were captured first");
    assert_eq!(told[5].answers, Some(told[2].number));
    let operations: Vec<_> = told[3..].iter().map(|message| message.operation).collect();
    assert_eq!(operations, [Some(told[2].number); 3]);

    // A reference to no request is emitted at once, and so is a reference to an answered one.
    let unknown = [&posted(&call, 2)[..], &["@ 0".into(), answer(1), progress("\"p\""), progress("7")]].concat();
    let told = messages(&opened(&[&unknown, &posted(&sent(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#), 2)]));
    let said: Vec<&str> = told.iter().skip(2).filter_map(|message| message.method.as_deref()).collect();
    let progress = "notifications/progress";
    assert_eq!(said, ["tools/call", "tools/call", progress, "ping", progress]);
    assert!(told[4].raw.ends_with(br#""progressToken":"p","progress":1}}"#));
}

/// A stream may stay open for hours. A reader of the store sees it meanwhile.
#[test]
fn an_exchange_that_is_open_at_a_tick_is_emitted_for_a_store() {
    let steps = opened(&[&["@ 2".into(), ask(1, "ping"), "< 202".into(), "@ 0".into(), answer(1)]]);
    let said = |detail, ticks| {
        let events = events_with(&steps, PipelineConfig { detail, ..PipelineConfig::default() }, ticks);
        let exchange = |event: Event| match event {
            Event::Head(open) => Some((open.number.0, true, open.status)),
            Event::Exchange(over) => Some((over.number.0, false, over.status)),
            _ => None,
        };
        events.into_iter().filter_map(exchange).collect::<Vec<_>>()
    };
    let ends = [(2, false, Some(202)), (3, false, Some(202)), (1, false, Some(200))];
    assert_eq!(said(Detail::Store, false), ends, "without a clock what is over counts");
    assert_eq!(said(Detail::Messages, true), ends);
    let mut open = said(Detail::Store, true);
    open.retain(|(number, is_open, _)| *number == 1 || !is_open);
    assert_eq!(open, [&[(1, true, Some(200))], &ends[..]].concat(), "once for all that came of it");
}

#[test]
fn a_response_without_a_request_is_emitted_alone_and_a_second_one_at_once() {
    let second = [answer(0), "@ 2".into(), ask(0, "ping"), "< 202".into()];
    let told = messages(&opened(&[&second]));
    assert_eq!(pairs(&told)[2..], [("0", None), ("0", None)], "the next question is another");
    let nothing =
        [answer(7), "@ 2".into(), ask(1, "ping"), "+ 11000".into(), "< 202".into(), ask(7, "ping"), "< 202".into()];
    let told = messages(&opened(&[&nothing]));
    assert_eq!(pairs(&told)[2..], [("1", None), ("7", None), ("7", None)], "ten seconds are enough");
}

#[test]
fn requests_captured_before_the_endpoint_is_announced_belong_to_its_session() {
    let steps = ["> GET /sse".into(), STREAM.into(), "@ 2".into(), ask(0, "initialize"), "< 202".into(), "@ 0".into()];
    let told = messages(&[&steps[..], &[ENDPOINT.into(), answer(0)]].concat());
    assert_eq!(pairs(&told), [("0", None), ("0", Some("0"))]);
    assert_eq!((told[0].session, told[1].transport), (told[1].session, Transport::HttpSse));
}

/// A server may redirect after the head, while the text of the request is still in transit.
#[test]
fn a_request_redirected_before_its_text_stays_in_its_session() {
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#;
    let head =
        format!(">_POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    let redirect =
        "<_HTTP/1.1 307 Temporary Redirect\r\nLocation: http://h/mcp/\r\nContent-Length: 0\r\n\r\n".to_owned();
    let answer =
        "< 200\nMcp-Session-Id: a\nContent-Type: application/json\n\n{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}"
            .to_owned();
    let first = [head, redirect, format!(">_{body}")];
    let again = [format!("> POST /mcp/\nContent-Type: application/json\n\n{body}"), answer];
    let told = messages(&[&first[..], &again[..]].concat());
    assert_eq!(pairs(&told), [("0", None), ("0", None), ("0", Some("0"))]);
    assert_eq!(told[2].answers, Some(told[1].number), "the first was not taken");
    assert!(told.iter().all(|message| message.session == told[0].session));
}

/// Packets of several connections are out of order: the first request of a session precedes the
/// `initialize` that began it, and a response precedes its request. Another client
/// begins another session meanwhile.
#[test]
fn a_session_opened_by_its_id_is_the_one_of_a_later_initialize() {
    let id = "Mcp-Session-Id: a\n";
    let named = |body: &str| post(id, body);
    let begin = |id: &str| {
        let handshake = session("2025-06-18", &[]);
        [post("", &handshake[0][2..]), json(200, &format!("Mcp-Session-Id: {id}\n"), &handshake[1][2..])]
    };
    let initialized = named(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let early = named(r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#);
    let asked = "<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: a\r\n\r\n\
                 data: {\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"roots/list\"}\n\n";
    let first = [vec![initialized, "< 202".into(), early, "< 202".into(), "@ 1".into()], begin("a").to_vec()];
    let second = [vec!["@ 2".into(), format!("> GET /mcp\n{id}"), asked.into(), "@ 3".into()], begin("b").to_vec()];
    let told = messages(&[first.concat(), second.concat()].concat());
    let homes: Vec<(&str, u32)> =
        told.iter().map(|message| (message.method.as_deref().unwrap_or("-"), message.session.0)).collect();
    let wanted = [
        ("notifications/initialized", 1),
        ("initialize", 1),
        ("initialize", 1),
        ("roots/list", 1),
        ("roots/list", 1),
        ("initialize", 2),
        ("initialize", 2),
    ];
    assert_eq!(homes, wanted);
    assert_eq!(told[4].answers, Some(told[3].number));
    assert!(told.iter().all(|message| !message.packets.is_empty()), "each names its packets");
}

/// Two clients of one host begin at once. A request, its response and a stream of one of them
/// precede the responses that assign the ids. Each is held for its own session.
#[test]
fn a_session_named_before_its_id_was_assigned_is_the_one_that_gets_it() {
    let handshake = session("2025-06-18", &[]);
    let ask = |connection: u8| [format!("@ {connection}"), post("", &handshake[0][2..])];
    let answer = |connection: u8, id: &str| {
        [format!("@ {connection}"), json(200, &format!("Mcp-Session-Id: {id}\n"), &handshake[1][2..])]
    };
    let call = [
        "@ 3".into(),
        post("Mcp-Session-Id: b\n", r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#),
        json(200, "Mcp-Session-Id: b\n", r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#),
    ];
    let stream = [
        "@ 4".into(),
        "> GET /mcp\nMcp-Session-Id: a\n".into(),
        "<_HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
         data: {\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"roots/list\"}\n\n"
            .into(),
    ];
    let begun = [ask(1), ask(2)].concat();
    let early = [&call[..], &stream[..]].concat();
    let answers = [answer(1, "a"), answer(2, "b")].concat();
    let told = messages(&[begun.clone(), early.clone(), answers].concat());
    let homes: Vec<(&str, u32)> =
        told.iter().map(|message| (message.method.as_deref().unwrap_or("-"), message.session.0)).collect();
    let wanted = [
        ("initialize", 1),
        ("initialize", 2),
        ("roots/list", 1),
        ("initialize", 1),
        ("tools/list", 2),
        ("tools/list", 2),
        ("initialize", 2),
    ];
    assert_eq!(homes, wanted);
    assert_eq!(told[5].answers, Some(told[4].number));
    assert!(told.iter().all(|message| !message.packets.is_empty()), "each names its packets");

    // Where one response was not captured, its session is the only one that can have the id. Where
    // neither was, no session gets it.
    let told = messages(&[begun.clone(), early.clone(), answer(1, "a").to_vec()].concat());
    assert_eq!(told.len(), 6);
    assert_eq!(told[5].session, told[1].session, "the second is the only one that waits");
    let told = messages(&[begun, early].concat());
    let sessions: Vec<u32> = told.iter().map(|message| message.session.0).collect();
    assert_eq!(sessions, [1, 2, 3, 3, 4]);
}

/// Two clients of one host use a server of both eras. The requests of the client without
/// `initialize` do not join the session of the other.
#[test]
fn clients_of_two_eras_at_one_address_have_separate_sessions() {
    let handshake = session("2025-11-25", &[]);
    let modern = |connection: u8, id: u8| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{}}}"#, modern(""));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#);
        [format!("@ {connection}"), post("MCP-Protocol-Version: 2026-07-28\n", &body), json(200, "", &answer)]
    };
    let begins = ["@ 2".into(), post("", &handshake[0][2..])];
    let begun = ["@ 2".into(), json(200, "Mcp-Session-Id: a\n", &handshake[1][2..])];
    let told = messages(&[&modern(1, 1)[..], &begins, &modern(1, 2), &modern(3, 3), &begun, &modern(3, 4)].concat());
    let sessions: Vec<u32> = told.iter().map(|message| message.session.0).collect();
    assert_eq!(sessions, [1, 1, 2, 1, 1, 1, 1, 2, 1, 1]);
    assert_eq!(told[7].answers, Some(told[2].number));
}

/// The connection of the `initialize` may be released later, because its beginning is not known at
/// once. By its time it came first.
#[test]
fn a_late_initialize_begins_the_session_of_earlier_requests() {
    let handshake = session("2025-06-18", &[]);
    let call = [
        "+ 1000".into(),
        "@ 2".into(),
        post("", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#),
    ];
    let begins = |later: i64| {
        [format!("+ {later}"), "@ 1".into(), post("", &handshake[0][2..]), json(200, "", &handshake[1][2..])]
    };
    let sessions = |steps: &[String]| messages(steps).iter().map(|message| message.session.0).collect::<Vec<_>>();
    assert_eq!(sessions(&[&call[..], &begins(-900)].concat()), [1, 1, 1, 1]);
    assert_eq!(sessions(&[&call[..], &begins(0)].concat()), [1, 1, 2, 2], "it begins another");
    assert_eq!(sessions(&[&begins(0)[..], &call, &begins(-900)].concat()), [1, 1, 1, 1, 2, 2], "the session has begun");
}

/// Messages after a late `initialize` cause no finding.
#[test]
fn messages_before_a_late_initialize_cause_no_finding() {
    let handshake = session("2025-03-26", &[]);
    let begins = ["@ 1".into(), post("", &handshake[0][2..]), json(200, "", &handshake[1][2..])];
    let goes_on = [
        "@ 2".into(),
        post("", &handshake[2][2..]),
        "< 202".into(),
        post("", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        json(200, "", r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#),
    ];
    // Seconds and segments later, it is known that the capture joined the first connection midway.
    let [asked, answered] = ["> GET /".to_owned(), "< 204".to_owned()];
    let elsewhere = ["@ 9".into(), asked.clone(), answered.clone(), asked, answered];
    let later = [
        "@ 2".into(),
        "+ 8100".into(),
        post("", r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#),
        json(200, "", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
        post("", r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#),
        json(200, "", r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#),
    ];
    let goes_on = [&goes_on[..], &elsewhere].concat();
    let steps = [&["~ 1".into()], &begins[..], &goes_on, &later].concat();
    let told = messages(&steps);
    let methods: Vec<&str> = told.iter().filter_map(|message| message.method.as_deref()).collect();
    let initialized = "notifications/initialized";
    let [list, begin, ping] = ["tools/list", "initialize", "ping"];
    assert_eq!(methods, [initialized, list, list, begin, begin, ping, ping, list, list]);
    assert!(told.iter().all(|message| message.session == told[0].session));
    let accused = |steps: &[String]| findings(steps).into_iter().any(|found| found.rule.layer() == "lifecycle");
    assert!(!accused(&steps), "{:#?}", findings(&steps));
    // The same in a session with an id.
    let named = |steps: &[String]| -> Vec<String> {
        steps.iter().map(|step| step.replace("Accept:", "Mcp-Session-Id: a\nAccept:")).collect()
    };
    let assigned = ["@ 1".into(), begins[1].clone(), json(200, "Mcp-Session-Id: a\n", &handshake[1][2..])];
    assert!(!accused(&[&["~ 1".into()], &assigned[..], &named(&goes_on), &named(&later)].concat()));
    assert!(accused(&[&goes_on[..], &begins, &later].concat()), "it comes behind");
}

/// HTTP+SSE streams differ only in their endpoints. A stream whose endpoint was lost does not join
/// another stream's session.
#[test]
fn a_stream_without_its_endpoint_joins_no_other_session() {
    let event = "<_event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n";
    let other = ["@ 7".into(), "> GET /sse".into(), STREAM.into(), event.into(), event.into()];
    let told = messages(&opened(&[&[event.into()], &other]));
    let sessions: Vec<u32> = told.iter().map(|message| message.session.0).collect();
    assert_eq!(sessions, [1, 1, 1, 2, 2]);
}

#[test]
fn dropped_packets_are_reported_with_their_times() {
    let mut pipeline = Pipeline::new(PipelineConfig::default());
    let mut told = Vec::new();
    let times = (Time(0), Time(1_500_000_000));
    pipeline.push(Input::Dropped(Dropped { packets: 7, times }), &mut |event| {
        if let Event::Finding(finding) = event {
            told.push((finding.rule.id, finding.text));
        }
    });
    let text = "7 packets captured from 1970-01-01T00:00:00Z to 1970-01-01T00:00:01.5Z were not recorded".to_owned();
    assert_eq!(told, [("capture-dropped", text)]);
}

/// The sessions that messages belong to.
fn sessions_of(steps: &[String]) -> Vec<u32> {
    messages(steps).iter().map(|message| message.session.0).collect()
}

/// A client that posts to `http://` each time and is redirected to `https://`.
#[test]
fn a_session_whose_requests_are_redirected_to_another_port_is_one() {
    let handshake = session("2025-06-18", &[]);
    let moved = "< 307\nLocation: https://10.0.0.2:8443/mcp\n\n".to_owned();
    let exchange = |headers: &str, request: &str, response: String| {
        let ask = post(headers, request);
        ["@ 1".to_owned(), ask.clone(), moved.clone(), "@ 901".to_owned(), ask, response]
    };
    let id = "Mcp-Session-Id: a\nMCP-Protocol-Version: 2025-06-18\n";
    let ping = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let pong = |id: u32| json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let begin = exchange("", &handshake[0][2..], json(200, "Mcp-Session-Id: a\n", &handshake[1][2..]));
    let steps = [begin, exchange(id, &ping(1), pong(1)), exchange(id, &ping(2), pong(2))].concat();
    assert_eq!(sessions_of(&steps), [1; 9]);
    assert!(!findings(&steps).iter().any(|finding| finding.severity == crate::findings::Severity::Error));
}

#[test]
fn a_refused_get_opens_no_session() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Not Acceptable"}}"#;
    let refused = ["> GET /mcp\n".to_owned(), json(406, "Mcp-Session-Id: b\n", error)];
    assert_eq!(sessions_of(&[&refused[..], &http_session("2025-06-18", true, &[])].concat()), [1, 1, 1]);
}

/// A client that speaks both eras asks `server/discover` first ("Backwards Compatibility" of
/// 2026-07-28).
#[test]
fn a_refused_probe_and_the_handshake_after_it_are_one_session() {
    let ask = format!(r#"{{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{}}}"#, modern(""));
    let error = r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"Method not found"}}"#;
    let header = "MCP-Protocol-Version: 2026-07-28\nMcp-Method: server/discover\n";
    let probe = [post(header, &ask), json(400, "", error)];
    let begun = http_session("2025-06-18", true, &[]);
    assert_eq!(sessions_of(&[&probe[..], &begun].concat()), [1; 5]);
    let elsewhere = [&probe[..], &["@ 2".to_owned()], &begun].concat();
    assert_eq!(sessions_of(&elsewhere), [1, 1, 2, 2, 2], "another connection proves nothing");
    let last = events(&[&probe[..], &begun].concat()).into_iter().rev().find_map(|event| match event {
        Event::Session(session) => session.protocol_version,
        _ => None,
    });
    assert_eq!(last.as_deref(), Some("2025-06-18"));
}
