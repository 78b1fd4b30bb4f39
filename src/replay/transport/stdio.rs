//! A transport to a server that runs as a child process.
//!
//! The thread of the replay also writes and reads, with one `poll`. Passing each message to another
//! thread would take longer than a fast server needs for a response. Neither side can block the
//! other, because unsent bytes are buffered. The traffic is recorded in the same form as by `mcptap
//! wrap`.

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

use super::{Arrival, Failure, FailureKind, Outgoing, STOP_CHECK, Transport};
use crate::capture::pipe::{Exit, Pipe};
use crate::replay::messages;
use crate::source::now;
use crate::source::stdio::{self, Observations, Server, Tap};

/// The longest line in bytes, as for the decoder.
const LINE: usize = 128 << 20;

/// Bytes per read: the capacity of a pipe.
const BUFFER: usize = 64 << 10;

/// The most bytes at the end of stderr that are retained.
const STDERR_TAIL: usize = 2_048;

/// Time for the server to exit after its input is closed, and again after each signal. 2025-06-18
/// basic/lifecycle "Shutdown": close the input, wait, SIGTERM, wait, SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// The interval at which the exit of the server is checked.
const EXIT_CHECK: Duration = Duration::from_millis(1);

/// The recording of the server, shared with the thread that reads stderr.
#[derive(Debug)]
struct ServerTap {
    tap: Mutex<Tap>,
    stderr_tail: Mutex<Vec<u8>>,
}

impl ServerTap {
    fn note(&self, note: impl FnOnce(&mut Tap)) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut tap);
        tap.wake_sleepers();
    }
}

/// A server process and its three pipes.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    recorded: Arc<ServerTap>,
    stdin: Option<File>,
    /// Bytes that the server has not read yet.
    unsent: VecDeque<u8>,
    stdout: Option<File>,
    buffer: Box<[u8]>,
    /// The incomplete line at the end of the output.
    line: Vec<u8>,
    arrived: VecDeque<Arrival>,
    stderr: JoinHandle<()>,
}

