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
fn posted_request(session: &str, id: u32) -> [String; 2] {
    [ask(id, "ping").replace("session_id=a", &format!("session_id={session}")), "< 202".into()]
}

/// A notification that is posted in a Streamable HTTP session and accepted.
fn posted_notification(session: &str) -> [String; 2] {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    [post(&format!("Mcp-Session-Id: {session}\n"), note), "< 202".into()]
}

fn on(connection: u32, steps: &[String]) -> Vec<String> {
    [&[format!("@ {connection}")][..], steps].concat()
}

/// For each message its id or method, its session, and the id of the request that it answers.
fn message_lines(steps: &[Vec<String>]) -> Vec<(String, u32, Option<String>)> {
    let told = messages(&steps.concat());
    let pairs = pairs(&told);
    let name = |message: &Message| message.id.as_deref().or(message.method.as_deref()).unwrap_or_default().to_owned();
    told.iter()
        .zip(&pairs)
        .map(|(m, (_, posted_request))| (name(m), m.session.0, posted_request.map(str::to_owned)))
        .collect()
}

fn sessions_of(steps: &[Vec<String>]) -> Vec<u32> {
    message_lines(steps).into_iter().map(|(_, session, _)| session).collect()
}

#[test]
fn responses_join_the_only_session_that_waits_for_them() {
    let steps = [
        on(1, &posted_request("a", 5)),
        on(2, &posted_request("b", 7)),
        on(3, &[response(7)]),
        on(4, &[response(5), log()]),
    ];
    let told = messages(&steps.concat());
    assert!(told.iter().all(|message| message.transport == Transport::HttpSse || message.answers.is_none()));
    let paired = |id: &str| Some(id.to_owned());
    let log = "notifications/message".to_owned();
    assert_eq!(
        message_lines(&steps)[2..],
        [("7".into(), 2, paired("7")), ("5".into(), 1, paired("5")), (log, 1, None)],
    );
}

#[test]
fn a_stream_without_its_endpoint_is_recognised_by_its_responses() {
    let stream = ["> GET /sse".to_owned(), STREAM.to_owned()];
    let steps = [on(1, &stream), on(2, &posted_request("a", 5)), on(1, &[answer(5), answer(9)])];
    assert_eq!(message_lines(&steps)[1..], [("5".into(), 1, Some("5".into())), ("9".into(), 1, None)]);
}

#[test]
fn responses_that_two_sessions_wait_for_join_neither() {
    let steps = [on(1, &posted_request("a", 5)), on(2, &posted_request("b", 5)), on(3, &[response(5)])];
    assert_eq!(message_lines(&steps)[2], ("5".into(), 3, None));
    // A later response decides.
    let later = [&steps[..], &[on(1, &posted_request("a", 6)), on(3, &[response(6)])]].concat();
    assert_eq!(message_lines(&later)[4], ("6".into(), 1, Some("6".into())));
}

#[test]
fn a_stream_belongs_to_the_only_session_between_two_addresses() {
    assert_eq!(sessions_of(&[on(1, &posted_notification("a")), on(2, &[log(), log()])]), [1, 1, 1]);
    assert_eq!(sessions_of(&[on(2, &[log(), log()]), on(1, &posted_notification("a")), on(2, &[log()])]), [1, 1, 1, 1]);
    assert_eq!(
        sessions_of(&[on(1, &posted_notification("a")), on(3, &posted_notification("b")), on(2, &[log(), log()])]),
        [1, 2, 3, 3]
    );
    assert_eq!(
        sessions_of(&[on(2, &[log()]), on(1, &posted_notification("a")), on(3, &posted_notification("b"))]),
        [1, 1, 2]
    );
}

#[test]
fn a_stream_that_was_open_before_belongs_to_no_session_that_begins() {
    let begun = session("2025-06-18", &[]);
    let begin = [post("", &begun[0][2..]), json(200, "Mcp-Session-Id: a\n", &begun[1][2..])];
    assert_eq!(sessions_of(&[on(1, &begin), on(2, &[log()])]), [1, 1, 2]);
    assert_eq!(sessions_of(&[on(2, &[log()]), on(1, &begin)]), [1, 2, 2]);
}

/// The request was lost, and only one session can have sent it.
#[test]
fn an_answer_without_its_request_belongs_to_the_only_session() {
    let begun = session("2025-06-18", &[]);
    let begin = [post("", &begun[0][2..]), json(200, "Mcp-Session-Id: a\n", &begun[1][2..])];
    let answer = json(200, "", r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    assert_eq!(message_lines(&[on(1, &begin), on(2, &[answer])])[2], ("5".into(), 1, None));
}

/// The request was sent on that stream before the capture began, so the id proves nothing.
#[test]
fn a_response_on_a_stream_whose_request_was_not_captured_has_no_request() {
    let asks = post("Mcp-Session-Id: a\n", r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(message_lines(&[on(1, &[asks]), on(2, &[response(5)])])[1], ("5".into(), 1, None));
}

#[test]
fn the_answer_to_a_known_request_is_its_answer_without_a_head() {
    let asks = post("Mcp-Session-Id: a\n", r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(message_lines(&[on(1, &[asks, response(5)])])[1], ("5".into(), 1, Some("5".into())));
}

#[test]
fn an_event_without_its_beginning_is_discarded() {
    let rest = "<_\"}}\r\n\r\n\r\n".to_owned();
    assert_eq!(sessions_of(&[on(1, &posted_notification("a")), on(2, &[rest, log()])]), [1, 1]);
    let others = chunk(r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[]}"#);
    assert_eq!(sessions_of(&[on(1, &posted_notification("a")), on(2, &[others.clone(), others, log()])]), [1, 1]);
}

/// The text of a request was lost, but not its head and its response.
#[test]
fn an_answer_whose_request_was_lost_belongs_to_the_session_that_its_head_names() {
    let handshake = session("2025-06-18", &[]);
    let lost = on(1, &[post("", "?"), json(200, "Mcp-Session-Id: a\n", &handshake[1][2..])]);
    assert_eq!(sessions_of(&[lost.clone(), on(2, &posted_notification("a"))]), [1, 1]);
    assert_eq!(sessions_of(&[on(2, &posted_notification("a")), lost.clone()]), [1, 1]);
    // Neither a request of another client with that id nor its session is meant.
    let other = on(3, &[post("", &handshake[0][2..])]);
    let told = message_lines(&[other, lost, on(2, &posted_notification("a"))]);
    let note = "notifications/roots/list_changed".to_owned();
    assert_eq!(told, [("0".into(), 1, None), ("0".into(), 2, None), (note, 2, None)]);
}
