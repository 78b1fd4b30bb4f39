//! What this program itself sends and receives over sockets, as the packets that a capture of
//! it would show.
//!
//! A replay and a proxy speak HTTP, often inside TLS, whose keys a capture would not have. So the
//! bytes are noted where they leave for TLS and where they come from it, each piece at its time,
//! between the real addresses; out of them a [`TapeSource`] makes a TCP connection: handshake,
//! segments, end. Everything above the segments is what was sent. Everything below (sequence
//! numbers, segment sizes, acknowledgements, the absence of TLS) is made up, and no view of it
//! tells anything of the network.
//!
//! Whoever notes something on a [`Tape`] waits where the recorder is behind: a replay takes longer.
//! Traffic of others must not wait: it is noted on a [`LossyTapeConnection`].

mod track;

pub use track::{LossyTapeConnection, LostBytes};

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

/// Pieces that wait for the recorder. Whoever notes more waits: nothing of a replay is lost,
/// it takes longer.
const WAITING: usize = 1_024;

/// How long pieces gather before the recorder takes them.
const GATHER: Duration = Duration::from_millis(2);

/// Bytes of one segment: what fits an IP packet (RFC 791 section 3.1: total length of 16 bits)
/// with its headers.
const SEGMENT: usize = 60_000;

/// Bytes of the headers: TCP's without options, and IPv6's, which is the longer of the two.
const TCP: usize = 20;
const IPV6: usize = 40;

const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// Names a connection on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapeConnection(u32);

#[derive(Debug)]
struct TapeEntry {
    connection: TapeConnection,
    time: Time,
    event: TapeEvent,
}

#[derive(Debug)]
enum TapeEvent {
    Open {
        client: SocketAddr,
        server: SocketAddr,
    },
    Sent(Vec<u8>),
    Received(Vec<u8>),
    /// So many bytes that the client sent and received passed unrecorded.
    Lost([u64; 2]),
    Close,
}

/// Where bytes are noted. Clones write on the same tape; it ends when the last is dropped.
#[derive(Clone, Debug)]
pub struct Tape {
    notes: Sender<TapeEntry>,
    connections: Arc<AtomicU32>,
    /// What is noted of an attempt, until it is known to be one that counts.
    attempt: Arc<Mutex<Option<Vec<TapeEntry>>>>,
}

/// A tape, and the source that reads it.
pub fn tape() -> (Tape, TapeSource) {
    let (notes, waiting) = bounded(WAITING);
    let tape = Tape { notes, connections: Arc::default(), attempt: Arc::default() };
    let tape_source = TapeSource {
        waiting,
        flows: HashMap::new(),
        packets: VecDeque::new(),
        current: Vec::new(),
        count: 0,
        rest: Rest::Gathers,
        patience: Patience::default(),
    };
    (tape, tape_source)
}

impl Tape {
    /// The same tape, for an attempt that may come to nothing: what is noted on it and on
    /// its clones is held back until it is to be [kept](Tape::keep). Dropped before, it
    /// leaves no trace.
    pub fn attempt(&self) -> Tape {
        Tape { attempt: Arc::new(Mutex::new(Some(Vec::new()))), ..self.clone() }
    }

    /// The attempt counts: what was noted so far is on the tape, and so is what follows.
    pub fn keep(&self) {
        let mut attempt = self.lock();
        // Sent while the lock is held, so that nothing overtakes it.
        attempt.take().into_iter().flatten().for_each(|note| self.send(note));
    }

    /// A connection was made, from `client` to `server`.
    pub fn open(&self, client: SocketAddr, server: SocketAddr) -> TapeConnection {
        let connection = self.begin();
        self.note(connection, TapeEvent::Open { client, server });
        connection
    }

    fn begin(&self) -> TapeConnection {
        TapeConnection(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// The client sent this.
    pub fn sent(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.note(connection, TapeEvent::Sent(bytes.to_vec()));
        }
    }

    /// The client received this.
    pub fn received(&self, connection: TapeConnection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.note(connection, TapeEvent::Received(bytes.to_vec()));
        }
    }

    /// The connection is over.
    pub fn close(&self, connection: TapeConnection) {
        self.note(connection, TapeEvent::Close);
    }

    fn note(&self, connection: TapeConnection, event: TapeEvent) {
        let note = TapeEntry { connection, time: now(), event };
        let mut attempt = self.lock();
        match &mut *attempt {
            Some(held) => held.push(note),
            None => {
                drop(attempt);
                self.send(note);
            }
        }
    }

    fn send(&self, note: TapeEntry) {
        // Without a recorder nothing is recorded, and that is said by whoever runs it.
        let _ = self.notes.send(note);
    }

