//! A server as a child process.
//!
//! The thread that decides also writes and reads, with one `poll`: each hand-over to another thread would cost a call more than a server of
//! microseconds takes for its answer. Neither side can block the other: what the server does not take yet waits here. What passes is noted as
//! `mcptap wrap` notes it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{Arrival, Failure, FailureKind, HEED, Outgoing, Transport};
use crate::capture::pipe::{Exit, Pipe};
use crate::source::now;
use crate::source::stdio::{self, Observations, Server, Tap};

/// Bytes of one line: what the decoder takes, too.
const LINE: usize = 128 << 20;

/// Bytes read at once: what a pipe holds.
const BUFFER: usize = 64 << 10;

/// Bytes of the server's last words on stderr that are kept.
const LAST_WORDS: usize = 2_048;

/// How long a server may take to end once its input is closed, and once it was asked to (2025-06-18 basic/lifecycle, "Shutdown": close the
/// input, wait, SIGTERM, wait, SIGKILL).
const GRACE: Duration = Duration::from_secs(2);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(1);

/// What is noted of the server, also by the thread that listens to its stderr.
#[derive(Debug)]
struct Watched {
    tap: Mutex<Tap>,
    last_words: Mutex<Vec<u8>>,
}

impl Watched {
    fn note(&self, note: impl FnOnce(&mut Tap)) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut tap);
        tap.wake_sleepers();
    }
}

/// A server on three pipes.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    watched: Arc<Watched>,
    stdin: Option<File>,
    /// What the server has not taken yet.
    unsent: VecDeque<u8>,
    stdout: Option<File>,
    buffer: Box<[u8]>,
    /// The line that has begun.
    line: Vec<u8>,
    arrived: VecDeque<Arrival>,
    stderr: JoinHandle<()>,
}