impl Stdio {
    /// Starts a server. It is killed when the calling thread ends, so that thread has to close it.
    pub fn start(server: &Server) -> Result<(Stdio, Observations)> {
        let (child, pipes) = server.spawn()?;
        let (mut tap, observations) = stdio::tap(child.id(), &std::env::temp_dir(), false);
        tap.start(server.start());
        tap.wake_sleepers();
        let recorded = Arc::new(ServerTap { tap: Mutex::new(tap), stderr_tail: Mutex::default() });
        // Only this end of the pipe becomes non-blocking.
        rustix::io::ioctl_fionbio(&pipes.stdin, true).context("cannot make a pipe non-blocking")?;
        let (stderr, watch) = (File::from(pipes.stderr), Arc::clone(&recorded));
        let stderr = thread::Builder::new().name("stderr".to_owned()).spawn(move || read_stderr(stderr, &watch));
        let transport = Stdio {
            child,
            recorded,
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

    /// Writes as much as the server reads now.
    fn write(&mut self) {
        while let Some(stdin) = &mut self.stdin
            && !self.unsent.is_empty()
        {
            let (bytes, _) = self.unsent.as_slices();
            let time = now();
            match stdin.write(bytes) {
                Ok(count) => {
                    // Recorded at once, so that a request comes before its response in the
                    // recording.
                    self.recorded.note(|tap| tap.data(time, Pipe::Stdin, &bytes[..count]));
                    self.unsent.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // If the server is gone, its output ends too, and that is reported.
                Err(_) => self.close_stdin(),
            }
        }
    }

    /// Closes the server's standard input.
    fn close_stdin(&mut self) {
        self.unsent.clear();
        if self.stdin.take().is_some() {
            self.recorded.note(|tap| tap.end_of_file(Pipe::Stdin));
        }
    }

    /// Waits for the server at most this long. Sends and receives what is possible.
    fn transfer(&mut self, time: Duration) {
        let Some(stdout) = &self.stdout else { return thread::sleep(time) };
        let mut recorded = vec![PollFd::new(stdout, PollFlags::IN)];
        let writable = self.stdin.as_ref().filter(|_| !self.unsent.is_empty());
        recorded.extend(writable.map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        let timeout = Timespec::try_from(time).ok();
        // After an interruption the caller checks the time and calls again.
        if poll(&mut recorded, timeout.as_ref()).is_err() {
            return;
        }
        let ready: Vec<bool> = recorded.iter().map(|recorded| !recorded.revents().is_empty()).collect();
        if ready[0] {
            self.read();
        }
        if ready.get(1) == Some(&true) {
            self.write();
        }
    }

    /// Reads the output that is available.
    fn read(&mut self) {
        let Some(stdout) = &mut self.stdout else { return };
        let bytes = match stdout.read(&mut self.buffer) {
            Ok(0) => return self.end_of_output("the server closed its output".to_owned()),
            Ok(count) => &self.buffer[..count],
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            Err(error) => return self.end_of_output(format!("cannot read the server's output: {error}")),
        };
        let at = Instant::now();
        self.recorded.note(|tap| tap.data(now(), Pipe::Stdout, bytes));
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

    /// Waits for a server that is exiting. Its output is recorded but not processed.
    fn discard_output(&mut self) {
        self.transfer(EXIT_CHECK);
        self.arrived.clear();
    }

    fn end_of_output(&mut self, why: String) {
        self.stdout = None;
        self.recorded.note(|tap| tap.end_of_file(Pipe::Stdout));
        self.arrived.push_back(Arrival::Closed(Failure::new(FailureKind::Server, why)));
    }

    /// Waits for the server to exit: first after closing its input, then after SIGTERM,
    /// then after SIGKILL.
    fn end(&mut self) -> Exit {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let (Some(signal), Some(pid)) = (signal, rustix::process::Pid::from_raw(self.child.id() as i32)) {
                // The process was not waited for, so its id is still valid.
                let _ = rustix::process::kill_process(pid, signal);
            }
            let until = Instant::now() + GRACE;
            while Instant::now() < until {
                if self.unsent.is_empty() || signal.is_some() {
                    self.close_stdin();
                }
                match self.child.try_wait() {
                    Ok(Some(status)) => return stdio::exit(status),
                    Ok(None) => self.discard_output(),
                    Err(_) => return Exit::default(),
                }
            }
        }
        Exit::default()
    }
}

impl Transport for Stdio {
    fn send(&mut self, message: Outgoing) {
        if self.stdin.is_some() {
            let is_first = self.unsent.is_empty();
            self.unsent.extend(messages::line(message.text));
            if is_first {
                self.write();
            }
        }
    }

    fn arrived(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    fn wait(&mut self, until: Instant) {
        self.transfer(until.saturating_duration_since(Instant::now()).min(STOP_CHECK));
    }

    fn close(mut self: Box<Self>) -> Option<String> {
        let exit = self.end();
        // A process that the server started may hold the pipes open, so waiting is limited.
        let until = Instant::now() + GRACE;
        while (self.stdout.is_some() || !self.stderr.is_finished()) && Instant::now() < until {
            self.discard_output();
        }
        self.close_stdin();
        self.recorded.note(|tap| tap.exit(exit));
        let words = self.recorded.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let ended = match exit {
            Exit { code: Some(0), .. } => None,
            Exit { code: Some(code), .. } => Some(format!("the server exited with status {code}")),
            Exit { signal: Some(signal), .. } => Some(format!("the server was killed by signal {signal}")),
            Exit { .. } => None,
        };
        ended.map(|ended| if words.is_empty() { ended } else { format!("{ended}; its last output on stderr: {words}") })
    }
}

fn read_stderr(mut stderr: File, recorded: &ServerTap) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = match stderr.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        recorded.note(|tap| tap.data(now(), Pipe::Stderr, bytes));
        let mut words = recorded.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes);
        let excess = words.len().saturating_sub(STDERR_TAIL);
        words.drain(..excess);
    }
    recorded.note(|tap| tap.end_of_file(Pipe::Stderr));
}
