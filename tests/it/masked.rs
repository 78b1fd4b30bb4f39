//! Tokens that are known by their shape, the tags of masked values, and `mcptap mask`, which masks
//! recordings of earlier versions.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use crate::program::{mcptap, root};
use crate::support::waits::{Finishes, until};
use crate::wire::{Sender, Wire};
use crate::wrapped::{ANSWERS, Wrapped, of_type, recorded, temporary_database};

/// Tokens in a field that no name marks, in a path, in a body of OAuth, in a field of that name,
/// in a command line and in the log of a server.
const TOKENS: [&str; 6] = [
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "sk-proj-9fK2mQ7xVb3TzR8wLc5Yh1Ns6Dg4Jp0A",
    "xoxb-123456789012-abcdefGHIJKL345678mnopQR",
    "glpat-X3kP9vQ2mZ7rT5wY8nB1",
    "AIzaSyB4c7D9eF2gH5iJ8kL1mN3oP6qR0sT-uVw",
    "npm_Zx8Cv7Bn6Mq5We4Rt3Yu2Io1Pa9Sd0FgHjKl",
];

/// Near misses, and a token in a message: they stay.
const KEPT: [&str; 3] =
    ["sk-learn-tutorial-2024-with-many-words", "task-3f9c1ad07be2458c6d10", "hf_Ab3Cd4Ef5Gh6Ij7Kl8Mn9Op0Qr1St2Uv3"];

