//! `mcptap proxy` between clients and servers that do anything.

mod bridged;
mod crowds;
mod faults;
mod intercepted;

use std::fs;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{mcptap, root};
use crate::replay::scene::{Client, Scene, Served, everything, stdout};
use crate::support::pipes::{Patient, patient};
use crate::support::waits::{Finishes, PATIENCE, ProcessEnd, joined};
use crate::wrapped::{line, of_type, recorded, request, temporary_database, texts, without_report};

/// A running proxy. It ends when this is dropped.
pub struct Proxying {
    child: Child,
    lines: Option<JoinHandle<String>>,
    stderr: BufReader<Patient<ChildStderr>>,
    /// The URL for clients.
    pub url: String,
}

/// The output of a proxy that ended.
pub struct ProxyOutput {
    pub status: Option<i32>,
    /// The JSON lines that it printed.
    pub lines: Vec<Value>,
    /// Its standard error after the first line.
    pub stderr: String,
}

impl Proxying {
    /// Starts a proxy at a free port of this machine, for the server at `to`.
    pub fn start(db: &Path, to: &str, options: &[&str]) -> Proxying {
        Proxying::listening("0", db, to, options)
    }

    fn listening(address: &str, db: &Path, to: &str, options: &[&str]) -> Proxying {
        let mut command = mcptap();
        command.args(["proxy", "--json", "--listen", address, "--to", to, "--db"]).arg(db).args(options);
        let (mut proxying, first_line) = Proxying::run(command);
        let url = first_line.strip_prefix("mcptap: give clients ").and_then(|rest| rest.split_once(' '));
        let Some((url, rest)) = url else { panic!("{first_line}") };
        assert_eq!(rest, format!("in place of {to}; Ctrl-C ends it"));
        proxying.url = url.to_owned();
        proxying
    }

    /// Starts a forward proxy at a free port, in front of words that run a program.
    pub fn intercepting(mut command: Command, db: &Path, options: &[&str]) -> Proxying {
        command.args(["proxy", "--json", "--listen", "0", "--db"]).arg(db).args(options);
        let (mut proxying, _) = Proxying::run(command);
        let second_line = proxying.next_line();
        let url = second_line.split_once("HTTPS_PROXY=").and_then(|(_, rest)| rest.split_once(' '));
        proxying.url = url.unwrap_or_else(|| panic!("{second_line}")).0.to_owned();
        proxying
    }

    /// A running proxy without its URL, and its first line.
    fn run(mut command: Command) -> (Proxying, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mcptap runs");
        let mut stdout = child.stdout.take().expect("a pipe");
        let lines = thread::spawn(move || {
            let mut lines = String::new();
            stdout.read_to_string(&mut lines).expect("text");
            lines
        });
        let stderr = child.stderr.take().expect("a pipe");
        let mut stderr = BufReader::new(Patient::new(stderr, "a proxy to listen, to speak or to end"));
        let first_line = line(&mut stderr);
        (Proxying { child, lines: Some(lines), stderr, url: String::new() }, first_line)
    }

    fn address(&self) -> &str {
        self.url.split('/').nth(2).expect("an authority")
    }

    fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address()).expect("it listens"))
    }

    /// Sends bytes on a connection of their own, and reads to the end.
    pub fn raw(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it answers");
        response
    }

    /// Waits for the next line of standard error.
    fn next_line(&mut self) -> String {
        line(&mut self.stderr)
    }

    /// Ends the proxy with Ctrl-C.
    pub fn end(mut self) -> ProxyOutput {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(process, Signal::INT).expect("it lives");
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).expect("text");
        let lines = joined(self.lines.take().expect("it ends once"), "the end of what a proxy prints");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect();
        let (stderr, _) = without_report(&stderr);
        ProxyOutput { status: self.child.ended("mcptap").code(), lines, stderr }
    }
}

impl Drop for Proxying {
    fn drop(&mut self) {
        self.child.killed();
    }
}

/// Starts a server that calls `serve` for each connection. Returns its URL.
fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(patient(stream)));
        }
    });
    format!("http://{address}/mcp")
}

/// A server for one connection, which the receiver gets.
fn handed_over() -> (String, Receiver<TcpStream>) {
    let (send, connections) = channel();
    (server(move |stream| send.send(stream).expect("it is waited for")), connections)
}

