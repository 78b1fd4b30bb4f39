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
//! A writer to a [`Tape`] waits when the recorder is behind, so a replay takes longer. Traffic of
//! others must not wait: it is noted on a [`LossyTapeConnection`].

mod lossy_connection;
mod packets;

pub use lossy_connection::{LossyTapeConnection, LostBytes};
pub(super) use packets::TapePackets;
#[cfg(all(feature = "attach", target_os = "linux"))]
pub(super) use packets::{ACK, FIN, Flow, PSH};

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::patience::Patience;
use super::{Item, Source, now};
use crate::capture::{Packet, PacketNumber, Time};

/// The largest number of pieces that wait for the recorder. A writer of more waits, so nothing of a
/// replay is lost.
const WAITING: usize = 1_024;

/// The time for which pieces gather before the recorder takes them.
const GATHER: Duration = Duration::from_millis(2);

/// The number of a connection on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapeConnection(pub(super) u32);

/// One event of a connection, with its time.
#[derive(Debug)]
pub(super) struct TapeEntry {
    pub(super) connection: TapeConnection,
    pub(super) time: Time,
    pub(super) event: TapeEvent,
}

/// Something that happened on a connection.
#[derive(Debug)]
pub(super) enum TapeEvent {
    Open {
        client: SocketAddr,
        server: SocketAddr,
    },
    Sent(Vec<u8>),
    Received(Vec<u8>),
    /// Numbers of bytes that the client sent and received without being recorded.
    Lost([u64; 2]),
    Close,
}

/// Takes the bytes of connections. Clones write to the same tape, which ends when the last of
/// them is dropped.
#[derive(Clone, Debug)]
pub struct Tape {
    entries: Sender<TapeEntry>,
    connections: Arc<AtomicU32>,
    /// The entries of a connection attempt that may still fail.
    attempt: Arc<Mutex<Option<Vec<TapeEntry>>>>,
}

/// A tape, and the source that reads it.
pub fn tape() -> (Tape, TapeSource) {
    let (entries, waiting) = bounded(WAITING);
    let tape = Tape { entries, connections: Arc::default(), attempt: Arc::default() };
    let tape_source = TapeSource {
        waiting,
        packets: TapePackets::default(),
        current: Vec::new(),
        count: 0,
        idle_report: IdleReport::Delayed,
        patience: Patience::default(),
    };
    (tape, tape_source)
}

impl Tape {
    /// The same tape, for a connection attempt that may fail. Entries of this clone and its
    /// clones are held until the attempt is [kept](Tape::keep). If it is dropped before that,
    /// its entries are discarded.
    pub fn attempt(&self) -> Tape {
        Tape { attempt: Arc::new(Mutex::new(Some(Vec::new()))), ..self.clone() }
    }

    /// The attempt succeeded: the held entries are on the tape now, and so is
    /// everything that follows.
    pub fn keep(&self) {
        let mut attempt = self.lock();
        // Sent while the lock is held, so that no later entry overtakes them.
        attempt.take().into_iter().flatten().for_each(|entry| self.send(entry));
    }

    /// Notes a new connection, from `client` to `server`.
    pub fn open(&self, client: SocketAddr, server: SocketAddr) -> TapeConnection {
        let connection = self.begin();
        self.append(connection, TapeEvent::Open { client, server });
        connection
    }

    fn begin(&self) -> TapeConnection {
        TapeConnection(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes bytes that the client sent.
    pub fn sent(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.append(connection, TapeEvent::Sent(bytes.to_vec()));
        }
    }

    /// Notes bytes that the client received.
    pub fn received(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.append(connection, TapeEvent::Received(bytes.to_vec()));
        }
    }

    /// Notes the end of a connection.
    pub fn close(&self, connection: TapeConnection) {
        self.append(connection, TapeEvent::Close);
    }

    fn append(&self, connection: TapeConnection, event: TapeEvent) {
        let entry = TapeEntry { connection, time: now(), event };
        let mut attempt = self.lock();
        match &mut *attempt {
            Some(held) => held.push(entry),
            None => {
                drop(attempt);
                self.send(entry);
            }
        }
    }

    fn send(&self, entry: TapeEntry) {
        // If there is no recorder nothing is recorded. The caller that runs the
        // recorder reports that.
        let _ = self.entries.send(entry);
    }

    /// Ignores poisoning, because no code under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, Option<Vec<TapeEntry>>> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tape as a [`Source`] of packets of link type [`LinkType::IPV4`] or [`LinkType::IPV6`].
#[derive(Debug)]
pub struct TapeSource {
    waiting: Receiver<TapeEntry>,
    packets: TapePackets,
    current: Vec<u8>,
    count: u64,
    idle_report: IdleReport,
    /// The time to wait for a piece before the recorder writes what it has.
    patience: Patience,
}

/// The behaviour of the source when nothing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdleReport {
    /// Lets pieces gather before it reports [`Item::Idle`], because the recorder
    /// then writes everything.
    Delayed,
    /// Reports [`Item::Idle`] at once, before it waits. The flag is true once it has done so.
    AtOnce(bool),
}

impl TapeSource {
    /// Makes the source report [`Item::Idle`] at once when nothing waits, for a reader that then
    /// passes on everything it has.
    pub fn reporting_idle_at_once(self) -> TapeSource {
        TapeSource { idle_report: IdleReport::AtOnce(true), ..self }
    }
}

impl Source for TapeSource {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        while self.packets.ready.is_empty() {
            if self.waiting.is_empty() {
                if self.idle_report == IdleReport::AtOnce(false) {
                    self.idle_report = IdleReport::AtOnce(true);
                    return Ok(Some(Item::Idle));
                }
                // Lets pieces gather, so that their writer need not wake this thread for
                // each of them.
                thread::sleep(GATHER);
            }
            match self.waiting.recv_timeout(self.patience.wait()) {
                Ok(entry) => {
                    self.patience.reset();
                    if let IdleReport::AtOnce(reported) = &mut self.idle_report {
                        *reported = false;
                    }
                    self.packets.take(entry);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Some(Item::Idle)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        let Some((time, link, data)) = self.packets.ready.pop_front() else { return Ok(Some(Item::Idle)) };
        self.current = data;
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
    use super::packets::{FIN, SEGMENT, SYN, checksum, pseudo_header};
    use super::*;
    use crate::capture::LinkType;

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
