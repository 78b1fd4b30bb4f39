//! Conversations as bytes in and bytes out: cut anywhere, and hostile.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::conversation::Conversation;
use super::fuzz::{self, Passed, fuzz_proxy, talk_with};
use super::{Proxy, Record};
use crate::decode::Direction::{self, ClientToServer, ServerToClient};
use crate::http::connect::Options;
use crate::source::tape::{LostBytes, tape};
use crate::support::pipes::patient;
use crate::support::waits::joined;

fn talk() -> Conversation {
    talk_with(&["mine.test"]).unwrap()
}

impl Passed {
    fn text(&self, direction: Direction) -> &str {
        std::str::from_utf8(&self.said[direction as usize]).unwrap()
    }
}

/// Passes on what both sides say, in pieces of at most this size.
fn pass(said: &[(Direction, &[u8])], size: usize) -> Passed {
    fuzz::pass(talk(), said, size)
}

/// Everything that HTTP/1 has: a length, chunks with trailers, an interim answer, pipelined requests, events, HEAD, no answer body, an upgrade.
const LONG: &[(Direction, &str)] = &[
    (
        ClientToServer,
        "\r\nPOST /mcp HTTP/1.1\r\nhOST:  localhost:9000 \r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ),
    (ServerToClient, "HTTP/1.1 100 Continue\r\n\r\n"),
    (ClientToServer, "Host:GET /a HTTP/1.0\r\nX: Host: a\r\n\r\n"),
    (
        ServerToClient,
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: HTTPS://API.example:8443/mcp/?a#b\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        ServerToClient,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\nLocation: https://api.example:\r\n0\r\nt: 1\r\n\r\n",
    ),
    (
        ClientToServer,
        "POST /b HTTP/1.1\r\nHost: [::1]:9000\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nHost: t\r\n\r\n",
    ),
    (
        ClientToServer,
        "HEAD /c HTTP/1.1\r\nHost: mine.test\r\n\r\nGET /d HTTP/1.1\r\nHost: 10.0.0.1\r\nUpgrade: websocket\r\n\r\n",
    ),
    (
        ServerToClient,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n",
    ),
    (ServerToClient, "HTTP/1.1 201 Created\r\nContent-Length: 99\r\nLocation: https://api.example:8443\r\n\r\n"),
    (
        ServerToClient,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02HTTP/1.1 302 Found\r\nLocation: https://api.example:8443/\r\n\r\n",
    ),
    (ClientToServer, "\x03GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
];

fn long() -> Vec<(Direction, &'static [u8])> {
    LONG.iter().map(|(direction, text)| (*direction, text.as_bytes())).collect()
}

#[test]
fn names_of_places_change_and_nothing_else() {
    let passed = pass(&long(), usize::MAX);
    let all =
        |wanted| LONG.iter().filter(|(direction, _)| *direction == wanted).map(|(_, text)| *text).collect::<String>();
    let asked = all(ClientToServer)
        .replace("  localhost:9000 ", "  api.example:8443 ")
        .replace("[::1]:9000", "api.example:8443")
        .replace("mine.test", "api.example:8443")
        .replace("10.0.0.1", "api.example:8443")
        .replace("1.0\r\n", "1.0\r\nHost: api.example:8443\r\n");
    // Each redirect names the proxy as the client had called it last.
    let answered = all(ServerToClient)
        .replace("HTTPS://API.example:8443/mcp/?a#b", "http://localhost:9000/mcp/?a#b")
        .replacen("Location: https://api.example:8443\r\n\r\nHTTP", "Location: http://10.0.0.1\r\n\r\nHTTP", 1);
    assert_eq!(passed.text(ClientToServer), asked);
    assert_eq!(passed.text(ServerToClient), answered);
    assert_eq!(passed.refused, None);
}

#[test]
fn what_cannot_be_read_without_a_guess_is_refused() {
    let host = "Host: localhost\r\n";
    let long = "x".repeat(70_000);
    let (chunked, length) = ("Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n");
    for (status, head) in [
        (400, format!("POST / HTTP/1.1\r\n{host}{chunked}{length}\r\nabc")),
        (400, format!("POST / HTTP/1.1\r\n{host}{length}{length}\r\nabc")),
        (400, format!("POST / HTTP/1.1\r\n{host}Content-Length: 3, 3\r\n\r\nabc")),
        (400, format!("POST / HTTP/1.1\r\n{host}Content-Length: +3\r\n\r\nabc")),
        (400, format!("POST / HTTP/1.1\r\n{host}Content-Length: 99999999999999999999999\r\n\r\n")),
        (400, format!("POST / HTTP/1.1\r\n{host}Content-Length : 3\r\n\r\nabc")),
        (400, format!("POST / HTTP/1.1\r\n{host}Content-Length:\r\n\r\n")),
        (501, format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n")),
        (501, format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: \x0bchunked\r\n\r\n")),
        (501, format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: identity\r\n\r\n")),
        (501, format!("POST / HTTP/1.1\r\n{host}{chunked}{chunked}\r\n")),
        (400, format!("POST / HTTP/1.0\r\n{host}{chunked}\r\n0\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\r\n{host}X: a\r\n b\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\r\n{host}X: a\rContent-Length: 3\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\r\n{host}X: a\0\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\r\n{host}nonsense\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\n{host}\r\n")),
        (400, format!("GET / HTTP/1.1\r\n{host}\n")),
        (400, format!("GET  / HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET / a HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET / HTTP/1.2\r\n{host}\r\n")),
        (400, format!("GET /\x7f HTTP/1.1\r\n{host}\r\n")),
        (400, format!("GET http://localhost/ HTTP/1.1\r\n{host}\r\n")),
        (400, format!("CONNECT localhost:1 HTTP/1.1\r\n{host}\r\n")),
        (400, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (400, format!("GET / HTTP/1.1\r\n{host}{host}\r\n")),
        (421, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned()),
        (400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (400, "\x16\x03\x01 no HTTP at all\r\n".to_owned()),
        (431, format!("GET / HTTP/1.1\r\n{host}X: {long}\r\n\r\n")),
    ] {
        for size in [usize::MAX, 7, 1] {
            // A request before it is passed on, and has its answer.
            let first = "GET /first HTTP/1.0\r\nHost: localhost\r\n\r\n";
            let passed = pass(&[(ClientToServer, format!("{first}{head}").as_bytes())], size);
            assert_eq!(passed.text(ClientToServer), first.replace("localhost", "api.example:8443"), "{head:.200}");
            assert_eq!(passed.refused, Some((status, false)), "{head:.200} {size}");
        }
    }
}

#[test]
fn a_body_that_breaks_off_its_framing_is_passed_on_no_further() {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (good, bad) in [("3\r\nabc\r\n", "nonsense\r\n"), ("3\r\nabc", "d\r\n0\r\n\r\n"), ("0\r\n", "no field\r\n\r\n")]
    {
        for size in [usize::MAX, 1] {
            let passed = pass(&[(ClientToServer, format!("{head}{good}{bad}GET / HTTP/1.1\r\n\r\n").as_bytes())], size);
            let wanted = format!("{head}{good}").replace("localhost", "api.example:8443");
            assert_eq!(passed.text(ClientToServer), wanted, "{bad}");
            assert_eq!(passed.refused, Some((400, true)), "{bad}");
        }
    }
}

#[test]
fn redirects_past_the_proxy_are_told_once() {
    for (place, away) in [
        ("http://api.example:8443/mcp", true),
        ("https://api.example/mcp", true),
        ("https://other.example:8443/mcp", true),
        ("//api.example:8443/mcp", false),
        ("/mcp", false),
        ("", false),
    ] {
        let mut talk = talk();
        talk.push(ClientToServer, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = format!("HTTP/1.1 308 Permanent Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n");
        talk.push(ServerToClient, answer.as_bytes());
        let mut out = Vec::new();
        talk.take(ServerToClient, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), answer);
        assert_eq!(talk.away(), away.then(|| place.to_owned()));
        assert_eq!(talk.away(), None);
    }
}

#[test]
fn only_heads_and_lines_of_framing_are_held() {
    let mut talk = talk();
    let mut taken = |direction, text: &str| {
        talk.push(direction, text.as_bytes());
        let mut out = Vec::new();
        talk.take(direction, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(taken(ClientToServer, "GET /sse HTTP/1.1\r\nHost: localhost\r\n"), "");
    assert_eq!(taken(ClientToServer, "\r\n"), "GET /sse HTTP/1.1\r\nHost: api.example:8443\r\n\r\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(taken(ServerToClient, head), head);
    // It may be told only once it is certain that no address is announced.
    assert_eq!(taken(ServerToClient, "8\r\n"), "");
    assert_eq!(taken(ServerToClient, "data"), "8\r\ndata");
    for text in [": ", "x\n", "\r\n", "1\r\n", "\n", "\r\n", "f\r\n", "event: endpoint", "\r\n"] {
        assert_eq!(taken(ServerToClient, text), text);
    }
}

/// What becomes of a stream of events, in pieces of at most this size.
fn announced(head: &str, body: &str, size: usize) -> String {
    let asked = b"GET /sse HTTP/1.1\r\nHost: localhost:90\r\n\r\n";
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
    let passed = pass(&[(ClientToServer, asked), (ServerToClient, answer.as_bytes())], size);
    passed.text(ServerToClient).split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn chunk(text: &str) -> String {
    format!("{:x};x=y\r\n{text}\r\n", text.len())
}

#[test]
fn an_address_at_the_server_is_one_at_the_proxy() {
    let (events, chunked) = ("Content-Type: text/event-stream\r\n", "Transfer-Encoding: chunked\r\n");
    let whole = "https://api.example:8443/messages?a=1";
    for (start, end) in
        [("event: endpoint\ndata: ", "\n\n: and more"), ("event:endpoint\r\ndata:", "\r\n\r\ndata: x\r\n\r\n")]
    {
        let [sent, wanted] =
            [whole, "http://localhost:90/messages?a=1"].map(|address| format!("{start}{address}{end}"));
        let (first, rest) = sent.split_at(9);
        for size in [1, 5, usize::MAX] {
            assert_eq!(announced(events, &sent, size), wanted, "until the end");
            let text = announced(&format!("{events}{chunked}"), &format!("{}0\r\n\r\n", chunk(&sent)), size);
            assert_eq!(text, format!("{}0\r\n\r\n", chunk(&wanted)));
            let text = announced(&format!("{events}{chunked}"), &(chunk(first) + &chunk(rest)), size);
            assert_eq!(text, chunk(first) + &chunk(&wanted[9..]));
        }
    }
}

#[test]
fn all_else_in_streams_stays() {
    let events = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
    let event = |address: &str| chunk(&format!("event: endpoint\ndata: {address}\n\n"));
    let whole = event("https://api.example:8443/m");
    for (head, body) in [
        (events, event("/messages?a=1")),
        (events, event("https://other.example/m")),
        (events, event("")),
        (events, event(&format!("https://api.example:8443/{}", "x".repeat(5_000)))),
        (events, chunk(": ping\n\n") + &whole),
        (events, chunk("event: message\n") + &whole),
        (events, chunk("event: endpoints\ndata: https://api.example:8443/m\n\n")),
        (events, chunk("event: endpoint\ndata: https://api.ex") + &chunk("ample:8443/m\n\n")),
        (events, "nonsense\r\n".to_owned() + &whole),
        (events, "15\r\nevent: endpoint\nda".to_owned()),
        ("Content-Type: text/event-stream\r\nContent-Encoding: x\r\n", whole.clone()),
        ("Content-Type: text/plain\r\n", whole.clone()),
    ] {
        for size in [1, usize::MAX] {
            assert_eq!(announced(head, &body, size), body, "{body:.100}");
        }
    }
}

#[test]
fn a_server_that_is_no_http_is_for_the_client_to_judge() {
    for said in ["\x16\x03\x01\x02\0", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\n\nno length", "HTTP/1.1 200 OK\r\nX\r\n\r\n"]
    {
        for size in [usize::MAX, 1] {
            let asked = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let passed = pass(&[(ClientToServer, asked), (ServerToClient, said.as_bytes())], size);
            assert_eq!(passed.text(ServerToClient), said);
        }
    }
}

/// What a client that sends this and no more, and keeps the connection, is told by a proxy without any patience.
fn told(sent: &str) -> String {
    let (listener, (tape, _spool)) = (TcpListener::bind("127.0.0.1:0").unwrap(), tape());
    let record = Record { tape, loss: LostBytes::default() };
    let mut proxy = Proxy::new("http://127.0.0.1:1/", &Options::default(), Vec::new(), record).unwrap();
    proxy.patience = Duration::from_millis(20);
    let mut client = patient(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    client.write_all(sent.as_bytes()).unwrap();
    let (stop, _goes_on) = std::os::unix::net::UnixStream::pair().unwrap();
    let relay = thread::spawn(move || proxy.relay(stop.as_fd(), listener.accept().unwrap().0));
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    drop(client);
    joined(relay, "the end of a connection");
    told
}

#[test]
fn nobody_holds_a_connection_by_being_slow() {
    assert_eq!(told(""), "");
    for sent in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let told = told(sent);
        assert!(told.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{told}");
    }
}

#[test]
fn a_signal_ends_a_connection() {
    let (listener, (tape, _spool)) = (TcpListener::bind("127.0.0.1:0").unwrap(), tape());
    let record = Record { tape, loss: LostBytes::default() };
    let proxy = Proxy::new("http://127.0.0.1:1/", &Options::default(), Vec::new(), record).unwrap();
    let mut client = patient(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let (stop, mut signal) = std::os::unix::net::UnixStream::pair().unwrap();
    let relay = thread::spawn(move || proxy.relay(stop.as_fd(), listener.accept().unwrap().0));
    signal.write_all(b"X").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    joined(relay, "the end of a connection");
}

/// Pieces of what clients and servers say.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = LONG.iter().flat_map(|(_, text)| text.split_inclusive("\r\n")).map(|line| line.as_bytes().to_vec());
    prop_oneof![
        4 => proptest::sample::select(known.collect::<Vec<_>>()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

/// What is said, as the fuzzer scripts it; whether the client says it.
fn script<'a>(steps: impl Iterator<Item = (bool, &'a [u8])>) -> Vec<u8> {
    let pieces = steps.flat_map(|(asked, bytes)| bytes.chunks(255).map(move |piece| (asked, piece)));
    pieces.flat_map(|(asked, piece)| [&[u8::from(!asked), piece.len() as u8], piece].concat()).collect()
}

#[test]
fn seeds_hold() {
    for seed in
        [long(), vec![(ClientToServer, b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n"), (ServerToClient, b"")]]
    {
        let seed = script(seed.iter().map(|(direction, bytes)| (*direction == ClientToServer, *bytes)));
        (0..=seed.len()).for_each(|end| fuzz_proxy(&seed[..end]));
    }
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_bytes(size in 1..200usize) {
        prop_assert_eq!(pass(&long(), size), pass(&long(), usize::MAX));
    }

    #[test]
    fn any_conversation_holds(steps in proptest::collection::vec((any::<bool>(), fragment()), 0..30)) {
        fuzz_proxy(&script(steps.iter().map(|(asked, bytes)| (*asked, bytes.as_slice()))));
    }

    #[test]
    fn any_bytes_hold(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_proxy(&data);
    }
}