impl Stdio {
    /// Starts a server. It dies with the calling thread, which has to close it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(server: &Server) -> Result<(Stdio, Observations)> {
        let (child, pipes) = server.spawn()?;
        let (mut tap, observations) = stdio::tap(child.id(), &std::env::temp_dir());
        tap.start(server.start());
        tap.wake_sleepers();
        let watched = Arc::new(Watched { tap: Mutex::new(tap), last_words: Mutex::default() });
        // This end is ours alone.
        rustix::io::ioctl_fionbio(&pipes.stdin, true).context("cannot write without waiting")?;
        let (stderr, watch) = (File::from(pipes.stderr), Arc::clone(&watched));
        let stderr = thread::Builder::new().name("stderr".to_owned()).spawn(move || listen(stderr, &watch));
        let transport = Stdio {
            child,
            watched,
            stdin: Some(File::from(pipes.stdin)),
            unsent: VecDeque::new(),
            stdout: Some(File::from(pipes.stdout)),
            buffer: vec![0; BUFFER].into(),
            line: Vec::new(),
            arrived: VecDeque::new(),
            stderr: stderr.context("cannot start a thread")?,
        };
        Ok((transport, observations))
    }

    /// Writes what the server takes now.
    fn write(&mut self) {
        while let Some(stdin) = &mut self.stdin
            && !self.unsent.is_empty()
        {
            let (bytes, _) = self.unsent.as_slices();
            let time = now();
            match stdin.write(bytes) {
                Ok(count) => {
                    // Its answer is read behind this: what was asked is noted first.
                    self.watched.note(|tap| tap.data(time, Pipe::Stdin, &bytes[..count]));
                    self.unsent.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // A server that is gone says so on its output.
                Err(_) => self.hang_up(),
            }
        }
    }

    /// Closes the server's input.
    fn hang_up(&mut self) {
        self.unsent.clear();
        if self.stdin.take().is_some() {
            self.watched.note(|tap| tap.end_of_file(Pipe::Stdin));
        }
    }

    /// Waits for the server, so long at most: what it says has arrived, what it takes is written.
    fn attend(&mut self, time: Duration) {
        let Some(stdout) = &self.stdout else { return thread::sleep(time) };
        let mut watched = vec![PollFd::new(stdout, PollFlags::IN)];
        let waiting = self.stdin.as_ref().filter(|_| !self.unsent.is_empty());
        watched.extend(waiting.map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        let timeout = Timespec::try_from(time).ok();
        // Interrupted is answered by the caller, who looks at the clock and comes again.
        if poll(&mut watched, timeout.as_ref()).is_err() {
            return;
        }
        let ready: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        if ready[0] {
            self.read();
        }
        if ready.get(1) == Some(&true) {
            self.write();
        }
    }

    /// Reads what there is.
    fn read(&mut self) {
        let Some(stdout) = &mut self.stdout else { return };
        let bytes = match stdout.read(&mut self.buffer) {
            Ok(0) => return self.end_of_output("the server closed its output".to_owned()),
            Ok(count) => &self.buffer[..count],
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            Err(error) => return self.end_of_output(format!("cannot read what the server says: {error}")),
        };
        let at = Instant::now();
        self.watched.note(|tap| tap.data(now(), Pipe::Stdout, bytes));
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let text = std::mem::take(&mut self.line);
            if !text.trim_ascii().is_empty() {
                self.arrived.push_back(Arrival::Text(text, at));
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE {
            self.end_of_output(format!("the server sent a line of more than {LINE} bytes"));
        }
    }

    /// Waits for the server while it is to end: what it says is noted, and nobody asks for it any more.
    fn linger(&mut self) {
        self.attend(LOOK);
        self.arrived.clear();
    }

    fn end_of_output(&mut self, why: String) {
        self.stdout = None;
        self.watched.note(|tap| tap.end_of_file(Pipe::Stdout));
        self.arrived.push_back(Arrival::Over(Failure::new(FailureKind::Server, why)));
    }

    /// Waits for the server's end, asking ever more firmly.
    fn end(&mut self) -> Exit {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let (Some(signal), Some(pid)) = (signal, rustix::process::Pid::from_raw(self.child.id() as i32)) {
                // It has not been waited for, so the id is still its own.
                let _ = rustix::process::kill_process(pid, signal);
            }
            let until = Instant::now() + GRACE;
            while Instant::now() < until {
                if self.unsent.is_empty() || signal.is_some() {
                    self.hang_up();
                }
                match self.child.try_wait() {
                    Ok(Some(status)) => return stdio::exit(status),
                    Ok(None) => self.linger(),
                    Err(_) => return Exit::default(),
                }
            }
        }
        Exit::default()
    }
}

impl Transport for Stdio {
    fn send(&mut self, message: Outgoing) {
        let mut line = message.text.into_bytes();
        // "Messages are delimited by newlines, and MUST NOT contain embedded newlines": between members they mean nothing.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        if self.stdin.is_some() {
            let is_first = self.unsent.is_empty();
            self.unsent.extend(line);
            if is_first {
                self.write();
            }
        }
    }

    fn arrived(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    fn wait(&mut self, until: Instant) {
        self.attend(until.saturating_duration_since(Instant::now()).min(HEED));
    }

    fn close(mut self: Box<Self>) -> Option<String> {
        let exit = self.end();
        // A grandchild may hold the pipes open for ever: then what it says is not waited for.
        let until = Instant::now() + GRACE;
        while (self.stdout.is_some() || !self.stderr.is_finished()) && Instant::now() < until {
            self.linger();
        }
        self.hang_up();
        self.watched.note(|tap| tap.exit(exit));
        let words = self.watched.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let ended = match exit {
            Exit { code: Some(0), .. } => None,
            Exit { code: Some(code), .. } => Some(format!("the server ended with exit status {code}")),
            Exit { signal: Some(signal), .. } => Some(format!("the server was ended by signal {signal}")),
            Exit { .. } => None,
        };
        ended.map(|ended| if words.is_empty() { ended } else { format!("{ended}; its last words: {words}") })
    }
}

fn listen(mut stderr: File, watched: &Watched) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = match stderr.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        watched.note(|tap| tap.data(now(), Pipe::Stderr, bytes));
        let mut words = watched.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes);
        let excess = words.len().saturating_sub(LAST_WORDS);
        words.drain(..excess);
    }
    watched.note(|tap| tap.end_of_file(Pipe::Stderr));
}
