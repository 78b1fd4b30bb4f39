//! Faults around a wrapped server, and their effect on the server, its host and the recording.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::program::{NO_STATE, mcptap};
use crate::support::needs::{self, have};
use crate::support::waits::{Finishes, ProcessEnd, joined, until};
use crate::wrapped::{
    ANSWERS, Follower, Wrapped, await_session, line, of_type, recorded, request, temporary_database, texts,
};

const TO_SERVER: &str = "client-to-server";
const TO_CLIENT: &str = "server-to-client";

fn kill(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(process, signal).expect("the process lives");
}

/// Waits for the end of a process. The process that adopted it may reap it late: its state is the
/// third word, after the name in parentheses.
fn await_end(process: u32) {
    let stat = || fs::read_to_string(format!("/proc/{process}/stat"));
    until("the end of the server", || stat().map_or(true, |stat| stat.contains(") Z ")));
}

pub fn assert_sound(db: &Path) {
    let db = Connection::open(db).expect("the database opens");
    let said: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
    assert_eq!(said, "ok");
}

#[test]
fn a_killed_wrapper_leaves_all_recorded_messages_and_no_orphan() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, &format!("echo $$ >&2; {ANSWERS}"));
    let server = line(&mut wrapped.stderr).parse().expect("a process id");
    wrapped.converse(1..51);
    await_session(&db);
    let mut follower = Follower::start(&db);
    follower.await_message(100);
    wrapped.child.kill().expect("it lives");
    wrapped.child.ended("mcptap");
    await_end(server);
    assert_sound(&db);
    let lines = recorded(&db);
    assert_eq!(texts(&lines, TO_SERVER), (1..51).map(request).collect::<Vec<_>>());
    assert_eq!(texts(&lines, TO_CLIENT).len(), 50);
    assert_eq!(of_type(&lines, "session")[0].get("exit"), None, "nobody knows how it ended");
    // The next wrapper can use the database.
    let mut next = Wrapped::shell(&db, ANSWERS);
    next.converse(1..3);
    assert!(next.end().status.success());
    assert_eq!(of_type(&recorded(&db), "session").len(), 2);
}

#[test]
fn a_killed_server_is_recorded_with_what_it_did_not_answer() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, &format!("echo $$ >&2; {ANSWERS}"));
    let server = line(&mut wrapped.stderr).parse().expect("a process id");
    wrapped.converse(1..4);
    kill(server, Signal::STOP);
    wrapped.send_line(&request(4));
    kill(server, Signal::KILL);
    let ended = wrapped.end();
    assert_eq!((ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()), (Some(137), "", ""));
    let lines = recorded(&db);
    let session = of_type(&lines, "session")[0];
    assert_eq!(session["exit"], json!({ "signal": 9 }));
    assert_eq!((&session["requests"], &session["unanswered"]), (&json!(4), &json!(1)));
    let shown = mcptap().arg("show").arg(&db).finished();
    let shown = String::from_utf8(shown.stdout).expect("text is UTF-8");
    assert!(shown.contains("died of signal 9"), "{shown}");
}

