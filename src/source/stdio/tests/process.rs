//! The wrapper as a separate process: signals, orphans, exit statuses, output.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::support::signals::default_in_programs;
use crate::support::waits::{ProcessEnd, until};

/// Not a test: the wrapper as a separate process, started by the tests below. Its command line is
/// in the environment.
#[test]
#[ignore = "run by other tests"]
fn as_a_process() {
    let Ok(script) = std::env::var("MCPTAP_TEST_SCRIPT") else { return };
    let server = match script.strip_prefix("command:") {
        Some(command) => {
            Server { command: vec![command.into()], recorded: vec![command.into()], name: None, seals: false }
        }
        None => shell(&script),
    };
    let crash = std::env::var("MCPTAP_TEST_CRASH").is_ok();
    std::process::exit(i32::from(wrap(
        &server,
        &std::env::temp_dir(),
        |text| text.into(),
        move |mut observations| {
            assert!(!crash, "as asked");
            while observations.next()?.is_some() {}
            Ok(())
        },
    )));
}

/// Starts the wrapper as a process, and removes from its stdout the lines that the test
/// harness prints first.
fn process(script: &str, configure: impl FnOnce(&mut Command)) -> (Child, BufReader<Patient<ChildStdout>>) {
    default_in_programs();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "source::stdio::tests::process::as_a_process", "--ignored", "--nocapture"]);
    command.env("MCPTAP_TEST_SCRIPT", script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    configure(&mut command);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(Patient::new(child.stdout.take().unwrap(), "the wrapped server to write"));
    for expected in ["\n", "running 1 test\n"] {
        assert_eq!(line(&mut stdout), expected);
    }
    (child, stdout)
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

#[test]
fn signals_reach_the_server_each_time_and_it_decides() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        let script = format!("trap 'echo got' {name}; echo ready; while :; do read line && break; done; exit 9");
        let (mut child, mut stdout) = process(&script, |_| {});
        assert_eq!(line(&mut stdout), "ready\n");
        for _ in 0..3 {
            kill_process(pid(child.id()), signal).unwrap();
            assert_eq!(line(&mut stdout), "got\n", "{name}");
        }
        child.stdin.take().unwrap().write_all(b"end\n").unwrap();
        assert_eq!(line(&mut stdout), "", "{name}: each signal once, and nothing of ours");
        assert_eq!(child.ended("the wrapper").code(), Some(9), "{name}");
    }
}

#[test]
fn a_server_ended_by_a_signal_gives_128_and_its_number() {
    let (mut child, mut stdout) = process("echo ready; exec sleep 1000", |_| {});
    assert_eq!(line(&mut stdout), "ready\n");
    kill_process(pid(child.id()), Signal::TERM).unwrap();
    assert_eq!(child.ended("the wrapper").code(), Some(143));
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_wrapper_leaves_no_orphan() {
    let (mut child, mut stdout) = process("echo $$; exec sleep 1000", |_| {});
    let server: u32 = line(&mut stdout).trim().parse().unwrap();
    child.kill().unwrap();
    assert_eq!(child.ended("the wrapper").signal(), Some(9));
    // The state is the third word, after the name in parentheses. The process that adopts it may be
    // slow to reap it.
    let gone = || std::fs::read_to_string(format!("/proc/{server}/stat")).map_or(true, |stat| stat.contains(") Z "));
    until("the end of the server", gone);
}

#[test]
fn nothing_of_ours_is_on_stdout_and_at_most_one_line_on_stderr() {
    let (mut child, mut stdout) = process("cat; echo log >&2", |command| {
        command.env("MCPTAP_TEST_CRASH", "1").env("RUST_BACKTRACE", "1");
    });
    child.stdin.take().unwrap().write_all(b"{}\n").unwrap();
    let mut all = String::new();
    stdout.read_to_string(&mut all).unwrap();
    assert_eq!(all, "{}\n");
    let stderr = io::read_to_string(Patient::new(child.stderr.take().unwrap(), "the wrapper's last words")).unwrap();
    assert_eq!(stderr, "log\nmcptap: recording: the recorder crashed (as asked); 10 bytes passed unrecorded\n");
    assert_eq!(child.ended("the wrapper").code(), Some(0));

    let (mut child, mut stdout) = process("command:no-such-command", |_| {});
    assert_eq!(line(&mut stdout), "");
    let stderr = io::read_to_string(Patient::new(child.stderr.take().unwrap(), "the wrapper's last words")).unwrap();
    assert_eq!(
        stderr,
        "mcptap: cannot start `no-such-command`: command not found; give its full path, or check PATH\n"
    );
    assert_eq!(child.ended("the wrapper").code(), Some(127));
}