/// Reads up to an empty line.
fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

/// Reads exactly this text.
fn expect(stream: &mut impl Read, text: &str) {
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).expect("it comes");
    assert_eq!(String::from_utf8_lossy(&read), text);
}

const GET: &str = "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn events_pass_before_the_next_come_and_nothing_waits_for_the_end_of_anything() {
    let (_folder, db) = temporary_database();
    let (url, connections) = handed_over();
    let proxying = Proxying::start(&db, &url, &[]);
    let mut client = proxying.connect();
    client.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").expect("sent");
    let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
    assert!(head(&mut server).contains("Transfer-Encoding: chunked"));
    // Each side waits for the piece of the other.
    for piece in ["5\r\n", "ab", "cde", "\r\n"] {
        client.write_all(piece.as_bytes()).expect("sent");
        if piece != "5\r\n" {
            expect(&mut server, if piece == "ab" { "5\r\nab" } else { piece });
        }
    }
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    server.write_all(answer.as_bytes()).expect("sent");
    expect(&mut client, answer);
    for number in 0..50 {
        let event = format!("b\r\ndata: {number:03}\n\n\r\n");
        server.write_all(event.as_bytes()).expect("sent");
        expect(&mut client, &event);
    }
    client.write_all(b"0\r\n\r\n").expect("sent");
    expect(&mut server, "0\r\n\r\n");
    drop((client, server));
    assert_eq!(proxying.end().status, Some(0));
}

#[test]
fn a_half_that_is_closed_is_closed_on_the_other_side_only() {
    let (_folder, db) = temporary_database();
    let (url, connections) = handed_over();
    let proxying = Proxying::start(&db, &url, &[]);
    let mut client = proxying.connect();
    client.write_all(GET.as_bytes()).expect("sent");
    client.shutdown(Shutdown::Write).expect("half closed");
    let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
    let mut asked = String::new();
    server.read_to_string(&mut asked).expect("to its end");
    assert_eq!(asked, GET.replace("localhost", url.split('/').nth(2).expect("an authority")));
    server.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end").expect("the other half is open");
    drop(server);
    let mut answered = String::new();
    client.read_to_string(&mut answered).expect("to its end");
    assert_eq!(answered, "HTTP/1.1 200 OK\r\n\r\nuntil the end");
    assert_eq!(proxying.end().stderr, "");
}

/// Closes a connection with a reset.
fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
}

#[test]
fn resets_are_passed_on() {
    let (_folder, db) = temporary_database();
    let (url, connections) = handed_over();
    let proxying = Proxying::start(&db, &url, &[]);
    let begin = || {
        let mut client = proxying.connect();
        client.write_all(GET.as_bytes()).expect("sent");
        let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
        head(&mut server);
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("sent");
        head(&mut client);
        (client, server)
    };
    let (client, mut server) = begin();
    reset(client);
    assert_eq!(server.read(&mut [0]).expect_err("it broke").kind(), ErrorKind::ConnectionReset);
    let (mut client, server) = begin();
    reset(server);
    assert_eq!(client.read(&mut [0]).expect_err("it broke").kind(), ErrorKind::ConnectionReset);
    assert_eq!(proxying.end().stderr, "");
}

#[test]
fn other_protocols_after_an_upgrade_pass_too() {
    let (_folder, db) = temporary_database();
    let (url, connections) = handed_over();
    let proxying = Proxying::start(&db, &url, &[]);
    let mut client = proxying.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").expect("sent");
    let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
    head(&mut server);
    server.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\0hello").expect("sent");
    head(&mut client);
    expect(&mut client, "\0hello");
    client.write_all(b"\x01GET / nonsense\n").expect("sent");
    expect(&mut server, "\x01GET / nonsense\n");
    drop((client, server));
    assert_eq!(proxying.end().stderr, "");
}

