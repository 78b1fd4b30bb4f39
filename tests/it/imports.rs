//! Recordings of other programs: archives of HTTP, lines with messages, and MCPHawk's databases.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::decoded::{captures, name};
use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::{json, of_type, temporary_database};

fn export(capture: &str, format: &str, to: &Path) {
    export_opened(&root().join(capture), &[], format, to);
}

/// Exports a capture whose TLS these options open.
fn export_opened(capture: &Path, keys: &[String], format: &str, to: &Path) {
    let done = mcptap().arg("export").arg(capture).args(keys).args(["--format", format, "-o"]).arg(to).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The option for the key log beside a capture.
fn key_log(capture: &Path) -> Vec<String> {
    let keys = ["keys.log", "sslkeys.log"].map(|name| capture.with_file_name(name));
    let found = keys.iter().find(|path| path.exists());
    found.map(|path| vec!["--keylog".to_owned(), path.display().to_string()]).unwrap_or_default()
}

/// What an import has to bring back of each message and each line of stderr. Sorted, because an
/// archive does not have the order of completion.
fn facts(target: &Path) -> [Vec<String>; 2] {
    facts_of(&json(&["show"], target))
}

fn facts_of(lines: &[Value]) -> [Vec<String>; 2] {
    let pick = |kind: &str, members: &[&str]| {
        let row = |line: &&Value| members.iter().map(|name| line[*name].to_string()).collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = of_type(lines, kind).iter().map(row).collect();
        rows.sort();
        rows
    };
    let messages = pick("message", &["direction", "kind", "id", "method", "raw", "transport"]);
    [messages, pick("stderr", &["line", "text"])]
}

/// Compares facts. The message of a failure has the first differences alone.
fn same(one: &[Vec<String>; 2], other: &[Vec<String>; 2], of: &str) {
    for (one, other) in one.iter().zip(other) {
        let missing: Vec<&String> = other.iter().filter(|row| !one.contains(row)).take(3).collect();
        let added: Vec<&String> = one.iter().filter(|row| !other.contains(row)).take(3).collect();
        assert!(missing.is_empty() && added.is_empty(), "{of}: missing {missing:#?}, added {added:#?}");
        assert_eq!(one.len(), other.len(), "{of}");
    }
}

/// The lines of a command for a capture whose TLS these options open.
fn opened(command: &str, capture: &Path, keys: &[String]) -> Vec<Value> {
    let arguments: Vec<&str> = [command].into_iter().chain(keys.iter().map(String::as_str)).collect();
    json(&arguments, capture)
}

fn exchanges(lines: &[Value]) -> Vec<String> {
    let of = |line: &&Value| format!("{} {} {}", line["method"], line["target"], line["status"]);
    let mut rows: Vec<String> = of_type(lines, "exchange").iter().map(of).collect();
    rows.sort();
    rows
}

/// The texts of requests with their latencies in milliseconds.
fn latencies(lines: &[Value]) -> Vec<(String, f64)> {
    let requests = of_type(lines, "message").into_iter().filter(|line| line["kind"] == "request");
    let of = |line: &Value| Some((line["raw"].to_string(), line["latency_ns"].as_f64()? / 1e6));
    let mut rows: Vec<(String, f64)> = requests.filter_map(of).collect();
    rows.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    rows
}

/// An archive is the session that it was made of: over HTTP/1.1, HTTP/2, WebSocket and TLS, with
/// streams of events, without session ids, and with bodies whose end was not captured.
#[test]
fn an_exported_archive_is_the_same_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, again) = (folder.path().join("session.har"), folder.path().join("again.har"));
    let (mut compared, mut answered) = (0, 0);
    for capture in captures() {
        let (keys, name) = (key_log(&capture), name(&capture));
        // Of these packets only the first 128 bytes were captured, and no message is whole.
        if name == "04_snaplen128" {
            continue;
        }
        export_opened(&capture, &keys, "har", &archive);
        let (sent, read) = (opened("show", &capture, &keys), json(&["show"], &archive));
        same(&facts_of(&read), &facts_of(&sent), &name);
        let (before, after) = (latencies(&sent), latencies(&read));
        assert_eq!(before.len(), after.len(), "{name}");
        for (before, after) in before.iter().zip(after) {
            // Archives have milliseconds, and WebSockets fractions of a second since 1970.
            assert!((before.1 - after.1).abs() < 0.1, "{name}: {before:?} {after:?}");
        }
        answered += before.len();
        compared += 1;
        let (mut sent, read) = (exchanges(&opened("read", &capture, &keys)), exchanges(&json(&["read"], &archive)));
        // A WebSocket over HTTP/2 has the handshake of HTTP/1.1 then.
        sent.extend(sent.contains(&r#""CONNECT" "/ws" 200"#.to_owned()).then(|| r#""GET" "/ws" 101"#.to_owned()));
        assert!(!read.is_empty() && read.iter().all(|exchange| sent.contains(exchange)), "{name}");
        // Importing the export of an import changes nothing.
        if capture.starts_with(root().join("samples")) {
            export_opened(&archive, &[], "har", &again);
            let of = |archive: &Path| (facts(archive), exchanges(&json(&["read"], archive)));
            assert_eq!(of(&again), of(&archive));
        }
    }
    assert!(compared >= 45 && answered > 1_000, "{compared} captures with {answered} answers");
}

#[test]
fn exported_lines_are_the_same_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = folder.path().join("session.jsonl");
    for capture in ["samples/helpdesk/stdio.pcapng", "samples/polluted-stdout/stdio.pcapng"] {
        export(capture, "jsonl", &lines);
        same(&facts(&lines), &facts(&root().join(capture)), capture);
    }
    let layers = mcptap().arg("layers").arg(&lines).finished();
    assert!(String::from_utf8_lossy(&layers.stdout).contains("link, network, transport: not captured"));
}

