//! Tests with small servers on real sockets. A test that would hang fails after [`PATIENCE`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{never, unbounded};

use super::*;
use crate::replay::transport::Next;
use crate::source::tape;
use crate::support::waits::Meeting;

const PATIENCE: Duration = Duration::from_secs(30);

/// A request as the server receives it: its head and its body.
struct ReceivedRequest {
    head: String,
    body: String,
}

impl ReceivedRequest {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
        reader.read_exact(&mut body).ok()?;
        Some(ReceivedRequest { head, body: String::from_utf8(body).expect("text") })
    }

    fn is(&self, method: &str) -> bool {
        self.head.starts_with(method)
    }
}

/// Starts a server that serves each connection on a thread. `answer` writes the response;
/// if it returns false, the connection is not used any more. Returns the number of
/// accepted connections too.
fn serve(
    answer: impl Fn(&ReceivedRequest, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> (Http, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let (accepted, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let count = Arc::clone(&accepted);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut writer = stream.try_clone().expect("a socket");
                let mut reader = BufReader::new(stream);
                while let Some(request) = ReceivedRequest::read(&mut reader)
                    && answer(&request, &mut writer)
                {}
                // The connection stays open, so the rest is read and ignored.
                drop(std::io::copy(&mut reader, &mut std::io::sink()));
            });
        }
    });
    let (tape, _) = tape::tape();
    (Http::open(&url, Mode::Streamable, &ConnectOptions::default(), tape).expect("a transport"), accepted)
}

