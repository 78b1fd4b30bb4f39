//! `mcptap sniff` beside a client that calls an HTTP server as fast as possible.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{answer, mcptap, recorded, request};

/// Serves the POSTs of one connection after the other.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        let _ = stream.set_nodelay(true);
        let mut stream = BufReader::new(stream);
        while let Some(body) = body(&mut stream) {
            let body = answer(&body);
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).expect("the client reads");
        }
    }
}

/// The body after the next head; `None` at the end.
fn body(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Calls until `enough` accepts the number of calls. Returns that number.
fn calls(port: u16, enough: impl Fn(u64) -> bool) -> u64 {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_nodelay(true).expect("TCP");
    let mut stream = BufReader::new(stream);
    let mut id = 0;
    while !enough(id) {
        let body_sent = request(id, 40);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body_sent.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), &body_sent].concat()).expect("the server reads");
        body(&mut stream).expect("an answer");
        id += 1;
    }
    id
}

/// Captures the traffic of `calls`.
fn capture(what: &str, calls: impl FnOnce(u16) -> u64) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let db = folder.path().join("db");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || serve(&listener));
    let mut command = mcptap();
    command.args(["sniff", "-i", "lo", "-f", &format!("tcp port {port}"), "--db"]).arg(&db);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mcptap runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("text");
    assert!(said.contains("capturing"), "{said}");
    let start = Instant::now();
    let calls = calls(port);
    let rate = calls as f64 / start.elapsed().as_secs_f64();
    let process = Pid::from_raw(child.id() as i32).expect("a process id");
    kill_process(process, Signal::INT).expect("it lives");
    let ending = Instant::now();
    said.clear();
    stderr.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("it ends").success());
    let (messages, pending) = recorded(&db);
    println!("{what}: {calls} calls at {rate:.0} /s; {messages} messages recorded of {}, {pending} pending", 2 * calls);
    println!("    {}; it ended after {:.1} s", said.trim(), ending.elapsed().as_secs_f64());
}

pub fn run(seconds: u64) {
    capture("5,000 calls", |port| calls(port, |id| id == 5_000));
    let end = Instant::now() + Duration::from_secs(seconds);
    capture(&format!("{seconds} s flat out"), |port| calls(port, |_| Instant::now() >= end));
}
