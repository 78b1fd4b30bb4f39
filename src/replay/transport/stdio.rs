//! A server as a child process.
//!
//! Three threads move bytes, so that neither side can block the other: what we send waits in a channel, not in a pipe. Each notes what passes, as
//! `mcptap wrap` does.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::{Arrival, Failure, FailureKind, Outgoing, Transport};
use crate::capture::pipe::{Exit, Pipe};
use crate::source::stdio::{self, Observations, Server, Tap};

/// Bytes of one line: what the decoder takes, too.
const LINE: usize = 128 << 20;

/// Bytes of the server's last words on stderr that are kept.
const LAST_WORDS: usize = 2_048;

/// How long a server may take to end once its input is closed, and once it was asked to (2025-06-18 basic/lifecycle, "Shutdown": close the
/// input, wait, SIGTERM, wait, SIGKILL).
const GRACE: Duration = Duration::from_secs(2);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// The server's process and what is noted of it.
#[derive(Debug)]
struct Watched {
    tap: Mutex<Tap>,
    last_words: Mutex<Vec<u8>>,
}

impl Watched {
    fn note(&self, note: impl FnOnce(&mut Tap)) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut tap);
        tap.nudge();
    }
}

/// A server on three pipes.
#[derive(Debug)]
pub struct Stdio {
    child: Child,
    watched: Arc<Watched>,
    input: Option<Sender<Vec<u8>>>,
    arrivals: Receiver<Arrival>,
    readers: Vec<JoinHandle<()>>,
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
        tap.nudge();
        let watched = Arc::new(Watched { tap: Mutex::new(tap), last_words: Mutex::default() });
        let (input, lines) = unbounded::<Vec<u8>>();
        let (arrived, arrivals) = unbounded();
        let mut readers = Vec::new();
        let (stdin, watch) = (File::from(pipes.stdin), Arc::clone(&watched));
        // Nobody waits for this one: it ends when its channel or the pipe does.
        spawn("stdin", move || write(stdin, &lines, &watch))?;
        let (stdout, watch) = (File::from(pipes.stdout), Arc::clone(&watched));
        readers.push(spawn("stdout", move || read(stdout, &arrived, &watch))?);
        let (stderr, watch) = (File::from(pipes.stderr), Arc::clone(&watched));
        readers.push(spawn("stderr", move || listen(stderr, &watch))?);
        Ok((Stdio { child, watched, input: Some(input), arrivals, readers }, observations))
    }

    /// Waits for the server's end, asking ever more firmly.
    fn end(&mut self) -> Exit {
        self.input = None;
        for signal in [None, Some(rustix::process::Signal::TERM), Some(rustix::process::Signal::KILL)] {
            if let (Some(signal), Some(pid)) = (signal, rustix::process::Pid::from_raw(self.child.id() as i32)) {
                // It has not been waited for, so the id is still its own.
                let _ = rustix::process::kill_process(pid, signal);
            }
            let until = Instant::now() + GRACE;
            while Instant::now() < until {
                match self.child.try_wait() {
                    Ok(Some(status)) => return stdio::exit(status),
                    Ok(None) => thread::sleep(LOOK),
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
        if let Some(input) = &self.input {
            // A server that is gone says so on its output.
            let _ = input.send(line);
        }
    }

    fn arrivals(&self) -> &Receiver<Arrival> {
        &self.arrivals
    }

    fn close(mut self: Box<Self>) -> Option<String> {
        let exit = self.end();
        // A grandchild may hold the pipes open for ever: then what it says is not waited for.
        let until = Instant::now() + GRACE;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < until {
            thread::sleep(LOOK);
        }
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

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run).context("cannot start a thread")
}

fn write(mut stdin: File, lines: &Receiver<Vec<u8>>, watched: &Watched) {
    for line in lines {
        // Noted first: the answer may be noted before the write returns.
        watched.note(|tap| tap.data(crate::source::now(), Pipe::Stdin, &line));
        if stdin.write_all(&line).is_err() {
            break;
        }
    }
    watched.note(|tap| tap.end_of_file(Pipe::Stdin));
}

fn read(mut stdout: File, arrived: &Sender<Arrival>, watched: &Watched) {
    let mut buffer = vec![0; 64 << 10];
    let mut line = Vec::new();
    let why = loop {
        let bytes = match stdout.read(&mut buffer) {
            Ok(0) => break "the server closed its output".to_owned(),
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => break format!("cannot read what the server says: {error}"),
        };
        let now = Instant::now();
        watched.note(|tap| tap.data(crate::source::now(), Pipe::Stdout, bytes));
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let text = std::mem::take(&mut line);
            if !text.trim_ascii().is_empty() {
                let _ = arrived.send(Arrival::Text(text, now));
            }
        }
        line.extend_from_slice(rest);
        if line.len() > LINE {
            break format!("the server sent a line of more than {LINE} bytes");
        }
    };
    watched.note(|tap| tap.end_of_file(Pipe::Stdout));
    let _ = arrived.send(Arrival::Over(Failure::new(FailureKind::Server, why)));
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
        watched.note(|tap| tap.data(crate::source::now(), Pipe::Stderr, bytes));
        let mut words = watched.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(bytes);
        let excess = words.len().saturating_sub(LAST_WORDS);
        words.drain(..excess);
    }
    watched.note(|tap| tap.end_of_file(Pipe::Stderr));
}
