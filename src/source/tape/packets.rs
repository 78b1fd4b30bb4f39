//! The packets of a tape: TCP connections made of pieces of bytes.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::{TapeConnection, TapeEntry, TapeEvent};
use crate::capture::{LinkType, Time};

/// Bytes of one segment: the data that fits an IP packet with its headers (RFC 791 section 3.1: a
/// total length of 16 bits).
pub(super) const SEGMENT: usize = 60_000;

/// Bytes of the headers: TCP's without options, and IPv6's, which is longer than IPv4's.
const TCP: usize = 20;
const IPV6: usize = 40;

pub(super) const SYN: u8 = 0x02;
pub(in crate::source) const PSH: u8 = 0x08;
pub(in crate::source) const ACK: u8 = 0x10;
pub(in crate::source) const FIN: u8 = 0x01;

/// A connection: its endpoints, client first, and the next sequence number of each.
#[derive(Clone, Copy, Debug)]
pub(in crate::source) struct Flow {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

/// Makes packets of the entries of a tape.
#[derive(Debug, Default)]
pub(in crate::source) struct TapePackets {
    flows: HashMap<TapeConnection, Flow>,
    /// The packets made so far.
    pub(in crate::source) ready: VecDeque<(Time, LinkType, Vec<u8>)>,
}

impl TapePackets {
    /// Takes the next entry.
    pub(in crate::source) fn take(&mut self, entry: TapeEntry) {
        let TapeEntry { connection, time, event } = entry;
        if let TapeEvent::Open { client, server } = event {
            // A mapped address (`::ffff:127.0.0.1`) is written as the IPv4 address.
            let ends = [client, server].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
            self.flows.insert(connection, Flow::new(ends));
        }
        let Some(mut flow) = self.flows.remove(&connection) else { return };
        let mut send = |sender: usize, flags: u8, bytes: &[u8]| {
            let (link, packet) = flow.segment(sender, flags, bytes);
            self.ready.push_back((time, link, packet));
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
    pub(in crate::source) fn new(ends: [SocketAddr; 2]) -> Flow {
        Flow { ends, next: [0, 0] }
    }

    /// Skips bytes of one sender that were lost.
    pub(in crate::source) fn skip(&mut self, sender: usize, lost: u64) {
        self.next[sender] = self.next[sender].wrapping_add(lost as u32);
    }

    /// The next segment of one sender, as an IP packet. It acknowledges all that the other side has
    /// sent so far.
    pub(in crate::source) fn segment(&mut self, sender: usize, flags: u8, bytes: &[u8]) -> (LinkType, Vec<u8>) {
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
pub(super) fn pseudo_header(from: IpAddr, to: IpAddr, length: usize) -> u32 {
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
pub(super) fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut total = start + sum(bytes);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
