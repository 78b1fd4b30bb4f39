//! Recordings whose database is locked by another program: they wait in a file beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::faults::assert_sound;
use crate::program::mcptap;
use crate::support::waits::{Finishes, ProcessEnd, until};
use crate::wrapped::{
    ANSWERS, Follower, Wrapped, await_session, of_type, recorded, request, temporary_database, texts,
};

/// Locks a database as a program does that writes to it for long.
fn lock(db: &Path) -> Connection {
    let locker = Connection::open(db).expect("the database opens");
    locker.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    locker
}

fn create(db: &Path) {
    assert!(Wrapped::shell(db, "exit 0").end().stderr.is_empty());
}

/// The spill files beside a database.
fn spill_files(db: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(db.parent().expect("a folder")).expect("it is readable").flatten();
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let is_spill =
        |name: String| name.starts_with("mcptap.db-spill-") && name.ends_with(|end: char| end.is_ascii_digit());
    files.map(|file| file.path()).filter(|path| is_spill(name(path))).collect()
}

fn only_spill_file(db: &Path) -> PathBuf {
    let mut files = spill_files(db);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// The messages of the last session.
fn last_session(db: &Path) -> Vec<Value> {
    let done = mcptap().args(["show", "latest", "--json", "--db"]).arg(db).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn assert_messages(lines: &[Value], count: usize) {
    assert_eq!(texts(lines, "client-to-server"), (1..=count).map(request).collect::<Vec<_>>());
    assert_eq!(texts(lines, "server-to-client").len(), count);
    let session = of_type(lines, "session")[0];
    assert_eq!((&session["requests"], &session["unanswered"]), (&json!(count), &json!(0)), "{session}");
    assert_eq!(session["exit"], json!({ "code": 0 }));
    let rules = of_type(lines, "finding").into_iter().map(|finding| finding["rule"].as_str().expect("a rule"));
    assert!(rules.clone().all(|rule| rule != "jsonrpc-response-unknown-id"), "{:?}", rules.collect::<Vec<_>>());
}

/// The lock is held until after the end of the wrapper.
#[test]
fn a_session_whose_database_is_locked_is_kept_beside_it() {
    let (_folder, db) = temporary_database();
    create(&db);
    let locker = lock(&db);
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..21);
    let ended = wrapped.end();
    let spill = only_spill_file(&db);
    assert!(ended.status.success());
    let line = format!(
        "mcptap: recording: the database is locked; the recording is in {}, and the next start of mcptap moves it\n",
        spill.display()
    );
    assert_eq!(ended.stderr, line);
    assert_eq!(fs::metadata(&spill).expect("it is there").permissions().mode() & 0o777, 0o600);
    let doctor = mcptap().args(["doctor", "--db"]).arg(&db).finished();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("1 recording beside it"), "{doctor}");
    assert_eq!(of_type(&recorded(&db), "session").len(), 1, "a locked database can be read");
    drop(locker);

    let copy = db.with_file_name("copy");
    fs::copy(&spill, &copy).expect("a copy");
    assert_messages(&last_session(&db), 20);
    assert_eq!(spill_files(&db).len(), 0);
    // A program that dies after it wrote to the database leaves the file.
    fs::rename(&copy, &spill).expect("it is there again");
    let before = recorded(&db);
    assert_eq!(before, recorded(&db));
    assert_eq!(spill_files(&db).len(), 0);
    assert_messages(&last_session(&db), 20);
    assert_sound(&db);
    let layers = mcptap().args(["layers", "latest", "--message", "2", "--db"]).arg(&db).finished();
    let layers = String::from_utf8_lossy(&layers.stdout).into_owned();
    assert!(layers.contains("stdin") || layers.contains("stdout"), "{layers}");
}

/// The lock comes and goes while one request is open.
#[test]
fn a_session_goes_on_beside_its_database_and_returns() {
    let (_folder, db) = temporary_database();
    let answer = r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$n,\"result\":{}}""#;
    let script = format!(
        "for n in 1 2; do read -r l; done; n=1; {answer}; read -r l; n=2; {answer}; n=3; {answer}; n=3; while read -r l; do n=$((n+1)); {answer}; done"
    );
    let mut wrapped = Wrapped::shell(&db, &script);
    wrapped.send_line(&request(1));
    wrapped.send_line(&request(2));
    wrapped.next_line();
    await_session(&db);
    Follower::start(&db).await_message(3);
    let locker = lock(&db);
    wrapped.send_line(&request(3));
    wrapped.next_line();
    wrapped.next_line();
    until("the recording to go on beside its database", || !spill_files(&db).is_empty());
    wrapped.converse(4..8);
    drop(locker);
    // A reader does not take what is still written.
    wrapped.converse(8..10);
    until("the recording to return", || spill_files(&db).is_empty());
    wrapped.converse(10..12);
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let lines = recorded(&db);
    assert_messages(&lines, 11);
    assert_eq!(of_type(&lines, "session").len(), 1);
    let answered: Vec<_> =
        of_type(&lines, "message").into_iter().filter(|message| message["direction"] == "client-to-server").collect();
    assert!(answered.iter().all(|request| request["answered_by"].is_u64()), "{answered:#?}");
    assert_sound(&db);
}

#[test]
fn a_killed_wrapper_leaves_what_it_recorded_beside_a_locked_database() {
    let (_folder, db) = temporary_database();
    create(&db);
    let locker = lock(&db);
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..6);
    until("the recording to begin", || !spill_files(&db).is_empty());
    let spill = only_spill_file(&db);
    let wal = spill.with_file_name(format!("{}-wal", spill.file_name().expect("a name").to_string_lossy()));
    let holds =
        |path: &Path, text: &str| fs::read(path).is_ok_and(|bytes| memmem::find(&bytes, text.as_bytes()).is_some());
    let await_response = |id: usize| {
        let text = format!("\"id\":{id},\"result\"");
        until("a response to be recorded", || holds(&wal, &text) || holds(&spill, &text));
    };
    // What a later transaction follows is committed.
    await_response(5);
    wrapped.converse(6..7);
    await_response(6);
    wrapped.child.kill().expect("it lives");
    wrapped.child.ended("mcptap");
    drop(locker);
    let lines = last_session(&db);
    let requests = texts(&lines, "client-to-server");
    assert!(requests.len() >= 5, "{requests:?}");
    assert!(requests.iter().zip(1..).all(|(text, id)| *text == request(id)), "{requests:?}");
    assert_eq!(spill_files(&db).len(), 0);
    assert_sound(&db);
}
