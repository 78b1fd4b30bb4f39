//! The tape: what this program itself sends and receives over sockets, as the packets that a
//! capture of it would show.
//!
//! A replay and a proxy speak HTTP, often inside TLS, and a capture would lack the TLS keys. So the
//! bytes are noted above TLS: before they are encrypted and after they are decrypted. Each piece is
//! noted with its time and the real addresses. From these pieces a [`TapeSource`] makes a TCP
//! connection: handshake, segments, end. Everything above the segments is what was sent. Everything
//! below (sequence numbers, segment sizes, acknowledgments, the absence of TLS) is invented, and no
//! view presents it as a fact about the network.
//!
//! ```text
//!  connections ─► entries in batches ─► queue ─► entries ─► segments ─► recorder
//!   (their threads, one copy)                        (the recorder's thread)
//! ```
//!
//! A connection's own thread only copies its bytes to the queue. The recorder's thread makes
//! segments of them. In a proxy it has a lower priority.
//!
//! A writer to a [`Tape`] waits when the recorder is behind, so a replay takes longer. Traffic of
//! others must not wait: it is noted on a [`LossyTapeConnection`].

mod entry;
mod flow;
mod lossy_connection;

pub(crate) use flow::{ACK, CLOSING, Flow, OPENING, PSH, SEGMENT};
pub use lossy_connection::{LossyTapeConnection, LostBytes};

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use self::entry::TapeEvent;
use super::batch::Batch;
use super::overflow::Overflow;
use super::queue::{Advance, PendingWakeups, Queue, QueueReader};
use super::{Item, Source, now};
use crate::capture::{LinkType, Packet, PacketNumber, Time};

/// The pause of a writer before it looks again, if neither memory nor disk has room for an entry
/// that must not be lost.
const PAUSE: Duration = Duration::from_millis(10);

/// The number of a connection on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapeConnection(u32);

/// Takes the bytes of connections. Clones write to the same tape, which ends when the last of
/// them is dropped.
#[derive(Clone, Debug)]
pub struct Tape {
    end: Arc<EndWhenDropped>,
    connections: Arc<AtomicU32>,
    /// The entries of a connection attempt that may still fail.
    attempt: Arc<Mutex<Option<Batch>>>,
}

/// The writers' end of the queue. One of them writes at a time.
#[derive(Debug, Default)]
struct TapeWriter {
    queue: Arc<Queue>,
    wakeups: Mutex<PendingWakeups>,
}

#[derive(Debug)]
struct EndWhenDropped(Arc<TapeWriter>);

impl Drop for EndWhenDropped {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends a tape although connections may still write to it.
#[derive(Debug)]
pub struct TapeEnd(Arc<TapeWriter>);

impl TapeEnd {
    /// Ends the tape. What is on it is still recorded.
    pub fn end(&self) {
        self.0.end();
    }
}

/// A tape, and the source that reads it.
pub fn tape() -> (Tape, TapeSource) {
    let writer = Arc::<TapeWriter>::default();
    let tape_source = TapeSource {
        reader: QueueReader::new(Arc::clone(&writer.queue), false),
        writer: Arc::clone(&writer),
        flows: HashMap::new(),
        connection: TapeConnection(0),
        steps: VecDeque::new(),
        closes: false,
        current: Vec::new(),
        count: 0,
    };
    (Tape { end: Arc::new(EndWhenDropped(writer)), connections: Arc::default(), attempt: Arc::default() }, tape_source)
}

impl TapeWriter {
    /// Ignores poisoning, because no code under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, PendingWakeups> {
        self.wakeups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the tape. A writer that has the open batch puts it back first.
    fn end(&self) {
        let _wakeups = self.lock();
        self.queue.end(None);
    }

    /// Appends an entry whose encoding has `length` bytes. Waits for room within bounds, but not if
    /// the last wait was in vain (`is_stuck`) and most of the queue is still full. Returns whether
    /// there was room.
    fn append(&self, time: Time, length: usize, is_stuck: bool, encode: impl Fn(&mut Vec<u8>)) -> bool {
        let mut wakeups = self.lock();
        if is_stuck && !self.queue.has_much_room() {
            return false;
        }
        let mut batch = self.queue.open(length);
        let before = batch.size();
        batch.write(PacketNumber(0), time, LinkType::RAW, encode);
        let added = batch.size() - before;
        let put = self.queue.put_when_room(batch, added, &mut wakeups);
        let is_put = put.is_ok();
        if let Err(mut batch) = put {
            batch.pop();
            self.queue.put(batch, 0, &mut wakeups);
        }
        self.queue.wake_sleepers(&mut wakeups);
        is_put
    }

