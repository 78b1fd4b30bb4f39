//! The signals that tests send.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// Programs started from here on react to signals as they do by default.
///
/// A shell ignores SIGINT and SIGQUIT in what it runs in the background, `nohup` SIGHUP, and programs inherit what is ignored. What is handled is
/// the default again in a program that is started (execve(2)), so a handler that does nothing is set where a signal is ignored. The tests go on
/// ignoring it.
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
