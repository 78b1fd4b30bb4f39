//! Waits of tests. Each has a bound, and its panic names what was waited for.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a test waits for one thing: far beyond what any needs, in any build on any machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

fn too_long(what: &str) -> ! {
    panic!("waited {} s for {what}", PATIENCE.as_secs())
}

/// Does what may wait, on a thread of its own.
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

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_some(what, || is_so().then_some(()));
}

/// Waits until there is something.
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

/// Where several threads wait for each other.
pub struct Meeting {
    here: AtomicUsize,
    all: usize,
}

impl Meeting {
    pub const fn of(all: usize) -> Meeting {
        Meeting { here: AtomicUsize::new(0), all }
    }

    /// Waits until all are here.
    pub fn attend(&self) {
        self.here.fetch_add(1, Ordering::SeqCst);
        until("the other threads", || self.here.load(Ordering::SeqCst) >= self.all);
    }
}

/// What a thread returns.
pub fn joined<T: Send + 'static>(thread: JoinHandle<T>, what: &str) -> T {
    within(what, || thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The end of a process.
pub trait Ends {
    /// Waits for it.
    fn ended(&mut self, what: &str) -> ExitStatus;
    /// Brings it about.
    fn killed(&mut self);
}

impl Ends for Child {
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
            // Most have ended when they are asked for.
            thread::sleep(Duration::from_millis(u64::from(began.elapsed() > Duration::from_millis(1))));
        }
    }

    fn killed(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// Closes its stdin and waits for its end; what it writes meanwhile is read.
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
    /// With nothing on its stdin.
    fn finished(&mut self) -> Output;
    /// With this on its stdin.
    fn finished_on(&mut self, stdin: impl Into<Stdio>) -> Output;
    /// With nothing on its stdin; an error where it cannot be started.
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
