//! Whether the process that writes a capture still runs. A process that decodes a message of a
//! hundred megabytes reports no sign of life for a long time.

use crate::capture::Time;

/// Whether a process with this number runs and did so at `time`. After a process has ended its
/// number may be given to another one, which began later.
#[cfg(target_os = "linux")]
pub(super) fn runs_since(process: u32, time: Time) -> bool {
    began(process).is_some_and(|began| began <= time)
}

/// Elsewhere the start of a process cannot be found.
#[cfg(not(target_os = "linux"))]
pub(super) fn runs_since(_: u32, _: Time) -> bool {
    false
}

/// The time at which a process began that has not ended, by the system clock.
#[cfg(target_os = "linux")]
fn began(process: u32) -> Option<Time> {
    use rustix::time::{ClockId, clock_gettime};

    // proc(5): the name, in parentheses, may contain anything. The next word is the state, and the
    // 20th from there the start in ticks since boot.
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut words = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let has_ended = matches!(words.next()?, "Z" | "X");
    let ticks: i64 = words.nth(18)?.parse().ok()?;
    let tick = 1_000_000_000 / i64::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    let since_boot = clock_gettime(ClockId::Boottime);
    let age = (since_boot.tv_sec * 1_000_000_000 + since_boot.tv_nsec).checked_sub(ticks.checked_mul(tick)?)?;
    (!has_ended).then(|| crate::source::now().plus(-age))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::source::now;
    use crate::support::waits::{ProcessEnd, until};

    #[test]
    fn a_process_runs_from_its_beginning_to_its_end() {
        assert!(runs_since(std::process::id(), now()));
        assert!(!runs_since(std::process::id(), Time(0)), "another one had its number");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
        assert!(runs_since(child.id(), now()));
        child.kill().expect("it lives");
        let path = format!("/proc/{}/stat", child.id());
        let stat = || std::fs::read_to_string(&path).expect("it was not waited for");
        until("the end of cat", || stat().contains(") Z "));
        assert!(!runs_since(child.id(), now()), "what is left of it writes no more");
        child.ended("cat");
        assert!(!runs_since(child.id(), now()));
    }
}
