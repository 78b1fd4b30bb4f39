//! A server under `mcptap wrap`, and its recording.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::program::mcptap;
use crate::support::pipes::Patient;
use crate::support::signals::default_in_programs;
use crate::support::waits::{Finishes, ProcessEnd, until};

/// A server in the language of `sh` that answers every line, with ids 1, 2, 3 and so on.
pub const ANSWERS: &str =
    r#"n=0; while read -r line; do n=$((n+1)); echo "{\"jsonrpc\":\"2.0\",\"id\":$n,\"result\":{}}"; done"#;

/// A request with this id.
pub fn request(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
}

/// The wrapper, as its host sees it.
pub struct Wrapped {
    pub child: Child,
    pub stdin: Option<Patient<ChildStdin>>,
    pub stdout: BufReader<Patient<ChildStdout>>,
    pub stderr: BufReader<Patient<ChildStderr>>,
}

/// The output of a wrapper that ended.
pub struct WrapOutput {
    pub status: ExitStatus,
    /// The standard output that was not read before.
    pub stdout: String,
    /// Without the line that names the session.
    pub stderr: String,
    /// The line that names the session.
    pub recorded: Option<String>,
}

/// Standard error without the line that names the recorded sessions, and the last such line.
pub fn without_report(stderr: &str) -> (String, Option<String>) {
    let is_report = |line: &&str| line.starts_with("mcptap: recorded as session");
    let (reports, others): (Vec<&str>, Vec<&str>) = stderr.split_inclusive('\n').partition(is_report);
    (others.concat(), reports.last().map(|line| (*line).to_owned()))
}

impl WrapOutput {
    pub fn new(status: ExitStatus, stdout: String, stderr: String) -> WrapOutput {
        let (stderr, recorded) = without_report(&stderr);
        WrapOutput { status, stdout, stderr, recorded }
    }
}

impl Wrapped {
    /// Starts `mcptap wrap` of a server in the language of `sh`, recording into `db`.
    pub fn shell(db: &Path, script: &str) -> Wrapped {
        let mut command = mcptap();
        command.args(["wrap", "--db"]).arg(db).args(["--", "sh", "-c", script]);
        Wrapped::start(command)
    }

    pub fn start(mut command: Command) -> Wrapped {
        default_in_programs();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Wrapped {
            child,
            stdin: stdin.map(|pipe| Patient::new(pipe, "a wrapper to read its stdin")),
            stdout: BufReader::new(Patient::new(stdout.expect("a pipe"), "a wrapped server to write to stdout")),
            stderr: BufReader::new(Patient::new(stderr.expect("a pipe"), "a wrapped server to write to stderr")),
        }
    }

    /// Writes a line to the server.
    pub fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("stdin is open"), "{line}").expect("the wrapper reads");
    }

    /// The next line of the server, without its line end; empty at the end.
    pub fn next_line(&mut self) -> String {
        line(&mut self.stdout)
    }

    /// Sends these requests and reads the response of each.
    pub fn converse(&mut self, ids: std::ops::Range<usize>) {
        for id in ids {
            self.send_line(&request(id));
            assert_eq!(self.next_line(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
    }

    /// Closes stdin and waits for the end.
    pub fn end(mut self) -> WrapOutput {
        drop(self.stdin.take());
        let [mut stdout, mut stderr] = [String::new(), String::new()];
        self.stdout.read_to_string(&mut stdout).expect("stdout is text");
        self.stderr.read_to_string(&mut stderr).expect("stderr is text");
        WrapOutput::new(self.child.ended("mcptap"), stdout, stderr)
    }
}

/// The next line, without its line end; empty at the end.
pub fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("lines are text");
    line.trim_end_matches('\n').to_owned()
}

/// The JSON lines that a command of mcptap prints.
pub fn json(arguments: &[&str], target: &Path) -> Vec<Value> {
    let done = mcptap().args(arguments).arg(target).arg("--json").finished();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8(done.stdout).expect("JSON is UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

/// The lines of one type.
pub fn of_type<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == name).collect()
}

/// The whole content of a database.
pub fn recorded(db: &Path) -> Vec<Value> {
    json(&["show"], db)
}

/// The texts of the messages of one direction, in order.
pub fn texts(lines: &[Value], direction: &str) -> Vec<String> {
    let messages = of_type(lines, "message").into_iter().filter(|message| message["direction"] == direction);
    messages.map(|message| message["raw"].as_str().expect("text").to_owned()).collect()
}

/// `show latest --follow`: another process, which prints the recording as it grows.
pub struct Follower {
    child: Child,
    stdout: BufReader<Patient<ChildStdout>>,
}

impl Follower {
    pub fn start(db: &Path) -> Follower {
        let mut command = mcptap();
        command.args(["show", "latest", "--follow", "--json", "--db"]).arg(db);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("mcptap runs");
        let stdout = child.stdout.take().expect("a pipe");
        let stdout = BufReader::new(Patient::new(stdout, "`show --follow` to write"));
        Follower { child, stdout }
    }

    /// Waits for the message with this number.
    pub fn await_message(&mut self, number: usize) -> Value {
        loop {
            let line: Value = serde_json::from_str(&line(&mut self.stdout)).expect("it goes on following");
            if line["type"] == "message" && line["number"] == number {
                return line;
            }
        }
    }

    /// The other lines until the process ends by itself.
    pub fn rest(mut self) -> Vec<Value> {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        assert!(self.child.ended("mcptap").success());
        rest.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.child.killed();
    }
}

/// Waits until a session is in the database. Before that `--follow` has nothing to follow.
pub fn await_session(db: &Path) {
    let show = || mcptap().args(["show", "latest", "--db"]).arg(db).finished();
    until("a session in the database", || show().status.success());
}

/// A temporary folder and the path of a database in it.
pub fn temporary_database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let db = folder.path().join("mcptap.db");
    (folder, db)
}