/// The kernel closes the pipes of a killed client. The wrapper cannot know more of it.
#[test]
fn a_vanished_client_ends_the_server_as_without_us() {
    let (_folder, db) = temporary_database();
    let mut reads = Wrapped::shell(&db, ANSWERS);
    reads.converse(1..3);
    drop((reads.stdin.take(), reads.stdout));
    assert!(reads.child.ended("mcptap").success(), "the server saw the end of its input");

    let mut writes =
        Wrapped::shell(&db, r#"while echo '{"jsonrpc":"2.0","method":"notifications/message"}'; do :; done"#);
    writes.next_line();
    drop((writes.stdin.take(), writes.stdout));
    let status = writes.child.ended("mcptap");
    assert_eq!(status.code(), Some(128 + 13), "the server wrote into a broken pipe");
    let sessions = recorded(&db);
    let exits: Vec<_> = of_type(&sessions, "session").iter().map(|session| session["exit"].clone()).collect();
    assert_eq!(exits, [json!({ "code": 0 }), json!({ "signal": 13 })]);
}

#[test]
fn each_signal_reaches_the_server_and_how_it_ended_is_recorded() {
    let signals = [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1), (Signal::QUIT, 3), (Signal::USR1, 10)];
    for (signal, number) in signals {
        let (_folder, db) = temporary_database();
        // A quit signal writes no core file. The exec makes the signal end the server and not only
        // its shell.
        let mut wrapped = Wrapped::shell(&db, r#"ulimit -c 0; echo '{"jsonrpc":"2.0","method":"ready"}'; exec cat"#);
        wrapped.next_line();
        kill(wrapped.child.id(), signal);
        assert_eq!(wrapped.child.ended("mcptap").code(), Some(128 + number));
        assert_eq!(of_type(&recorded(&db), "session")[0]["exit"], json!({ "signal": number }));
    }
    let (_folder, db) = temporary_database();
    let mut wrapped =
        Wrapped::shell(&db, "trap 'exit 7' TERM; echo '{\"method\":\"ready\"}'; while :; do read -r x; done");
    wrapped.next_line();
    kill(wrapped.child.id(), Signal::TERM);
    assert_eq!(wrapped.child.ended("mcptap").code(), Some(7), "the server decides");
    assert_eq!(of_type(&recorded(&db), "session")[0]["exit"], json!({ "code": 7 }));
}

#[test]
fn a_server_that_closes_its_stdout_lives_on() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, "exec >&-; while read -r line; do echo heard >&2; done; exit 5");
    assert_eq!(wrapped.next_line(), "", "the end of stdout is passed on");
    for id in 1..3 {
        wrapped.send_line(&request(id));
        assert_eq!(line(&mut wrapped.stderr), "heard");
    }
    assert_eq!(wrapped.end().status.code(), Some(5));
    let lines = recorded(&db);
    assert_eq!(texts(&lines, TO_SERVER), [request(1), request(2)]);
    assert_eq!(of_type(&lines, "session")[0]["unanswered"], 2);
}

#[test]
fn twenty_wrappers_share_a_database() {
    let (_folder, db) = temporary_database();
    let hosts: Vec<_> = (0..20)
        .map(|_| {
            let mut wrapped = Wrapped::shell(&db, ANSWERS);
            std::thread::spawn(move || {
                wrapped.converse(1..26);
                wrapped.end()
            })
        })
        .collect();
    for host in hosts {
        let ended = joined(host, "a host to be content");
        // On a busy machine a recorder can wait in vain for the others. Then its recording is moved
        // below.
        let is_complete =
            ended.stderr.is_empty() || ended.stderr.ends_with(", and the next start of mcptap moves it\n");
        assert!(ended.status.success() && is_complete, "{}", ended.stderr);
    }
    let lines = recorded(&db);
    assert_sound(&db);
    let sessions = of_type(&lines, "session");
    assert_eq!(sessions.len(), 20);
    for session in sessions {
        assert_eq!((&session["messages"], &session["unanswered"]), (&json!(50), &json!(0)));
    }
    assert_eq!(of_type(&lines, "message").len(), 20 * 50);
}

#[test]
fn a_database_that_is_locked_before_it_has_tables_costs_nothing() {
    let (_folder, db) = temporary_database();
    let holder = Connection::open(&db).expect("the database is made");
    holder.execute_batch("BEGIN EXCLUSIVE").expect("it is free");
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..11);
    let ended = wrapped.end();
    assert!(ended.status.success());
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("mcptap: recording: the database is locked; the recording is in "));

    // The lock ends during the recording.
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..11);
    holder.execute_batch("COMMIT").expect("it is ours");
    wrapped.converse(11..21);
    let ended = wrapped.end();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
    assert_eq!(of_type(&recorded(&db), "message").len(), 60);
}

/// A file name that clears the screen, where it reaches a terminal.
const HOSTILE: &str = "te\u{1b}[2Jxt";

