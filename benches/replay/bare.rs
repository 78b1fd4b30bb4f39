//! A client that makes calls one after the other and ignores the responses.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The parameters of the call with this number.
pub type Call = fn(u64) -> String;

/// The messages of a conversation.
fn messages(calls: u64, call: Call) -> impl Iterator<Item = String> {
    let open = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    let opened = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let request = move |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{}}}"#, call(id));
    [open.to_owned(), opened.to_owned()].into_iter().chain((1..=calls).map(request))
}

/// Calls a server over its pipes. Returns the time from its start to its end.
pub fn stdio(mut server: Command, calls: u64, call: Call) -> Duration {
    let start = Instant::now();
    let mut child =
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the server starts");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut requests = child.stdin.take().expect("a pipe");
    let mut line = Vec::new();
    for message in messages(calls, call) {
        requests.write_all(format!("{message}\n").as_bytes()).and_then(|()| requests.flush()).expect("it reads");
        if message.contains("\"id\"") {
            line.clear();
            // A notification of the server is no response.
            while line.is_empty() || memchr::memmem::find(&line, b"\"id\":").is_none() {
                line.clear();
                assert!(answers.read_until(b'\n', &mut line).expect("it answers") > 0, "the server ended");
            }
        }
    }
    drop(requests);
    child.wait().expect("it ends");
    start.elapsed()
}

/// Calls a server on one connection.
pub fn http(url: &str, calls: u64, call: Call) -> Duration {
    let start = Instant::now();
    let (address, path) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut reader = BufReader::new(stream);
    let mut session = String::new();
    for message in messages(calls, call) {
        let length = message.len();
        let request = format!(
            "POST /{path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\n{session}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{message}"
        );
        reader.get_mut().write_all(request.as_bytes()).expect("it reads");
        let answer = read(&mut reader).expect("it answers");
        if let Some(id) = answer.session {
            session = format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-06-18\r\n");
        }
    }
    start.elapsed()
}

/// A parsed HTTP message.
pub struct Read {
    /// The first line of the head.
    pub line: String,
    pub body: Vec<u8>,
    session: Option<String>,
}

/// The next message; `None` at the end.
pub fn read(reader: &mut BufReader<TcpStream>) -> Option<Read> {
    let (mut first, mut length, mut session, mut chunked) = (None, 0, None, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "mcp-session-id" => session = Some(value.trim().to_owned()),
                "transfer-encoding" => chunked = true,
                _ => {}
            }
        }
        first.get_or_insert(line);
    }
    let mut body = Vec::new();
    while chunked {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let start = body.len();
        body.resize(start + size + 2, 0);
        reader.read_exact(&mut body[start..]).ok()?;
        body.truncate(start + size);
        chunked = size > 0;
    }
    let start = body.len();
    body.resize(start + length, 0);
    reader.read_exact(&mut body[start..]).ok()?;
    Some(Read { line: first?, body, session })
}
