//! Databases of every version of the schema (`tests/databases/`), opened with this program, and a
//! database of a newer version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::Value;

use crate::faults::assert_sound;
use crate::program::{mcptap, root};
use crate::support::waits::{Finishes, finished};
use crate::wrapped::{ANSWERS, Wrapped, await_session, json, of_type, recorded, temporary_database};

/// Members that every version has to show alike. Other members hold the time of the recording, or
/// exist only in later versions.
const OF_MESSAGES: &[&str] = &[
    "session",
    "number",
    "transport",
    "direction",
    "kind",
    "id",
    "method",
    "raw",
    "answers",
    "answered_by",
    "packets",
    "carrier",
    "exchange",
    "sse_id",
    "line",
];
const OF_SESSIONS: &[&str] = &[
    "number",
    "transport",
    "protocol_version",
    "session_id",
    "client",
    "server",
    "messages",
    "requests",
    "responses",
    "notifications",
    "errors",
    "invalid",
    "tool_errors",
    "cancelled",
    "unanswered",
];

/// The names of the tables with their columns and indexes, in the words of the database.
const SCHEMA: &str = "SELECT group_concat(name || ' ' || coalesce(sql, ''), char(10) ORDER BY name) FROM sqlite_schema";

fn version(db: &Path) -> i64 {
    Connection::open(db)
        .and_then(|db| db.pragma_query_value(None, "user_version", |row| row.get(0)))
        .expect("the database has a version")
}

fn schema(db: &Path) -> String {
    Connection::open(db).and_then(|db| db.query_row(SCHEMA, [], |row| row.get(0))).expect("the database has a schema")
}

/// Every checked-in database, oldest first: its version, and a copy in a folder of its own.
fn old_databases() -> Vec<(i64, tempfile::TempDir, PathBuf)> {
    let path = |version: i64| root().join(format!("tests/databases/version-{version}.db"));
    let copies = (1..).take_while(|version| path(*version).exists()).map(|version| {
        let (folder, db) = temporary_database();
        fs::copy(path(version), &db).expect("a database can be copied");
        (version, folder, db)
    });
    copies.collect()
}

