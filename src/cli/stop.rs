//! How a person ends what would go on by itself: with Ctrl-C, once for an end in good order, twice for an end at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// A flag that the first signal to end sets. The second has its usual effect.
pub fn on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal finds the flag not set yet.
        let end_at_once = flag::register_conditional_default(signal, Arc::clone(&stop));
        end_at_once.and_then(|_| flag::register(signal, Arc::clone(&stop))).context("cannot catch signals")?;
    }
    Ok(stop)
}
