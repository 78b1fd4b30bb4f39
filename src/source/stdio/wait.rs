//! Waiting for the next chunk: asleep, or for a moment awake.
//!
//! A sleeping thread is woken by the peer that writes to it. If it runs on another processor that
//! has gone to sleep too, waking takes microseconds, in a virtual machine tens of them, in each
//! direction of each call. So while traffic is dense and processors are idle, this thread polls for
//! a moment before it sleeps (`docs/decisions/0014-what-recording-costs.md`).

use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Result;

use crate::source::load::Load;

/// The time spent polling: about as long as two processors take to wake each other. A chunk that
/// comes later justifies sleeping.
const AWAKE: Duration = Duration::from_micros(50);

/// The largest number of waits that are spent asleep after one that polled without success. The
/// cost of that one is negligible among them.
const RESTS: u32 = 1_024;

/// Waits for descriptors to become ready.
#[derive(Debug)]
pub(super) struct Waiter {
    /// `None`: other threads need the processor, so this one always sleeps.
    load: Option<Load>,
    /// Waits still to be spent asleep.
    polls_to_sleep: u32,
    /// Waits to be spent asleep after the next one that polls without success.
    next: u32,
}

impl Waiter {
    pub(super) fn new() -> Waiter {
        Waiter::with(Load::new())
    }

    fn with(load: Option<Load>) -> Waiter {
        Waiter { load, polls_to_sleep: 0, next: 1 }
    }

    /// Like `poll(2)` without a timeout.
    pub(super) fn poll(&mut self, watched: &mut [PollFd<'_>]) -> Result<usize> {
        self.wait(|limit| poll(watched, limit))
    }

    fn wait(&mut self, mut poll: impl FnMut(Option<&Timespec>) -> Result<usize>) -> Result<usize> {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(load) = &mut self.load else { return poll(None) };
        if self.polls_to_sleep > 0 {
            self.polls_to_sleep -= 1;
            return poll(None);
        }
        let begun = Instant::now();
        if !load.has_idle_processor(begun) {
            return poll(None);
        }
        loop {
            let ready = poll(Some(&AT_ONCE))?;
            if ready > 0 {
                self.next = (self.next - 1).max(1);
                return Ok(ready);
            }
            if begun.elapsed() >= AWAKE {
                self.polls_to_sleep = self.next;
                self.next = (4 * self.next).min(RESTS);
                return poll(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use super::*;
    use crate::support::waits::within;

    /// A waiter on two processors, while this many threads want them.
    fn waiter(running: usize) -> Waiter {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "0.20 0.18 0.12 {running}/80 11206").unwrap();
        Waiter::with(Some(Load::with(file, 2)))
    }

    /// Waits `count` times, for something that is ready at once or comes late. Returns the number
    /// of waits that polled and the number that slept.
    fn waits(waiter: &mut Waiter, count: usize, at_once: bool) -> (usize, usize) {
        let (mut awake, mut asleep) = (0, 0);
        for _ in 0..count {
            let mut looked = false;
            let ready = waiter.wait(|limit| {
                looked |= limit.is_some();
                asleep += usize::from(limit.is_none());
                Ok(usize::from(at_once || limit.is_none()))
            });
            assert_eq!(ready, Ok(1));
            awake += usize::from(looked);
        }
        (awake, asleep)
    }

    #[test]
    fn dense_traffic_is_waited_for_awake_and_what_comes_late_asleep() {
        let mut waiter = waiter(2);
        assert_eq!(waits(&mut waiter, 1_000, true), (1_000, 0));
        let (awake, asleep) = waits(&mut waiter, 100_000, false);
        assert!(awake < 200 && asleep == 100_000, "{awake}");
        // It polls again once traffic is dense again.
        let (awake, asleep) = waits(&mut waiter, 100_000, true);
        assert!(asleep <= RESTS as usize && awake + asleep == 100_000, "{asleep}");
    }

    #[test]
    fn nobody_is_kept_from_a_processor() {
        assert_eq!(waits(&mut waiter(3), 1_000, true), (0, 1_000));
        assert_eq!(waits(&mut Waiter::with(None), 1_000, true), (0, 1_000));
        let nothing = Load::with(tempfile::tempfile().unwrap(), 2);
        assert_eq!(waits(&mut Waiter::with(Some(nothing)), 1_000, true), (0, 1_000), "who cannot be asked spares none");
    }

    /// A real descriptor that becomes readable is reported, whether the thread waited
    /// awake or asleep.
    #[test]
    fn what_is_waited_for_comes() {
        within("a byte in a pipe", || {
            use rustix::event::PollFlags;

            let (read, mut write) = std::io::pipe().unwrap();
            let mut waiter = Waiter::new();
            for _ in 0..100 {
                let mut writer = write.try_clone().unwrap();
                let written = thread::spawn(move || writer.write_all(b"x").unwrap());
                let mut watched = [PollFd::new(&read, PollFlags::IN)];
                assert_eq!(waiter.poll(&mut watched), Ok(1));
                assert!(watched[0].revents().contains(PollFlags::IN));
                written.join().unwrap();
                let mut byte = [0];
                assert_eq!(rustix::io::read(&read, &mut byte), Ok(1));
            }
            write.flush().unwrap();
        });
    }
}