/// Databases that can never be opened, in `folder`.
fn unusable(folder: &Path) -> Vec<PathBuf> {
    let [text, newer, damaged] = [HOSTILE, "newer.db", "damaged.db"].map(|name| folder.join(name));
    fs::write(&text, "no database, but a file of somebody's\n").expect("the file is written");
    for db in [&newer, &damaged] {
        let mut wrapped = Wrapped::shell(db, ANSWERS);
        wrapped.converse(1..3);
        assert!(wrapped.end().stderr.is_empty());
    }
    let other = Connection::open(&newer).expect("the database opens");
    other.pragma_update(None, "user_version", 1_000).expect("the version is changed");
    let mut bytes = fs::read(&damaged).expect("the file is read");
    bytes[100..].fill(0xaa);
    fs::write(&damaged, bytes).expect("the file is written");
    vec![text.join("below"), text, newer, damaged, folder.to_owned()]
}

#[test]
fn an_unusable_database_is_reported_in_one_line_while_the_server_runs() {
    let (folder, _) = temporary_database();
    for db in unusable(folder.path()) {
        let mut wrapped = Wrapped::shell(&db, &format!("{ANSWERS}; exit 3"));
        let report = line(&mut wrapped.stderr);
        assert!(report.starts_with("mcptap: recording: ") && report.ends_with("; nothing is recorded"), "{report}");
        assert!(!report.contains(char::is_control), "{report:?}");
        wrapped.converse(1..3);
        let ended = wrapped.end();
        assert_eq!((ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()), (Some(3), "", ""));
    }
    assert_eq!(
        fs::read_to_string(folder.path().join(HOSTILE)).expect("it is still there"),
        "no database, but a file of somebody's\n"
    );
    // The program creates the folder and the database.
    let db = folder.path().join("new/folder/mcptap.db");
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..3);
    assert!(wrapped.end().stderr.is_empty());
    assert_eq!(of_type(&recorded(&db), "message").len(), 4);
}

#[test]
fn a_recording_whose_database_is_deleted_goes_on_in_a_new_one() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..6);
    await_session(&db);
    Follower::start(&db).await_message(10);
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(db.with_file_name(format!("mcptap.db{suffix}"))).expect("it is there");
    }
    let report = line(&mut wrapped.stderr);
    assert!(report.ends_with("was deleted; what follows is recorded in a new one"), "{report}");
    wrapped.converse(6..11);
    let ended = wrapped.end();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
    assert_sound(&db);
    let lines = recorded(&db);
    assert_eq!(texts(&lines, TO_SERVER), (6..11).map(request).collect::<Vec<_>>());
    assert_eq!(texts(&lines, TO_CLIENT).len(), 5);
    let session = of_type(&lines, "session")[0];
    assert_eq!(session["peers"]["command"][0], "sh", "{session}");
    assert_eq!(session["exit"], json!({ "code": 0 }));
    let layers = mcptap().arg("layers").arg(&db).finished();
    assert!(String::from_utf8_lossy(&layers.stdout).contains("stdout, line 10"), "the bytes are traced to their pipe");
}

/// A script in its own mount namespace, with a file system of this size in `folder`. `None` if this
/// machine forbids that.
fn on_small_disk(folder: &Path, size: &str, script: &str) -> Option<Command> {
    let flags: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-rm"] };
    let mount = |script: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size={size} none \"$0\" && {script}");
        command.args(flags).args(["sh", "-c", &script]).arg(folder);
        command
    };
    let probe = mount("true").try_finished();
    if !have(&needs::MOUNTS, probe.is_ok_and(|probe| probe.status.success())) {
        return None;
    }
    let mut command = mount(script);
    command.env("MCPTAP", env!("CARGO_BIN_EXE_mcptap")).env("ANSWERS", ANSWERS).env(NO_STATE.0, NO_STATE.1);
    Some(command)
}

