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
//! The host and the server must not notice that mcptap is there. So:
//!
//! * **Bytes pass unchanged, at once, in the pieces in which they come.** What a lane reads it
//!   writes before it reads again. A lane whose reader is slow holds the bytes that it has read
//!   (128 KiB at most) and reads no more. So back pressure passes through, and one lane never
//!   delays another. There is one exception: while every reader still has enough unread bytes to be
//!   busy, pieces gather for a moment ([`gather`]).
//! * **A closed end is passed on** in the direction in which it would have travelled. End of file
//!   from the writer closes the reader's side. A reader that has gone is noticed at the next write,
//!   which closes the writer's side.
//! * **Recording comes second.** Delivered bytes are copied to a queue bounded by
//!   [`QUEUE_LIMIT`](queue::QUEUE_LIMIT). When the recorder is far behind, a separate thread moves
//!   batches from the queue to disk, and the recorder yields the processors to peers that want them
//!   all. Peers that are faster even than the disk are slowed to its pace. If the disk is full or
//!   hangs, the copy is dropped and counted, and the record contains a gap there. A recorder that
//!   fails, crashes or hangs costs the record, not the server. Nor does it delay the host: what is
//!   not recorded [`PATIENCE`](signals::PATIENCE) after the server's end is counted and left out.
//! * **The server's exit status is mcptap's**: the same status, or 128 plus the number of the
//!   signal that ended it.
//!
//! **Signals.** The server stays in mcptap's process group, as it would without mcptap. A signal
//!   that a terminal or a host sends to the group reaches the server and its children directly. A
//!   signal sent to mcptap alone is passed on ([`signals`]). A process group for the server would
//!   break two things. Hosts that end a server together with its launcher (`npx`, `uvx`) use
//!   `killpg(SIGKILL)`, which cannot be passed on. And the server would become a background job of
//!   the terminal, which cannot ask for a passphrase.
//!
//! **No orphans.** When mcptap is killed the kernel kills the server (`PR_SET_PDEATHSIG`, Linux),
//!   and the server's children see their pipes close. When the host disappears the server sees its
//!   pipes close. mcptap itself never kills a server: one that chooses to live on would do so
//!   without mcptap too.
//!
//! One thread does all of this with one `poll`. The same thread starts the server, because a
//! parent-death signal is tied to the thread that forked. Compared by measurement with two
//! blocking copy threads it is as fast on one core and faster on two. It also leaves no thread
//! to be joined or interrupted. While traffic is dense it polls for a moment before it sleeps
//! ([`wait`]). The recorder runs on its own thread with lower priority. It is woken every
//! [`GATHER`](queue::GATHER), not for each chunk, which keeps the work of recording off the path
//! of the messages.

mod gather;
mod lane;
mod observations;
mod process;
mod queue;
mod queued_batches;
mod signals;
mod tap;
#[cfg(test)]
mod tests;
mod wait;

use std::borrow::Cow;
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

pub use self::observations::{Observations, Receipts};
pub use self::process::{Pipes, Server, StartError, exit, exit_code};
pub use self::tap::{Tap, tap};

/// The time allowed to the recorder for its last batch and commit, after the rest of its queue was
/// discarded. It takes a moment. Only a recorder that hangs, or a starved machine, takes so long.
const RECORDER_END: Duration = Duration::from_secs(5);

/// The same, if a signal asked mcptap to end.
const RECORDER_END_ON_SIGNAL: Duration = Duration::from_secs(1);

/// The interval at which signals are checked while the recorder finishes.
const LOOK: Duration = Duration::from_millis(10);

/// The recorder's delay after the start of the server. Opening a database takes longer than many a
/// server needs for its first response.
const HEAD_START: Duration = Duration::from_millis(30);

/// Takes over this process's standard streams: the pipes (or sockets, files, terminal) to the host.
///
/// Descriptors 0, 1 and 2 become `/dev/null`. So nothing that this program prints can get between
/// the server's bytes, and closing an end here really closes it.
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

