//! From a packet to its TCP segment, through link layer, tunnels, IP and fragments.
//!
//! ```text
//!  link.rs ──► ip.rs ──► TCP │ UDP port 53 │ tunnel.rs ──► ip.rs ──► ...
//!                │  ▲
//!     a fragment ▼  │ its datagram, complete
//!            datagram.rs
//! ```
//!
//! Each step skips one header of a [`View`] of the packet's bytes and passes on the rest of the
//! view. No step copies bytes. etherparse parses the headers of IP, TCP and UDP. The other headers
//! have a few bytes each, and etherparse does not support all of them.

mod datagram;
mod field_places;
mod headers;
mod ip;
mod link;
mod payload;
mod serial;
#[cfg(test)]
mod tests;
mod tunnel;
mod view;
mod wireless;

use std::ops::Range;

use self::datagram::{Assembly, Datagrams, Reassembly};
use self::ip::Datagram;
use self::payload::{InnerPayload, find_payload, strip_link_layer};
use self::view::View;
use crate::capture::{Limits, LinkType, Packet, PacketRange, pipe};

pub use self::headers::{Header, headers};
pub use self::payload::Decoded;

/// Decodes packets one by one. It stores only the fragments of incomplete datagrams.
#[derive(Debug)]
pub struct Packets {
    datagrams: Datagrams,
    /// The datagram completed last, from which the segment borrows.
    complete: Option<Box<Assembly>>,
    /// The packet ranges of the last segment's payload. The vector is reused from call to call.
    origin: Vec<PacketRange>,
}

impl Packets {
    /// A decoder that has no fragments yet.
    pub fn new(limits: Limits) -> Packets {
        Packets { datagrams: Datagrams::new(limits.datagrams), complete: None, origin: Vec::with_capacity(1) }
    }

    /// Decodes one packet.
    pub fn push<'a>(&'a mut self, packet: &Packet<'a>) -> Decoded<'a> {
        if packet.link == LinkType::PIPE {
            // The link type is private, so other programs may use it for other content.
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

    /// Number of fragments so far that overlap others of their datagram with different bytes. The
    /// first copy counts.
    pub fn fragment_conflicts(&self) -> u64 {
        self.datagrams.conflicts
    }

    /// Number of datagrams so far that were discarded while incomplete: too old, or too
    /// many at once.
    pub fn abandoned_datagrams(&self) -> u64 {
        self.datagrams.abandoned
    }

    /// Adds a fragment. If it completes a datagram, decodes that.
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

/// The body of the fuzz target: decodes any bytes as a sequence of packets of any link type.
///
/// Checks that each payload equals the packet bytes that are recorded as its origin. The first byte
/// chooses the link type, the second how many bytes the snap length cut off. Then follow packets,
/// each after its length in two bytes.
pub fn fuzz_packet(data: &[u8]) {
    const LINKS: [u16; 17] = [1, 0, 101, 108, 113, 228, 229, 276, 147, 65_535, 9, 50, 51, 104, 105, 107, 127];
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
