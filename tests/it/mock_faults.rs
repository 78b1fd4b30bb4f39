//! `mcptap mock --fault` as a client of each transport meets it.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::mock::Listening;
use crate::program::{mcptap, root};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd};

/// A recording with one call of the tool `get_weather`.
fn weather() -> String {
    root().join("samples/weather/capture.pcapng").display().to_string()
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Quito"}}}"#;

/// What a mock on STDIO writes for these lines, although its input stays open, until it ends.
fn answers(faults: &[&str], lines: &[&str]) -> String {
    let mut command = mcptap();
    command.arg("mock").arg(weather());
    for fault in faults {
        command.args(["--fault", fault]);
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("mcptap runs");
    let mut input = child.stdin.take().expect("a pipe");
    lines.iter().for_each(|line| writeln!(input, "{line}").expect("it reads"));
    let mut output = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    Patient::new(stdout, "a mock that cuts to end").read_to_string(&mut output).expect("text");
    drop(input);
    child.ended("mcptap");
    output
}

#[test]
fn a_cut_response_ends_the_pipe() {
    let output = answers(&["tool = get_weather: cut 10", "tool: delay 20ms"], &[INITIALIZE, CALL]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert!(lines[0].contains("protocolVersion"), "{output}");
    assert_eq!(lines[1].len(), 10, "{output}");
}

#[test]
fn a_cut_response_over_http_ends_its_connection_alone() {
    for (accept, marks) in [("application/json", "\r\n\r\n"), ("text/event-stream", "data: ")] {
        let mut command = mcptap();
        command.arg("mock").arg(weather()).args(["--fault", "tool = get_weather: cut 10"]);
        let mock = Listening::start(command);
        let fields = format!("Host: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n");
        let (_, begun) = mock.post(&fields, INITIALIZE);
        let session =
            begun.split("Mcp-Session-Id: ").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("a session");
        let fields = format!("{fields}Mcp-Session-Id: {session}\r\n");
        let (status, response) = mock.post(&fields, CALL);
        assert_eq!(status, 200);
        assert_eq!(response.rsplit(marks).next().map(str::len), Some(10), "{response:?}");
        // Another connection is served as before.
        let (_, list) = mock.post(&fields, r#"{"jsonrpc":"2.0","id":6,"method":"tools/list"}"#);
        assert!(list.contains("inputSchema"), "{list}");
        let (_, summary) = mock.end();
        assert!(summary.contains("faults were injected"), "{summary}");
    }
}

#[test]
fn a_typo_in_a_fault_is_exit_status_2_with_its_place() {
    let output = mcptap().arg("mock").arg(weather()).args(["--fault", "tol = x: drop"]).finished();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("^^^ expected tool"), "{said}");
}