/// Two requests with the same token, a path and an OAuth body with others.
fn conversation() -> Wire {
    let [field, path, body, named, ..] = TOKENS;
    let [near, file, said] = KEPT;
    let mut wire = Wire::default();
    wire.handshake(0, 40_000);
    let mut at = 100;
    let mut say = |from: Sender, head: &str, body: &str| {
        at += 5;
        let length = body.len();
        let text =
            format!("{head}\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        // A cut within the head.
        let (first, second) = text.split_at(head.len() - 9);
        wire.segment(at, 40_000, from, "A", first);
        wire.segment(at + 1, 40_000, from, "A", second);
    };
    let mcp = format!("POST /{path}/{file}?q={near} HTTP/1.1\r\nAuthorization: Bearer {named}\r\nX-Note: by {field}");
    let post = "POST /oauth HTTP/1.1\r\nX-Other: some";
    let ok = "HTTP/1.1 200 OK\r\nServer: some";
    for id in 1..3 {
        let method = if id == 1 { "initialize" } else { "tools/call" };
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"{said}"}}}}"#);
        say(Sender::Client, &mcp, &request);
        say(Sender::Server, ok, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":"{said}"}}}}"#));
    }
    say(Sender::Client, post, &format!(r#"{{"note":"with {body}","access":"{near}"}}"#));
    say(Sender::Server, ok, &format!(r#"{{"access_token":"{named}"}}"#));
    wire
}

fn run(arguments: &[&str], db: &Path) -> (Option<i32>, String) {
    let done = mcptap().arg("--db").arg(db).args(arguments).finished();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(text).expect("UTF-8"))
}

/// All bytes of a database: the file, and those that SQLite puts beside it.
fn bytes(db: &Path) -> Vec<u8> {
    let beside = |suffix: &str| fs::read(format!("{}{suffix}", db.display())).unwrap_or_default();
    [beside(""), beside("-wal"), beside("-shm")].concat()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

/// A database with every kind of secret as it is in recordings of earlier versions: none is masked.
fn old_database() -> (tempfile::TempDir, PathBuf) {
    let (folder, db) = temporary_database();
    let capture = folder.path().join("capture.pcapng");
    conversation().write(&capture);
    let capture = capture.to_str().expect("a path");
    assert_eq!(run(&["read", "--save", "--keep-secrets", capture], &db).0, Some(0));
    let [.., argument, logged] = TOKENS;
    let script = format!("echo log {logged} >&2; read line; exit 0");
    let command = ["wrap", "--keep-secrets", "--", "sh", "-c", &script, "sh", argument];
    assert_eq!(run(&command, &db).0, Some(0));
    (folder, db)
}

/// The pcapng of all sessions: the bytes of the stored packets.
fn exported(db: &Path, folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for session in of_type(&recorded(db), "session") {
        let file = folder.join("out.pcapng");
        let number = session["number"].to_string();
        let done = run(&["export", &number, "--format", "pcapng", "-o", file.to_str().expect("a path")], db);
        assert_eq!(done.0, Some(0), "{}", done.1);
        all.extend(fs::read(&file).expect("exported"));
    }
    all
}

#[test]
fn tokens_are_masked_by_their_shape_and_equal_ones_have_equal_tags() {
    let (folder, db) = temporary_database();
    let capture = folder.path().join("capture.pcapng");
    conversation().write(&capture);
    let path = capture.to_str().expect("a path");
    let (status, json) = run(&["read", "--json", "--save", path], &db);
    assert_eq!(status, Some(0), "{json}");
    let packets = exported(&db, folder.path());
    for token in &TOKENS[..4] {
        assert!(!holds(json.as_bytes(), token) && !holds(&bytes(&db), token) && !holds(&packets, token), "{token}");
    }
    for kept in KEPT {
        assert!(holds(json.as_bytes(), kept) && holds(&packets, kept), "{kept}");
    }
    let exchanges = |json: &str| -> Vec<Value> {
        let lines = json.lines().filter(|line| line.starts_with('{'));
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|line| line["type"] == "exchange").collect()
    };
    let seen = exchanges(&json);
    let field = |exchange: &Value, name: &str| -> String {
        let fields = exchange["request_headers"].as_array().expect("fields");
        let field = fields.iter().find(|field| field[0] == name).expect("it was sent");
        field[1].as_str().expect("a text").to_owned()
    };
    let tag = |value: &str| value[value.len() - 8..].to_owned();
    let bearer = field(&seen[0], "Authorization");
    assert!(bearer.starts_with("********") && !tag(&bearer).contains('*'), "{bearer}");
    assert_eq!(bearer, field(&seen[1], "Authorization"), "the same token");
    assert_eq!(seen[0]["target"], seen[1]["target"]);
    assert_ne!(tag(&bearer), tag(&field(&seen[0], "X-Note")), "another token");
    // The token has the same tag where the server gave it.
    let given = format!("{}{}\"}}", "*".repeat(TOKENS[3].len() - 8), tag(&bearer));
    assert!(holds(&packets, &given), "{given}");
    // Masked packets show the same again, under any key. Another key gives other tags.
    let again = |file: &str, key: Option<&str>| {
        let mut read = mcptap();
        key.map(|key| read.env("MCPTAP_MASK_KEY", key));
        let done = read.args(["read", "--json", file]).finished();
        exchanges(&String::from_utf8(done.stdout).expect("UTF-8"))
    };
    let masked = folder.path().join("out.pcapng");
    let heads = |exchanges: &[Value]| {
        let members = ["target", "request_headers", "response_headers"];
        exchanges.iter().map(|line| members.map(|member| line[member].clone())).collect::<Vec<_>>()
    };
    assert_eq!(heads(&again(masked.to_str().expect("a path"), Some("another"))), heads(&seen));
    assert_ne!(heads(&again(path, Some("another"))), heads(&seen));
    // Without the variable each run has a key of its own.
    let [one, other] = [again(path, Some("")), again(path, Some(""))];
    assert_ne!(heads(&one), heads(&other));
    let stars = |exchanges: &[Value]| field(&exchanges[0], "Authorization").trim_end_matches(|c| c != '*').to_owned();
    assert_eq!(stars(&one), stars(&other));
}

#[test]
fn tokens_in_command_lines_and_logs_of_servers_are_masked() {
    let (folder, db) = temporary_database();
    let [.., argument, logged] = TOKENS;
    let script = format!("echo log {logged} {} >&2; read line; exit 0", KEPT[0]);
    let (status, log) = run(&["wrap", "--", "sh", "-c", &script, "sh", argument], &db);
    assert_eq!(status, Some(0));
    assert!(log.contains(logged), "the host sees the log as it is");
    let packets = exported(&db, folder.path());
    for token in [argument, logged] {
        assert!(!holds(&bytes(&db), token) && !holds(&packets, token), "{token}");
    }
    assert!(holds(&packets, KEPT[0]) && holds(&packets, "log ********"));
}

#[test]
fn recordings_of_earlier_versions_are_masked_with_the_free_pages_and_the_log() {
    let (folder, db) = old_database();
    // Another program has the database open. Its deleted rows stay in the file, and its last
    // transaction stays in the write-ahead log.
    let other = Connection::open(&db).expect("it opens");
    other
        .execute_batch(&format!(
            "PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE filler (text TEXT); INSERT INTO filler VALUES ('{} {}'); DELETE FROM filler; DROP TABLE filler;",
            TOKENS[0],
            "x".repeat(40_000)
        ))
        .expect("it can be written");
    let before = bytes(&db);
    let packets = exported(&db, folder.path());
    assert!(TOKENS.iter().all(|token| holds(&before, token) || holds(&packets, token)), "the test has secrets");
    let (_, doctor) = run(&["doctor"], &db);
    let line = doctor.lines().find(|line| line.contains("not masked in")).expect("a remark");
    assert!(line.contains("2 recordings: 2 command lines, 2 HTTP exchanges, ") && line.contains(" packets"), "{line}");
    assert!(doctor.contains("\"mcptap mask\" masks them"));
    // Nothing happens without consent.
    let (status, text) = run(&["mask"], &db);
    assert!(status == Some(2) && text.contains("2 recordings") && text.contains("--yes"), "{text}");
    assert_eq!(bytes(&db).len(), before.len());
    let lines = recorded(&db);
    let (status, text) = run(&["mask", "--yes"], &db);
    assert!(status == Some(0) && text.contains("masked in 2 recordings: "), "{text}");

    assert_eq!(fs::metadata(format!("{}-wal", db.display())).map_or(0, |log| log.len()), 0);
    let (after, packets) = (bytes(&db), exported(&db, folder.path()));
    for token in TOKENS {
        assert!(!holds(&after, token) && !holds(&packets, token), "{token}");
        assert!(token.as_bytes().windows(12).all(|part| memchr::memmem::find(&after, part).is_none()), "{token}");
    }
    assert!(KEPT.iter().all(|kept| holds(&packets, kept)));
    // Messages are as they were, and so is what is decoded from the packets.
    assert_eq!(of_type(&recorded(&db), "message"), of_type(&lines, "message"));
    assert_eq!(exported(&db, folder.path()).len(), packets.len());
    drop(other);
    // What is masked stays as it is.
    let (status, text) = run(&["mask", db.to_str().expect("a path")], &db);
    assert!(status == Some(0) && text.contains("no secret to mask"), "{text}");
    assert!(run(&["doctor"], &db).1.contains("all secrets in recordings that have ended are masked"));
    crate::faults::assert_sound(&db);
}

/// A database whose schema is the oldest, with a secret that its version did not know.
#[test]
fn the_oldest_database_is_masked_and_migrated() {
    let (_folder, db) = temporary_database();
    fs::copy(root().join("tests/databases/version-1.db"), &db).expect("a copy");
    let old = Connection::open(&db).expect("it opens");
    let command = format!(r#"UPDATE session SET command = '["sh","--x","{}"]' WHERE command IS NOT NULL"#, TOKENS[0]);
    assert_eq!(old.execute(&command, []).expect("a table"), 1);
    drop(old);
    let lines = |db: &Path| of_type(&recorded(db), "message").into_iter().cloned().collect::<Vec<Value>>();
    let (status, text) = run(&["mask", "--yes"], &db);
    assert!(status == Some(0) && text.contains("masked in 1 recording: 1 command line;"), "{text}");
    assert!(!holds(&bytes(&db), TOKENS[0]));
    assert_eq!(lines(&db).len(), 23);
}

/// A recording with TLS keys: what TLS carried is masked, and the keys go.
#[test]
fn what_tls_carried_is_masked_too() {
    let (_folder, db) = temporary_database();
    let capture = root().join("samples/tls/capture.pcapng");
    let arguments = ["read", "--save", "--keep-secrets", capture.to_str().expect("a path")];
    assert_eq!(run(&arguments, &db).0, Some(0));
    let carried = || -> Vec<u8> {
        let db = Connection::open(&db).expect("it opens");
        let mut select = db.prepare("SELECT data FROM plaintext ORDER BY stream, start").expect("a table");
        let frames = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
        frames.flat_map(|frame| zstd::decode_all(frame.expect("a blob").as_slice()).expect("a frame")).collect()
    };
    let before = carried();
    assert!(holds(&before, "Bearer secret") && holds(&bytes(&db), "TRAFFIC_SECRET"));
    let lines = recorded(&db);
    let (status, text) = run(&["mask", "--yes"], &db);
    assert!(status == Some(0) && text.contains("TLS key"), "{text}");
    let after = carried();
    assert!(!holds(&after, "Bearer secret") && !holds(&bytes(&db), "TRAFFIC_SECRET"));
    let mut differing = before.iter().zip(&after).filter(|(one, other)| one != other);
    assert_eq!(before.len(), after.len());
    assert!(differing.all(|(_, masked)| *masked == b'*'), "nothing but secrets changes");
    assert_eq!(of_type(&recorded(&db), "message"), of_type(&lines, "message"));
}

#[test]
fn nothing_is_changed_while_a_recording_is_written() {
    let (_folder, db) = old_database();
    let mut live = Wrapped::shell(&db, ANSWERS);
    live.converse(1..3);
    until("the third session in the database", || run(&["show", "3"], &db).0 == Some(0));
    let command = "SELECT group_concat(source) FROM capture WHERE id < 3";
    let sources = || {
        let db = Connection::open(&db).expect("it opens");
        db.query_row(command, [], |row| row.get::<_, String>(0)).expect("a text")
    };
    let before = sources();
    let (status, text) = run(&["mask", "--yes"], &db);
    assert!(status == Some(2) && text.contains("recording 3 is being written by process"), "{text}");
    assert_eq!(sources(), before);
    live.converse(3..5);
    assert!(live.end().status.success());
    assert_eq!(run(&["mask", "--yes"], &db).0, Some(0));
    assert!(!holds(sources().as_bytes(), TOKENS[4]) && holds(before.as_bytes(), TOKENS[4]));
    assert_eq!(of_type(&recorded(&db), "message").iter().filter(|line| line["session"] == 3).count(), 8);
}
