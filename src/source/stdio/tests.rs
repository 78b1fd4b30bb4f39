//! Real servers (`cat`, `sh`) between a host played by the test and the tee.

mod process;
mod recorder;

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use proptest::prelude::*;

use super::*;
use crate::capture::pipe::{PipeEvent, Start, decode};
use crate::capture::{LinkType, Time};
use crate::source::{Item, Source};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, PATIENCE, joined, until};

/// The content of a pipe packet, in a form that outlives the packet.
#[derive(Clone, Debug, PartialEq)]
enum OwnedContent {
    Start(Start),
    Data(Pipe, Vec<u8>),
    EndOfFile(Pipe),
    Exit(Exit),
    Lost(Pipe, u64),
}

/// A wrapped server, seen from its host.
struct Running {
    stdin: Option<Patient<PipeWriter>>,
    stdout: Option<Patient<PipeReader>>,
    stderr: Option<Patient<PipeReader>>,
    tee: JoinHandle<Result<WrapReport, StartError>>,
    record: std::sync::mpsc::Receiver<Vec<(Time, OwnedContent)>>,
}

fn shell(script: &str) -> Server {
    let words = ["sh", "-c", script];
    Server {
        command: words.map(Into::into).to_vec(),
        recorded: words.map(Into::into).to_vec(),
        name: Some("test".into()),
        seals: false,
    }
}

fn cat() -> Server {
    Server { command: vec!["cat".into()], recorded: vec!["cat".into()], name: None, seals: false }
}

/// A recorder that sends all observations when they end.
fn keep_all(
    result: Sender<Vec<(Time, OwnedContent)>>,
) -> impl FnOnce(Observations) -> anyhow::Result<()> + Send + 'static {
    keep_all_counted(result, &Arc::default())
}

/// The same recorder, which counts the bytes of data that it has taken.
fn keep_all_counted(
    result: Sender<Vec<(Time, OwnedContent)>>,
    taken: &Arc<AtomicU64>,
) -> impl FnOnce(Observations) -> anyhow::Result<()> + Send + use<> {
    let taken = Arc::clone(taken);
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
                    PipeEvent::Start(start) => OwnedContent::Start(start),
                    PipeEvent::Data(pipe, bytes) => {
                        taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        OwnedContent::Data(pipe, bytes.to_vec())
                    }
                    PipeEvent::EndOfFile(pipe) => OwnedContent::EndOfFile(pipe),
                    PipeEvent::Exit(exit) => OwnedContent::Exit(exit),
                    PipeEvent::Lost(pipe, bytes) => OwnedContent::Lost(pipe, bytes),
                },
            ));
        }
        let _ = result.send(seen);
        Ok(())
    }
}

fn start_with<R>(server: Server, record: impl FnOnce(Sender<Vec<(Time, OwnedContent)>>) -> R) -> Running
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    start_beside(&std::env::temp_dir(), server, record)
}

/// Starts a server; observations that do not fit in memory wait in `folder`.
fn start_beside<R>(
    folder: &Path,
    server: Server,
    record: impl FnOnce(Sender<Vec<(Time, OwnedContent)>>) -> R,
) -> Running
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let folder = folder.to_owned();
    let (stdin, stdout, stderr) = (pipe().unwrap(), pipe().unwrap(), pipe().unwrap());
    let host = Pipes { stdin: stdin.0.into(), stdout: stdout.1.into(), stderr: stderr.1.into() };
    let (sender, result) = channel();
    let record = record(sender);
    let tee = thread::spawn(move || run(&server, host, &folder, |line| line.into(), record));
    let stdin = Some(Patient::new(stdin.1, "the tee to read stdin"));
    let [stdout, stderr] = [stdout.0, stderr.0].map(|pipe| Some(Patient::new(pipe, "the server to write")));
    Running { stdin, stdout, stderr, tee, record: result }
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

    fn outcome(self) -> WrapReport {
        joined(self.tee, "the end of the tee").unwrap()
    }

    /// Waits for the end. Returns the record without times, after checking that the times
    /// are in order.
    fn finish(self) -> (WrapReport, Vec<OwnedContent>) {
        let outcome = joined(self.tee, "the end of the tee").unwrap();
        let seen = self.record.recv_timeout(PATIENCE).expect("the record");
        assert!(seen.is_sorted_by_key(|(time, _)| *time));
        (outcome, seen.into_iter().map(|(_, seen)| seen).collect())
    }
}

