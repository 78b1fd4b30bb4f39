//! A pool of connections to one server. Each serves one task at a time, and one `poll` waits for
//! all.
//!
//! The thread of the replay also writes and reads. Passing each call to another thread would take
//! longer than many servers need for a response. Only connecting uses other threads, because
//! looking up a name blocks.

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

/// The most connections at once. No recording of a single client comes near it.
const MAX_CONNECTIONS: usize = 256;

/// Bytes per read.
const BUFFER: usize = 64 << 10;

/// Time for a stream to end after its answer, before another connection is made. The server
/// "SHOULD" end it at once.
const ENDING: Duration = Duration::from_millis(5);

/// Numbers connections in the order in which they were made.
pub(super) type ConnectionNumber = u64;

/// An event of the pool.
#[derive(Debug)]
pub(super) enum PoolEvent {
    /// A part of the response on a connection, and the time when it arrived.
    Part(ConnectionNumber, Part, Instant),
    /// A connection could not be made, for this reason.
    Unreachable(String),
}

#[derive(Debug)]
struct PooledConnection {
    taped: TapedConnection,
    /// The current task, and the reader of its response.
    task: Option<(Box<Task>, MessageReader)>,
}

/// All connections to the server.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    connector: Arc<Connector>,
    /// Records the traffic.
    tape: Tape,
    connections: BTreeMap<ConnectionNumber, PooledConnection>,
    next: ConnectionNumber,
    /// The number of connections that are being made.
    connecting: usize,
    connected: Receiver<Result<Connected, String>>,
    connected_sender: Sender<Result<Connected, String>>,
    /// Readable when a connection was made.
    wake: UnixStream,
    waker: Arc<UnixStream>,
    buffer: Box<[u8]>,
}

impl ConnectionPool {
    pub(super) fn new(connector: Connector, tape: Tape) -> Result<ConnectionPool> {
        let (connected_sender, connected) = unbounded();
        let (wake, waker) = UnixStream::pair().context("cannot create a socket")?;
        wake.set_nonblocking(true).context("cannot create a socket")?;
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

    /// A socket to which another thread writes a byte to end a wait.
    pub(super) fn waker(&self) -> Arc<UnixStream> {
        Arc::clone(&self.waker)
    }

    /// A connection without a task that the server has left open.
    pub(super) fn free(&mut self) -> Option<ConnectionNumber> {
        let idle: Vec<ConnectionNumber> =
            self.connections.iter().filter(|(_, connection)| connection.task.is_none()).map(|(at, _)| *at).collect();
        idle.into_iter().find(|number| {
            let is_open = self.connections.get_mut(number).is_some_and(|connection| connection.taped.is_open());
            if !is_open {
                self.connections.remove(number);
            }
            is_open
        })
    }

    /// Starts connecting for this many queued tasks, unless enough connections are about
    /// to become free.
    pub(super) fn connect_for(&mut self, queued: usize) {
        let ending = self.ending().count();
        while self.connecting + ending < queued && self.has_room() {
            let (connector, connected_sender, waker) =
                (Arc::clone(&self.connector), self.connected_sender.clone(), Arc::clone(&self.waker));
            let connect = move || {
                // The receiver may be gone.
                let _ = connected_sender.send(connector.connect());
                let _ = (&*waker).write(&[0]);
            };
            if std::thread::Builder::new().name("connect".to_owned()).spawn(connect).is_err() {
                // The task waits for an existing connection instead.
                return;
            }
            self.connecting += 1;
        }
    }

    /// Whether there may be one more connection. If there are too many, a stream that goes on after
    /// its answer is closed.
    fn has_room(&mut self) -> bool {
        let is_room = |pool: &ConnectionPool| pool.connections.len() + pool.connecting < MAX_CONNECTIONS;
        let spent = self.answered().map(|(number, _)| number).next().filter(|_| !is_room(self));
        if let Some(spent) = spent {
            self.connections.remove(&spent);
        }
        is_room(self)
    }

    /// Connections whose answer has arrived while the stream goes on, and its time.
    fn answered(&self) -> impl Iterator<Item = (ConnectionNumber, Instant)> {
        self.connections
            .iter()
            .filter_map(|(number, connection)| Some((*number, connection.task.as_ref()?.0.answered?)))
    }

    /// The times until which these streams may end by themselves.
    pub(super) fn ending(&self) -> impl Iterator<Item = Instant> {
        let now = Instant::now();
        self.answered().map(|(_, at)| at + ENDING).filter(move |until| *until > now)
    }

    /// Starts a task on a connection by sending its request.
    pub(super) fn begin(&mut self, number: ConnectionNumber, task: Box<Task>, request: &[u8]) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.task = Some((task, MessageReader::new(Direction::ServerToClient)));
        // An error is reported when the response is read, which can give more details.
        let _ = connection.taped.send(request);
    }

    /// The task of a connection.
    pub(super) fn task(&mut self, number: ConnectionNumber) -> Option<&mut Task> {
        self.connections.get_mut(&number)?.task.as_mut().map(|(task, _)| &mut **task)
    }

    /// Ends the task of a connection. The connection is reused if the response allows it.
    pub(super) fn end(&mut self, number: ConnectionNumber) -> Option<Box<Task>> {
        let connection = self.connections.get_mut(&number)?;
        let (task, reader) = connection.task.take()?;
        if !reader.leaves_open() {
            self.connections.remove(&number);
        }
        Some(task)
    }

    /// The tasks that are running.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.connections.values().filter_map(|connection| connection.task.as_ref()).map(|(task, _)| &**task)
    }

    /// Waits for the server at most this long. Sends what is possible and returns what arrived.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<PoolEvent> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(self.connections.values().map(|connection| {
            let write = if connection.taped.socket.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(connection.taped.socket.socket(), PollFlags::IN | write)
        }));
        let timeout = Timespec::try_from(time).ok();
        // After an interruption the caller checks the time and calls again.
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
            self.add_connected(&mut events);
        }
        events
    }

    fn add_connected(&mut self, events: &mut Vec<PoolEvent>) {
        // The bytes only signal that a connection was made.
        let _ = self.wake.read(&mut self.buffer);
        for connected in self.connected.try_iter() {
            self.connecting = self.connecting.saturating_sub(1);
            match connected
                .and_then(|connected| TapedConnection::new(connected, &self.tape).map_err(|error| describe(&error)))
            {
                Ok(taped) => {
                    self.connections.insert(self.next, PooledConnection { taped, task: None });
                    self.next += 1;
                }
                Err(why) => events.push(PoolEvent::Unreachable(why)),
            }
        }
    }

    /// Sends and receives on one connection.
    fn transfer(&mut self, number: ConnectionNumber, events: &mut Vec<PoolEvent>) {
        let ConnectionPool { connections, buffer, .. } = self;
        let Some(connection) = connections.get_mut(&number) else { return };
        let _ = connection.taped.socket.flush();
        let mut going = true;
        while going {
            let received = connection.taped.receive(buffer);
            let Some((_, reader)) = &mut connection.task else {
                // The server closed an idle connection, or sent bytes that nothing asked for.
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
