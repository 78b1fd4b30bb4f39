//! Exports, read by other programs.

mod har;
mod html;
mod memory;
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::mcptap;
use crate::support::waits::Finishes;
use crate::wire::{Sender, Wire};

pub use otlp::spans;

/// Runs `mcptap export` on a capture.
fn export(capture: &Path, format: &str, more: &[&str]) -> Output {
    mcptap().arg("export").arg(capture).args(["--format", format]).args(more).finished()
}

/// The output of a successful export.
fn exported(capture: &Path, format: &str, more: &[&str]) -> String {
    let done = export(capture, format, more);
    assert!(done.status.success(), "{}: {}", capture.display(), String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("exports are UTF-8")
}

/// The JSON lines of one type.
fn lines(capture: &Path, kind: &str, more: &[&str]) -> Vec<Value> {
    let lines = exported(capture, "jsonl", more);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"));
    lines.filter(|line| line["type"] == kind).collect()
}

/// A call whose response was captured with a clock that is ten seconds ahead. No export has a
/// duration that comes from two clocks.
#[test]
fn two_clocks_give_no_duration() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("capture.pcapng");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let post = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length:";
    let mut wire = Wire::default();
    wire.segment(0, 5_000, Sender::Client, "S", "");
    wire.segment(10_010, 5_000, Sender::Server, "SA", "");
    wire.segment(12, 5_000, Sender::Client, "A", "");
    wire.segment(20, 5_000, Sender::Client, "A", &format!("{post} {}\r\n\r\n{call}", call.len()));
    wire.segment(10_025, 5_000, Sender::Server, "A", &format!("{head} {}\r\n\r\n{answer}", answer.len()));
    wire.segment(31, 5_000, Sender::Client, "A", "");
    wire.write(&capture);

    let findings = lines(&capture, "finding", &[]);
    assert!(findings.iter().any(|finding| finding["rule"] == "capture-clocks-differ"), "{findings:?}");
    assert!(lines(&capture, "message", &[]).iter().all(|message| message.get("latency_ns").is_none()));
    let archive: Value = serde_json::from_str(&exported(&capture, "har", &[])).expect("an archive is JSON");
    let entry = &archive["log"]["entries"][0];
    assert_eq!(entry["time"].as_f64(), Some(0.0));
    assert!(entry["timings"]["comment"].as_str().is_some_and(|text| text.contains("different clocks")), "{entry}");
    let span = otlp::spans(&exported(&capture, "otlp", &[])).into_iter().find(|span| span["name"] == "ping");
    let span = span.expect("the call has a span");
    assert_eq!(span["startTimeUnixNano"], span["endTimeUnixNano"]);
    assert!(span["attributes"].to_string().contains("mcptap.duration"), "{span}");
}