/// Bodies that exceed every buffer, both ways at once, to a server that sends back
/// what it receives.
#[test]
fn large_bodies_pass_whole_and_a_slow_reader_holds_up_its_server() {
    const SIZE: usize = 32 << 20;
    let (_folder, db) = temporary_database();
    let echo = |stream: TcpStream| {
        let (mut reader, mut writer) = (stream.try_clone().expect("a socket"), stream);
        head(&mut reader);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
        writer.write_all(head.as_bytes()).expect("sent");
        std::io::copy(&mut reader.take(SIZE as u64), &mut writer).expect("sent back");
    };
    let proxying = Proxying::start(&db, &server(echo), &["--no-save"]);
    let mut client = proxying.connect();
    let body: Vec<u8> = (0..SIZE).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    let mut writer = client.try_clone().expect("a socket");
    let sent = body.clone();
    let writing = thread::spawn(move || {
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {SIZE}\r\n\r\n");
        writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&sent)).expect("sent");
    });
    head(&mut client);
    let mut echoed = vec![0; SIZE];
    client.read_exact(&mut echoed).expect("all of it");
    joined(writing, "all to be sent");
    assert!(echoed == body);
    let ended = proxying.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.lines.last().expect("a summary")["exchanges"], 1);
}

/// A conversation over HTTP with the server of the replay tests. A replay is the client.
fn conversation(scene: &Scene, url: &str) {
    let done = scene.run(&["replay", "1", "--to", url, "--no-save", "--ignore=now:/**"]);
    assert_eq!(done.status.code(), Some(0), "{}{}", stdout(&done), String::from_utf8_lossy(&done.stderr));
}

fn scene() -> Option<Scene> {
    let scene = Scene::new()?;
    scene.record(&[], everything);
    Some(scene)
}

#[test]
fn servers_behind_tls_are_recorded_in_the_clear() {
    let Some(scene) = scene() else { return };
    let pem = root().join("tests/it/replay/server.pem").display().to_string();
    let served = Served::start(&scene, &["--tls", &pem]);
    let to = served.url("/mcp").replace("http:", "https:");
    let (_folder, db) = temporary_database();
    let proxying = Proxying::start(&db, &to, &["--cacert", &pem]);
    conversation(&scene, &proxying.url);
    conversation(&scene, &proxying.url.replace("/mcp", "/sse"));
    assert_eq!(proxying.end().stderr, "");
    let lines = recorded(&db);
    let transports: Vec<_> = of_type(&lines, "session").iter().map(|session| session["transport"].clone()).collect();
    assert_eq!(transports, [json!("streamable-http"), json!("http-sse")]);
    let server = to.trim_start_matches("https://").trim_end_matches("/mcp");
    for session in of_type(&lines, "session") {
        assert_eq!((&session["peers"]["server"], &session["unanswered"]), (&json!(server), &json!(0)));
    }
    // Layers below HTTP were not observed, and every command reports that.
    let shown = |command: &[&str]| {
        let done = mcptap().args(command).args(["1", "--json", "--db"]).arg(&db).finished();
        stdout(&done).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    for step in shown(&["layers"]).iter().filter(|step| step["layer"] == "L4") {
        assert!(step["detail"].as_str().unwrap().ends_with("  (made up: mcptap saw no network)"), "{step}");
    }
    let layers = shown(&["layers", "--message", "1"]);
    for layer in &layers {
        let is_below = ["network", "transport"].contains(&layer["layer"].as_str().unwrap());
        assert_eq!(layer["fields"]["made up"].is_string(), is_below, "{layer}");
        assert!(layer["fields"]["round trip of the handshake"].is_null(), "{layer}");
    }
    assert_eq!(layers[0]["protocol"], "IPv4");
    let timings: Vec<Value> = shown(&["show"]).iter().filter_map(|line| line.get("timing").cloned()).collect();
    assert!(!timings.is_empty() && timings.iter().all(|timing| timing.get("network_ns").is_none()), "{timings:?}");
    let done = mcptap().args(["export", "1", "--format", "har", "--db"]).arg(&db).finished();
    let archive: Value = serde_json::from_str(&stdout(&done)).expect("JSON");
    assert_eq!(archive["log"]["entries"][0]["request"]["url"], to.as_str());
    // Without that certificate no server is trusted.
    let proxying = Proxying::start(&db, &to, &[]);
    let answer = proxying.raw(GET);
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("--cacert FILE"), "{answer}");
    let mut insecure = Proxying::start(&db, &to, &["--insecure"]);
    assert!(insecure.next_line().contains("is not checked"));
    conversation(&scene, &insecure.url);
}

