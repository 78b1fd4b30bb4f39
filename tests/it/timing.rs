//! The parts of the duration of a call, on captures with known times.

use std::collections::HashMap;
use std::path::Path;

use mcptap_core::internal::capture::pipe::{Pipe, PipeEvent, Start};
use serde_json::{Value, json};

use crate::program::mcptap;
use crate::support::waits::Finishes;
use crate::wire::{MILLISECOND, Sender, Wire};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"text":"some words"}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"words"}]}}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
const ROOTS: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#;

fn post(body: &str) -> String {
    let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
    format!("POST /mcp HTTP/1.1\r\nHost: h\r\n{accept}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn json_response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The timing members of the responses in `show --json`, by request id.
fn timings(target: &Path, arguments: &[&str]) -> HashMap<String, Value> {
    let output = mcptap().arg("show").arg(target).arg("--json").args(arguments).finished();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let timed = lines.filter(|line| line.get("timing").is_some());
    timed.map(|line| (line["id"].to_string(), line["timing"].clone())).collect()
}

fn milliseconds(parts: &[(&str, i64)]) -> Value {
    parts
        .iter()
        .map(|(name, time)| (format!("{name}_ns"), json!(time * MILLISECOND)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A call: four milliseconds of upload, 35 of waiting, seven of response. Both heads
/// arrive in pieces.
fn call(wire: &mut Wire, at: i64, port: u16) {
    let (request, response) = (post(CALL), json_response(RESULT));
    wire.segment(at, port, Sender::Client, "A", &request[..20]);
    wire.segment(at + 1, port, Sender::Client, "A", &request[20..90]);
    wire.segment(at + 4, port, Sender::Client, "A", &request[90..]);
    wire.segment(at + 14, port, Sender::Server, "A", "");
    wire.segment(at + 39, port, Sender::Server, "A", &response[..5]);
    wire.segment(at + 43, port, Sender::Server, "A", &response[5..60]);
    wire.segment(at + 46, port, Sender::Server, "A", &response[60..]);
}

#[test]
fn a_call_is_split_into_the_times_of_its_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("call.pcapng");
    let mut wire = Wire::default();
    wire.handshake(0, 40_000);
    call(&mut wire, 20, 40_000);
    wire.write(&path);
    let split = milliseconds(&[("upload", 4), ("network", 10), ("server", 25), ("stream", 7)]);
    assert_eq!(timings(&path, &[]), HashMap::from([("1".to_owned(), split.clone())]));

    // The same from a database, for one message, and as text.
    let db = folder.path().join("db");
    let saved = mcptap().arg("--db").arg(&db).arg("read").arg(&path).arg("--save").finished();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    assert_eq!(timings(&db, &[]), HashMap::from([("1".to_owned(), split.clone())]));
    for message in ["1", "2"] {
        assert_eq!(timings(&path, &["--message", message]), HashMap::from([("1".to_owned(), split.clone())]));
        let shown = mcptap().arg("show").arg(&path).args(["--message", message]).finished();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("upload 4.0 ms, network 10.0 ms, server 25.0 ms, stream 7.0 ms"), "{shown}");
        let layers = mcptap().arg("layers").arg(&path).args(["--message", message]).finished();
        let layers = String::from_utf8_lossy(&layers.stdout).into_owned();
        assert!(layers.contains("10.0 ms, there and back, by the handshake"), "{layers}");
    }
}

#[test]
fn where_the_handshake_is_missing_acknowledgments_tell_the_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("middle.pcapng");
    let mut wire = Wire::default();
    call(&mut wire, 20, 40_000);
    wire.write(&path);
    let split = milliseconds(&[("upload", 4), ("network", 10), ("server", 25), ("stream", 7)]);
    assert_eq!(timings(&path, &[]), HashMap::from([("1".to_owned(), split)]));

    // Without the bare acknowledgment the share of the network in the waiting time is unknown.
    wire.packets.retain(|(at, _, _)| *at != 34);
    wire.write(&path);
    let split = milliseconds(&[("upload", 4), ("server", 35), ("stream", 7)]);
    assert_eq!(timings(&path, &[]), HashMap::from([("1".to_owned(), split)]));
}

#[test]
fn a_stream_is_long_where_it_opens_at_once_and_a_client_answers_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stream.pcapng");
    let mut wire = Wire::default();
    wire.handshake(0, 40_000);
    wire.handshake(0, 40_001);
    wire.segment(20, 40_000, Sender::Client, "A", &post(CALL));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    wire.segment(32, 40_000, Sender::Server, "A", head);
    wire.segment(40, 40_000, Sender::Server, "A", &format!("data: {QUESTION}\n\n"));
    let answer = post(ROOTS);
    wire.segment(70, 40_001, Sender::Client, "A", &answer[..30]);
    wire.segment(73, 40_001, Sender::Client, "A", &answer[30..]);
    wire.segment(80, 40_001, Sender::Server, "A", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    wire.segment(95, 40_000, Sender::Server, "A", &format!("data: {RESULT}\n\n"));
    wire.write(&path);
    let call = milliseconds(&[("upload", 0), ("network", 10), ("server", 2), ("stream", 63)]);
    // A round trip to the client takes two milliseconds. Then the client works for 28.
    let question = milliseconds(&[("upload", 0), ("network", 2), ("server", 28), ("stream", 3)]);
    assert_eq!(timings(&path, &[]), HashMap::from([("1".to_owned(), call), ("7".to_owned(), question)]));
}

#[test]
fn a_pipe_has_no_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe.pcapng");
    let mut wire = Wire::default();
    wire.pipe(0, PipeEvent::Start(Start { command: vec!["server".to_owned()], ..Start::default() }));
    let (request, answer) = (format!("{CALL}\n"), format!("{RESULT}\n"));
    wire.pipe(10, PipeEvent::Data(Pipe::Stdin, &request.as_bytes()[..30]));
    wire.pipe(13, PipeEvent::Data(Pipe::Stdin, &request.as_bytes()[30..]));
    wire.pipe(20, PipeEvent::Data(Pipe::Stdout, &answer.as_bytes()[..30]));
    wire.pipe(25, PipeEvent::Data(Pipe::Stdout, &answer.as_bytes()[30..]));
    wire.write(&path);
    let split = milliseconds(&[("upload", 3), ("server", 7), ("stream", 5)]);
    assert_eq!(timings(&path, &[]), HashMap::from([("1".to_owned(), split)]));
}
