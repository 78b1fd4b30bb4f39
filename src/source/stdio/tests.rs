//! Real servers (`cat`, `sh`) between a host played by the test and the tee.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::capture::pipe::{Content, Start, decode};
use crate::capture::{LinkType, Time};
use crate::source::{Item, Source};

/// What the recorder saw, in a form that outlives the packets.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Start(Start),
    Data(Pipe, Vec<u8>),
    EndOfFile(Pipe),
    Exit(Exit),
    Lost(Pipe, u64),
}

/// A server under the tee, seen from its host.
struct Running {
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    tee: JoinHandle<Result<Outcome, StartError>>,
    record: std::sync::mpsc::Receiver<Vec<(Time, Seen)>>,
}

fn shell(script: &str) -> Server {
    let words = ["sh", "-c", script];
    Server {
        command: words.map(Into::into).to_vec(),
        recorded: words.map(Into::into).to_vec(),
        name: Some("test".into()),
    }
}

fn cat() -> Server {
    Server { command: vec!["cat".into()], recorded: vec!["cat".into()], name: None }
}

/// A recorder that sends everything it saw, at the end.
fn keep_all(result: Sender<Vec<(Time, Seen)>>) -> impl FnOnce(Observations) -> anyhow::Result<()> + Send + 'static {
    move |mut observations| {
        let mut seen = Vec::new();
        while let Some(item) = observations.next()? {
            let Item::Packet(packet) = item else { continue };
            assert_eq!(packet.link, LinkType::PIPE);
            assert_eq!(packet.number.0, seen.len() as u64 + 1);
            let (_, content) = decode(packet.data).expect("a pipe packet");
            seen.push((
                packet.time,
                match content {
                    Content::Start(start) => Seen::Start(start),
                    Content::Data(pipe, bytes) => Seen::Data(pipe, bytes.to_vec()),
                    Content::EndOfFile(pipe) => Seen::EndOfFile(pipe),
                    Content::Exit(exit) => Seen::Exit(exit),
                    Content::Lost(pipe, bytes) => Seen::Lost(pipe, bytes),
                },
            ));
        }
        let _ = result.send(seen);
        Ok(())
    }
}

fn start_with<R>(server: Server, record: impl FnOnce(Sender<Vec<(Time, Seen)>>) -> R) -> Running
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    start_beside(&std::env::temp_dir(), server, record)
}

/// As all others, with observations that memory has no room for in `folder`.
fn start_beside<R>(folder: &Path, server: Server, record: impl FnOnce(Sender<Vec<(Time, Seen)>>) -> R) -> Running
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let folder = folder.to_owned();
    let (stdin, stdout, stderr) = (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
    let host = Host { stdin: stdin.0.into(), stdout: stdout.1.into(), stderr: stderr.1.into() };
    let (sender, result) = channel();
    let record = record(sender);
    let tee = thread::spawn(move || run(&server, host, &folder, record));
    Running { stdin: Some(stdin.1), stdout: Some(stdout.0), stderr: Some(stderr.0), tee, record: result }
}

fn start(server: Server) -> Running {
    start_with(server, keep_all)
}

impl Running {
    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        bytes
    }

    fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stdout.as_mut().unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn outcome(self) -> Outcome {
        self.tee.join().unwrap().unwrap()
    }

    /// Waits for the end; the record without times, which are checked to be in order.
    fn finish(self) -> (Outcome, Vec<Seen>) {
        let outcome = self.tee.join().unwrap().unwrap();
        let seen = self.record.recv().unwrap();
        assert!(seen.is_sorted_by_key(|(time, _)| *time));
        (outcome, seen.into_iter().map(|(_, seen)| seen).collect())
    }
}

fn exited(code: i32) -> Exit {
    Exit { code: Some(code), signal: None }
}