/// The end of a wrapped server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapReport {
    /// The exit status or the signal of the server.
    pub exit: Exit,
    /// The reason why bytes were not recorded and their number, in one line without a line end;
    /// `None` if everything was recorded, or if a line on stderr said at once that it is not.
    pub unrecorded: Option<String>,
}

/// Escapes a line for the terminal.
pub type Visible = fn(&str) -> Cow<'_, str>;

/// `mcptap wrap`: runs `server` on this process's standard streams and returns the exit status
/// for this process.
///
/// Prints nothing on stdout. Prints on stderr only that the server could not be started, or that
/// something was not recorded: at once if the recorder fails, else at the end. As in shells, status
/// 127 means that the command was not found, 126 that it is not executable. Observations that do
/// not fit in memory wait in files in `folder`. `visible` escapes each line for the terminal. Call
/// this function from the main thread.
pub fn wrap<R>(server: &Server, folder: &Path, visible: Visible, record: R) -> u8
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
    // The host may have closed its end of stderr long ago. Then nobody can read the line.
    let say = |line: &str| {
        let _ = stderr.map(|stderr| writeln!(File::from(stderr), "mcptap: {}", visible(line)));
    };
    match run(server, host, folder, visible, record) {
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

/// Runs `server` between `host` and itself until the server has ended and all its
/// output is delivered.
///
/// `record` runs on its own thread and receives the observations. It should return when they end.
/// Signals to this process are passed on meanwhile. Observations that do not fit in memory wait in
/// files in `folder`. `visible` escapes what is printed. The calling thread must live as long as
/// the server may.
///
/// # Errors
/// Only that the server could not be started. Failures of the recording are reported in
/// [`WrapReport::unrecorded`].
pub fn run<R>(
    server: &Server,
    host: Pipes,
    folder: &Path,
    visible: Visible,
    record: R,
) -> Result<WrapReport, StartError>
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let mut signals = Signals::new().map_err(|error| server.error(error))?;
    let (mut child, stdio) = server.spawn()?;
    // After the start, so that a signal that is ignored here (`nohup`) is ignored by
    // the server too.
    signals.catch_all().map_err(|error| server.error(error))?;
    let (mut tap, mut observations) = tap::tap(child.id(), folder, server.seals);
    tap.start(server.start());
    observations.stderr = host.stderr.try_clone().ok();
    observations.visible = visible;
    let recorder = start_recorder(observations, record);
    let mut lanes = [
        Lane::new(Pipe::Stdin, host.stdin, stdio.stdin),
        Lane::new(Pipe::Stdout, stdio.stdout, host.stdout),
        Lane::new(Pipe::Stderr, stdio.stderr, host.stderr),
    ];
    let status = forward(&mut child, &mut lanes, &mut signals, &mut tap).map_err(|error| server.error(error))?;
    let exit = process::exit(status);
    tap.exit(exit);
    let unrecorded = finish_recorder(&recorder, &mut signals, &mut tap);
    Ok(WrapReport { exit, unrecorded })
}

/// The loop: moves bytes and signals until the server has ended and all its output is delivered.
fn forward(child: &mut Child, lanes: &mut [Lane; 3], signals: &mut Signals, tap: &mut Tap) -> io::Result<ExitStatus> {
    let mut ended = None;
    let mut signalled = false;
    let (mut waiter, mut gather) = (Waiter::new(), Gather::default());
    loop {
        if signalled && ended.is_none() {
            // Signals first: until `try_wait` has reaped the server its process id cannot belong
            // to another process.
            signals.take_forwardable().into_iter().for_each(|signal| signals::pass_on(signal, child));
            ended = child.try_wait()?;
            if ended.is_some() {
                let [stdin, stdout, stderr] = &mut *lanes;
                stdin.close();
                stdout.finish(tap);
                stderr.finish(tap);
            }
        } else if signalled && signals.end_requested() {
            // The server has ended, and the host does not read its remaining output. The host now
            // asks mcptap to end too.
            lanes.iter_mut().for_each(Lane::close);
        }
        if let Some(status) = ended.filter(|_| lanes.iter().all(Lane::is_closed)) {
            return Ok(status);
        }
        // Each further descriptor costs each message a fraction of a microsecond.
        let [stdin, stdout, stderr] = lanes.each_ref().map(|lane| lane.watch(signals.as_fd()));
        let mut watched = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN), stdin, stdout, stderr];
        match waiter.poll(&mut watched) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [signal, ready @ ..] = watched.map(|watched| !watched.revents().is_empty());
        gather.pause(lanes, ready);
        for (lane, _) in lanes.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            lane.step(tap);
        }
        tap.wake_sleepers();
        signalled = signal;
    }
}