#[test]
fn redirects_lead_to_the_proxy_again() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &["--elsewhere", "http://elsewhere.invalid/mcp?code=abc"]);
    let (_folder, db) = temporary_database();
    let at = served.url("");
    let absolute = server(move |mut stream| {
        head(&mut stream);
        let (host, location) = ("api.test", stream.local_addr().expect("an address"));
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nX: {host}\r\nLocation: http://{location}/mcp/\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).expect("sent");
    });
    let proxying = Proxying::start(&db, &absolute, &[]);
    let answer = proxying.raw(&GET.replace("localhost", "localhost:1234"));
    assert!(answer.contains("\r\nLocation: http://localhost:1234/mcp/\r\n"), "{answer}");
    assert_eq!(proxying.end().stderr, "");
    let mut proxying = Proxying::start(&db, &format!("{at}/old"), &[]);
    conversation(&scene, &proxying.url);
    let mut client = proxying.connect();
    client.write_all(post(&request(1)).replace("/mcp", "/away").as_bytes()).expect("sent");
    assert!(head(&mut client).contains("Location: http://elsewhere.invalid/mcp?code=abc\r\n"));
    assert!(proxying.next_line().contains("redirects clients to http://elsewhere.invalid/mcp?code=***;"));
}

/// The client of a proxy's URL connects to no other address. The replay, as the SDKs, refuses
/// endpoints at another origin.
#[test]
fn the_address_that_a_stream_announces_is_at_the_proxy() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &["--whole"]);
    let (_folder, db) = temporary_database();
    let proxying = Proxying::start(&db, &served.url("/sse"), &[]);
    conversation(&scene, &proxying.url);
    assert_eq!(proxying.end().stderr, "");
    let lines = recorded(&db);
    let session = of_type(&lines, "session")[0];
    assert_eq!((&session["transport"], &session["unanswered"]), (&json!("http-sse"), &json!(0)));
}

#[test]
fn two_proxies_share_a_database() {
    let Some(scene) = scene() else { return };
    let (_folder, db) = temporary_database();
    let served = [Served::start(&scene, &[]), Served::start(&scene, &[])];
    let proxies = served.each_ref().map(|served| Proxying::start(&db, &served.url("/mcp"), &[]));
    thread::scope(|scope| {
        for proxying in &proxies {
            scope.spawn(|| conversation(&scene, &proxying.url));
        }
    });
    for proxying in proxies {
        let ended = proxying.end();
        assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(of_type(&recorded(&db), "session").len(), 2);
}

#[test]
fn secrets_are_masked_unless_asked_otherwise() {
    let (url, connections) = handed_over();
    thread::spawn(move || {
        for mut stream in connections {
            head(&mut stream);
            expect(&mut stream, &request(1));
            let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).expect("sent");
        }
    });
    for (options, found) in [(&[][..], false), (&["--keep-secrets"], true)] {
        let (_folder, db) = temporary_database();
        let proxying = Proxying::start(&db, &url, options);
        proxying.raw(&post(&request(1)).replace("Host", "Authorization: Bearer sesame\r\nHost"));
        let ended = proxying.end();
        let printed = format!("{:?}", ended.lines);
        assert_eq!((ended.status, printed.contains("sesame")), (Some(0), found));
        let bytes = fs::read(&db).expect("the database");
        assert_eq!(memchr::memmem::find(&bytes, b"sesame").is_some(), found);
    }
}

/// A recording of a proxy is a normal recording: it can be replayed, and the same packets
/// give the same sessions.

#[test]
fn a_recording_is_replayed_and_exported() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &[]);
    let proxying = Proxying::start(&scene.path("mcptap.db"), &served.url("/mcp"), &[]);
    conversation(&scene, &proxying.url);
    proxying.end();
    let done = scene.run(&["replay", "2", "--to", &served.url("/mcp"), "--no-save", "--ignore=now:/**"]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
    let file = scene.path("session.pcapng").display().to_string();
    scene.run(&["export", "2", "--format", "pcapng", "-o", &file]);
    let done = scene.run(&["diff", "2", &file]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
    // A mock of a recording over HTTP can serve STDIO.
    let mut mock = scene.mcptap();
    mock.args(["mock", "2"]).stderr(Stdio::piped());
    let mut client = Client::start(mock);
    client.open();
    everything(&mut client);
    assert_eq!(client.end().0, Some(0));
}