fn bytes_of(record: &[Seen], of: Pipe) -> Vec<u8> {
    record
        .iter()
        .filter_map(|seen| if let Seen::Data(pipe, bytes) = seen { (*pipe == of).then_some(&bytes[..]) } else { None })
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_conversation_passes_unchanged_and_is_recorded_in_order() {
    let mut server = start(shell("while read line; do echo \"answer to $line\"; echo log >&2; done; exit 3"));
    server.write(b"one\n");
    assert_eq!(server.read(14), b"answer to one\n");
    server.write(b"two\n");
    assert_eq!(server.read(14), b"answer to two\n");
    server.stdin = None;
    assert_eq!(server.read_to_end(), b"");
    let mut log = String::new();
    server.stderr.as_mut().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(log, "log\nlog\n");

    let (outcome, record) = server.finish();
    assert_eq!(outcome, Outcome { exit: exited(3), unrecorded: None });
    let Some(Seen::Start(start)) = record.first() else { panic!("no start: {record:?}") };
    assert_eq!((start.command[0].as_str(), start.name.as_deref()), ("sh", Some("test")));
    assert!(start.directory.is_some());
    assert_eq!(record.last(), Some(&Seen::Exit(exited(3))));
    let talk = |seen: &&Seen| matches!(seen, Seen::Data(Pipe::Stdin | Pipe::Stdout, _));
    assert_eq!(
        record.iter().filter(talk).cloned().collect::<Vec<_>>(),
        [
            Seen::Data(Pipe::Stdin, b"one\n".into()),
            Seen::Data(Pipe::Stdout, b"answer to one\n".into()),
            Seen::Data(Pipe::Stdin, b"two\n".into()),
            Seen::Data(Pipe::Stdout, b"answer to two\n".into()),
        ]
    );
    assert_eq!(bytes_of(&record, Pipe::Stderr), b"log\nlog\n");
    for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
        assert_eq!(record.iter().filter(|seen| **seen == Seen::EndOfFile(pipe)).count(), 1, "{pipe:?}");
    }
}

#[test]
fn an_answer_is_never_recorded_before_its_question() {
    let mut server = start(cat());
    for _ in 0..500 {
        server.write(b"ping");
        assert_eq!(server.read(4), b"ping", "part of a line passes at once");
    }
    server.stdin = None;
    let (_, record) = server.finish();
    let pipes: Vec<Pipe> =
        record.iter().filter_map(|seen| if let Seen::Data(pipe, _) = seen { Some(*pipe) } else { None }).collect();
    assert_eq!(pipes.len(), 1000);
    assert!(pipes.chunks(2).all(|pair| pair == [Pipe::Stdin, Pipe::Stdout]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_bytes_in_any_pieces_pass_and_are_recorded(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5000), 0..12)) {
        let mut server = start(cat());
        for piece in &pieces {
            server.write(piece);
        }
        server.stdin = None;
        let sent = pieces.concat();
        prop_assert_eq!(&server.read_to_end(), &sent);
        let (outcome, record) = server.finish();
        prop_assert_eq!(outcome, Outcome { exit: exited(0), unrecorded: None });
        prop_assert_eq!(&bytes_of(&record, Pipe::Stdin), &sent);
        prop_assert_eq!(&bytes_of(&record, Pipe::Stdout), &sent);
    }
}

#[test]
fn the_exit_status_is_the_servers() {
    for (script, exit, code) in [
        ("exit 0", exited(0), 0),
        ("exit 255", exited(255), 255),
        ("kill -TERM $$", Exit { code: None, signal: Some(15) }, 143),
        ("kill -KILL $$", Exit { code: None, signal: Some(9) }, 137),
    ] {
        let outcome = start(shell(script)).outcome();
        assert_eq!(outcome, Outcome { exit, unrecorded: None }, "{script}");
        assert_eq!(exit_code(exit), code, "{script}");
    }
}

#[test]
fn a_server_that_cannot_start_is_told_as_shells_do() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let error = |program: &std::ffi::OsStr| {
        let server = Server { command: vec![program.into()], ..Server::default() };
        start(server).tee.join().unwrap().unwrap_err()
    };
    assert_eq!(error("no-such-command".as_ref()).exit_code(), 127);
    assert!(error("no-such-command".as_ref()).to_string().contains("`no-such-command`: command not found"));
    assert_eq!(error(directory.path().as_ref()).exit_code(), 126, "a directory");
    assert_eq!(error(script.as_ref()).exit_code(), 126, "not executable");
    Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    assert_eq!(error(script.as_ref()).exit_code(), 127);
    assert!(error(script.as_ref()).to_string().contains("interpreter"));
}

#[test]
fn a_server_that_ends_first_breaks_the_hosts_pipe() {
    let mut server = start(shell("exit 4"));
    assert_eq!(server.read_to_end(), b"");
    let mut stdin = server.stdin.take().unwrap();
    assert_eq!(server.outcome().exit, exited(4), "the host's end of stdin is open all the while");
    // A child that another test is just starting has the other end too, until it becomes its program.
    let error = std::iter::repeat_with(|| stdin.write(b"x")).find_map(Result::err);
    assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
}

