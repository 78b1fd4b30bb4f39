//! Tests of conversations as bytes in and bytes out: cut at any place, and with hostile input.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proptest::prelude::*;

use super::conversation::Conversation;
use super::fuzz::{self, PassedBytes, conversation_with, fuzz_proxy};
use super::{Proxy, TrafficRecorder};
use crate::decode::Direction::{self, ClientToServer, ServerToClient};
use crate::http::connect::ConnectOptions;
use crate::http::slots::Slot;
use crate::source::tape::{LostBytes, tape};
use crate::support::pipes::patient;
use crate::support::waits::joined;

fn conversation() -> Conversation {
    conversation_with(&["mine.test"]).unwrap()
}

impl PassedBytes {
    fn text(&self, direction: Direction) -> &str {
        std::str::from_utf8(&self.bytes[direction as usize]).unwrap()
    }
}

/// Forwards the bytes of both sides in pieces of at most `size` bytes.
fn pass(sent: &[(Direction, &[u8])], size: usize) -> PassedBytes {
    fuzz::pass(conversation(), sent, size)
}

/// All features of HTTP/1: a length, chunks with trailers, an interim response, pipelined requests,
/// events, HEAD, a response without a body, an upgrade.
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
fn only_addresses_change() {
    let passed = pass(&long(), usize::MAX);
    let all =
        |wanted| LONG.iter().filter(|(direction, _)| *direction == wanted).map(|(_, text)| *text).collect::<String>();
    let requested = all(ClientToServer)
        .replace("  localhost:9000 ", "  api.example:8443 ")
        .replace("[::1]:9000", "api.example:8443")
        .replace("mine.test", "api.example:8443")
        .replace("10.0.0.1", "api.example:8443")
        .replace("1.0\r\n", "1.0\r\nHost: api.example:8443\r\n");
    // Each redirect uses the name by which the client last called the proxy.
    let answered = all(ServerToClient)
        .replace("HTTPS://API.example:8443/mcp/?a#b", "http://localhost:9000/mcp/?a#b")
        .replacen("Location: https://api.example:8443\r\n\r\nHTTP", "Location: http://10.0.0.1\r\n\r\nHTTP", 1);
    assert_eq!(passed.text(ClientToServer), requested);
    assert_eq!(passed.text(ServerToClient), answered);
    assert_eq!(passed.refused, None);
}

#[test]
fn ambiguous_requests_are_refused() {
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
            // The request before it is forwarded.
            let first = "GET /first HTTP/1.0\r\nHost: localhost\r\n\r\n";
            let passed = pass(&[(ClientToServer, format!("{first}{head}").as_bytes())], size);
            assert_eq!(passed.text(ClientToServer), first.replace("localhost", "api.example:8443"), "{head:.200}");
            assert_eq!(passed.refused, Some((status, false)), "{head:.200} {size}");
        }
    }
}

