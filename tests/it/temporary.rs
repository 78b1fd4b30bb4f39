//! Temporary databases: a capture file is imported into one, and nothing of it stays behind.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{mcptap, root};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, finished};

/// Bytes that exceed the buffer of a pipe. When they are written, their reader has read some.
const MUCH: usize = 1 << 20;

fn sample() -> String {
    root().join("samples/weather/capture.pcapng").display().to_string()
}

/// A program whose temporary files are in a folder of the test.
fn in_folder(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = mcptap();
    command.args(arguments).env("TMPDIR", folder).stdout(Stdio::piped());
    command
}

/// A program in the middle of an import from its standard input.
fn importing(folder: &Path, arguments: &[&str]) -> Child {
    importing_with(in_folder(folder, arguments))
}

fn importing_with(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mcptap runs");
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
    while capture.len() < MUCH {
        // An IPv4 packet of an unknown protocol.
        capture.extend([0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 20, 0, 0, 0]);
        capture.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    child.stdin.as_mut().expect("a pipe").write_all(&capture).expect("it reads");
    child
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

/// Ends a process with a signal. Asserts that it ended by it.
fn end(mut child: Child, signal: Signal, what: &str) {
    kill_process(Pid::from_child(&child), signal).expect("it lives");
    let status = child.ended(what);
    assert_eq!(status.signal(), Some(signal.as_raw()), "{what} at {signal:?}");
}

#[test]
fn signals_leave_nothing_behind() {
    let sample = sample();
    let commands: &[&[&str]] = &[
        &["show", "-"],
        &["layers", "-"],
        &["sessions", "-"],
        &["export", "-", "--format", "har"],
        &["diff", &sample, "-"],
        &["mock", "-"],
        &["mock", "-", "--listen", "0"],
        &["replay", "-", "--to", "http://127.0.0.1:1/mcp"],
        &["replay", "-", "--", "cat"],
    ];
    let leaves_nothing = |arguments: &[&str], signal| {
        let folder = tempfile::tempdir().expect("a folder");
        let importing = importing(folder.path(), arguments);
        assert!(!entries(folder.path()).is_empty(), "{arguments:?}");
        end(importing, signal, &arguments.join(" "));
        assert!(entries(folder.path()).is_empty(), "{arguments:?} at {signal:?}");
    };
    thread::scope(|scope| {
        for arguments in commands {
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                scope.spawn(move || leaves_nothing(arguments, signal));
            }
        }
    });
}

#[test]
fn a_signal_while_nobody_reads_the_output_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = root().join("tests/captures/04_keepalive/capture.pcap").display().to_string();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child =
            in_folder(folder.path(), &["export", &capture, "--format", "jsonl"]).spawn().expect("mcptap runs");
        let stdout = child.stdout.take().expect("a pipe");
        let mut stdout = Patient::new(stdout, "an export to write");
        stdout.read_exact(&mut [0]).expect("the import is over");
        assert_eq!(entries(folder.path()).len(), 1);
        end(child, signal, "export");
        assert!(entries(folder.path()).is_empty(), "{signal:?}");
    }
}

#[test]
fn a_killed_process_is_cleaned_up_after_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    end(importing(here, &["show", "-"]), Signal::KILL, "show");
    let [left] = &entries(here)[..] else { panic!("one folder stays") };
    let metadata = left.metadata().expect("a folder");
    assert_eq!((metadata.is_dir(), metadata.permissions().mode() & 0o777), (true, 0o700));
    assert_eq!(metadata.uid(), rustix::process::geteuid().as_raw());
    let name = |path: &Path| path.file_name().expect("a name").to_str().expect("text").to_owned();
    let random = name(left).strip_prefix("mcptap-capture-").map(str::to_owned).expect("it names the program");
    assert!(random.len() >= 20 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{random}");

    let live = importing(here, &["sessions", "-"]);
    let [held] = &entries(here)[..] else { panic!("the abandoned folder is gone") };
    assert_ne!(name(held), name(left));
    // Another user's files must not be reachable through a name that looks like ours.
    let victim = tempfile::tempdir().expect("a folder");
    fs::write(victim.path().join("capture.db"), "precious").expect("written");
    let link = here.join(format!("mcptap-capture-{}", "x".repeat(random.len())));
    symlink(victim.path(), &link).expect("a link");
    assert!(in_folder(here, &["show", &sample()]).finished().status.success());
    assert!(victim.path().join("capture.db").exists() && link.is_symlink());
    assert!(held.join("capture.db").exists(), "its process lives");
    end(live, Signal::TERM, "sessions");
    assert_eq!(entries(here), [link]);
}

/// `nohup` ignores SIGHUP in the program that it starts.
#[test]
fn an_ignored_signal_stays_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = mcptap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" check -"]).arg(program.get_program()).env("TMPDIR", folder.path());
    let importing = importing_with(shell);
    kill_process(Pid::from_child(&importing), Signal::HUP).expect("it lives");
    let done = finished(importing, "check");
    assert!(done.status.success(), "{} {}", done.status, String::from_utf8_lossy(&done.stderr));
    assert!(entries(folder.path()).is_empty());
}

/// Programs that make no temporary database neither look for abandoned ones nor make a folder.
#[test]
fn other_commands_do_not_clean() {
    let folder = tempfile::tempdir().expect("a folder");
    end(importing(folder.path(), &["show", "-"]), Signal::KILL, "show");
    let sample = sample();
    let check = ["check", &sample, "--fail-on", "never"];
    for arguments in [&["--version"][..], &["read", &sample], &check, &["rules"]] {
        assert!(in_folder(folder.path(), arguments).finished().status.success());
        assert_eq!(entries(folder.path()).len(), 1, "{arguments:?}");
    }
}
