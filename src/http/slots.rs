//! The slots of a server: each connection has one, and their number is limited.
//!
//! When all are taken, a new client gets the slot of a connection that does no harm to lose:
//!
//! 1. every connection whose client has closed it: nobody waits for the response;
//! 2. otherwise the connection that has been without a complete request for longest. It is idle, or
//!    its request arrives too slowly. Connections of clients with a session come last.
//!
//! A connection whose client waits for a response is never taken. So a part of the slots is a
//! reserve: only requests of clients with a session are served from it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::requests::Refusal;

/// One slot in this many belongs to the reserve.
const RESERVED_SHARE: usize = 8;

/// The most sessions that are known at once. Beyond it, the one that was used longest ago is
/// forgotten. A forgotten session is served as long as slots outside the reserve are free.
const MAX_SESSIONS: usize = 1_024;

/// The longest name of a session that is remembered, in bytes. Servers assign UUIDs.
const SESSION_NAME: usize = 512;

/// The longest time that a new client waits for the thread of a revoked connection to end. Most end
/// within a millisecond. One that is connecting to a server ends later.
const REVOCATION: Duration = Duration::from_millis(100);

/// All slots of a listener.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    table: Mutex<Table>,
    /// Signalled when a connection ends.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    connections: BTreeMap<u64, Connection>,
    /// Sessions by name, with the time of their last use.
    sessions: HashMap<String, u64>,
    /// Counts everything that happens, as a clock.
    clock: u64,
}

#[derive(Debug)]
struct Connection {
    stream: Arc<TcpStream>,
    /// The time since which no complete request waits for a response; `None` while one does.
    waits_since: Option<u64>,
    /// Whether a request on this connection named a session, or began one.
    has_session: bool,
    /// Dropped when the slot is revoked.
    granted: Option<Sender<Infallible>>,
}

