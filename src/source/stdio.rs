//! The tee: runs an STDIO server between its host and itself, and observes what passes.
//!
//! ```text
//!              ┌──────────────── mcptap ────────────────┐
//!   host ──0──►│ lane stdin  ───────────────────────────┼──0──► server
//!   host ◄──1──┼───────────────────────── lane stdout   │◄──1── server
//!   host ◄──2──┼───────────────────────── lane stderr   │◄──2── server
//!              │        └─ a copy ─► queue ─► recorder  │
//!              └────────────────────────────────────────┘
//! ```
//!
//! The host and the server must not be able to tell that we are there. So:
//!
//! * **Bytes pass unchanged, at once, in pieces as they come.** What is read is written before
//!   anything else is read. A lane whose reader does not keep up holds what it read (128 KiB at
//!   most) and reads no more: back pressure passes through too, and never holds up another lane.
//!   Only where all readers have more unread than they can be done with at once may pieces gather,
//!   for a moment ([`gather`]).
//! * **A closed end is passed on**, in the direction it would have travelled: end of file from the
//!   writer closes the reader's side; a vanished reader, found when there is something to write to
//!   it, closes the writer's side.
//! * **Recording comes second.** What was delivered is copied to a queue that is bounded by
//!   [`QUEUE_LIMIT`](queue::QUEUE_LIMIT); a thread of its own moves what a recorder far behind
//!   leaves there to the disk. A recorder that is that far behind leaves the processors to peers
//!   that want them all. Peers that outrun even the disk are slowed to its pace. Where it is full
//!   or hangs the copy is dropped, counted, and the record says so at that place. A recorder that
//!   fails, crashes or hangs costs the record, not the server. A host that tells us to end does not
//!   wait for it either: what is not recorded within [`PATIENCE`](signals::PATIENCE) is counted and
//!   left out.
//! * **The server's end is ours**: the same exit status, or 128 plus the number of the signal that
//!   ended it.
//!
//! **Signals.** The server stays in our process group, as without us: what a terminal or a host
//!   sends to the group reaches the server and its children by itself. What is sent to us alone we
//!   pass on ([`signals`]). Giving the server a group of its own would break hosts that end a
//!   server with its launcher (`npx`, `uvx`) by `killpg(SIGKILL)`, which nobody can pass on, and
//!   would make the server a background job of the terminal, which must not ask for a passphrase.
//!
//! **No orphans.** When we are killed the kernel kills the server (`PR_SET_PDEATHSIG`, Linux); its
//!   own children see their pipes close. When the host vanishes the server sees its pipes close. We
//!   never kill a server ourselves: one that chooses to live on would live on without us too.
//!
//! One thread does all of this with one `poll`; it is also the thread that starts the server,
//! because a parent-death signal is tied to the thread that forked. Measured against two
//! blocking copy threads it answers no later on one core and sooner on two, and it leaves
//! nothing behind to be joined or interrupted. While traffic is dense it stays awake for a
//! moment before it sleeps ([`wait`]). The recorder, on a thread of its own with lower priority,
//! is not woken for each chunk but every [`GATHER`](queue::GATHER): work for the record stays
//! off the path of the messages.

mod gather;
mod lane;
mod process;
mod queue;
mod signals;
mod tap;
#[cfg(test)]
mod tests;
mod wait;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rustix::event::{PollFd, PollFlags};

use self::gather::Gather;
use self::lane::Lane;
use self::signals::Signals;
use self::wait::Waiter;

use super::lower_priority;
use crate::capture::pipe::{Exit, Pipe};

pub use self::process::{Pipes, Server, StartError, exit, exit_code};
pub use self::tap::{Observations, Tap, tap};

/// How long we wait, after the server's end, for a recorder that takes nothing more of what is
/// queued: it hangs, the database is locked, or it is at a message of a hundred megabytes on a busy
/// machine. For one that goes on we wait as long as it takes, unless we are told to end.
const RECORDER_GRACE: Duration = Duration::from_secs(5);