type RecorderResult = thread::Result<anyhow::Result<()>>;

/// The result of the recorder's thread.
struct RecorderEnd {
    result: RecorderResult,
    /// A line on stderr has reported a failure.
    reported: bool,
}

/// Starts the recorder's thread. Its result comes through the channel. A failure during the life of
/// the server is reported to the host at once, because that life may last for days.
fn start_recorder<R>(observations: Observations, record: R) -> io::Result<Receiver<RecorderEnd>>
where
    R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
{
    let (done, result) = bounded(1);
    thread::Builder::new().name("recorder".into()).spawn(move || {
        lower_priority();
        let receipts = observations.receipts();
        observations.sleep_until_over(HEAD_START);
        let result = catch_unwind(AssertUnwindSafe(|| record(observations)));
        let reported = failure(&result).filter(|_| !receipts.server_has_ended()).is_some_and(|why| {
            let more = if receipts.any() { " more" } else { "" };
            receipts.say(&format!("recording: {why}; nothing{more} is recorded"))
        });
        let _ = done.send(RecorderEnd { result, reported });
    })?;
    Ok(result)
}

/// The reason why a recorder failed.
fn failure(result: &RecorderResult) -> Option<String> {
    match result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error:#}")),
        Err(panic) => Some(format!("the recorder crashed ({})", panic_message(&**panic))),
    }
}

/// Waits for the recorder, within bounds; returns the reason why bytes were not recorded,
/// and their number.
fn finish_recorder(
    recorder: &io::Result<Receiver<RecorderEnd>>,
    signals: &mut Signals,
    tap: &mut Tap,
) -> Option<String> {
    let (why, bytes) = match recorder.as_ref().map(|result| wait_for(result, signals, tap)) {
        Ok(Ok(RecorderEnd { reported: true, .. })) => return None,
        Ok(Ok(RecorderEnd { result, .. })) => match failure(&result) {
            None if tap.waiting() == 0 => return None,
            None => ("the recorder did not keep up".to_string(), tap.waiting()),
            Some(why) => (why, tap.unstored()),
        },
        Ok(Err(RecvTimeoutError::Timeout)) => ("the recorder did not end".to_string(), tap.unstored()),
        Ok(Err(RecvTimeoutError::Disconnected)) => ("the recorder disappeared".to_string(), tap.unstored()),
        Err(error) => (format!("the recorder could not be started: {error}"), tap.unstored()),
    };
    Some(format!("recording: {why}; {bytes} bytes passed unrecorded"))
}

/// Waits for the recorder's result. When its time is over, the rest of the queue is discarded.
fn wait_for(
    result: &Receiver<RecorderEnd>,
    signals: &mut Signals,
    tap: &mut Tap,
) -> Result<RecorderEnd, RecvTimeoutError> {
    let server_end = Instant::now();
    let mut discarded: Option<Instant> = None;
    loop {
        if discarded.is_none() && signals.must_end_recording(server_end) {
            tap.discard_rest();
            discarded = Some(Instant::now());
        }
        let is_late = discarded.is_some_and(|since| {
            since.elapsed() >= if signals.was_end_requested() { RECORDER_END_ON_SIGNAL } else { RECORDER_END }
        });
        match result.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if !is_late => {}
            result => return result,
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