/// The slot of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    number: u64,
    stream: Arc<TcpStream>,
    revoked: Receiver<Infallible>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Arc<Slots> {
        Arc::new(Slots { most, table: Mutex::default(), freed: Condvar::new() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection a slot. Returns the connection if all slots are in use.
    pub(super) fn admit(self: &Arc<Slots>, stream: TcpStream) -> Result<Slot, TcpStream> {
        let mut table = self.table();
        if table.connections.len() >= self.most {
            if !table.make_room() {
                return Err(stream);
            }
            let is_full = |table: &mut Table| table.connections.len() >= self.most;
            let waited = self.freed.wait_timeout_while(table, REVOCATION, is_full);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
            if is_full(&mut table) {
                return Err(stream);
            }
        }
        let (number, stream) = (table.tick(), Arc::new(stream));
        let (granted, revoked) = bounded(0);
        let connection = Connection {
            stream: Arc::clone(&stream),
            waits_since: Some(number),
            has_session: false,
            granted: Some(granted),
        };
        table.connections.insert(number, connection);
        Ok(Slot { slots: Arc::clone(self), number, stream, revoked })
    }

    /// Revokes slots because the system has no more resources for connections.
    pub(super) fn make_room(&self) {
        self.table().make_room();
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Revokes the slots that are worth least. Returns whether any slot will be free.
    fn make_room(&mut self) -> bool {
        let (granted, ending): (Vec<_>, Vec<_>) =
            self.connections.values_mut().partition(|connection| connection.granted.is_some());
        let streams: Vec<_> = granted.iter().map(|connection| Arc::clone(&connection.stream)).collect();
        let (left, present): (Vec<_>, Vec<_>) =
            granted.into_iter().zip(have_left(&streams)).partition(|(_, left)| *left);
        let waiting = present.into_iter().map(|(connection, _)| connection);
        let longest =
            waiting.filter(|connection| connection.waits_since.is_some()).min_by_key(|connection| connection.rank());
        let mut revoked: Vec<_> = left.into_iter().map(|(connection, _)| connection).collect();
        if revoked.is_empty() {
            revoked.extend(longest);
        }
        let is_any_freed = !revoked.is_empty() || !ending.is_empty();
        revoked.into_iter().for_each(Connection::revoke);
        is_any_freed
    }
}

impl Connection {
    /// The order in which waiting connections are revoked.
    fn rank(&self) -> (bool, Option<u64>) {
        (self.has_session, self.waits_since)
    }

    fn revoke(&mut self) {
        self.granted = None;
        // Wakes the thread that reads it. An error means that the connection is already gone.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// For each connection, whether its client has closed it.
fn have_left(streams: &[Arc<TcpStream>]) -> Vec<bool> {
    let mut watched: Vec<_> = streams.iter().map(|stream| PollFd::new(&**stream, PollFlags::RDHUP)).collect();
    // On an error no event is reported, and nobody counts as gone.
    let _ = poll(&mut watched, Some(&Timespec::default()));
    watched.iter().map(|watched| !watched.revents().is_empty()).collect()
}

impl Slot {
    /// The only slot of a listener.
    #[cfg(test)]
    pub fn only(stream: TcpStream) -> Slot {
        Slots::new(1).admit(stream).unwrap_or_else(|_| unreachable!("it is free"))
    }

    /// The connection to the client.
    pub fn stream(&self) -> &Arc<TcpStream> {
        &self.stream
    }

    /// Disconnects when the slot is revoked. The connection is shut down then.
    pub fn revoked(&self) -> &Receiver<Infallible> {
        &self.revoked
    }

    /// Whether the slot is revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Whether the client has closed the connection, or at least its direction.
    pub fn has_left(&self) -> bool {
        have_left(std::slice::from_ref(&self.stream)) == [true]
    }

    /// A request is complete, and its client waits for the response. `names` are texts of the
    /// request that can be the name of a session.
    ///
    /// # Errors
    /// Only the reserve is left, and no text names a session.
    pub fn begin<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Refusal> {
        let mut table = self.slots.table();
        let now = table.tick();
        let mut has_session = false;
        for name in names {
            if let Some(used) = table.sessions.get_mut(name) {
                *used = now;
                has_session = true;
            }
        }
        let strangers = table.connections.values().filter(|connection| {
            connection.waits_since.is_none() && !connection.has_session && connection.granted.is_some()
        });
        let is_full = strangers.count() >= self.slots.most - self.slots.most / RESERVED_SHARE;
        let Some(connection) = table.connections.get_mut(&self.number) else { return Ok(()) };
        connection.has_session |= has_session;
        if is_full && !connection.has_session && connection.waits_since.is_some() {
            return Err(Refusal::new(503, "too many requests are open; the rest is for clients with a session"));
        }
        connection.waits_since = None;
        Ok(())
    }

    /// All requests are answered.
    pub fn rest(&self) {
        self.table_entry(|now, connection| connection.waits_since = Some(now));
    }

    /// The server gave this client a session of this name, or confirmed it.
    pub fn session_begins(&self, name: &str) {
        self.table_entry(|_, connection| connection.has_session = true);
        let mut table = self.slots.table();
        let now = table.tick();
        if name.len() > SESSION_NAME {
            return;
        }
        table.sessions.insert(name.to_owned(), now);
        if table.sessions.len() > MAX_SESSIONS {
            let oldest = table.sessions.iter().min_by_key(|(_, used)| **used).map(|(name, _)| name.clone());
            table.sessions.retain(|name, _| Some(name) != oldest.as_ref());
        }
    }

    /// The session of this name is over.
    pub fn session_ends(&self, name: &str) {
        self.slots.table().sessions.remove(name);
    }

    /// Changes the entry of this connection in the table.
    fn table_entry(&self, change: impl FnOnce(u64, &mut Connection)) {
        let mut table = self.slots.table();
        let now = table.tick();
        if let Some(connection) = table.connections.get_mut(&self.number) {
            change(now, connection);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().connections.remove(&self.number);
        self.slots.freed.notify_one();
    }
}