#[test]
fn a_server_may_close_stdout_and_live_on() {
    let mut server = start(shell("exec 1>&-; read line; echo \"$line\" >&2; exit 5"));
    assert_eq!(server.read_to_end(), b"", "the host sees the end of stdout while the server lives");
    server.write(b"still there\n");
    let mut log = String::new();
    server.stderr.as_mut().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!((log.as_str(), server.outcome().exit), ("still there\n", exited(5)));
}

#[test]
fn a_host_that_vanishes_breaks_the_servers_pipe() {
    let mut server = start(Server { command: vec!["yes".into()], ..Server::default() });
    assert_eq!(server.read(2), b"y\n");
    server.stdout = None;
    assert_eq!(server.outcome().exit, Exit { code: None, signal: Some(13) }, "SIGPIPE, as without us");
}

#[test]
fn what_the_server_left_in_its_pipe_is_delivered_however_slowly_the_host_reads() {
    let mut server = start(shell("head -c 1000000 /dev/zero; exit 6"));
    let mut length = 0;
    while let Ok(read @ 1..) = server.stdout.as_mut().unwrap().read(&mut [0; 700]) {
        length += read;
    }
    assert_eq!((length, server.outcome().exit), (1_000_000, exited(6)));
}

#[test]
fn a_child_left_behind_does_not_keep_us() {
    let mut server = start(shell("yes 2>/dev/null & sleep 9 & echo last; exit 3"));
    let mut first = [0; 1];
    server.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    // The child writes for ever: that this comes to an end is the proof.
    server.read_to_end();
    assert_eq!(server.outcome().exit, exited(3));
}

#[test]
fn a_jammed_lane_does_not_hold_up_another() {
    let mut server = start(shell("yes & wc -c >&2; kill $!; exit 0"));
    server.write(&[0; 500_000]);
    server.stdin = None;
    let mut count = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut count).unwrap();
    assert_eq!(count.trim(), "500000", "nobody has read stdout so far");
    server.stdout = None;
    assert_eq!(server.outcome().exit, exited(0));
}

#[test]
fn hosts_may_give_sockets() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (log, their_log) = UnixStream::pair().unwrap();
    let host = Host { stdin: ours.try_clone().unwrap().into(), stdout: ours.into(), stderr: log.into() };
    let tee = thread::spawn(move || run(&shell("cat; echo end >&2"), host, &std::env::temp_dir(), |_| Ok(())));
    let sent = vec![b'x'; 3_000_000];
    thread::scope(|scope| {
        scope.spawn(|| {
            (&theirs).write_all(&sent).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&theirs).read_to_end(&mut received).unwrap();
        assert!(received == sent);
    });
    assert_eq!(io::read_to_string(their_log).unwrap(), "end\n");
    assert_eq!(tee.join().unwrap().unwrap().exit, exited(0));
}

/// What a recorder gets that begins when 64 MB have passed, in either direction, and how it went.
fn lag(folder: &Path) -> (Outcome, Vec<Seen>) {
    let (caught_up, wait) = channel::<()>();
    let mut server = start_beside(folder, cat(), |result| {
        move |observations| {
            let _ = wait.recv();
            keep_all(result)(observations)
        }
    });
    let mut stdin = server.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let piece = [b'x'; 1 << 16];
        (0..LAG / piece.len()).for_each(|_| stdin.write_all(&piece).unwrap());
        stdin.write_all(b"\n").unwrap();
        stdin
    });
    assert_eq!(server.read(LAG + 1).last(), Some(&b'\n'), "one line of 64 MB");
    let mut stdin = writer.join().unwrap();
    drop(caught_up);
    // Where there was a loss the recorder makes room at some time; what passes then is recorded again, behind it.
    for _ in 0..LATER {
        stdin.write_all(b"later\n").unwrap();
        server.read(6);
    }
    drop(stdin);
    server.finish()
}

const LAG: usize = 64 << 20;
const LATER: usize = 1_000;

#[test]
fn a_recorder_that_lags_loses_nothing_where_there_is_a_disk() {
    let (outcome, record) = lag(&std::env::temp_dir());
    assert_eq!(outcome, Outcome { exit: exited(0), unrecorded: None });
    for of in [Pipe::Stdin, Pipe::Stdout] {
        let bytes = bytes_of(&record, of);
        assert_eq!(bytes.len(), LAG + 1 + 6 * LATER, "{of:?}");
        assert!(bytes[LAG + 1..] == *b"later\n".repeat(LATER), "{of:?}");
    }
}

