//! Connections to one server, each with one task at a time, and one wait for all of them.
//!
//! The thread that decides also writes and reads: to hand each call to another thread and its answer back would cost more than many servers
//! take to answer. Only a connection that is to be made is waited for elsewhere, since looking up a name knows no other way.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::task::Task;
use super::wire::Wire;
use crate::decode::Direction;
use crate::http::connect::{Connected, Connector, why};
use crate::http::reading::{Part, Reading};
use crate::source::tape::Tape;

/// Connections at once. No recording of a single client comes near it.
const LINES: usize = 256;

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// How long a stream whose answer is here may take to end before another connection is made: it "SHOULD" be closed at once.
const ENDING: Duration = Duration::from_millis(5);

/// Names a connection, in the order in which they were made.
pub(super) type Number = u64;

/// What came.
#[derive(Debug)]
pub(super) enum Heard {
    /// A part of the response on a connection, and when it was here.
    Part(Number, Part, Instant),
    /// A connection could not be made.
    Unreachable(String),
}

#[derive(Debug)]
struct Line {
    wire: Wire,
    open: Option<(Box<Task>, Reading)>,
}

/// The connections.
#[derive(Debug)]
pub(super) struct Lines {
    connector: Arc<Connector>,
    /// What goes over the wire is noted here.
    tape: Tape,
    lines: BTreeMap<Number, Line>,
    next: Number,
    /// How many are being made.
    making: usize,
    made: Receiver<Result<Connected, String>>,
    maker: Sender<Result<Connected, String>>,
    /// Readable when something was made.
    wake: UnixStream,
    waker: Arc<UnixStream>,
    buffer: Box<[u8]>,
}

impl Lines {
    pub(super) fn new(connector: Connector, tape: Tape) -> Result<Lines> {
        let (maker, made) = unbounded();
        let (wake, waker) = UnixStream::pair().context("cannot make a socket")?;
        wake.set_nonblocking(true).context("cannot make a socket")?;
        Ok(Lines {
            connector: Arc::new(connector),
            tape,
            lines: BTreeMap::new(),
            next: 0,
            making: 0,
            made,
            maker,
            wake,
            waker: Arc::new(waker),
            buffer: vec![0; BUFFER].into(),
        })
    }

    /// A connection without a task that the server left open.
    pub(super) fn free(&mut self) -> Option<Number> {
        let idle: Vec<Number> = self.lines.iter().filter(|(_, line)| line.open.is_none()).map(|(at, _)| *at).collect();
        idle.into_iter().find(|number| {
            let is_open = self.lines.get_mut(number).is_some_and(|line| line.wire.is_open());
            if !is_open {
                self.lines.remove(number);
            }
            is_open
        })
    }

    /// Has connections made for so many tasks that wait, where too few are about to be free.
    pub(super) fn make(&mut self, waiting: usize) {
        let ending = self.ending().count();
        while self.making + ending < waiting && self.make_room() {
            let (connector, maker, waker) = (Arc::clone(&self.connector), self.maker.clone(), Arc::clone(&self.waker));
            let make = move || {
                // Whoever wanted it may be gone.
                let _ = maker.send(connector.connect());
                let _ = (&*waker).write(&[0]);
            };
            if std::thread::Builder::new().name("connect".to_owned()).spawn(make).is_err() {
                // Without a new one a task waits for a connection that is there.
                return;
            }
            self.making += 1;
        }
    }

    /// Whether there may be one more; a stream that goes on behind its answer is given up for it.
    fn make_room(&mut self) -> bool {
        let is_room = |lines: &Lines| lines.lines.len() + lines.making < LINES;
        let spent = self.answered().map(|(number, _)| number).next().filter(|_| !is_room(self));
        if let Some(spent) = spent {
            self.lines.remove(&spent);
        }
        is_room(self)
    }

    /// Connections whose task is answered and goes on, and when it was.
    fn answered(&self) -> impl Iterator<Item = (Number, Instant)> {
        self.lines.iter().filter_map(|(number, line)| Some((*number, line.open.as_ref()?.0.answered?)))
    }

    /// When those among them that are about to be free will have had their time.
    fn ending(&self) -> impl Iterator<Item = Instant> {
        let now = Instant::now();
        self.answered().map(|(_, at)| at + ENDING).filter(move |until| *until > now)
    }

    /// Until when a task that waits for a connection need not look for another one.
    pub(super) fn may_be_free(&self) -> Option<Instant> {
        self.ending().min()
    }

    /// Gives a connection a task, whose request this is.
    pub(super) fn begin(&mut self, number: Number, task: Box<Task>, request: &[u8]) {
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.open = Some((task, Reading::new(Direction::ServerToClient)));
        // What is wrong is met again where the answer is read, which may say more.
        let _ = line.wire.send(request);
    }

    /// The task of a connection.
    pub(super) fn task(&mut self, number: Number) -> Option<&mut Task> {
        self.lines.get_mut(&number)?.open.as_mut().map(|(task, _)| &mut **task)
    }

    /// Ends the task of a connection, which serves another one where the response left it open.
    pub(super) fn end(&mut self, number: Number) -> Option<Box<Task>> {
        let line = self.lines.get_mut(&number)?;
        let (task, reading) = line.open.take()?;
        if !reading.leaves_open() {
            self.lines.remove(&number);
        }
        Some(task)
    }

    /// The tasks that are under way.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.lines.values().filter_map(|line| line.open.as_ref()).map(|(task, _)| &**task)
    }

    /// Waits for what the server says, so long at most. What it takes is written.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<Heard> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(self.lines.values().map(|line| {
            let write = if line.wire.socket.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(line.wire.socket.socket(), PollFlags::IN | write)
        }));
        let timeout = Timespec::try_from(time).ok();
        // Interrupted is answered by the caller, who looks at the clock and comes again.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut heard = Vec::new();
        let numbers: Vec<Number> = self.lines.keys().copied().collect();
        for (number, _) in numbers.into_iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.attend(number, &mut heard);
        }
        if ready[0] {
            self.take_made(&mut heard);
        }
        heard
    }

    fn take_made(&mut self, heard: &mut Vec<Heard>) {
        // What was written says no more than that something was made.
        let _ = self.wake.read(&mut self.buffer);
        for made in self.made.try_iter() {
            self.making = self.making.saturating_sub(1);
            match made.and_then(|connected| Wire::new(connected, &self.tape).map_err(|error| why(&error))) {
                Ok(wire) => {
                    self.lines.insert(self.next, Line { wire, open: None });
                    self.next += 1;
                }
                Err(why) => heard.push(Heard::Unreachable(why)),
            }
        }
    }

    /// Writes and reads what a connection takes and gives.
    fn attend(&mut self, number: Number, heard: &mut Vec<Heard>) {
        let Lines { lines, buffer, .. } = self;
        let Some(line) = lines.get_mut(&number) else { return };
        let _ = line.wire.socket.flush();
        let mut going = true;
        while going {
            let received = line.wire.receive(buffer);
            let Some((_, reading)) = &mut line.open else {
                // The server closed it, or says what nobody asked for.
                if !matches!(received, Ok(None)) {
                    lines.remove(&number);
                }
                return;
            };
            let parts = match received {
                Ok(None) => return,
                Ok(Some(count)) => {
                    going = count > 0 && line.wire.socket.holds_received();
                    reading.push(&buffer[..count])
                }
                Err(error) => {
                    going = false;
                    vec![Part::End(Err(why(&error)))]
                }
            };
            let at = Instant::now();
            heard.extend(parts.into_iter().map(|part| Heard::Part(number, part, at)));
        }
    }
}
