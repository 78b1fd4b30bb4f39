//! The display of a recording while it grows, by the recorder and by a second process.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{mcptap, root};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, until};
use crate::wrapped::{ANSWERS, Follower, Wrapped, await_session, line, of_type, recorded, request, temporary_database};

/// The state of the only session, as `mcptap sessions` shows it behind the name of the server.
fn state(db: &Path) -> String {
    let shown = mcptap().args(["sessions", "--db"]).arg(db).finished();
    let shown = String::from_utf8(shown.stdout).expect("text is UTF-8");
    let row = shown.lines().nth(1).expect("a session");
    row.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(state, _)| state).to_owned()
}

#[test]
fn a_second_process_sees_each_message_of_a_wrapped_server_and_its_end() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..2);
    await_session(&db);
    let mut follower = Follower::start(&db);
    for id in 2..6 {
        // The next call waits until the follower printed this one.
        assert_eq!(follower.await_message(2 * id - 2)["kind"], "response");
        wrapped.converse(id..id + 1);
    }
    follower.await_message(10);
    assert_eq!(state(&db), "live");
    wrapped.send_line(&request(6));
    wrapped.next_line();
    assert!(wrapped.end().status.success());
    let rest = follower.rest();
    assert_eq!(of_type(&rest, "message").len(), 2, "what was said last is not missed");
    assert_eq!(of_type(&rest, "session").last().expect("how it ended")["exit"], json!({ "code": 0 }));
    assert_eq!(state(&db), "", "no longer live");
}

/// Makes the last update of the recorder an old one.
fn make_the_last_update_old(db: &Path) -> rusqlite::Result<usize> {
    Connection::open(db)?.execute("UPDATE capture SET last_alive = 0", [])
}

/// A recorder without updates may be busy with a huge message. Here it is stopped.
#[test]
fn a_silent_recorder_is_followed_as_long_as_its_process_lives() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..2);
    await_session(&db);
    Follower::start(&db).await_message(2);
    let process = Pid::from_raw(wrapped.child.id() as i32).expect("a process id");
    let tell = |signal| kill_process(process, signal).expect("it lives");
    tell(Signal::STOP);
    until("the recorder to be stopped while it does not write", || {
        let forgotten = make_the_last_update_old(&db).is_ok();
        if !forgotten {
            tell(Signal::CONT);
            tell(Signal::STOP);
        }
        forgotten
    });
    assert_eq!(state(&db), "live");
    let mut follower = Follower::start(&db);
    // The follower prints a message after it checked whether more can come.
    follower.await_message(2);
    tell(Signal::CONT);
    wrapped.converse(2..3);
    follower.await_message(4);
    wrapped.child.kill().expect("it lives");
    wrapped.child.ended("mcptap");
    make_the_last_update_old(&db).expect("nobody else writes");
    follower.rest();
    assert_eq!(state(&db), "cut", "nobody knows what came then");
}

/// `mcptap read` of a capture that grows.
struct GrowingRead {
    child: Child,
    stdout: BufReader<Patient<ChildStdout>>,
}

impl GrowingRead {
    fn start(arguments: &[&str], stdin: Stdio) -> GrowingRead {
        let mut command = mcptap();
        command.arg("read").args(arguments).arg("--json").stdin(stdin).stdout(Stdio::piped());
        let mut child = command.spawn().expect("mcptap runs");
        let stdout = child.stdout.take().expect("a pipe");
        let stdout = BufReader::new(Patient::new(stdout, "`read` to write"));
        GrowingRead { child, stdout }
    }

    fn await_message(&mut self, number: usize) {
        loop {
            let line: Value = serde_json::from_str(&line(&mut self.stdout)).expect("it goes on reading");
            if line["type"] == "message" && line["number"] == number {
                return;
            }
        }
    }

    /// The summary, which is the last line.
    fn end(mut self) -> Value {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        assert!(self.child.ended("mcptap").success());
        serde_json::from_str(rest.lines().last().expect("a summary")).expect("lines are JSON")
    }
}

/// The sample in two pieces. The first one ends within a packet after the third message.
fn pieces() -> (Vec<u8>, Vec<u8>) {
    let mut sample = std::fs::read(root().join("samples/weather/capture.pcapng")).expect("the sample is here");
    let at = memchr::memmem::find(&sample, b"notifications/initialized").expect("the third message") + 600;
    let rest = sample.split_off(at);
    (sample, rest)
}

#[test]
fn a_growing_file_is_read_as_it_grows() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("growing.pcapng");
    let (first, rest) = pieces();
    let mut file = File::create(&path).expect("a file");
    file.write_all(&first).expect("the disk has room");
    let mut read = GrowingRead::start(&["--follow", path.to_str().expect("UTF-8")], Stdio::null());
    read.await_message(3);
    file.write_all(&rest).expect("the disk has room");
    read.await_message(7);
    let process = Pid::from_raw(read.child.id() as i32).expect("a process id");
    kill_process(process, Signal::INT).expect("it lives");
    assert_eq!(read.end()["messages"], 7, "Ctrl-C ends it in good order");
}

#[test]
fn a_capture_in_a_pipe_is_shown_as_it_grows() {
    let (first, rest) = pieces();
    let (read, mut write) = std::io::pipe().expect("a pipe");
    let mut read = GrowingRead::start(&["-"], read.into());
    write.write_all(&first).expect("it reads");
    read.await_message(3);
    write.write_all(&rest).expect("it reads");
    drop(write);
    assert_eq!(read.end()["messages"], 7);
}

/// Law 4 of `docs/architecture.md`, for pipes: the export gives the same events as
/// the live recording.
#[test]
fn a_wrapped_session_reads_the_same_from_its_export() {
    let (folder, db) = temporary_database();
    let noisy = format!("echo 'Server 1.0'; printf '{{\\n  \"jsonrpc\": \"2.0\"\\n}}\\n'; {ANSWERS}; exit 3");
    let mut wrapped = Wrapped::shell(&db, &noisy);
    for _ in 0..4 {
        wrapped.next_line();
    }
    wrapped.converse(1..20);
    wrapped.send_line(r#"[{"jsonrpc":"2.0","id":20,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]"#);
    wrapped.next_line();
    wrapped.send_line("no JSON at all");
    wrapped.next_line();
    assert_eq!(wrapped.end().status.code(), Some(3));
    let live = recorded(&db);
    let file = folder.path().join("session.pcapng");
    let mut export = mcptap();
    export.args(["export", "latest", "--format", "pcapng", "-o"]).arg(&file).arg("--db").arg(&db);
    assert!(export.finished().status.success());
    let offline = crate::wrapped::recorded(&file);
    for kind in ["message", "session", "finding"] {
        let [live, offline] = [&live, &offline]
            .map(|lines| of_type(lines, kind).into_iter().map(|line| format!("{line:#}\n")).collect::<String>());
        assert!(!live.is_empty(), "there is a {kind}");
        crate::decoded::assert_same(kind, &live, &offline);
    }
}
