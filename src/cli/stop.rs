//! Signals that end a command. The first one ends it in good order, the second one at once.

#[cfg(feature = "http")]
use std::os::{fd::OwnedFd, unix::net::UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// A flag that the first signal sets. The second signal has its usual effect.
pub fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = write.try_clone().and_then(|write| low_level::pipe::register(signal, write));
        registered.context("cannot catch signals")?;
    }
    Ok((stop, read.into()))
}

/// A channel on which the first signal arrives, for code that waits for several events. The second
/// signal has its usual effect.
pub fn channel() -> Result<Receiver<()>> {
    let (send, stop) = bounded(1);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot catch signals")?;
    let wait = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 || send.send(()).is_err() {
                // If this fails, nothing else can be done.
                let _ = low_level::emulate_default_handler(signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(stop)
}
