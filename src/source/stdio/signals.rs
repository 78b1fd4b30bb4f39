//! Signals on their way to the server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// What the server gets when we get it. Nobody else can be meant: we have no use for any of them.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Those that tell us and the server to end.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// How long we go on recording once we are told to end, counted from the first signal.
/// Hosts made with the official SDKs kill two seconds after it: the other second is for
/// saving what was decoded.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Makes signals something to poll for.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    /// When somebody first told us to end.
    first_end_signal: Option<Instant>,
}

impl Signals {
    /// Catches the end of a child. (Where a careless host has us ignore it, the exit status
    /// would be lost.)
    pub fn new() -> io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), [SIGCHLD])?;
        Ok(Signals { delivery, first_end_signal: None })
    }

    /// Catches from now on what is to be passed on too.
    pub fn catch_all(&self) -> io::Result<()> {
        PASSED_ON.iter().try_for_each(|&signal| self.delivery.handle().add_signal(signal))
    }

    /// Readable when a signal arrived.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Whether anybody, a person at the keyboard too, wants us gone. Asked once the server is.
    pub fn end_requested(&mut self) -> bool {
        let wanted = self.delivery.pending().any(|origin| origin.signal != SIGCHLD);
        if wanted {
            self.first_end_signal.get_or_insert_with(Instant::now);
        }
        wanted
    }

    /// Whether the record must come to its end now: somebody told us to end, and that was
    /// [`PATIENCE`] ago or is said again. Asked once the server has ended.
    pub fn must_end_recording(&mut self) -> bool {
        let first_end_signal = self.first_end_signal;
        self.end_requested() && first_end_signal.is_some()
            || first_end_signal.is_some_and(|first_end_signal| first_end_signal.elapsed() >= PATIENCE)
    }

    /// The signals that arrived and that the server has not got as well.
    ///
    /// The keys of a terminal (Ctrl-C, Ctrl-\) signal its whole foreground process group, and the
    /// server is in it. Such signals come from the kernel; of those sent by `kill` nobody can tell
    /// whether a process or a group was meant, and to be told twice does less harm than not at all.
    pub fn to_pass_on(&mut self) -> Vec<Signal> {
        let by_key = |signal| matches!(signal, SIGINT | SIGQUIT);
        let first_end_signal = &mut self.first_end_signal;
        self.delivery
            .pending()
            .inspect(|origin| {
                if ENDS.contains(&origin.signal) {
                    first_end_signal.get_or_insert_with(Instant::now);
                }
            })
            .filter(|origin| origin.signal != SIGCHLD && !(by_key(origin.signal) && origin.cause == Cause::Kernel))
            .filter_map(|origin| Signal::from_named_raw(origin.signal))
            .collect()
    }
}

/// Sends `signal` to `child`, which must not have been reaped: until then its process id
/// is its own.
pub(super) fn pass_on(signal: Signal, child: &Child) {
    if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails only where the server has changed its user: then nobody may signal it.
        let _ = kill_process(process, signal);
    }
}