fn exited(code: i32) -> Exit {
    Exit { code: Some(code), signal: None }
}

fn bytes_of(record: &[OwnedContent], of: Pipe) -> Vec<u8> {
    record
        .iter()
        .filter_map(
            |seen| if let OwnedContent::Data(pipe, bytes) = seen { (*pipe == of).then_some(&bytes[..]) } else { None },
        )
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
    assert_eq!(outcome, WrapReport { exit: exited(3), unrecorded: None });
    let Some(OwnedContent::Start(start)) = record.first() else { panic!("no start: {record:?}") };
    assert_eq!((start.command[0].as_str(), start.name.as_deref()), ("sh", Some("test")));
    assert!(start.directory.is_some());
    assert_eq!(record.last(), Some(&OwnedContent::Exit(exited(3))));
    let talk = |seen: &&OwnedContent| matches!(seen, OwnedContent::Data(Pipe::Stdin | Pipe::Stdout, _));
    assert_eq!(
        record.iter().filter(talk).cloned().collect::<Vec<_>>(),
        [
            OwnedContent::Data(Pipe::Stdin, b"one\n".into()),
            OwnedContent::Data(Pipe::Stdout, b"answer to one\n".into()),
            OwnedContent::Data(Pipe::Stdin, b"two\n".into()),
            OwnedContent::Data(Pipe::Stdout, b"answer to two\n".into()),
        ]
    );
    assert_eq!(bytes_of(&record, Pipe::Stderr), b"log\nlog\n");
    for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
        assert_eq!(record.iter().filter(|seen| **seen == OwnedContent::EndOfFile(pipe)).count(), 1, "{pipe:?}");
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
    let pipes: Vec<Pipe> = record
        .iter()
        .filter_map(|seen| if let OwnedContent::Data(pipe, _) = seen { Some(*pipe) } else { None })
        .collect();
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
        prop_assert_eq!(outcome, WrapReport { exit: exited(0), unrecorded: None });
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
        assert_eq!(outcome, WrapReport { exit, unrecorded: None }, "{script}");
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
        joined(start(server).tee, "the end of the tee").unwrap_err()
    };
    assert_eq!(error("no-such-command".as_ref()).exit_code(), 127);
    assert!(error("no-such-command".as_ref()).to_string().contains("`no-such-command`: command not found"));
    assert_eq!(error(directory.path().as_ref()).exit_code(), 126, "a directory");
    assert_eq!(error(script.as_ref()).exit_code(), 126, "not executable");
    Command::new("chmod").arg("+x").arg(&script).finished();
    assert_eq!(error(script.as_ref()).exit_code(), 127);
    assert!(error(script.as_ref()).to_string().contains("interpreter"));
}

#[test]
fn a_server_that_ends_first_breaks_the_hosts_pipe() {
    let mut server = start(shell("exit 4"));
    assert_eq!(server.read_to_end(), b"");
    let mut stdin = server.stdin.take().unwrap();
    assert_eq!(server.outcome().exit, exited(4), "the host's end of stdin is open all the while");
    // A child that another test is just starting inherits the other end too, until it
    // executes its program.
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
    let host = Pipes { stdin: ours.try_clone().unwrap().into(), stdout: ours.into(), stderr: log.into() };
    let tee = thread::spawn(move || {
        run(&shell("cat; echo end >&2"), host, &std::env::temp_dir(), |line| line.into(), |_| Ok(()))
    });
    let sent = vec![b'x'; 3_000_000];
    thread::scope(|scope| {
        scope.spawn(|| {
            Patient::new(&theirs, "the tee to read a socket").write_all(&sent).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        Patient::new(&theirs, "the server to write").read_to_end(&mut received).unwrap();
        assert!(received == sent);
    });
    assert_eq!(io::read_to_string(Patient::new(their_log, "the server's log")).unwrap(), "end\n");
    assert_eq!(joined(tee, "the end of the tee").unwrap().exit, exited(0));
}