#[test]
fn layers_of_an_archive_are_not_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("session.har");
    export("samples/weather/capture.pcapng", "har", &archive);
    let (_folder, db) = temporary_database();
    let saved = mcptap().arg("read").arg("--save").arg("--db").arg(&db).arg(&archive).finished();
    assert!(saved.status.success());
    let layers = mcptap().arg("layers").arg(&db).args(["--message", "2"]).finished();
    let text = String::from_utf8_lossy(&layers.stdout).into_owned();
    assert!(text.contains("not captured") && text.contains("HTTP/1.1"), "{text}");
}

#[test]
fn what_can_be_read_of_a_damaged_recording_is_read_and_the_rest_named_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording");
    let read = |text: &str| {
        fs::write(&path, text).expect("written");
        let lines = json(&["read"], &path);
        let damage: Vec<String> = of_type(&lines, "finding")
            .iter()
            .filter(|finding| finding["rule"] == "capture-damaged")
            .map(|finding| finding["text"].as_str().expect("text").to_owned())
            .collect();
        (of_type(&lines, "message").len(), damage)
    };
    let ask = r#"{"ts":"2026-01-02T03:04:05Z","direction":"c2s","raw":{"jsonrpc":"2.0","id":1,"method":"ping"}}"#;
    let answer = r#"{"ts":"2026-01-02T03:04:06Z","direction":"s2c","raw":{"jsonrpc":"2.0","id":1,"result":{}}}"#;
    let (messages, damage) = read(&format!("{ask}\n{{\"ts\":\n{answer}\n"));
    assert!(messages == 2 && damage.len() == 1 && damage[0].contains("line 2: "), "{damage:?}");
    // Cut in the middle of an entry.
    let archive = folder.path().join("whole.har");
    export("samples/weather/capture.pcapng", "har", &archive);
    let whole = fs::read_to_string(&archive).expect("an archive");
    let (messages, damage) = read(&whole[..whole.len() / 2]);
    assert!((1..7).contains(&messages) && damage.len() == 1 && damage[0].contains("line "), "{damage:?}");
}

/// The tables of both versions, with the columns that are read. Version 1.0 was compared with a
/// database that it made.
#[test]
fn databases_of_mcphawk_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = [
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, server_name TEXT, target TEXT, pid INTEGER);
         CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, ts REAL, direction TEXT, body TEXT);
         INSERT INTO sessions VALUES ('a', 'files', NULL, 'node server.js', 7);
         INSERT INTO messages VALUES (1, 'a', 1767323045.5, 'c2s', '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}'),
                                     (2, 'a', 1767323046.0, 's2c', '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}')",
        "CREATE TABLE logs (log_id TEXT, timestamp DATETIME, src_ip TEXT, dst_ip TEXT, src_port INTEGER, dst_port INTEGER,
             direction TEXT, message TEXT, transport_type TEXT, metadata TEXT, pid INTEGER);
         INSERT INTO logs VALUES
             ('1', '2026-01-02T03:04:05.500000+00:00', 'mcp-client', 'mcp-server', NULL, NULL, 'outgoing',
              '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}', 'stdio',
              '{\"command\":[\"node\",\"server.js\"],\"server_name\":\"files\"}', 7),
             ('2', '2026-01-02T03:04:06+00:00', 'mcp-server', 'mcp-client', NULL, NULL, 'incoming',
              '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}', 'stdio', NULL, 7)",
    ];
    for (version, sql) in tables.iter().enumerate() {
        let path = folder.path().join(format!("{version}.db"));
        Connection::open(&path).expect("a database").execute_batch(sql).expect("tables");
        for command in ["read", "show"] {
            let lines = json(&[command], &path);
            let messages = of_type(&lines, "message");
            assert_eq!(messages.len(), 2, "{command}");
            assert_eq!((&messages[1]["answers"], &messages[1]["latency_ns"]), (&1.into(), &500_000_000.into()));
            assert_eq!(messages[0]["time"], "2026-01-02T03:04:05.500000000Z");
            let session = of_type(&lines, "session")[0].to_string();
            assert!(session.contains("files") && session.contains("server.js"), "{session}");
        }
    }
}
