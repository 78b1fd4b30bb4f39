//! Signals: those that mcptap passes on to the server, and those that end the recording.

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

/// Signals that the server receives when mcptap receives them. mcptap itself uses none of them.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Signals that ask mcptap and the server to end.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The time for which recording continues after the server's end, or after the first signal that
/// asks mcptap to end. What remains of a second is for storing what was decoded. Hosts built with
/// the official SDKs kill two seconds after that signal.
pub(super) const PATIENCE: Duration = Duration::from_millis(700);

/// Makes signals available to `poll`.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    /// The time of the first signal that asked mcptap to end.
    first_end_signal: Option<Instant>,
}

impl Signals {
    /// Catches the end of a child. A careless host may have made this process ignore it, and then
    /// the exit status would be lost.
    pub fn new() -> io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), [SIGCHLD])?;
        Ok(Signals { delivery, first_end_signal: None })
    }

    /// From now on also catches the signals that are passed on.
    pub fn catch_all(&self) -> io::Result<()> {
        PASSED_ON.iter().try_for_each(|&signal| self.delivery.handle().add_signal(signal))
    }

    /// A descriptor that is readable after a signal has arrived.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// Whether any signal, also one from the keyboard, asks mcptap to end. For use after the
    /// server has ended.
    pub fn end_requested(&mut self) -> bool {
        let wanted = self.delivery.pending().any(|origin| origin.signal != SIGCHLD);
        if wanted {
            self.first_end_signal.get_or_insert_with(Instant::now);
        }
        wanted
    }

    /// Whether a signal has asked mcptap to end, now or before. For use after the server has ended.
    pub fn was_end_requested(&mut self) -> bool {
        self.end_requested() || self.first_end_signal.is_some()
    }

    /// Whether the recording must end now: the server ended, or a signal asked for the end,
    /// [`PATIENCE`] ago, or a second signal has arrived. For use after the server has ended.
    pub fn must_end_recording(&mut self, server_end: Instant) -> bool {
        let first_end_signal = self.first_end_signal;
        self.end_requested() && first_end_signal.is_some()
            || self.first_end_signal.unwrap_or(server_end).min(server_end).elapsed() >= PATIENCE
    }

    /// The signals that have arrived and that the server has not received itself.
    ///
    /// The keys of a terminal (Ctrl-C, Ctrl-\) signal its whole foreground process group, which
    /// includes the server. Such signals come from the kernel. A signal sent by `kill` may have
    /// been meant for a process or for a group, and the two cannot be distinguished. Receiving it
    /// twice does less harm than not at all.
    pub fn take_forwardable(&mut self) -> Vec<Signal> {
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

/// Sends `signal` to `child`, which must not have been reaped: until then no other process
/// has its id.
pub fn pass_on(signal: Signal, child: &Child) {
    if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails only if the server has changed its user: then it may not be signalled.
        let _ = kill_process(process, signal);
    }
}