/// How long we wait for it to commit what it has, once its queue was taken away.
const RECORDER_END: Duration = Duration::from_secs(1);

/// How often signals are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// How long the recorder lets a server start before it does anything: to open a database costs more
/// than many a server needs for its first answer.
const HEAD_START: Duration = Duration::from_millis(30);

/// Takes this process's standard streams, the pipes (or sockets, files, terminal) to the host.
///
/// Descriptors 0, 1 and 2 become `/dev/null`: nothing that any part of this program prints can get
/// between the server's bytes, and closing an end here really closes it.
fn take_standard_streams() -> io::Result<Pipes> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let host = Pipes {
        stdin: io::stdin().as_fd().try_clone_to_owned()?,
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    };
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(host)
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapReport {
    /// How the server ended.
    pub exit: Exit,
    /// What was not recorded and why, in one line without its end; `None` when everything was.
    pub unrecorded: Option<String>,
}

/// `mcptap wrap`: runs `server` on this process's standard streams and returns the exit status
/// for this process.
///
/// Says nothing on stdout, and on stderr only that the server could not be started (status 127:
/// not found, 126: found but not executable, as shells have it) or, at the end, that something
/// was not recorded. Observations that memory has no room for wait in files in `folder`. Call it
/// from the main thread.
pub fn wrap<R>(server: &Server, folder: &Path, record: R) -> u8
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let host = match take_standard_streams() {
        Ok(host) => host,
        Err(error) => {
            let _ = writeln!(io::stderr(), "mcptap: cannot take over the standard streams: {error}");
            return 2;
        }
    };
    let stderr = host.stderr.try_clone();
    // The host may have closed its end of stderr long ago: then there is nobody to tell.
    let say = |line: &str| stderr.map(|stderr| writeln!(File::from(stderr), "mcptap: {line}")).map(drop).unwrap_or(());
    match run(server, host, folder, record) {
        Ok(WrapReport { exit, unrecorded }) => {
            unrecorded.as_deref().map(say);
            exit_code(exit)
        }
        Err(error) => {
            say(&error.to_string());
            error.exit_code()
        }
    }
}

/// Runs `server` between `host` and itself until it has ended and everything it said is delivered.
///
/// `record` runs on a thread of its own and is handed the observations; it should return when they
/// end. Signals to this process are passed on meanwhile. Observations that memory has no room for
/// wait in files in `folder`. The calling thread must live as long as the server may.
///
/// # Errors
///
/// Only when the server could not be started: nothing of what happens to the recording is an error
/// here, see [`WrapReport::unrecorded`].
pub fn run<R>(server: &Server, host: Pipes, folder: &Path, record: R) -> Result<WrapReport, StartError>
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let mut signals = Signals::new().map_err(|error| server.error(error))?;
    let (mut child, stdio) = server.spawn()?;
    // After the start, so that a signal which is ignored here (`nohup`) is ignored by
    // the server too.
    signals.catch_all().map_err(|error| server.error(error))?;
    let (mut tap, observations) = tap::tap(child.id(), folder);
    tap.start(server.start());
    let recorder = start_recorder(observations, record);
    let lanes = [
        Lane::new(Pipe::Stdin, host.stdin, stdio.stdin),
        Lane::new(Pipe::Stdout, stdio.stdout, host.stdout),
        Lane::new(Pipe::Stderr, stdio.stderr, host.stderr),
    ];
    let status = forward(&mut child, lanes, &mut signals, &mut tap).map_err(|error| server.error(error))?;
    let exit = process::exit(status);
    tap.exit(exit);
    let unrecorded = finish_recorder(&recorder, &mut signals, &mut tap);
    Ok(WrapReport { exit, unrecorded })
}

