//! Tests of event streams that were open before the capture began, each on a connection of its own.

use super::*;

/// An event as a chunk of its stream.
fn chunk(data: &str) -> String {
    let event = format!("event: message\r\ndata: {data}\r\n\r\n");
    format!("<_{:x}\r\n{event}\r\n", event.len())
}

fn response(id: u32) -> String {
    chunk(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
}

fn log() -> String {
    chunk(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#)
}

/// A request that is posted to the endpoint of an HTTP+SSE session and accepted.
fn asked(session: &str, id: u32) -> [String; 2] {
    [ask(id, "ping").replace("session_id=a", &format!("session_id={session}")), "< 202".into()]
}

/// A notification that is posted in a Streamable HTTP session and accepted.
fn noted(session: &str) -> [String; 2] {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    [post(&format!("Mcp-Session-Id: {session}\n"), note), "< 202".into()]
}

fn on(connection: u32, steps: &[String]) -> Vec<String> {
    [&[format!("@ {connection}")][..], steps].concat()
}

/// For each message its id or method, its session, and the id of the request that it answers.
fn said(steps: &[Vec<String>]) -> Vec<(String, u32, Option<String>)> {
    let told = messages(&steps.concat());
    let pairs = pairs(&told);
    let name = |message: &Message| message.id.as_deref().or(message.method.as_deref()).unwrap_or_default().to_owned();
    told.iter().zip(&pairs).map(|(m, (_, asked))| (name(m), m.session.0, asked.map(str::to_owned))).collect()
}

fn homes(steps: &[Vec<String>]) -> Vec<u32> {
    said(steps).into_iter().map(|(_, session, _)| session).collect()
}

#[test]
fn answers_find_the_session_that_alone_waits_for_them() {
    let steps = [on(1, &asked("a", 5)), on(2, &asked("b", 7)), on(3, &[response(7)]), on(4, &[response(5), log()])];
    let told = messages(&steps.concat());
    assert!(told.iter().all(|message| message.transport == Transport::HttpSse || message.answers.is_none()));
    let paired = |id: &str| Some(id.to_owned());
    let log = "notifications/message".to_owned();
    assert_eq!(said(&steps)[2..], [("7".into(), 2, paired("7")), ("5".into(), 1, paired("5")), (log, 1, None)],);
}

#[test]
fn a_stream_whose_announcement_was_lost_is_known_by_its_answers() {
    let stream = ["> GET /sse".to_owned(), STREAM.to_owned()];
    let steps = [on(1, &stream), on(2, &asked("a", 5)), on(1, &[answer(5), answer(9)])];
    assert_eq!(said(&steps)[1..], [("5".into(), 1, Some("5".into())), ("9".into(), 1, None)]);
}

#[test]
fn answers_that_two_sessions_wait_for_are_nobodys() {
    let steps = [on(1, &asked("a", 5)), on(2, &asked("b", 5)), on(3, &[response(5)])];
    assert_eq!(said(&steps)[2], ("5".into(), 3, None));
    // A later response decides.
    let later = [&steps[..], &[on(1, &asked("a", 6)), on(3, &[response(6)])]].concat();
    assert_eq!(said(&later)[4], ("6".into(), 1, Some("6".into())));
}

#[test]
fn a_stream_belongs_to_the_only_session_between_two_addresses() {
    assert_eq!(homes(&[on(1, &noted("a")), on(2, &[log(), log()])]), [1, 1, 1]);
    assert_eq!(homes(&[on(2, &[log(), log()]), on(1, &noted("a")), on(2, &[log()])]), [1, 1, 1, 1]);
    assert_eq!(homes(&[on(1, &noted("a")), on(3, &noted("b")), on(2, &[log(), log()])]), [1, 2, 3, 3]);
    assert_eq!(homes(&[on(2, &[log()]), on(1, &noted("a")), on(3, &noted("b"))]), [1, 1, 2]);
}

#[test]
fn a_stream_that_was_open_before_belongs_to_no_session_that_begins() {
    let begun = session("2025-06-18", &[]);
    let begin = [post("", &begun[0][2..]), json(200, "Mcp-Session-Id: a\n", &begun[1][2..])];
    assert_eq!(homes(&[on(1, &begin), on(2, &[log()])]), [1, 1, 2]);
    assert_eq!(homes(&[on(2, &[log()]), on(1, &begin)]), [1, 2, 2]);
}

/// The request was lost, and only one session can have sent it.
#[test]
fn an_answer_without_its_request_belongs_to_the_only_session() {
    let begun = session("2025-06-18", &[]);
    let begin = [post("", &begun[0][2..]), json(200, "Mcp-Session-Id: a\n", &begun[1][2..])];
    let answer = json(200, "", r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(said(&[on(1, &begin), on(2, &[answer])])[2], ("5".into(), 1, None));
}

/// The request was sent on that stream before the capture began, so the id proves nothing.
#[test]
fn an_answer_on_the_stream_of_a_request_that_was_not_seen_has_none() {
    let asks = post("Mcp-Session-Id: a\n", r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(said(&[on(1, &[asks]), on(2, &[response(5)])])[1], ("5".into(), 1, None));
}

#[test]
fn the_answer_to_a_known_request_is_its_answer_without_a_head() {
    let asks = post("Mcp-Session-Id: a\n", r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(said(&[on(1, &[asks, response(5)])])[1], ("5".into(), 1, Some("5".into())));
}

#[test]
fn an_event_of_which_the_beginning_was_not_captured_is_none() {
    let rest = "<_\"}}\r\n\r\n\r\n".to_owned();
    assert_eq!(homes(&[on(1, &noted("a")), on(2, &[rest, log()])]), [1, 1]);
    let others = chunk(r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[]}"#);
    assert_eq!(homes(&[on(1, &noted("a")), on(2, &[others.clone(), others, log()])]), [1, 1]);
}

/// The text of a request was lost, but not its head and its response.
#[test]
fn an_answer_whose_request_was_lost_belongs_to_the_session_that_its_head_names() {
    let handshake = session("2025-06-18", &[]);
    let lost = on(1, &[post("", "?"), json(200, "Mcp-Session-Id: a\n", &handshake[1][2..])]);
    assert_eq!(homes(&[lost.clone(), on(2, &noted("a"))]), [1, 1]);
    assert_eq!(homes(&[on(2, &noted("a")), lost.clone()]), [1, 1]);
    // Neither a request of another client with that id nor its session is meant.
    let other = on(3, &[post("", &handshake[0][2..])]);
    let told = said(&[other, lost, on(2, &noted("a"))]);
    let note = "notifications/roots/list_changed".to_owned();
    assert_eq!(told, [("0".into(), 1, None), ("0".into(), 2, None), (note, 2, None)]);
}
