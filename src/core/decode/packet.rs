//! A packet to a TCP segment: link layer, tunnels, IP, fragments.
//!
//! ```text
//!  link.rs ──► ip.rs ──► TCP │ UDP port 53 │ tunnel.rs ──► ip.rs ──► ...
//!                │  ▲
//!     a fragment ▼  │ its datagram, complete
//!            datagram.rs
//! ```
//!
//! Each step takes a header off a [`View`] of the packet's bytes and hands on the view behind it; none copies. Headers of
//! IP, TCP and UDP are read by etherparse. The steps above it (which etherparse lacks in part) are a few bytes each.

mod datagram;
mod headers;
mod ip;
mod link;
mod payload;
#[cfg(test)]
mod tests;
mod tunnel;
mod view;

use std::ops::Range;

use self::datagram::{Assembly, Datagrams, Reassembly};
use self::ip::Datagram;
use self::payload::{InnerPayload, find_payload, strip_link_layer};
use self::view::View;
use crate::capture::{Limits, LinkType, Packet, PacketRange, pipe};

pub use self::headers::{Header, headers};
pub use self::payload::Decoded;

/// Decodes packets one by one; holds only fragments of incomplete datagrams.
#[derive(Debug)]
pub struct Packets {
    datagrams: Datagrams,
    /// The datagram completed last: segments borrow from it.
    complete: Option<Box<Assembly>>,
    /// Where the payload of the segment last decoded stands. Kept for its memory.
    origin: Vec<PacketRange>,
}

impl Packets {
    /// An empty one.
    pub fn new(limits: Limits) -> Packets {
        Packets { datagrams: Datagrams::new(limits.datagrams), complete: None, origin: Vec::with_capacity(1) }
    }

    /// Decodes one packet.
    pub fn push<'a>(&'a mut self, packet: &Packet<'a>) -> Decoded<'a> {
        if packet.link == LinkType::PIPE {
            // The link type is private: other programs write other things into it.
            return if pipe::decode(packet.data).is_some() {
                Decoded::Pipe
            } else {
                Decoded::Skipped("unknown link type")
            };
        }
        self.origin.clear();
        match strip_link_layer(packet, &mut ()).and_then(|payload_of_ip| find_payload(payload_of_ip, &mut ())) {
            Ok(InnerPayload::Tcp(tcp)) => {
                let Range { start, end } = tcp.payload_range();
                if start < end {
                    self.origin.push(PacketRange { packet: packet.number, start: start as u32, end: end as u32 });
                }
                Decoded::Tcp(tcp.segment(packet, &self.origin))
            }
            Ok(InnerPayload::Other(decoded)) => decoded,
            Ok(InnerPayload::Fragment(fragment)) => self.fragment(packet, &fragment),
            Err(reason) => Decoded::Skipped(reason),
        }
    }

    /// Fragments so far that overlapped others of their datagram with different bytes; the first copy is kept.
    pub fn fragment_conflicts(&self) -> u64 {
        self.datagrams.conflicts
    }

    /// Datagrams so far that were given up before all their fragments were seen: too old, or too many at once.
    pub fn abandoned_datagrams(&self) -> u64 {
        self.datagrams.abandoned
    }

    /// Takes a fragment and decodes the datagram that it completes.
    fn fragment<'a>(&'a mut self, packet: &Packet<'a>, fragment: &ip::Fragment<'a>) -> Decoded<'a> {
        if fragment.payload.missing() > 0 {
            return Decoded::Skipped("truncated fragment");
        }
        let datagram = match self.datagrams.push(fragment, packet.number, packet.time) {
            Reassembly::Complete(assembly) => &**self.complete.insert(assembly),
            Reassembly::Incomplete => return Decoded::Fragment,
            Reassembly::Malformed => return Decoded::Skipped("malformed fragment"),
        };
        let payload = View { bytes: &datagram.bytes, start: 0, end: datagram.bytes.len() };
        let whole = Datagram { addresses: datagram.addresses, protocol: datagram.protocol, payload };
        match ip::extensions(whole, &mut ()).and_then(|payload_of_ip| find_payload(payload_of_ip, &mut ())) {
            Ok(InnerPayload::Tcp(tcp)) => {
                datagram.origin(tcp.payload_range(), &mut self.origin);
                Decoded::Tcp(tcp.segment(packet, &self.origin))
            }
            Ok(InnerPayload::Other(decoded)) => decoded,
            Ok(InnerPayload::Fragment(_)) => Decoded::Skipped("fragment inside a fragment"),
            Err(reason) => Decoded::Skipped(reason),
        }
    }
}

/// The body of the fuzz target of this module: any bytes are decoded as a packet of any link type, and as a sequence of
/// them. What is found must lie in the packets it names, byte for byte.
///
/// The first byte chooses the link type, the second how much a snap length cut off; then follow packets, each behind its
/// length in two bytes.
pub fn fuzz_packet(data: &[u8]) {
    const LINKS: [u16; 10] = [1, 0, 101, 108, 113, 228, 229, 276, 147, 65_535];
    let [link, cut, rest @ ..] = data else { return };
    let link = LinkType(LINKS[usize::from(*link) % LINKS.len()]);
    let mut seen: Vec<&[u8]> = Vec::new();
    let mut packets = Packets::new(Limits { datagrams: 4, ..Limits::default() });
    let mut rest = rest;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)).min(behind.len()));
        rest = behind;
        seen.push(bytes);
        let packet = Packet {
            number: crate::capture::PacketNumber(seen.len() as u64),
            time: crate::capture::Time(seen.len() as i64),
            link,
            interface: 0,
            original_length: (bytes.len() + usize::from(*cut)) as u32,
            data: bytes,
        };
        if let Decoded::Tcp(segment) = packets.push(&packet) {
            let from_packets: Vec<u8> = segment
                .origin
                .iter()
                .flat_map(|range| &seen[range.packet.0 as usize - 1][range.start as usize..range.end as usize])
                .copied()
                .collect();
            assert_eq!(from_packets, segment.payload, "the origin of a payload is its bytes");
            assert!(segment.missing <= u32::from(*cut), "no more is missing than was cut off");
        }
        let listed = headers(&packet);
        assert!(listed.windows(2).all(|pair| pair[0].end <= pair[1].start), "headers stand in order");
        assert!(listed.iter().all(|header| header.start <= header.end && header.end as usize <= bytes.len()));
    }
}
