//! Signals that end a command. The first one ends it in good order, the second one at once.

use std::fs;
#[cfg(feature = "http")]
use std::os::{fd::OwnedFd, unix::net::UnixStream};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{flag, low_level};

use crate::store;

/// The signals that end a command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that the first signal sets. The second signal has its usual effect.
pub fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // The order matters: when the first signal arrives, the flag is not set yet.
        let end_at_once = flag::register_conditional_default(signal, Arc::clone(&stop));
        end_at_once.and_then(|_| flag::register(signal, Arc::clone(&stop))).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// The same flag, and a descriptor that becomes readable with it, for code that polls descriptors.
#[cfg(feature = "http")]
pub fn with_descriptor() -> Result<(Arc<AtomicBool>, OwnedFd)> {
    let stop = on_signals()?;
    let (read, write) = UnixStream::pair().context("cannot make a pipe")?;
    for signal in ENDING {
        let registered = write.try_clone().and_then(|write| low_level::pipe::register(signal, write));
        registered.context("cannot catch signals")?;
    }
    Ok((stop, read.into()))
}

/// The time that a command has to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// The state of a process that catches signals on a thread.
#[derive(Debug)]
struct Caught {
    /// Adds signals to those that are caught.
    signals: Handle,
    /// Set by the first signal.
    stop: Arc<AtomicBool>,
    /// The first signal, for commands that do not handle it themselves.
    signal: AtomicI32,
    /// Gets the first signal, for a command that handles it.
    handler: Mutex<Option<Sender<()>>>,
}

static CAUGHT: OnceLock<Caught> = OnceLock::new();

impl Caught {
    fn handler(&self) -> MutexGuard<'_, Option<Sender<()>>> {
        self.handler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the first signal.
    fn first(&self, signal: i32) {
        let handler = self.handler();
        self.stop.store(true, Ordering::Relaxed);
        if handler.as_ref().is_some_and(|handler| handler.send(()).is_ok()) {
            return;
        }
        self.signal.store(signal, Ordering::Relaxed);
        // The command may be waiting for input, or for somebody who reads its output.
        let end = move || {
            thread::sleep(GRACE);
            end_by(signal);
        };
        if thread::Builder::new().name("grace".to_owned()).spawn(end).is_err() {
            end_by(signal);
        }
    }
}

/// Removes temporary databases, and ends the process as if the signal had not been caught.
fn end_by(signal: i32) {
    store::remove_temporary_databases();
    // If this fails, nothing else can be done.
    let _ = low_level::emulate_default_handler(signal);
}

/// Catches signals on a thread, from the first call on. Signals that are ignored stay so: `nohup`
/// and a shell's background jobs start programs in that way.
fn caught() -> Result<&'static Caught> {
    if let Some(caught) = CAUGHT.get() {
        return Ok(caught);
    }
    let ignored = ignored();
    let wanted = ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted).context("cannot catch signals")?;
    let caught = CAUGHT.get_or_init(|| Caught {
        signals: signals.handle(),
        stop: Arc::default(),
        signal: AtomicI32::default(),
        handler: Mutex::default(),
    });
    let wait = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count == 0 { caught.first(signal) } else { end_by(signal) }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(caught)
}

/// The signals that this process ignores, one bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

/// A channel on which the first signal arrives, for code that waits for several events. The second
/// signal has its usual effect. Signals that were ignored are caught too.
pub fn channel() -> Result<Receiver<()>> {
    let (send, stop) = bounded(1);
    let caught = caught()?;
    ENDING.iter().try_for_each(|signal| caught.signals.add_signal(*signal)).context("cannot catch signals")?;
    let mut handler = caught.handler();
    if caught.stop.load(Ordering::Relaxed) {
        let _ = send.send(());
    }
    *handler = Some(send);
    Ok(stop)
}

/// A flag that the first signal sets, for commands that make temporary databases. The command then
/// has [`GRACE`] to end, and `main` ends the process by the signal. After that time, or at the
/// second signal, the process ends without it. In each case temporary databases are removed.
pub fn before_cleaning() -> Result<Arc<AtomicBool>> {
    Ok(Arc::clone(&caught()?.stop))
}

/// Ends the process by the signal that ended the command, if one did.
pub fn end_by_caught_signal() {
    if let Some(signal) = CAUGHT.get().map(|caught| caught.signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    {
        end_by(signal);
    }
}