#[test]
fn a_full_disk_costs_the_record_only() {
    let (folder, _) = temporary_database();
    let [disk, kept] = ["disk", "kept"].map(|name| folder.path().join(name));
    fs::create_dir(&disk).expect("a folder");
    fs::create_dir(&kept).expect("a folder");
    // Data that cannot be compressed, several times the size of the disk. The recording is copied
    // before the disk disappears.
    let script = r#""$MCPTAP" wrap --db "$0/mcptap.db" -- sh -c 'head -c 6000000 /dev/urandom | base64 -w 3000; exit 4'
        status=$?; cp "$0"/mcptap.db* "$0/../kept/"; exit $status"#;
    let Some(command) = on_small_disk(&disk, "1m", script) else { return };
    let ended = Wrapped::start(command).end();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().map(str::len).sum::<usize>(), 8_000_000, "the host got everything");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("disk is full"), "{}", ended.stderr);
    let bytes = ended.stderr.strip_suffix(" bytes passed unrecorded\n").and_then(|said| said.split("; ").last());
    let bytes: usize = bytes.and_then(|bytes| bytes.parse().ok()).expect(&ended.stderr);
    assert!((7_000_000..8_100_000).contains(&bytes), "a disk of 1 MB holds less than that: {}", ended.stderr);
    assert_sound(&kept.join("mcptap.db"));
}

#[test]
fn a_read_only_database_costs_the_record_only() {
    let (folder, _) = temporary_database();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let script = r#""$MCPTAP" wrap --db "$0/mcptap.db" -- true </dev/null && mount -o remount,ro "$0" &&
        "$MCPTAP" wrap --db "$0/mcptap.db" -- sh -c "$ANSWERS; exit 6""#;
    let Some(command) = on_small_disk(&disk, "8m", script) else { return };
    let mut wrapped = Wrapped::start(command);
    wrapped.converse(1..5);
    let ended = wrapped.end();
    assert_eq!(ended.status.code(), Some(6), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("mcptap: recording: "), "{}", ended.stderr);
}

#[test]
fn a_command_that_cannot_start_is_reported_as_shells_do() {
    let (folder, db) = temporary_database();
    let script = folder.path().join("server");
    fs::write(&script, "#!/bin/sh\n").expect("the file is written");
    for (command, status) in [("no-such-command-anywhere", 127), (script.to_str().expect("UTF-8"), 126)] {
        let mut wrap = mcptap();
        wrap.args(["wrap", "--db"]).arg(&db).args(["--", command]);
        let ended = Wrapped::start(wrap).end();
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(status), ""));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.starts_with(&format!("mcptap: cannot start `{command}`: ")), "{}", ended.stderr);
    }
}

#[test]
fn secrets_of_the_command_line_are_recorded_masked() {
    for (options, token) in [(&[][..], "*******"), (&["--keep-secrets"][..], "s3cr3t!")] {
        let (_folder, db) = temporary_database();
        let mut wrap = mcptap();
        wrap.args(["wrap", "--db"]).arg(&db).args(options);
        wrap.args(["--", "sh", "-c", r#"echo "{\"method\":\"$1\"}""#, "--api-key", "s3cr3t!"]);
        let ended = Wrapped::start(wrap).end();
        assert_eq!(ended.stdout, "{\"method\":\"s3cr3t!\"}\n", "the server gets it as it is");
        let lines = recorded(&db);
        let peers = of_type(&lines, "session")[0]["peers"].to_string();
        assert!(peers.contains(token), "{peers}");
        let source = Connection::open(&db)
            .and_then(|db| db.query_row("SELECT source FROM capture", [], |row| row.get::<_, String>(0)))
            .expect("a capture");
        assert!(source.ends_with(&format!("--api-key {token}")), "{source}");
    }
}

#[test]
fn a_wrapper_that_a_signal_kills_prints_nothing() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..3);
    kill(wrapped.child.id(), Signal::KILL);
    let ended = wrapped.end();
    assert_eq!(ended.status.signal(), Some(9));
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}
