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

use super::taped_connection::TapedConnection;
use super::task::Task;
use crate::decode::Direction;
use crate::http::connect::{Connected, Connector, describe};
use crate::http::message_reader::{MessageReader, Part};
use crate::source::tape::Tape;

/// Connections at once. No recording of a single client comes near it.
const LINES: usize = 256;

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// How long a stream whose answer is here may take to end before another connection is made: it "SHOULD" be closed at once.
const ENDING: Duration = Duration::from_millis(5);

/// Names a connection, in the order in which they were made.
pub(super) type ConnectionNumber = u64;

/// What came.
#[derive(Debug)]
pub(super) enum PoolEvent {
    /// A part of the response on a connection, and when it was here.
    Part(ConnectionNumber, Part, Instant),
    /// A connection could not be made.
    Unreachable(String),
}

#[derive(Debug)]
struct PooledConnection {
    taped: TapedConnection,
    open: Option<(Box<Task>, MessageReader)>,
}

/// The connections.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    connector: Arc<Connector>,
    /// What goes over the wire is noted here.
    tape: Tape,
    connections: BTreeMap<ConnectionNumber, PooledConnection>,
    next: ConnectionNumber,
    /// How many are being made.
    connecting: usize,
    connected: Receiver<Result<Connected, String>>,
    connected_sender: Sender<Result<Connected, String>>,
    /// Readable when something was made.
    wake: UnixStream,
    waker: Arc<UnixStream>,
    buffer: Box<[u8]>,
}

impl ConnectionPool {
    pub(super) fn new(connector: Connector, tape: Tape) -> Result<ConnectionPool> {
        let (connected_sender, connected) = unbounded();
        let (wake, waker) = UnixStream::pair().context("cannot make a socket")?;
        wake.set_nonblocking(true).context("cannot make a socket")?;
        Ok(ConnectionPool {
            connector: Arc::new(connector),
            tape,
            connections: BTreeMap::new(),
            next: 0,
            connecting: 0,
            connected,
            connected_sender,
            wake,
            waker: Arc::new(waker),
            buffer: vec![0; BUFFER].into(),
        })
    }

    /// A connection without a task that the server left open.
    pub(super) fn free(&mut self) -> Option<ConnectionNumber> {
        let idle: Vec<ConnectionNumber> =
            self.connections.iter().filter(|(_, connection)| connection.open.is_none()).map(|(at, _)| *at).collect();
        idle.into_iter().find(|number| {
            let is_open = self.connections.get_mut(number).is_some_and(|connection| connection.taped.is_open());
            if !is_open {
                self.connections.remove(number);
            }
            is_open
        })
    }

    /// Has connections made for so many tasks that wait, where too few are about to be free.
    pub(super) fn connect_for(&mut self, queued: usize) {
        let ending = self.ending().count();
        while self.connecting + ending < queued && self.has_room() {
            let (connector, connected_sender, waker) =
                (Arc::clone(&self.connector), self.connected_sender.clone(), Arc::clone(&self.waker));
            let connect_for = move || {
                // Whoever wanted it may be gone.
                let _ = connected_sender.send(connector.connect());
                let _ = (&*waker).write(&[0]);
            };
            if std::thread::Builder::new().name("connect".to_owned()).spawn(connect_for).is_err() {
                // Without a new one a task waits for a connection that is there.
                return;
            }
            self.connecting += 1;
        }
    }

    /// Whether there may be one more; a stream that goes on behind its answer is given up for it.
    fn has_room(&mut self) -> bool {
        let is_room = |connections: &ConnectionPool| connections.connections.len() + connections.connecting < LINES;
        let spent = self.answered().map(|(number, _)| number).next().filter(|_| !is_room(self));
        if let Some(spent) = spent {
            self.connections.remove(&spent);
        }
        is_room(self)
    }

    /// Connections whose task is answered and goes on, and when it was.
    fn answered(&self) -> impl Iterator<Item = (ConnectionNumber, Instant)> {
        self.connections
            .iter()
            .filter_map(|(number, connection)| Some((*number, connection.open.as_ref()?.0.answered?)))
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
    pub(super) fn begin(&mut self, number: ConnectionNumber, task: Box<Task>, request: &[u8]) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.open = Some((task, MessageReader::new(Direction::ServerToClient)));
        // What is wrong is met again where the answer is read, which may say more.
        let _ = connection.taped.send(request);
    }

    /// The task of a connection.
    pub(super) fn task(&mut self, number: ConnectionNumber) -> Option<&mut Task> {
        self.connections.get_mut(&number)?.open.as_mut().map(|(task, _)| &mut **task)
    }

    /// Ends the task of a connection, which serves another one where the response left it open.
    pub(super) fn end(&mut self, number: ConnectionNumber) -> Option<Box<Task>> {
        let connection = self.connections.get_mut(&number)?;
        let (task, reader) = connection.open.take()?;
        if !reader.leaves_open() {
            self.connections.remove(&number);
        }
        Some(task)
    }

    /// The tasks that are under way.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.connections.values().filter_map(|connection| connection.open.as_ref()).map(|(task, _)| &**task)
    }

    /// Waits for what the server says, so long at most. What it takes is written.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<PoolEvent> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(self.connections.values().map(|connection| {
            let write = if connection.taped.socket.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(connection.taped.socket.socket(), PollFlags::IN | write)
        }));
        let timeout = Timespec::try_from(time).ok();
        // Interrupted is answered by the caller, who looks at the clock and comes again.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut events = Vec::new();
        let numbers: Vec<ConnectionNumber> = self.connections.keys().copied().collect();
        for (number, _) in numbers.into_iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.transfer(number, &mut events);
        }
        if ready[0] {
            self.take_made(&mut events);
        }
        events
    }

    fn take_made(&mut self, events: &mut Vec<PoolEvent>) {
        // What was written says no more than that something was made.
        let _ = self.wake.read(&mut self.buffer);
        for connected in self.connected.try_iter() {
            self.connecting = self.connecting.saturating_sub(1);
            match connected
                .and_then(|connected| TapedConnection::new(connected, &self.tape).map_err(|error| describe(&error)))
            {
                Ok(taped) => {
                    self.connections.insert(self.next, PooledConnection { taped, open: None });
                    self.next += 1;
                }
                Err(why) => events.push(PoolEvent::Unreachable(why)),
            }
        }
    }

    /// Writes and reads what a connection takes and gives.
    fn transfer(&mut self, number: ConnectionNumber, events: &mut Vec<PoolEvent>) {
        let ConnectionPool { connections, buffer, .. } = self;
        let Some(connection) = connections.get_mut(&number) else { return };
        let _ = connection.taped.socket.flush();
        let mut going = true;
        while going {
            let received = connection.taped.receive(buffer);
            let Some((_, reader)) = &mut connection.open else {
                // The server closed it, or says what nobody asked for.
                if !matches!(received, Ok(None)) {
                    connections.remove(&number);
                }
                return;
            };
            let parts = match received {
                Ok(None) => return,
                Ok(Some(count)) => {
                    going = count > 0 && connection.taped.socket.has_buffered_plaintext();
                    reader.push(&buffer[..count])
                }
                Err(error) => {
                    going = false;
                    vec![Part::End(Err(describe(&error)))]
                }
            };
            let at = Instant::now();
            events.extend(parts.into_iter().map(|part| PoolEvent::Part(number, part, at)));
        }
    }
}