fn write(stream: &mut TcpStream, text: &str) -> bool {
    stream.write_all(text.as_bytes()).is_ok()
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn accepted() -> &'static str {
    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An event with this message, as an HTTP chunk.
fn event(message: &str) -> String {
    let text = format!("data: {message}\n\n");
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn answer_to(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn call(id: u64) -> Outgoing {
    Outgoing { text: format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#), id: Some(id), ..Outgoing::default() }
}

/// The id of a call.
fn id_of(request: &ReceivedRequest) -> u64 {
    serde_json::from_str::<serde_json::Value>(&request.body).expect("JSON")["id"].as_u64().expect("an id")
}

/// The next text that arrives.
fn next_text(http: &mut Http) -> String {
    match http.next(Instant::now() + PATIENCE, &never()) {
        Next::Arrived(Arrival::Text(text, _)) => String::from_utf8(text).expect("text"),
        other => format!("{other:?}"),
    }
}

#[test]
fn sequential_calls_share_one_connection() {
    let (mut http, connections) = serve(|request, stream| {
        let id = id_of(request);
        match id % 2 {
            0 => write(stream, &json(&answer_to(id))),
            _ => write(stream, &format!("{EVENTS}{}0\r\n\r\n", event(&answer_to(id)))),
        }
    });
    for id in 1..=20 {
        http.send(call(id));
        assert_eq!(next_text(&mut http), answer_to(id));
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[test]
fn parallel_calls_run_at_the_same_time() {
    let all_are_here = Meeting::of(5);
    let (mut http, _) = serve(move |request, stream| {
        all_are_here.attend();
        write(stream, &json(&answer_to(id_of(request))))
    });
    (1..=5).for_each(|id| http.send(call(id)));
    let mut answers: Vec<String> = (1..=5).map(|_| next_text(&mut http)).collect();
    answers.sort();
    assert_eq!(answers, [1, 2, 3, 4, 5].map(answer_to));
}

#[test]
fn later_messages_wait_until_a_notification_is_accepted() {
    let taken = AtomicUsize::new(0);
    let (mut http, _) = serve(move |request, stream| {
        if request.body.contains("\"id\"") {
            let message =
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id_of(request), taken.load(Ordering::SeqCst));
            return write(stream, &json(&message));
        }
        taken.fetch_add(1, Ordering::SeqCst);
        write(stream, accepted())
    });
    for id in 1..=10 {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.to_owned();
        http.send(Outgoing { text, in_order: true, ..Outgoing::default() });
        http.send(call(id));
        assert_eq!(next_text(&mut http), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{id}}}"#));
    }
}

#[test]
fn server_requests_arrive_while_a_call_is_open() {
    let (replied, reply) = unbounded();
    let (asked, ask) = unbounded();
    let (mut http, _) = serve(move |request, stream| {
        if request.is("GET") {
            let question = event(r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#);
            // The server sends the request once the call has arrived.
            ask.recv_timeout(PATIENCE).expect("the call");
            write(stream, &format!("{EVENTS}{question}"));
            return false;
        }
        if request.body.contains("\"method\"") {
            return asked.send(()).is_ok()
                && reply.recv_timeout(PATIENCE).is_ok()
                && write(stream, &json(&answer_to(1)));
        }
        write(stream, accepted()) && replied.send(()).is_ok()
    });
    http.opened("2025-06-18");
    http.send(call(1));
    assert!(next_text(&mut http).contains("ping"));
    http.send(Outgoing { text: r#"{"jsonrpc":"2.0","id":"q","result":{}}"#.to_owned(), ..Outgoing::default() });
    assert_eq!(next_text(&mut http), answer_to(1));
}

#[test]
fn streams_that_go_on_after_their_answer_block_nothing() {
    let (mut http, connections) = serve(|request, stream| {
        // The stream never ends.
        write(stream, &format!("{EVENTS}{}", event(&answer_to(id_of(request)))));
        false
    });
    // There are more of them than connections allowed at once.
    for id in 1..=300 {
        http.send(call(id));
        assert_eq!(next_text(&mut http), answer_to(id));
    }
    assert_eq!(connections.load(Ordering::Relaxed), 300);
}

#[test]
fn last_notifications_are_accepted_before_the_session_ends() {
    let (said, order) = unbounded();
    let (mut http, _) = serve(move |request, stream| {
        let version = request.head.split_once("MCP-Protocol-Version: ").and_then(|(_, rest)| rest.lines().next());
        let method = request.head.split(' ').next().unwrap_or_default();
        said.send(format!("{method} {}", if method == "DELETE" { version.unwrap_or_default() } else { &request.body }))
            .expect("heard");
        if request.body.contains("\"id\"") {
            return write(stream, &json(&answer_to(1)).replacen("\r\n", "\r\nMcp-Session-Id: s-1\r\n", 1));
        }
        write(stream, accepted())
    });
    http.send(call(1));
    assert_eq!(next_text(&mut http), answer_to(1));
    http.opened("2025-11-25");
    for text in ["a", "b"] {
        http.send(Outgoing { text: text.to_owned(), in_order: true, ..Outgoing::default() });
    }
    assert_eq!(Box::new(http).close(), None);
    let order: Vec<String> = order.try_iter().skip(1).filter(|request| !request.starts_with("GET")).collect();
    assert_eq!(order, ["POST a", "POST b", "DELETE 2025-11-25"]);
}

#[test]
fn a_long_message_is_sent_in_parts() {
    let (mut http, _) = serve(|request, stream| {
        let length = request.body.len();
        write(stream, &json(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{length}}}"#)))
    });
    let text = "x".repeat(16 << 20);
    http.send(Outgoing { text, id: Some(1), ..Outgoing::default() });
    assert_eq!(next_text(&mut http), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, 16 << 20));
}

#[test]
fn header_fields_cannot_inject_lines() {
    let (mut http, _) = serve(|request, stream| write(stream, &json(&answer_to(id_of(request)))));
    for (name, value) in [("Mcp-Name", "a\r\nX-Evil: 1"), ("Mcp-Param-a\r\nX-Evil", "1"), ("", "1")] {
        http.send(Outgoing { fields: vec![(name.to_owned(), value.to_owned())], ..call(1) });
        assert!(next_text(&mut http).contains("cannot be sent"), "{name:?}: {value:?}");
    }
    http.send(call(2));
    assert_eq!(next_text(&mut http), answer_to(2), "and the rest goes on");
}

#[test]
fn an_incomplete_response_fails_only_its_call() {
    let (mut http, _) = serve(|request, stream| match id_of(request) {
        // The connection is closed when this returns.
        1 => {
            write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
                && stream.shutdown(std::net::Shutdown::Both).is_err()
        }
        2 => stream.shutdown(std::net::Shutdown::Both).is_err(),
        id => write(stream, &json(&answer_to(id))),
    });
    http.send(call(1));
    assert!(next_text(&mut http).contains("the response is incomplete"));
    http.send(call(2));
    assert!(next_text(&mut http).contains("kind: Message"), "there was a server before");
    http.send(call(3));
    assert_eq!(next_text(&mut http), answer_to(3));
}

#[test]
fn an_error_without_id_belongs_to_the_post() {
    let of = |text: &'static str| error_without_id(text.as_bytes());
    assert_eq!(of(r#"{"jsonrpc":"2.0","error":{"code":1},"id":null}"#), Some(r#"{"code":1}"#));
    assert_eq!(of(r#"{"error":{"code":1}}"#), Some(r#"{"code":1}"#));
    assert_eq!(of(r#"{"error":{"code":1},"id":3}"#), None);
    assert_eq!(of(r#"{"id":null,"result":{}}"#), None);
    assert_eq!(of("Bad Request"), None);
}

#[test]
fn an_answer_is_recognised_by_its_id() {
    assert!(answers(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some("7".to_owned())));
    assert!(answers(br#"[{"jsonrpc":"2.0","id":7,"error":{}}]"#, Some("7".to_owned())));
    assert!(!answers(br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#, Some("7".to_owned())), "a request of the server");
    assert!(!answers(br#"{"jsonrpc":"2.0","id":"7","result":{}}"#, Some("7".to_owned())));
}