#[test]
fn a_recorder_that_lags_without_a_disk_loses_bytes_of_the_record_only_and_the_record_says_so() {
    let (outcome, record) = lag(Path::new("/nowhere"));
    assert_eq!(outcome.exit, exited(0));
    assert!(outcome.unrecorded.unwrap().starts_with("recording: it did not keep up; "));
    for of in [Pipe::Stdin, Pipe::Stdout] {
        let lost: u64 = record
            .iter()
            .map(|seen| if let Seen::Lost(pipe, bytes) = seen { if *pipe == of { *bytes } else { 0 } } else { 0 })
            .sum();
        assert!(lost > 0);
        let recorded = bytes_of(&record, of).len() as u64;
        assert_eq!(recorded + lost, (LAG + 1 + 6 * LATER) as u64, "{of:?}");
    }
}

#[test]
fn a_recorder_that_fails_crashes_or_hangs_costs_only_the_record() {
    fn outcome<R>(record: R) -> String
    where
        R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
    {
        let mut server = start_with(shell("cat; exit 7"), |_| record);
        for _ in 0..3 {
            server.write(b"hello\n");
            assert_eq!(server.read(6), b"hello\n");
        }
        server.stdin = None;
        let outcome = server.outcome();
        assert_eq!(outcome.exit, exited(7));
        outcome.unrecorded.expect("something was not recorded")
    }
    assert_eq!(outcome(|_| anyhow::bail!("disk full")), "recording: disk full; 36 bytes passed unrecorded");
    // As a panic, without the backtrace that would be printed here and takes its time.
    let crash = outcome(|_| std::panic::resume_unwind(Box::new(format!("boom {}", 1))));
    assert_eq!(crash, "recording: it crashed (boom 1); 36 bytes passed unrecorded");
    let hang = outcome(|_| {
        loop {
            thread::park();
        }
    });
    assert_eq!(hang, "recording: it did not come to an end; 36 bytes passed unrecorded");
}

/// Not a test: the wrapper as a process of its own, for the tests below. Its command line stands in the environment.
#[test]
#[ignore = "run by other tests"]
fn as_a_process() {
    let Ok(script) = std::env::var("MCPTAP_TEST_SCRIPT") else { return };
    let server = match script.strip_prefix("command:") {
        Some(command) => Server { command: vec![command.into()], recorded: vec![command.into()], name: None },
        None => shell(&script),
    };
    let crash = std::env::var("MCPTAP_TEST_CRASH").is_ok();
    std::process::exit(i32::from(wrap(&server, &std::env::temp_dir(), move |mut observations| {
        assert!(!crash, "as asked");
        while observations.next()?.is_some() {}
        Ok(())
    })));
}

/// The wrapper as a process; what the test harness prints first is taken off its stdout.
fn process(script: &str, configure: impl FnOnce(&mut Command)) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "source::stdio::tests::as_a_process", "--ignored", "--nocapture"]);
    command.env("MCPTAP_TEST_SCRIPT", script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    configure(&mut command);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
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
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
}

#[test]
fn a_server_ended_by_a_signal_gives_128_and_its_number() {
    let (mut child, mut stdout) = process("echo ready; exec sleep 1000", |_| {});
    assert_eq!(line(&mut stdout), "ready\n");
    kill_process(pid(child.id()), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_wrapper_leaves_no_orphan() {
    let (mut child, mut stdout) = process("echo $$; exec sleep 1000", |_| {});
    let server: u32 = line(&mut stdout).trim().parse().unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    // Its state is the third word, behind the name in parentheses; whoever adopts it may be slow to reap it.
    let gone = || std::fs::read_to_string(format!("/proc/{server}/stat")).map_or(true, |stat| stat.contains(") Z "));
    while !gone() {
        thread::yield_now();
    }
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
    let stderr = io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(stderr, "log\nmcptap: recording: it crashed (as asked); 10 bytes passed unrecorded\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let (mut child, mut stdout) = process("command:no-such-command", |_| {});
    assert_eq!(line(&mut stdout), "");
    let stderr = io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(
        stderr,
        "mcptap: cannot start `no-such-command`: command not found; give its full path, or check PATH\n"
    );
    assert_eq!(child.wait().unwrap().code(), Some(127));
}
