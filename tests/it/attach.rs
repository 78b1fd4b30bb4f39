//! `mcptap attach` and processes that already run.
//!
//! Where the kernel refuses to load programs, these tests are counted as not run, with its reason.

mod hosts;
mod http;
#[cfg(feature = "live")]
mod keys;
mod object;
#[cfg(feature = "live")]
mod run;
mod stdio;
#[cfg(feature = "live")]
mod text;

use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::program::mcptap;
use crate::support::needs;
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, joined};
use crate::wrapped::line;

/// A running `mcptap attach` that prints JSON lines.
struct Watcher {
    child: Child,
    stderr: BufReader<Patient<ChildStderr>>,
    stdout: Option<JoinHandle<String>>,
}

/// The output of a watcher that ended.
struct Watched {
    lines: Vec<Value>,
    stderr: String,
}

impl Watcher {
    /// Attaches to a process. `None` if the kernel refuses.
    fn attach(process: u32, options: &[&str]) -> Option<Watcher> {
        Watcher::start(&[&["attach", &process.to_string(), "--json"], options].concat())
    }

    /// Starts a command that attaches. Returns once it has done so.
    fn start(arguments: &[&str]) -> Option<Watcher> {
        let mut command = mcptap();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("mcptap starts");
        let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let mut stderr = BufReader::new(Patient::new(stderr, "mcptap to attach"));
        let first = line(&mut stderr);
        if !first.starts_with("mcptap: attached to ") {
            child.killed();
            // Another refusal is a fault of the probe.
            let is_refused = ["the kernel does not permit it", "this kernel has no description"];
            assert!(is_refused.iter().any(|words| first.contains(words)), "{first}");
            needs::refused(&first);
            return None;
        }
        let read = move || {
            let mut text = String::new();
            Patient::new(stdout, "mcptap to print").read_to_string(&mut text).expect("text");
            text
        };
        Some(Watcher { child, stderr, stdout: Some(thread::spawn(read)) })
    }

    /// Waits for its end, which follows that of the server.
    fn end(mut self) -> Watched {
        let text = joined(self.stdout.take().expect("the end of mcptap"), "mcptap's output");
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).expect("text");
        assert!(self.child.ended("mcptap").success(), "{stderr}");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect();
        Watched { lines, stderr }
    }

    /// Asks it to end, as Ctrl-C does.
    fn interrupt(&self) {
        signal(self.child.id(), rustix::process::Signal::INT);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.child.killed();
    }
}

fn signal(process: u32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process as i32).expect("a process id");
    rustix::process::kill_process(process, signal).expect("the process lives");
}

/// A server whose pipes the test holds.
struct RunningServer {
    child: Child,
    stdin: Option<Patient<ChildStdin>>,
    stdout: BufReader<Patient<ChildStdout>>,
}

impl RunningServer {
    fn start(mut command: Command) -> RunningServer {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
        let stdin = child.stdin.take().map(|pipe| Patient::new(pipe, "a server to read"));
        let stdout = child.stdout.take().expect("a pipe");
        RunningServer { child, stdin, stdout: BufReader::new(Patient::new(stdout, "a server to write")) }
    }

    /// A server that sends back every line.
    fn echo() -> RunningServer {
        RunningServer::start(Command::new("cat"))
    }

    /// Sends a line and reads one.
    fn exchange(&mut self, text: &str) -> String {
        use std::io::Write;

        // The pipe is smaller than a large line, and the server writes while it reads.
        let mut stdin = self.stdin.take().expect("stdin is open");
        let text = format!("{text}\n");
        let writing = thread::spawn(move || {
            stdin.write_all(text.as_bytes()).expect("the server reads");
            stdin
        });
        let answer = line(&mut self.stdout);
        self.stdin = Some(joined(writing, "a server to read a line"));
        answer
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.child.killed();
    }
}

/// The texts of the messages of one direction, in order.
fn texts(watched: &Watched, direction: &str) -> Vec<String> {
    crate::wrapped::texts(&watched.lines, direction)
}

/// The pairs that `attach --list` shows.
fn listed() -> Vec<Value> {
    let done = mcptap().args(["attach", "--list", "--json"]).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("JSON is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

/// A path below the root of the project.
fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
