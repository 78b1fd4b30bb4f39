//! `export --format har`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{export, exported, lines};
use crate::program::{data, root};
use crate::wire::{Sender, Wire};

fn archive(capture: &Path, more: &[&str]) -> Vec<Value> {
    let archive: Value = serde_json::from_str(&exported(capture, "har", more)).expect("an archive is JSON");
    archive["log"]["entries"].as_array().expect("entries").clone()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Captures over HTTP: plain, through TLS, HTTP/2, with content codings, damaged.
fn captures() -> Vec<PathBuf> {
    let samples = ["weather", "helpdesk", "hosted-redirect", "tls"].map(|name| root().join("samples").join(name));
    let folders = fs::read_dir(data("captures")).expect("captures").map(|entry| entry.expect("captures").path());
    let real = folders.filter(|path| path.is_dir() && !path.to_string_lossy().contains("stdio"));
    let files = samples.into_iter().chain(real).filter_map(|folder| {
        ["capture.pcapng", "capture.pcap"].map(|name| folder.join(name)).into_iter().find(|path| path.exists())
    });
    files.collect()
}

/// The option for the key log beside a capture of TLS.
fn keys(capture: &Path) -> Vec<String> {
    let keys = ["keys.log", "sslkeys.log"].map(|name| capture.with_file_name(name));
    keys.iter()
        .find(|path| path.exists())
        .map(|path| vec!["--keylog".to_owned(), path.display().to_string()])
        .unwrap_or_default()
}

#[test]
#[cfg(feature = "schema")]
fn archives_follow_the_specification() {
    let schema = serde_json::from_str(include_str!("har.schema.json")).expect("a schema");
    let validator = jsonschema::options().offline().should_validate_formats(true).build(&schema).expect("a schema");
    for capture in captures() {
        let archive = serde_json::from_str(&exported(&capture, "har", &[])).expect("an archive is JSON");
        let errors: Vec<String> =
            validator.iter_errors(&archive).map(|error| format!("{} {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", capture.display());
    }
}

/// Bodies are read again from the packets. They contain the messages that were decoded before.
#[test]
fn every_message_is_in_the_body_that_carried_it() {
    let mut seen = 0;
    for capture in captures() {
        let keys = keys(&capture);
        let more: Vec<&str> = keys.iter().map(String::as_str).collect();
        let entries = archive(&capture, &more);
        for message in lines(&capture, "message", &more) {
            let Some(number) = message["exchange"].as_u64() else { continue };
            let raw = text(&message, "/raw");
            let entry = entries.iter().find(|entry| entry["_mcp"]["exchange"] == number).expect("its exchange");
            let place = match text(&message, "/carrier") {
                "request-body" => "/request/postData/text",
                "response-body" | "sse-event" => "/response/content/text",
                _ => continue,
            };
            let body = text(entry, place);
            assert!(raw.lines().all(|line| body.contains(line)), "{}: {raw} not in {body:?}", capture.display());
            assert!(entry["_mcp"]["messages"].as_array().expect("numbers").contains(&message["number"]));
            seen += 1;
        }
        for entry in &entries {
            let content = &entry["response"]["content"];
            let is_all = content.get("comment").is_none() && content.get("encoding").is_none();
            let length = text(content, "/text").len();
            assert!(!is_all || content["size"] == length, "{}: {content}", capture.display());
        }
    }
    assert!(seen > 20, "messages were looked at");
}

/// A session of two exchanges. A health check between them, with a chunked body, is no MCP.
fn capture(folder: &Path) -> PathBuf {
    let call = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let answer = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    let mut wire = Wire::default();
    wire.handshake(0, 5_000);
    for (at, id) in [(20, 1), (80, 2)] {
        let (call, answer) = (call(id), answer(id));
        let head = "POST /mcp?k=v&x HTTP/1.1\r\nHost: h.example\r\nAuthorization: Bearer abc\r\nContent-Type: application/json\r\nContent-Length:";
        wire.segment(at, 5_000, Sender::Client, "A", &format!("{head} {}\r\n\r\n{call}", call.len()));
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        wire.segment(at + 5, 5_000, Sender::Server, "A", &format!("{head} {}\r\n\r\n{answer}", answer.len()));
    }
    wire.segment(100, 5_000, Sender::Client, "A", "GET /health HTTP/1.1\r\nHost: h.example\r\n\r\n");
    let chunks = "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n3\r\n<p>\r\n";
    wire.segment(110, 5_000, Sender::Server, "A", chunks);
    wire.segment(114, 5_000, Sender::Server, "A", "2\r\nno\r\n0\r\n\r\n");
    let path = folder.join("capture.pcapng");
    wire.write(&path);
    path
}

#[test]
fn an_exchange_has_its_times_its_bodies_and_no_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = capture(folder.path());
    let entries = archive(&capture, &[]);
    let [first, _, third] = entries.as_slice() else { panic!("three entries: {entries:?}") };
    assert_eq!(text(first, "/request/url"), "http://h.example/mcp?k=v&x");
    assert_eq!(first["request"]["queryString"], serde_json::json!([{"name":"k","value":"v"},{"name":"x","value":""}]));
    let timings = ["send", "wait", "receive", "connect"].map(|name| first["timings"][name].as_f64());
    assert_eq!(timings, [Some(0.0), Some(5.0), Some(0.0), Some(-1.0)]);
    assert_eq!(text(first, "/serverIPAddress"), "10.0.0.2");
    assert_eq!(first["_mcp"]["method"], "ping");
    assert_eq!(first["_mcp"]["messages"], serde_json::json!([1, 2]));
    assert!(!exported(&capture, "har", &[]).contains("Bearer abc"), "secrets are masked");
    assert!(exported(&capture, "har", &["--keep-secrets"]).contains("Bearer abc"));
    assert_eq!(text(third, "/response/content/text"), "<p>no", "what nobody looked into is read again");
    assert_eq!(third["_mcp"]["messages"], serde_json::json!([]));
    assert_eq!(third["timings"]["receive"].as_f64(), Some(4.0));

    let chosen = archive(&capture, &["--filter", "id = 2"]);
    assert_eq!(chosen.len(), 1);
    assert_eq!(chosen[0]["_mcp"]["messages"], serde_json::json!([3, 4]));
}

#[test]
fn a_file_is_there_whole_or_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (capture, out) = (capture(folder.path()), folder.path().join("out.har"));
    fs::write(&out, "before").expect("a file");
    let stdio = root().join("samples/polluted-stdout/stdio.pcapng");
    let failed = export(&stdio, "har", &["-o", out.to_str().expect("a path")]);
    assert_eq!(failed.status.code(), Some(2));
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("no HTTP") && said.contains("--format jsonl"), "{said}");
    assert_eq!(fs::read_to_string(&out).expect("a file"), "before");
    assert_eq!(exported(&capture, "har", &["-o", out.to_str().expect("a path")]), "");
    assert_eq!(fs::read_to_string(&out).expect("a file"), exported(&capture, "har", &[]));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
}
