//! Waits of tests. Each has a bound, and its panic names the awaited thing.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The bound of every wait: far longer than any wait needs, in any build on any machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

fn too_long(what: &str) -> ! {
    panic!("waited {} s for {what}", PATIENCE.as_secs())
}

/// Runs `wait` on a thread of its own and waits for its result.
pub fn within<T: Send + 'static>(what: &str, wait: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let waiting = thread::Builder::new().name(name).spawn(move || done.send(wait())).expect("a thread");
    match result.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => too_long(what),
        Err(RecvTimeoutError::Disconnected) => match waiting.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it sends its result or panics"),
        },
    }
}

/// Waits until a condition is true.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_some(what, || is_so().then_some(()));
}

/// Waits until `look` returns a value. Returns the value.
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        if began.elapsed() > PATIENCE {
            too_long(what);
        }
        thread::yield_now();
    }
}

/// A point at which several threads wait for each other.
pub struct Meeting {
    here: AtomicUsize,
    all: usize,
}

impl Meeting {
    pub const fn of(all: usize) -> Meeting {
        Meeting { here: AtomicUsize::new(0), all }
    }

    /// Waits until all threads are here.
    pub fn attend(&self) {
        self.here.fetch_add(1, Ordering::SeqCst);
        until("the other threads", || self.here.load(Ordering::SeqCst) >= self.all);
    }
}

/// Waits for a thread. Returns its result.
pub fn joined<T: Send + 'static>(thread: JoinHandle<T>, what: &str) -> T {
    within(what, || thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waiting for the end of a process, with a bound.
pub trait ProcessEnd {
    /// Waits for the end. Returns the exit status.
    fn ended(&mut self, what: &str) -> ExitStatus;
    /// Kills the process and waits for its end.
    fn killed(&mut self);
}

impl ProcessEnd for Child {
    fn ended(&mut self, what: &str) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.try_wait().expect("a child") {
                return status;
            }
            if began.elapsed() > PATIENCE {
                self.killed();
                too_long(&format!("the end of {what}"));
            }
            // Most processes have ended before the first check.
            thread::sleep(Duration::from_millis(u64::from(began.elapsed() > Duration::from_millis(1))));
        }
    }

    fn killed(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// Closes the stdin of a process and waits for its end. Its output is read meanwhile.
pub fn finished(mut child: Child, what: &str) -> Output {
    drop(child.stdin.take());
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = child.ended(what);
    let [stdout, stderr] = [stdout, stderr].map(|reader| joined(reader, &format!("the end of what {what} writes")));
    Output { status, stdout, stderr }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut read = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut read)).transpose().expect("a pipe");
        read
    })
}

/// A command that runs to its end.
pub trait Finishes {
    /// Runs it with an empty stdin.
    fn finished(&mut self) -> Output;
    /// Runs it with this stdin.
    fn finished_on(&mut self, stdin: impl Into<Stdio>) -> Output;
    /// Runs it with an empty stdin. An error if it cannot be started.
    fn try_finished(&mut self) -> io::Result<Output>;
}

impl Finishes for Command {
    fn finished(&mut self) -> Output {
        self.finished_on(Stdio::null())
    }

    fn finished_on(&mut self, stdin: impl Into<Stdio>) -> Output {
        let child = self.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        finished(child.unwrap_or_else(|error| panic!("{self:?}: {error}")), &format!("{self:?}"))
    }

    fn try_finished(&mut self) -> io::Result<Output> {
        let child = self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(finished(child, &format!("{self:?}")))
    }
}
