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

pub use lossy_connection::{LossyTapeConnection, LostBytes};

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::patience::Patience;
use super::{Item, Source, now};
use crate::capture::{LinkType, Packet, PacketNumber, Time};

/// The largest number of pieces that wait for the recorder. A writer of more waits, so nothing of a
/// replay is lost.
const WAITING: usize = 1_024;

/// The time for which pieces gather before the recorder takes them.
const GATHER: Duration = Duration::from_millis(2);

/// Bytes of one segment: the data that fits an IP packet with its headers (RFC 791 section 3.1: a
/// total length of 16 bits).
const SEGMENT: usize = 60_000;

/// Bytes of the headers: TCP's without options, and IPv6's, which is longer than IPv4's.
const TCP: usize = 20;
const IPV6: usize = 40;

const SYN: u8 = 0x02;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const FIN: u8 = 0x01;

/// The number of a connection on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapeConnection(u32);

/// One event of a connection, with its time.
#[derive(Debug)]
struct TapeEntry {
    connection: TapeConnection,
    time: Time,
    event: TapeEvent,
}

/// Something that happened on a connection.
#[derive(Debug)]
enum TapeEvent {
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
        flows: HashMap::new(),
        packets: VecDeque::new(),
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
    flows: HashMap<TapeConnection, Flow>,
    packets: VecDeque<(Time, LinkType, Vec<u8>)>,
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

/// A connection: its endpoints, client first, and the next sequence number of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl TapeSource {
    /// Makes the source report [`Item::Idle`] at once when nothing waits, for a reader that then
    /// passes on everything it has.
    pub fn reporting_idle_at_once(self) -> TapeSource {
        TapeSource { idle_report: IdleReport::AtOnce(true), ..self }
    }

    fn take(&mut self, entry: TapeEntry) {
        let TapeEntry { connection, time, event } = entry;
        if let TapeEvent::Open { client, server } = event {
            // A mapped address (`::ffff:127.0.0.1`) is written as the IPv4 address.
            let ends = [client, server].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
            self.flows.insert(connection, Flow::new(ends));
        }
        let Some(mut flow) = self.flows.remove(&connection) else { return };
        let mut send = |sender: usize, flags: u8, bytes: &[u8]| {
            let (link, packet) = flow.segment(sender, flags, bytes);
            self.packets.push_back((time, link, packet));
        };
        match event {
            TapeEvent::Open { .. } => {
                send(0, SYN, b"");
                send(1, SYN | ACK, b"");
                send(0, ACK, b"");
            }
            TapeEvent::Sent(bytes) => bytes.chunks(SEGMENT).for_each(|chunk| send(0, PSH | ACK, chunk)),
            TapeEvent::Received(bytes) => bytes.chunks(SEGMENT).for_each(|chunk| send(1, PSH | ACK, chunk)),
            // The sequence numbers skip the lost bytes, as in a capture that lost packets.
            TapeEvent::Lost(bytes) => {
                flow.skip(0, bytes[0]);
                flow.skip(1, bytes[1]);
            }
            TapeEvent::Close => {
                send(0, FIN | ACK, b"");
                send(1, FIN | ACK, b"");
                send(0, ACK, b"");
                return;
            }
        }
        self.flows.insert(connection, flow);
    }
}

impl Flow {
    /// A connection between these ends.
    pub(super) fn new(ends: [SocketAddr; 2]) -> Flow {
        Flow { ends, next: [0, 0] }
    }

    /// Skips bytes of one sender that were lost.
    pub(super) fn skip(&mut self, sender: usize, lost: u64) {
        self.next[sender] = self.next[sender].wrapping_add(lost as u32);
    }

    /// The next segment of one sender, as an IP packet. It acknowledges all that the other side has
    /// sent so far.
    pub(super) fn segment(&mut self, sender: usize, flags: u8, bytes: &[u8]) -> (LinkType, Vec<u8>) {
        let (from, to) = (self.ends[sender], self.ends[1 - sender]);
        let length = TCP + bytes.len();
        let mut packet = Vec::with_capacity(IPV6 + length);
        let link = put_ip(from.ip(), to.ip(), length, &mut packet);
        let start = packet.len();
        packet.extend_from_slice(&from.port().to_be_bytes());
        packet.extend_from_slice(&to.port().to_be_bytes());
        packet.extend_from_slice(&self.next[sender].to_be_bytes());
        let acknowledged = if flags & ACK != 0 { self.next[1 - sender] } else { 0 };
        packet.extend_from_slice(&acknowledged.to_be_bytes());
        // Five words of header; the widest window; no urgent data. The checksum is filled in below.
        packet.extend_from_slice(&[5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(bytes);
        let tcp = &mut packet[start..];
        let sum = checksum(pseudo_header(from.ip(), to.ip(), length), tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        // RFC 9293 section 3.4: SYN and FIN take one sequence number each.
        let taken = bytes.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[sender] = self.next[sender].wrapping_add(taken);
        (link, packet)
    }
}

/// Appends the header of an IP packet with `length` bytes of payload (RFC 791 section 3.1, RFC
/// 8200 section 3).
fn put_ip(from: IpAddr, to: IpAddr, length: usize, out: &mut Vec<u8>) -> LinkType {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let start = out.len();
            let length = u16::try_from(20 + length).unwrap_or(u16::MAX);
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&length.to_be_bytes());
            // Do not fragment; a time to live of 64; TCP.
            out.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let sum = checksum(0, &out[start..]);
            out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            LinkType::IPV4
        }
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            out.extend_from_slice(&[0x60, 0, 0, 0]);
            out.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            out.extend_from_slice(&[6, 64]);
            out.extend_from_slice(&octets(from));
            out.extend_from_slice(&octets(to));
            LinkType::IPV6
        }
    }
}

/// The sum of the pseudo header with which TCP's checksum begins (RFC 9293 section 3.1).
fn pseudo_header(from: IpAddr, to: IpAddr, length: usize) -> u32 {
    let words = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    words(from) + words(to) + 6 + length as u32
}

/// The sum of the words of 16 bits. Summing words of 32 bits is faster and equivalent, because 2^16
/// is 1 in ones' complement (RFC 1071 section 2).
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let total: u64 = words.iter().chain([&last]).map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    (0..64).step_by(16).map(|shift| (total >> shift) as u32 & 0xffff).sum()
}

/// The ones' complement of the ones' complement sum (RFC 1071). 64 KiB of words cannot
/// overflow 32 bits.
fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut total = start + sum(bytes);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

impl Source for TapeSource {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        while self.packets.is_empty() {
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
                    self.take(entry);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Some(Item::Idle)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
        let Some((time, link, data)) = self.packets.pop_front() else { return Ok(Some(Item::Idle)) };
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
    fn the_checksum_is_that_of_the_standard() {
        // RFC 1071 section 3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(0, &example), !0xddf2);
        let words = |bytes: &[u8]| {
            let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            bytes.chunks(2).map(word).sum()
        };
        let bytes: Vec<u8> = (0..SEGMENT).map(|at| (at * 31 + 7) as u8).collect();
        for length in [0, 1, 2, 3, 5, 6, 7, SEGMENT] {
            assert_eq!(checksum(0, &bytes[..length]), checksum(words(&bytes[..length]), b""), "{length}");
        }
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
