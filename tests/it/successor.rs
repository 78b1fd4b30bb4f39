//! What becomes of the record of a flood when the host loses patience: it ends the wrapper before all is recorded, as the official SDKs do.

use std::ops::Range;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::faults::assert_sound;
use crate::program::mcptap;
use crate::support::needs::{self, have};
use crate::wrapped::{Follower, Wrapped, await_session, of_type, place, recorded, texts};

/// More than the queue has room for in memory, and than is recorded while it passes.
const LINES: Range<usize> = 1..40_001;

/// A server in the language of `sh` that says so much at once, and then does something else.
fn floods(then: &str) -> String {
    format!("{}; {then}", says(LINES))
}

fn says(lines: Range<usize>) -> String {
    let format = format!(r#"{{"method":"m","params":{{"n":%.0f,"text":"{}"}}}}"#, "x".repeat(1_000));
    format!("seq -f '{format}' {} {}", lines.start, lines.end - 1)
}

fn said(n: usize) -> String {
    format!(r#"{{"method":"m","params":{{"n":{n},"text":"{}"}}}}"#, "x".repeat(1_000))
}

/// A wrapper at the head of a process group, which the Python SDK signals as a whole.
fn start(db: &Path, script: &str) -> (Wrapped, Pid) {
    let mut command = mcptap();
    command.args(["wrap", "--db"]).arg(db).args(["--", "sh", "-c", script]).process_group(0);
    let wrapped = Wrapped::start(command);
    let group = i32::try_from(wrapped.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    (wrapped, group)
}

/// Waits until the record is at its end, and holds it against what the host heard.
fn assert_all_recorded(db: &Path, wrapper: Pid, lines: Range<usize>, exit: &Value) {
    await_session(db);
    Follower::start(db).rest();
    assert_sound(db);
    let record = recorded(db);
    assert!(texts(&record, "server-to-client").into_iter().eq(lines.map(said)), "each line once and in order");
    assert_eq!(of_type(&record, "session")[0]["exit"], *exit);
    let (writer, ended): (i32, Option<i64>) = Connection::open(db)
        .and_then(|db| db.query_row("SELECT process, ended FROM capture", [], |row| Ok((row.get(0)?, row.get(1)?))))
        .expect("a capture");
    assert!(ended.is_some(), "it came to its end");
    assert_ne!(writer, wrapper.as_raw_nonzero().get(), "there was much left for the successor");
}

#[test]
fn what_a_server_said_before_it_was_ended_with_its_wrapper_is_recorded() {
    let (_folder, db) = place();
    let (mut wrapped, group) = start(&db, &floods("exec sleep 1000"));
    LINES.for_each(|n| assert_eq!(wrapped.hear(), said(n)));
    drop(wrapped.stdin.take());
    kill_process_group(group, Signal::TERM).expect("it lives");
    // Both pipes are at their end too: the successor holds neither open.
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()), (Some(143), "", ""));
    assert!(kill_process_group(group, Signal::KILL).is_err(), "nobody is left of the group");
    assert_all_recorded(&db, group, LINES, &json!({ "signal": 15 }));
}

#[test]
fn a_wrapper_that_waits_for_its_record_leaves_it_to_a_successor_when_told_to_end() {
    let (_folder, db) = place();
    let (mut wrapped, group) = start(&db, &floods("cat; exit 3"));
    LINES.for_each(|n| assert_eq!(wrapped.hear(), said(n)));
    drop(wrapped.stdin.take());
    assert_eq!(wrapped.hear(), "", "the server ended");
    kill_process_group(group, Signal::TERM).expect("it lives");
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(3), ""));
    assert_all_recorded(&db, group, LINES, &json!({ "code": 3 }));
}

#[test]
fn what_a_server_goes_on_to_say_until_it_is_killed_is_recorded_too() {
    let (_folder, db) = place();
    let more = LINES.end..LINES.end + 20_000;
    let goes_on = format!("read x; {}; read x", says(more.clone()));
    let (mut wrapped, group) = start(&db, &format!("trap '' TERM; {}", floods(&goes_on)));
    LINES.for_each(|n| assert_eq!(wrapped.hear(), said(n)));
    kill_process_group(group, Signal::TERM).expect("it lives");
    wrapped.say("go on");
    more.clone().for_each(|n| assert_eq!(wrapped.hear(), said(n)));
    await_session(&db);
    // By then the rest has long passed, and is still to be recorded.
    Follower::start(&db).await_message(more.start + 100);
    kill_process_group(group, Signal::KILL).expect("it lives");
    assert_eq!(wrapped.end().status.signal(), Some(9));
    assert_all_recorded(&db, group, LINES.start..more.end, &Value::Null);
}

/// Nobody outlives the first process of a container: it records as long as it is let.
#[test]
fn the_first_process_of_a_container_records_the_rest_itself() {
    let (_folder, db) = place();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_mcptap"), "wrap", "--db"]);
    command.arg(&db).args(["--", "sh", "-c", &floods("exec sleep 1000")]);
    let mut wrapped = Wrapped::start(command);
    if !have(&needs::PROCESSES, !wrapped.hear().is_empty()) {
        return;
    }
    let unshare = wrapped.child.id();
    let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).expect("it lives");
    let wrapper = children.trim().parse().ok().and_then(Pid::from_raw).expect("its one child");
    LINES.skip(1).for_each(|n| assert_eq!(wrapped.hear(), said(n)));
    kill_process(wrapper, Signal::TERM).expect("it lives");
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(143), ""));
    assert_eq!(texts(&recorded(&db), "server-to-client").len(), LINES.len());
}
