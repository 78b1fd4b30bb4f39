//! The signals that tests send.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// Gives programs started later the default reactions to signals.
///
/// A shell ignores SIGINT and SIGQUIT in background jobs, `nohup` ignores SIGHUP, and child
/// processes inherit ignored signals. Handled signals get the default reaction again in a new
/// program (execve(2)). Therefore an empty handler is set for each ignored signal. The tests
/// themselves still ignore them.
pub fn default_in_programs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).expect("it can be handled");
            }
        }
    });
}