#[test]
fn a_body_with_broken_framing_is_forwarded_no_further() {
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
fn redirects_past_the_proxy_are_reported_once() {
    for (place, away) in [
        ("http://api.example:8443/mcp", true),
        ("https://api.example/mcp", true),
        ("https://other.example:8443/mcp", true),
        ("http://127.0.0.1:9/cb?state=1&code=abc#access_token=d", true),
        ("//api.example:8443/mcp", false),
        ("/mcp", false),
        ("", false),
    ] {
        let mut conversation = conversation();
        conversation.push(ClientToServer, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = format!("HTTP/1.1 308 Permanent Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n");
        conversation.push(ServerToClient, answer.as_bytes());
        let mut out = Vec::new();
        conversation.take(ServerToClient, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), answer);
        assert_eq!(
            conversation.rewriter.bypass.take(),
            away.then(|| {
                // It is printed, so its secrets are masked.
                place.replace("code=abc", "code=***").replace("token=d", "token=*")
            })
        );
        assert_eq!(conversation.rewriter.bypass.take(), None);
    }
}

#[test]
fn only_heads_and_framing_lines_are_buffered() {
    let mut conversation = conversation();
    let mut taken = |direction, text: &str| {
        conversation.push(direction, text.as_bytes());
        let mut out = Vec::new();
        conversation.take(direction, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(taken(ClientToServer, "GET /sse HTTP/1.1\r\nHost: localhost\r\n"), "");
    assert_eq!(taken(ClientToServer, "\r\n"), "GET /sse HTTP/1.1\r\nHost: api.example:8443\r\n\r\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(taken(ServerToClient, head), head);
    // Nothing is forwarded until it is certain that no address is announced.
    assert_eq!(taken(ServerToClient, "8\r\n"), "");
    assert_eq!(taken(ServerToClient, "data"), "8\r\ndata");
    for text in [": ", "x\n", "\r\n", "1\r\n", "\n", "\r\n", "f\r\n", "event: endpoint", "\r\n"] {
        assert_eq!(taken(ServerToClient, text), text);
    }
}

/// The body of an event stream after the proxy, in pieces of at most `size` bytes.
fn announced(head: &str, body: &str, size: usize) -> String {
    let requested = b"GET /sse HTTP/1.1\r\nHost: localhost:90\r\n\r\n";
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
    let passed = pass(&[(ClientToServer, requested), (ServerToClient, answer.as_bytes())], size);
    passed.text(ServerToClient).split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn chunk(text: &str) -> String {
    format!("{:x};x=y\r\n{text}\r\n", text.len())
}

#[test]
fn an_announced_server_address_becomes_the_proxys() {
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
fn all_other_stream_content_is_unchanged() {
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
fn a_server_without_http_is_forwarded_unchanged() {
    for sent in ["\x16\x03\x01\x02\0", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\n\nno length", "HTTP/1.1 200 OK\r\nX\r\n\r\n"]
    {
        for size in [usize::MAX, 1] {
            let requested = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let passed = pass(&[(ClientToServer, requested), (ServerToClient, sent.as_bytes())], size);
            assert_eq!(passed.text(ServerToClient), sent);
        }
    }
}

/// A relay of one connection, and its client. It ends when the second value is dropped.
fn relay(to: &str, adjust: impl FnOnce(&mut Proxy)) -> (TcpStream, UnixStream, JoinHandle<()>) {
    let (listener, (tape, _spool)) = (TcpListener::bind("127.0.0.1:0").unwrap(), tape());
    let recorder = TrafficRecorder { tape, loss: LostBytes::default() };
    let mut proxy = Proxy::new(to, &ConnectOptions::default(), Vec::new(), recorder).unwrap();
    adjust(&mut proxy);
    let client = patient(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let (stop, signal) = UnixStream::pair().unwrap();
    let slot = Slot::only(listener.accept().unwrap().0);
    (client, signal, thread::spawn(move || proxy.relay(stop.as_fd(), slot)))
}

/// The response to a client that sends `sent`, then nothing more, and keeps the connection open.
/// The proxy has almost no patience.
fn response(sent: &str) -> String {
    let (mut client, _goes_on, relay) =
        relay("http://127.0.0.1:1/", |proxy| proxy.context.head_timeout = Duration::from_millis(20));
    client.write_all(sent.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    drop(client);
    joined(relay, "the end of a connection");
    response
}

#[test]
fn slow_clients_are_dropped() {
    assert_eq!(response(""), "");
    for sent in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let response = response(sent);
        assert!(response.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{response}");
    }
}

/// The time counts for the head as a whole: another byte of it wins no more time.
#[test]
fn a_client_that_sends_byte_by_byte_is_dropped() {
    const MOST: usize = 10_000;
    let (mut client, _goes_on, relay) =
        relay("http://127.0.0.1:1/", |proxy| proxy.context.head_timeout = Duration::from_secs(1));
    let mut writer = client.try_clone().unwrap();
    let sending = thread::spawn(move || {
        writer.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
        (0..MOST)
            .take_while(|_| {
                thread::park_timeout(Duration::from_millis(1));
                writer.write_all(b"x").is_ok()
            })
            .count()
    });
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{response}");
    client.shutdown(Shutdown::Both).unwrap();
    assert!(joined(sending, "the client to notice") < MOST, "it would have gone on");
    joined(relay, "the end of a connection");
}

#[test]
fn a_request_that_nobody_waits_for_is_given_up() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/", server.local_addr().unwrap());
    let (mut client, _goes_on, relay) = relay(&to, |proxy| proxy.context.abandoned = Duration::from_millis(20));
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut server = patient(server.accept().unwrap().0);
    server.read_exact(&mut [0; 16]).unwrap();
    drop(client);
    joined(relay, "the end of a connection");
    let mut rest = Vec::new();
    let reset = server.read_to_end(&mut rest).and_then(|_| server.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
    assert!(reset.is_err(), "the server learns of it");
}

#[test]
fn a_signal_ends_a_connection() {
    let (mut client, mut signal, relay) = relay("http://127.0.0.1:1/", |_| ());
    signal.write_all(b"X").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    joined(relay, "the end of a connection");
}

/// Pieces of valid requests and responses, and random bytes.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = LONG.iter().flat_map(|(_, text)| text.split_inclusive("\r\n")).map(|line| line.as_bytes().to_vec());
    prop_oneof![
        4 => proptest::sample::select(known.collect::<Vec<_>>()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

/// Encodes steps for the fuzz target; `true` means that the client sends.
fn encode_script<'a>(steps: impl Iterator<Item = (bool, &'a [u8])>) -> Vec<u8> {
    let pieces = steps.flat_map(|(requested, bytes)| bytes.chunks(255).map(move |piece| (requested, piece)));
    pieces.flat_map(|(requested, piece)| [&[u8::from(!requested), piece.len() as u8], piece].concat()).collect()
}

#[test]
fn seeds_pass_the_fuzz_target() {
    for seed in
        [long(), vec![(ClientToServer, b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n"), (ServerToClient, b"")]]
    {
        let seed = encode_script(seed.iter().map(|(direction, bytes)| (*direction == ClientToServer, *bytes)));
        (0..=seed.len()).for_each(|end| fuzz_proxy(&seed[..end]));
    }
}

proptest! {
    #[test]
    fn cutting_changes_nothing(size in 1..200usize) {
        prop_assert_eq!(pass(&long(), size), pass(&long(), usize::MAX));
    }

    #[test]
    fn any_conversation_passes_the_fuzz_target(steps in proptest::collection::vec((any::<bool>(), fragment()), 0..30)) {
        fuzz_proxy(&encode_script(steps.iter().map(|(requested, bytes)| (*requested, bytes.as_slice()))));
    }

    #[test]
    fn any_bytes_pass_the_fuzz_target(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_proxy(&data);
    }
}