/// Makes the recording of the checked-in databases with this program.
fn made_now(db: &Path) {
    let program = env!("CARGO_BIN_EXE_mcptap");
    let done = Command::new(root().join("tests/databases/make.sh")).arg(program).arg(db).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn members(line: &Value, names: &[&str]) -> Value {
    names.iter().filter_map(|name| Some(((*name).to_owned(), line.get(name)?.clone()))).collect()
}

/// The sessions and messages of `show --json`.
fn session_and_message_lines(lines: &[Value]) -> Vec<Value> {
    let messages = of_type(lines, "message").into_iter().map(|line| members(line, OF_MESSAGES));
    messages.chain(of_type(lines, "session").into_iter().map(|line| members(line, OF_SESSIONS))).collect()
}

#[test]
fn every_version_of_the_schema_is_migrated_and_shows_the_same() {
    let (_folder, new) = temporary_database();
    made_now(&new);
    let (newest, wanted) = (version(&new), session_and_message_lines(&recorded(&new)));
    assert_eq!(wanted.len(), 27, "23 messages of 4 sessions");
    let layers = |session: &str, db: &Path| json(&["layers", "--session", session], db);
    let olds = old_databases();
    let versions: Vec<i64> = olds.iter().map(|(version, ..)| *version).collect();
    let all: Vec<i64> = (1..=newest).collect();
    assert_eq!(versions, all, "tests/databases/README.md says how to add the database of a new version");
    for (number, _folder, old) in &olds {
        assert_eq!(version(old), *number);
        assert_eq!(session_and_message_lines(&recorded(old)), wanted, "version {number}");
        // The layers of every step: streams, their parts and packets.
        // Before version 4, connections without a message were not stored. Only session 1 has some.
        let sessions = if *number < 4 { &["2", "3"][..] } else { &["1", "2", "3"] };
        for session in sessions {
            assert_eq!(layers(session, old), layers(session, &new), "version {number}, session {session}");
        }
        assert_eq!((version(old), schema(old)), (newest, schema(&new)));
        // The migrated database accepts new recordings.
        let mut wrapped = Wrapped::shell(old, ANSWERS);
        wrapped.converse(1..3);
        assert!(wrapped.end().status.success());
        assert_eq!(session_and_message_lines(&recorded(old)).len(), wanted.len() + 5);
        assert_sound(old);
    }
}

/// An old program that reads and one that writes continue while this program migrates their
/// database. The connections of this test act for them.
#[test]
fn a_database_is_migrated_while_others_read_and_write() {
    let olds = old_databases();
    let newest = olds.iter().map(|(version, ..)| *version).max();
    for (before, _folder, db) in olds {
        let (reader, writer) = (Connection::open(&db).expect("it opens"), Connection::open(&db).expect("it opens"));
        let count = "SELECT count(*) FROM session";
        let sessions = |db: &Connection| db.query_row(count, [], |row| row.get::<_, i64>(0)).expect("it can be read");
        reader.execute_batch("BEGIN").expect("a snapshot");
        assert_eq!(sessions(&reader), 4);
        writer.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        // An insert of version 1.
        let insert = "INSERT INTO capture (kind, source, process, started, last_alive) VALUES (2, 'old', 1, 7, 7);
             INSERT INTO session (capture, number) SELECT max(id), 1 FROM capture;
             INSERT INTO finding (capture, session, rule, text, messages, packets)
             SELECT capture, id, (SELECT min(id) FROM rule), 'old', x'', x'00' FROM session ORDER BY id DESC LIMIT 1;
             INSERT OR IGNORE INTO stream (id, connection, kind, which, exchange)
             SELECT max(id) << 40 | 9, max(id) << 40 | 9, 1, 0, NULL FROM capture;";
        writer.execute_batch(insert).expect("it can be written");

        // The server works while its recording waits for the database.
        let mut wrapped = Wrapped::shell(&db, ANSWERS);
        wrapped.converse(1..5);
        let show = || mcptap().args(["show", "--json"]).arg(&db).stdout(Stdio::piped()).spawn().expect("mcptap runs");
        let shows = [show(), show(), show()];
        assert_eq!(version(&db), before, "nobody migrates while another writes");
        writer.execute_batch("COMMIT").expect("it is committed");
        for show in shows {
            let shown = finished(show, "`show`");
            assert!(shown.status.success());
            // A migration waits for the writer. A reader does not wait.
            let fifth = r#""type":"session","number":5"#;
            assert!(Some(before) == newest || String::from_utf8_lossy(&shown.stdout).contains(fifth));
        }
        await_session(&db);
        assert_eq!(Some(version(&db)), newest);
        writer.execute_batch(insert).expect("the old program goes on writing");
        assert_eq!(sessions(&reader), 4, "a snapshot stays what it was");
        reader.execute_batch("COMMIT").expect("it ends");
        wrapped.converse(5..9);
        let ended = wrapped.end();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
        drop((reader, writer));
        let lines = recorded(&db);
        assert_eq!((of_type(&lines, "session").len(), of_type(&lines, "message").len()), (4 + 2 + 1, 23 + 16));
        assert_sound(&db);
    }
}

#[test]
fn a_newer_database_is_refused_in_one_line_and_left_alone() {
    let (_folder, db) = temporary_database();
    made_now(&db);
    let next = version(&db) + 1;
    Connection::open(&db).and_then(|db| db.pragma_update(None, "user_version", next)).expect("it can be written");
    let (before, capture) = (fs::read(&db).expect("a file"), root().join("samples/weather/capture.pcapng"));
    let (name, capture) = (db.to_str().expect("UTF-8"), capture.to_str().expect("UTF-8"));
    let refused = format!(
        "the database {name} was written by a newer mcptap (version {next}, this one knows {}): update mcptap or name another file with --db",
        next - 1
    );
    let commands: [&[&str]; 15] = [
        &["sessions"],
        &["sessions", name],
        &["show", name],
        &["show", "latest"],
        &["show", "latest", "--follow"],
        &["layers", name],
        &["check", name],
        &["export", name, "--format", "jsonl"],
        &["diff", name, name],
        &["diff", "1", "2"],
        &["mock", name],
        &["mock", "latest"],
        &["replay", name, "--", "cat"],
        &["replay", capture, "--", "cat"],
        &["read", "--save", capture],
    ];
    for command in commands {
        let done = mcptap().args(["--db", name]).args(command).finished();
        assert_eq!(done.status.code(), Some(2), "{command:?}");
        assert_eq!(String::from_utf8_lossy(&done.stderr), format!("mcptap: {refused}\n"), "{command:?}");
        assert!(done.stdout.is_empty(), "{command:?}");
    }
    // The wrapped server works all the same, and the wrapper returns its exit code.
    let mut wrapped = Wrapped::shell(&db, &format!("{ANSWERS}; exit 3"));
    wrapped.converse(1..9);
    let ended = wrapped.end();
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with(&format!("mcptap: recording: {refused}; ")), "{}", ended.stderr);
    assert_eq!(fs::read(&db).expect("a file"), before);
}