    /// Appends an entry, however long it has to wait for room. Without a recorder nothing is
    /// recorded. The caller that runs the recorder reports that.
    fn append_patiently(&self, time: Time, length: usize, encode: impl Fn(&mut Vec<u8>)) {
        while !self.append(time, length, false, &encode) {
            if self.queue.is_ended() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Tape {
    /// The same tape, for a connection attempt that may fail. Entries of this clone and its
    /// clones are held until the attempt is [kept](Tape::keep). If it is dropped before that,
    /// its entries are discarded.
    pub fn attempt(&self) -> Tape {
        Tape { attempt: Arc::new(Mutex::new(Some(Batch::default()))), ..self.clone() }
    }

    /// The attempt succeeded: the held entries are on the tape now, and so is
    /// everything that follows.
    pub fn keep(&self) {
        let mut attempt = self.lock();
        // Written while the lock is held, so that no later entry overtakes them.
        let held = attempt.take().unwrap_or_default();
        for entry in held.packets() {
            self.writer().append_patiently(entry.time, entry.data.len(), |out| out.extend_from_slice(entry.data));
        }
    }

    /// Notes a new connection, from `client` to `server`.
    pub fn open(&self, client: SocketAddr, server: SocketAddr) -> TapeConnection {
        let connection = self.begin();
        self.append(connection, &TapeEvent::Open(client, server));
        connection
    }

    fn begin(&self) -> TapeConnection {
        TapeConnection(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes bytes that the client sent.
    pub fn sent(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.append(connection, &TapeEvent::Sent(bytes));
        }
    }

    /// Notes bytes that the client received.
    pub fn received(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.append(connection, &TapeEvent::Received(bytes));
        }
    }

    /// Notes the end of a connection.
    pub fn close(&self, connection: TapeConnection) {
        self.append(connection, &TapeEvent::Close);
    }

    fn append(&self, connection: TapeConnection, event: &TapeEvent<'_>) {
        let (time, encode) = (now(), |out: &mut Vec<u8>| entry::encode(connection, event, out));
        if let Some(held) = &mut *self.lock() {
            return held.write(PacketNumber(0), time, LinkType::RAW, encode);
        }
        self.writer().append_patiently(time, event.most_bytes(), encode);
    }

    fn writer(&self) -> &TapeWriter {
        &self.end.0
    }

    /// Ignores poisoning, because no code under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Option<Batch>> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tape as a [`Source`] of packets of link type [`LinkType::IPV4`] or [`LinkType::IPV6`].
#[derive(Debug)]
pub struct TapeSource {
    reader: QueueReader,
    writer: Arc<TapeWriter>,
    flows: HashMap<TapeConnection, Flow>,
    /// The connection of the current entry.
    connection: TapeConnection,
    /// Segments of the current entry that were not delivered yet.
    steps: VecDeque<PlannedSegment>,
    /// The current entry ends its connection.
    closes: bool,
    /// The packet that was delivered last.
    current: Vec<u8>,
    count: u64,
}

/// A segment to be made: its sender (0 is the client), its flags, and its data within the entry.
#[derive(Clone, Debug)]
struct PlannedSegment(usize, u8, Range<usize>);

impl TapeSource {
    /// Lets entries wait on disk if memory is full.
    pub fn with_overflow(self, overflow: Overflow) -> std::io::Result<TapeSource> {
        let queue = Arc::clone(&self.writer.queue);
        thread::Builder::new().name("overflow".to_owned()).spawn(move || queue.spill(overflow))?;
        Ok(self)
    }

    /// Reports every pause in the traffic, for a reader that then shows and writes what it has.
    pub fn reporting_pauses(mut self) -> TapeSource {
        self.reader.report_pauses();
        self
    }

    /// Can end the tape early.
    pub fn ender(&self) -> TapeEnd {
        TapeEnd(Arc::clone(&self.writer))
    }

    /// Reads the current entry and plans its segments.
    fn take_entry(&mut self) {
        self.steps.clear();
        let Some((connection, event)) = self.reader.packet().and_then(|entry| entry::decode(entry.data)) else {
            return;
        };
        let segment = |(sender, flags)| PlannedSegment(sender, flags, 0..0);
        (self.connection, self.closes) = (connection, false);
        match event {
            TapeEvent::Open(client, server) => {
                self.flows.insert(connection, Flow::new(client, server));
                self.steps.extend(OPENING.map(segment));
            }
            TapeEvent::Sent(bytes) | TapeEvent::Received(bytes) => {
                let sender = usize::from(matches!(event, TapeEvent::Received(_)));
                let ends = (0..bytes.len()).step_by(SEGMENT).map(|start| start..bytes.len().min(start + SEGMENT));
                self.steps.extend(ends.map(|range| PlannedSegment(sender, PSH | ACK, range)));
            }
            TapeEvent::Lost(lost) => {
                if let Some(flow) = self.flows.get_mut(&connection) {
                    flow.skip(lost);
                }
            }
            TapeEvent::Close => {
                self.steps.extend(CLOSING.map(segment));
                self.closes = true;
            }
        }
    }

    /// Makes the next segment of the current entry. Returns its time and its link type.
    fn next_segment(&mut self) -> Option<(Time, LinkType)> {
        let PlannedSegment(sender, flags, range) = self.steps.pop_front()?;
        let entry = self.reader.packet()?;
        let (_, event) = entry::decode(entry.data)?;
        let flow = self.flows.get_mut(&self.connection)?;
        let link = flow.segment(sender, flags, event.bytes().get(range)?, &mut self.current);
        if self.closes && self.steps.is_empty() {
            self.flows.remove(&self.connection);
        }
        Some((entry.time, link))
    }
}

impl Source for TapeSource {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        self.reader.rest_if_idle();
        let (time, link) = loop {
            if let Some(segment) = self.next_segment() {
                break segment;
            }
            match self.reader.advance()? {
                Advance::Packet => self.take_entry(),
                Advance::Idle => return Ok(Some(Item::Idle)),
                Advance::End => return Ok(None),
            }
        };
        self.count += 1;
        Ok(Some(Item::Packet(Packet {
            number: PacketNumber(self.count),
            time,
            link,
            interface: 0,
            original_length: u32::try_from(self.current.len()).unwrap_or(u32::MAX),
            data: &self.current,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::flow::{FIN, SYN, checksum, pseudo_header};
    use super::*;

    /// The bytes that each side sent, reassembled from the packets, whose checksums must be right.
    fn sent_bytes(server: SocketAddr, pieces: &[(bool, &[u8])]) -> [Vec<u8>; 2] {
        let (tape, mut tape_source) = tape();
        let client = SocketAddr::new(server.ip(), 50_000);
        let connection = tape.open(client, server);
        for (sent, bytes) in pieces {
            if *sent { tape.sent(connection, bytes) } else { tape.received(connection, bytes) }
        }
        tape.close(connection);
        drop(tape);
        let mut sent = [Vec::new(), Vec::new()];
        let mut next = [0u32; 2];
        while let Some(item) = tape_source.next().unwrap() {
            let Item::Packet(packet) = item else { continue };
            let head = if packet.link == LinkType::IPV4 { 20 } else { 40 };
            if head == 20 {
                assert_eq!(checksum(0, &packet.data[..20]), 0);
            }
            let tcp = &packet.data[head..];
            assert_eq!(checksum(pseudo_header(client.ip(), server.ip(), tcp.len()), tcp), 0);
            let from = u16::from_be_bytes([tcp[0], tcp[1]]);
            let side = usize::from(from == server.port());
            assert_eq!(u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]), next[side], "in order, without a hole");
            next[side] += (tcp.len() - 20) as u32 + u32::from(tcp[13] & (SYN | FIN) != 0);
            sent[side].extend_from_slice(&tcp[20..]);
        }
        sent
    }

    #[test]
    fn an_attempt_counts_once_it_is_kept() {
        let (tape, mut tape_source) = tape();
        let address = "127.0.0.1:80".parse().unwrap();
        for text in [&b"lost"[..], b"kept"] {
            let attempt = tape.attempt();
            let connection = attempt.open(address, address);
            attempt.sent(connection, text);
            if text == b"kept" {
                attempt.keep();
                attempt.sent(connection, b"more");
            }
        }
        drop(tape);
        let mut sent = Vec::new();
        while let Some(item) = tape_source.next().unwrap() {
            if let Item::Packet(packet) = item {
                sent.extend_from_slice(&packet.data[40..]);
            }
        }
        assert_eq!(sent, b"keptmore");
    }

    #[test]
    fn the_bytes_of_both_sides_come_back() {
        let long = vec![b'x'; 2 * SEGMENT + 1];
        for server in ["127.0.0.1:80", "[::1]:443"] {
            let pieces: [(bool, &[u8]); 4] = [(true, b"ask"), (false, &long), (true, b""), (true, b"more")];
            assert_eq!(sent_bytes(server.parse().unwrap(), &pieces), [b"askmore".to_vec(), long.clone()]);
        }
    }
}
