//! The recording of many messages whose host loses patience: it ends the wrapper before all is
//! recorded, as the official SDKs do.

use std::io::Read;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::Path;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::faults::assert_sound;
use crate::program::mcptap;
use crate::support::waits::ProcessEnd;
use crate::wrapped::{WrapOutput, Wrapped, of_type, recorded, temporary_database, texts};

/// More messages than the queue holds in memory, and than can be recorded while they pass.
const LINES: Range<usize> = 1..40_001;

/// A server in the language of `sh` that writes that many lines at once and then runs `then`.
fn floods(then: &str) -> String {
    let format = format!(r#"{{"method":"m","params":{{"n":%.0f,"text":"{}"}}}}"#, "x".repeat(1_000));
    format!("seq -f '{format}' {} {}; {then}", LINES.start, LINES.end - 1)
}

fn line_of_server(n: usize) -> String {
    format!(r#"{{"method":"m","params":{{"n":{n},"text":"{}"}}}}"#, "x".repeat(1_000))
}

/// A wrapper that leads a process group, which the Python SDK signals as a whole.
fn start(db: &Path, script: &str) -> (Wrapped, Pid) {
    let mut command = mcptap();
    command.args(["wrap", "--db"]).arg(db).args(["--", "sh", "-c", script]).process_group(0);
    let wrapped = Wrapped::start(command);
    let group = i32::try_from(wrapped.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    (wrapped, group)
}

/// Asserts that the recorded messages and those reported as lost are all that the host received.
fn assert_accounted(db: &Path, ended: &WrapOutput, exit: &Value) {
    assert_sound(db);
    let record = recorded(db);
    let messages = texts(&record, "server-to-client");
    let (last, whole) = messages.split_last().expect("something was recorded");
    assert!(whole.iter().zip(LINES).all(|(text, n)| *text == line_of_server(n)), "each line once and in order");
    assert!(line_of_server(messages.len()).starts_with(last), "the last one may be cut: {last}");
    let said_last = ended.stderr.strip_prefix("mcptap: recording: the recorder did not keep up; ");
    let unrecorded = said_last.and_then(|said| said.strip_suffix(" bytes passed unrecorded\n"));
    let unrecorded: f64 = unrecorded.and_then(|bytes| bytes.parse().ok()).expect(&ended.stderr);
    let passed = LINES.map(|n| line_of_server(n).len() + 1).sum::<usize>() as f64;
    let session = of_type(&record, "session")[0];
    let share = session["completeness"].as_f64().expect("a share");
    assert!((share - (passed - unrecorded) / passed).abs() < 1e-6, "{share} of {passed} without {unrecorded}");
    assert_eq!(session["exit"], *exit);
    let db = Connection::open(db).expect("a database");
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("it can be asked");
    assert_eq!(count("SELECT count(*) FROM finding WHERE rule = 'capture-dropped'"), 1);
    assert_eq!(count("SELECT count(ended) FROM capture"), 1, "the capture came to its end");
}

#[test]
fn a_flood_that_is_ended_with_its_server_is_recorded_in_part_and_the_rest_is_counted() {
    let (_folder, db) = temporary_database();
    let (mut wrapped, group) = start(&db, &floods("exec sleep 1000"));
    LINES.for_each(|n| assert_eq!(wrapped.next_line(), line_of_server(n)));
    drop(wrapped.stdin.take());
    kill_process_group(group, Signal::TERM).expect("it lives");
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(143), ""));
    assert!(kill_process_group(group, Signal::KILL).is_err(), "nobody is left of the group");
    assert_accounted(&db, &ended, &json!({ "signal": 15 }));
}

/// The host is there and reads. It waits for the end of the wrapper, as for that of its server.
#[test]
fn a_server_that_floods_and_ends_takes_its_wrapper_with_it() {
    let (_folder, db) = temporary_database();
    let (mut wrapped, _) = start(&db, &floods("exit 3"));
    LINES.for_each(|n| assert_eq!(wrapped.next_line(), line_of_server(n)));
    let mut stderr = String::new();
    wrapped.stderr.read_to_string(&mut stderr).expect("stderr is text");
    let ended = WrapOutput::new(wrapped.child.ended("mcptap"), String::new(), stderr);
    assert_eq!(ended.status.code(), Some(3));
    assert_accounted(&db, &ended, &json!({ "code": 3 }));
}

/// The host dies, so nobody will send a signal.
#[test]
fn a_wrapper_whose_host_has_gone_counts_the_lines_that_it_did_not_record() {
    let (_folder, db) = temporary_database();
    let (mut wrapped, _) = start(&db, &floods("cat; exit 3"));
    LINES.for_each(|n| assert_eq!(wrapped.next_line(), line_of_server(n)));
    let Wrapped { mut child, stdin, stdout, mut stderr } = wrapped;
    drop(stdout);
    drop(stdin);
    let mut report = String::new();
    stderr.read_to_string(&mut report).expect("stderr is text");
    let ended = WrapOutput::new(child.ended("mcptap"), String::new(), report);
    assert_eq!(ended.status.code(), Some(3));
    assert_accounted(&db, &ended, &json!({ "code": 3 }));
}

#[test]
fn a_stopped_wrapper_counts_the_lines_that_it_did_not_record() {
    let (_folder, db) = temporary_database();
    let (mut wrapped, group) = start(&db, &floods("cat; exit 3"));
    LINES.for_each(|n| assert_eq!(wrapped.next_line(), line_of_server(n)));
    drop(wrapped.stdin.take());
    assert_eq!(wrapped.next_line(), "", "the server ended");
    kill_process_group(group, Signal::TERM).expect("it lives");
    let ended = wrapped.end();
    assert_eq!(ended.status.code(), Some(3));
    assert_accounted(&db, &ended, &json!({ "code": 3 }));
}