/// The loop: moves bytes and signals until the server has ended and everything it
/// said is delivered.
fn forward(child: &mut Child, mut lanes: [Lane; 3], signals: &mut Signals, tap: &mut Tap) -> io::Result<ExitStatus> {
    let mut ended = None;
    let mut signalled = false;
    let (mut waiter, mut gather) = (Waiter::new(), Gather::default());
    loop {
        if signalled && ended.is_none() {
            // Signals go first: before `try_wait` has reaped the server its process id is its own.
            signals.to_pass_on().into_iter().for_each(|signal| signals::pass_on(signal, child));
            ended = child.try_wait()?;
            if ended.is_some() {
                let [stdin, stdout, stderr] = &mut lanes;
                stdin.close();
                stdout.finish(tap);
                stderr.finish(tap);
            }
        } else if signalled && signals.end_requested() {
            // Only a host that does not read what the server left keeps us, and now it
            // wants us gone.
            lanes.iter_mut().for_each(Lane::close);
        }
        if let Some(status) = ended.filter(|_| lanes.iter().all(Lane::is_closed)) {
            return Ok(status);
        }
        // Each descriptor more costs each message a fraction of a microsecond.
        let [stdin, stdout, stderr] = lanes.each_ref().map(|lane| lane.watch(signals.as_fd()));
        let mut watched = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN), stdin, stdout, stderr];
        match waiter.poll(&mut watched) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [signal, ready @ ..] = watched.map(|watched| !watched.revents().is_empty());
        gather.pause(&lanes, ready);
        for (lane, _) in lanes.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            lane.step(tap);
        }
        tap.wake_sleepers();
        signalled = signal;
    }
}

type RecorderResult = thread::Result<anyhow::Result<()>>;

/// Starts the recorder's thread; its result comes through the channel.
fn start_recorder<R>(observations: Observations, record: R) -> io::Result<Receiver<RecorderResult>>
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let (done, result) = bounded(1);
    thread::Builder::new().name("recorder".into()).spawn(move || {
        lower_priority();
        observations.sleep_until_over(HEAD_START);
        let _ = done.send(catch_unwind(AssertUnwindSafe(|| record(observations))));
    })?;
    Ok(result)
}

/// Waits for the recorder, within bounds, and says what was not recorded.
fn finish_recorder(
    recorder: &io::Result<Receiver<RecorderResult>>,
    signals: &mut Signals,
    tap: &mut Tap,
) -> Option<String> {
    let why = match recorder.as_ref().map(|result| wait_for(result, signals, tap)) {
        Ok(Ok(Ok(Ok(())))) if tap.unrecorded() == 0 => return None,
        Ok(Ok(Ok(Ok(())))) => "it did not keep up".to_string(),
        Ok(Ok(Ok(Err(error)))) => format!("{error:#}"),
        Ok(Ok(Err(panic))) => format!("it crashed ({})", panic_message(&*panic)),
        Ok(Err(RecvTimeoutError::Timeout)) => "it did not come to an end".to_string(),
        Ok(Err(RecvTimeoutError::Disconnected)) => "it vanished".to_string(),
        Err(error) => format!("it could not be started: {error}"),
    };
    Some(format!("recording: {why}; {} bytes passed unrecorded", tap.unrecorded()))
}

/// The recorder's result. Once our patience is at an end, or that of our host, the recorder must do
/// without the rest.
fn wait_for(
    result: &Receiver<RecorderResult>,
    signals: &mut Signals,
    tap: &mut Tap,
) -> Result<RecorderResult, RecvTimeoutError> {
    let (mut left, mut moved) = (tap.unrecorded(), Instant::now());
    while moved.elapsed() < RECORDER_GRACE && !signals.must_end_recording() {
        match result.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if tap.unrecorded() < left => {
                (left, moved) = (tap.unrecorded(), Instant::now())
            }
            Err(RecvTimeoutError::Timeout) => {}
            result => return result,
        }
    }
    tap.discard_rest();
    result.recv_timeout(RECORDER_END)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
