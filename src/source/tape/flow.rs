//! A connection that no packets were captured of, as the segments of TCP that a capture would show.

use std::net::{IpAddr, SocketAddr};

use crate::capture::LinkType;

/// Bytes of one segment: the data that fits an IP packet with its headers (RFC 791 section 3.1: a
/// total length of 16 bits).
pub(crate) const SEGMENT: usize = 60_000;

/// Bytes of the header of TCP without options.
const TCP: usize = 20;

pub(crate) const SYN: u8 = 0x02;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const FIN: u8 = 0x01;

/// The segments that open a connection: their senders (the client is 0) and flags.
pub(crate) const OPENING: [(usize, u8); 3] = [(0, SYN), (1, SYN | ACK), (0, ACK)];

/// The segments that close a connection.
pub(crate) const CLOSING: [(usize, u8); 3] = [(0, FIN | ACK), (1, FIN | ACK), (0, ACK)];

/// A connection: its endpoints, client first, and the next sequence number of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl Flow {
    pub(crate) fn new(client: SocketAddr, server: SocketAddr) -> Flow {
        // A mapped address (`::ffff:127.0.0.1`) is written as the IPv4 address.
        let ends = [client, server].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
        Flow { ends, next: [0, 0] }
    }

    /// Skips the sequence numbers of lost bytes, as in a capture that lost packets.
    pub(crate) fn skip(&mut self, lost: [u64; 2]) {
        for (next, lost) in self.next.iter_mut().zip(lost) {
            *next = next.wrapping_add(lost as u32);
        }
    }

    /// Replaces `packet` by the next segment of one sender, as an IP packet. It acknowledges all
    /// that the other side has sent so far.
    pub(crate) fn segment(&mut self, sender: usize, flags: u8, bytes: &[u8], packet: &mut Vec<u8>) -> LinkType {
        let (from, to) = (self.ends[sender], self.ends[1 - sender]);
        let length = TCP + bytes.len();
        packet.clear();
        let link = put_ip(from.ip(), to.ip(), length, packet);
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
        link
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
