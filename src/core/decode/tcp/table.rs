//! The table of connections: found by their addresses, discarded in order of their last use.
//!
//! Entries live in a slab. Linked lists order them from the one used last to the one idle longest:
//! one list for those that carried payload, one for those that did not. A flood of SYNs therefore
//! discards its own connections, and of those in use at most an eighth of the table. Several
//! packets of one connection in a row, the usual case, need no hashing.

use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use super::ConnectionId;
use super::connection::Connection;
use super::segment::Segment;
use crate::capture::Time;

/// The index of a connection in the table. It is reused after the connection is removed.
pub(super) type Slot = u32;

const NONE: Slot = Slot::MAX;

/// The share of the table that connections without payload may fill while others wait for room: an
/// eighth. Between its handshake and its first bytes a connection is idle for a round trip.
const BARE_SHARE: usize = 8;

/// The addresses and ports of a connection, the same for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    addresses: [u64; 4],
    ports: u32,
    families: u8,
}

impl FlowKey {
    pub fn of(segment: &Segment<'_>) -> FlowKey {
        let parts = |address: &SocketAddr| match address.ip() {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), address.port(), 0u8),
            IpAddr::V6(ip) => (u128::from(ip), address.port(), 1),
        };
        let (source, destination) = (parts(&segment.source), parts(&segment.destination));
        let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
        FlowKey {
            addresses: [(low.0 >> 64) as u64, low.0 as u64, (high.0 >> 64) as u64, high.0 as u64],
            ports: u32::from(low.1) << 16 | u32::from(high.1),
            families: low.2 << 1 | high.2,
        }
    }
}

/// A connection in the table, with its place in the reassembler's lists.
#[derive(Debug)]
pub(super) struct TrackedConnection {
    pub connection: Connection,
    /// Its valid deadline in the heap. Others of its deadlines there are stale.
    pub deadline: Option<Time>,
    /// Its key among the connections that buffer bytes.
    pub holding: Option<u64>,
    /// Whether it is over and only retained for late segments.
    pub lingering: bool,
    /// Whether a segment with payload was captured.
    is_used: bool,
    key: FlowKey,
    newer: Slot,
    older: Slot,
}

/// All connections of the capture that are open or linger.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    most: usize,
    flows: FxHashMap<FlowKey, Slot>,
    entries: Vec<Option<TrackedConnection>>,
    free: Vec<Slot>,
    /// The connections without payload, and those with payload.
    lists: [List; 2],
    last_id: u32,
}

/// The ends of a list of entries.
#[derive(Clone, Copy, Debug)]
struct List {
    newest: Slot,
    oldest: Slot,
    length: usize,
}

impl List {
    const EMPTY: List = List { newest: NONE, oldest: NONE, length: 0 };
}

impl ConnectionTable {
    /// An empty table for at most this many connections.
    pub fn new(most: usize) -> ConnectionTable {
        ConnectionTable {
            most,
            flows: FxHashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            lists: [List::EMPTY; 2],
            last_id: 0,
        }
    }

    /// Finds a connection and moves it to the front of its list.
    pub fn slot_of(&mut self, key: FlowKey) -> Option<Slot> {
        let newest = self.lists[usize::from(true)].newest;
        if self.entry(newest).is_some_and(|entry| entry.key == key) {
            return Some(newest);
        }
        let slot = *self.flows.get(&key)?;
        self.unlink(slot);
        self.link_newest(slot);
        Some(slot)
    }

    /// The entry in a slot.
    pub fn entry(&mut self, slot: Slot) -> Option<&mut TrackedConnection> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// The deadline of each connection that has one.
    pub fn deadlines(&self) -> impl Iterator<Item = (Time, ConnectionId, Slot)> + '_ {
        let entries = self.entries.iter().zip(0..).filter_map(|(entry, slot)| Some((entry.as_ref()?, slot)));
        entries.filter_map(|(entry, slot)| Some((entry.deadline?, entry.connection.id, slot)))
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether a connection must be removed before the next is added. A limit of 0 counts as 1, or
    /// nothing could be decoded.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most.max(1)
    }

    /// The connection to discard: the one that has been idle for longest, of those without payload
    /// if they are many.
    pub fn longest_idle(&self) -> Option<Slot> {
        let [bare, used] = self.lists;
        let first = if used.length == 0 || bare.length > self.most / BARE_SHARE { bare } else { used };
        (first.oldest != NONE).then_some(first.oldest)
    }

    /// Notes that a segment with payload was captured.
    pub fn note_payload(&mut self, slot: Slot) {
        if self.entry(slot).is_some_and(|entry| !entry.is_used) {
            self.unlink(slot);
            self.entry(slot).into_iter().for_each(|entry| entry.is_used = true);
            self.link_newest(slot);
        }
    }

    /// Adds a connection with the next id.
    pub fn insert(&mut self, key: FlowKey, connection: impl FnOnce(ConnectionId) -> Connection) -> Slot {
        self.last_id += 1;
        let connection = connection(ConnectionId(self.last_id));
        let entry = TrackedConnection {
            connection,
            deadline: None,
            holding: None,
            lingering: false,
            is_used: false,
            key,
            newer: NONE,
            older: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as Slot
            }
        };
        self.flows.insert(key, slot);
        self.link_newest(slot);
        slot
    }

    /// Removes a connection.
    pub fn remove(&mut self, slot: Slot) {
        self.unlink(slot);
        if let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) {
            self.flows.remove(&entry.key);
            self.free.push(slot);
        }
    }

    /// All connections, in order of their ids.
    pub fn in_order_of_appearance(&self) -> Vec<Slot> {
        let entries = self.entries.iter().zip(0..).filter_map(|(entry, slot)| Some((entry.as_ref()?, slot)));
        let mut slots: Vec<(ConnectionId, Slot)> = entries.map(|(entry, slot)| (entry.connection.id, slot)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, slot: Slot) {
        let Some(&mut TrackedConnection { newer, older, is_used, .. }) = self.entry(slot) else { return };
        match self.entry(newer) {
            Some(entry) => entry.older = older,
            None => self.lists[usize::from(is_used)].newest = older,
        }
        match self.entry(older) {
            Some(entry) => entry.newer = newer,
            None => self.lists[usize::from(is_used)].oldest = newer,
        }
        self.lists[usize::from(is_used)].length -= 1;
    }

    /// Puts an entry at the front of its list.
    fn link_newest(&mut self, slot: Slot) {
        let Some(is_used) = self.entry(slot).map(|entry| entry.is_used) else { return };
        let list = &mut self.lists[usize::from(is_used)];
        list.length += 1;
        let before = std::mem::replace(&mut list.newest, slot);
        match self.entry(before) {
            Some(entry) => entry.newer = slot,
            None => self.lists[usize::from(is_used)].oldest = slot,
        }
        if let Some(entry) = self.entry(slot) {
            (entry.newer, entry.older) = (NONE, before);
        }
    }
}