    /// No code that can panic runs under the lock.
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
    rest: Rest,
    /// How long the recorder waits for a piece before it writes out what it has.
    patience: Patience,
}

/// What a spool does when nothing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Lets pieces gather before it says so, which has everything written out.
    Gathers,
    /// Says so at once, before it waits; whether it has.
    Says(bool),
}

/// A connection: its ends, client first, and the sequence number that each sends next.
#[derive(Clone, Copy, Debug)]
struct Flow {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl TapeSource {
    /// The same for a reader that hands on what it has whenever nothing more is there: it is told
    /// so at once.
    pub fn prompt(self) -> TapeSource {
        TapeSource { rest: Rest::Says(true), ..self }
    }

    fn take(&mut self, note: TapeEntry) {
        let TapeEntry { connection, time, event } = note;
        if let TapeEvent::Open { client, server } = event {
            // A mapped address (`::ffff:127.0.0.1`) is written as what it stands for.
            let ends = [client, server].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
            self.flows.insert(connection, Flow { ends, next: [0, 0] });
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
            // The numbers go on behind them, as in a capture that lost packets.
            TapeEvent::Lost(bytes) => {
                for (next, lost) in flow.next.iter_mut().zip(bytes) {
                    *next = next.wrapping_add(lost as u32);
                }
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
    /// The next segment of one side, as an IP packet. What the other side sent so
    /// far is acknowledged.
    fn segment(&mut self, sender: usize, flags: u8, bytes: &[u8]) -> (LinkType, Vec<u8>) {
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
        // Five words of header; the widest window, no urgent data; the checksum stands
        // in the middle.
        packet.extend_from_slice(&[5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend_from_slice(bytes);
        let tcp = &mut packet[start..];
        let sum = checksum(pseudo_header(from.ip(), to.ip(), length), tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        // RFC 9293 section 3.4: SYN and FIN take a number each.
        let taken = bytes.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[sender] = self.next[sender].wrapping_add(taken);
        (link, packet)
    }
}

/// The header of an IP packet with so many bytes behind it: RFC 791 section 3.1, RFC
/// 8200 section 3.
fn put_ip(from: IpAddr, to: IpAddr, length: usize, out: &mut Vec<u8>) -> LinkType {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let start = out.len();
            let length = u16::try_from(20 + length).unwrap_or(u16::MAX);
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&length.to_be_bytes());
            // Not to be fragmented; sixty-four hops; TCP.
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

/// The sum of the pseudo header that TCP's checksum begins with (RFC 9293 section 3.1).
fn pseudo_header(from: IpAddr, to: IpAddr, length: usize) -> u32 {
    let words = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    words(from) + words(to) + 6 + length as u32
}

/// The sum of the words of 16 bits. Those of 32 bits are summed, which is faster: 2^16 is 1 in
/// ones' complement (RFC 1071 section 2).
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
                if self.rest == Rest::Says(false) {
                    self.rest = Rest::Says(true);
                    return Ok(Some(Item::Idle));
                }
                // Whoever notes something need not wake anybody for each piece.
                thread::sleep(GATHER);
            }
            match self.waiting.recv_timeout(self.patience.wait()) {
                Ok(note) => {
                    self.patience.reset();
                    if let Rest::Says(said) = &mut self.rest {
                        *said = false;
                    }
                    self.take(note);
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

    /// What one side said, put together again from the packets, whose checksums must hold.
    fn said(server: SocketAddr, pieces: &[(bool, &[u8])]) -> [Vec<u8>; 2] {
        let (tape, mut tape_source) = tape();
        let client = SocketAddr::new(server.ip(), 50_000);
        let connection = tape.open(client, server);
        for (sent, bytes) in pieces {
            if *sent { tape.sent(connection, bytes) } else { tape.received(connection, bytes) }
        }
        tape.close(connection);
        drop(tape);
        let mut said = [Vec::new(), Vec::new()];
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
            said[side].extend_from_slice(&tcp[20..]);
        }
        said
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
        let mut said = Vec::new();
        while let Some(item) = tape_source.next().unwrap() {
            if let Item::Packet(packet) = item {
                said.extend_from_slice(&packet.data[40..]);
            }
        }
        assert_eq!(said, b"keptmore");
    }

    #[test]
    fn the_bytes_of_both_sides_come_back() {
        let long = vec![b'x'; 2 * SEGMENT + 1];
        for server in ["127.0.0.1:80", "[::1]:443"] {
            let pieces: [(bool, &[u8]); 4] = [(true, b"ask"), (false, &long), (true, b""), (true, b"more")];
            assert_eq!(said(server.parse().unwrap(), &pieces), [b"askmore".to_vec(), long.clone()]);
        }
    }
}
