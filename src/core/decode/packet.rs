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
#[cfg(test)]
mod tests;
mod tunnel;
mod view;

use std::net::SocketAddr;
use std::ops::Range;

use etherparse::{TcpSlice, UdpHeaderSlice, ip_number};

use self::datagram::{Assembly, Datagrams, Outcome};
use self::ip::{Carried, Datagram, Ends};
use self::view::{Kind, Trace, View};
use super::quic;
use super::tcp::{Flags, Segment};
use crate::capture::{Limits, LinkType, Packet, PacketRange, pipe};

pub use self::headers::{Header, headers};

/// How deep tunnels are followed. Networks nest them once or twice; the bound keeps a hostile packet of nothing but
/// tunnel headers cheap.
const TUNNELS: usize = 4;

/// What a packet turned out to be.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// A whole TCP segment (of this packet, or of the datagram that it completed).
    Tcp(Segment<'a>),
    /// A DNS message over UDP: the payload, for `dns.rs`.
    Dns(&'a [u8]),
    /// An Initial packet of QUIC, for `quic::Quic`: who sent it to whom, and the version.
    Quic(SocketAddr, SocketAddr, u8),
    /// A chunk of a pipe, for [`crate::capture::pipe::decode`].
    Pipe,
    /// A fragment, held until its datagram is complete.
    Fragment,
    /// Nothing for mcptap; the reason is a short noun phrase and is counted: `UDP`, `ARP`, `ICMP`, `unknown link type`,
    /// `malformed IPv4` ...
    Skipped(&'static str),
}

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
        match unwrap(packet, &mut ()).and_then(|carried| decode(carried, &mut ())) {
            Ok(Found::Tcp(tcp)) => {
                let Range { start, end } = tcp.payload_range();
                if start < end {
                    self.origin.push(PacketRange { packet: packet.number, start: start as u32, end: end as u32 });
                }
                Decoded::Tcp(tcp.segment(packet, &self.origin))
            }
            Ok(Found::Dns(message)) => Decoded::Dns(message),
            Ok(Found::Quic(source, destination, version)) => Decoded::Quic(source, destination, version),
            Ok(Found::Fragment(fragment)) => self.fragment(packet, &fragment),
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
            Outcome::Complete(assembly) => &**self.complete.insert(assembly),
            Outcome::Held => return Decoded::Fragment,
            Outcome::Malformed => return Decoded::Skipped("malformed fragment"),
        };
        let payload = View { bytes: &datagram.bytes, start: 0, end: datagram.bytes.len() };
        let whole = Datagram { ends: datagram.ends, protocol: datagram.protocol, payload };
        match ip::extensions(whole, &mut ()).and_then(|carried| decode(carried, &mut ())) {
            Ok(Found::Tcp(tcp)) => {
                datagram.origin(tcp.payload_range(), &mut self.origin);
                Decoded::Tcp(tcp.segment(packet, &self.origin))
            }
            Ok(Found::Dns(message)) => Decoded::Dns(message),
            Ok(Found::Quic(source, destination, version)) => Decoded::Quic(source, destination, version),
            Ok(Found::Fragment(_)) => Decoded::Skipped("fragment inside a fragment"),
            Err(reason) => Decoded::Skipped(reason),
        }
    }
}

/// What stands in a datagram, tunnels taken off.
enum Found<'a> {
    Tcp(Tcp<'a>),
    Dns(&'a [u8]),
    Quic(SocketAddr, SocketAddr, u8),
    Fragment(ip::Fragment<'a>),
}

/// A TCP segment and where its payload stands.
struct Tcp<'a> {
    ends: Ends,
    header: TcpSlice<'a>,
    payload: View<'a>,
}

impl<'a> Tcp<'a> {
    fn read(datagram: Datagram<'a>, trace: &mut impl Trace) -> Result<Tcp<'a>, &'static str> {
        let Datagram { ends, payload: view, .. } = datagram;
        let header =
            TcpSlice::from_slice(view.rest()).map_err(|_| view.short("truncated TCP header", "malformed TCP"))?;
        let length = header.header_slice().len();
        trace.header(Kind::Tcp, &view, length);
        Ok(Tcp { ends, header, payload: view.skip(length) })
    }

    /// The captured payload, in the bytes that were decoded.
    fn payload_range(&self) -> Range<usize> {
        self.payload.start..self.payload.start + self.payload.rest().len()
    }

    fn segment(&self, packet: &Packet<'_>, origin: &'a [PacketRange]) -> Segment<'a> {
        let bytes = self.header.header_slice();
        Segment {
            time: packet.time,
            packet: packet.number,
            source: SocketAddr::new(self.ends.source, self.header.source_port()),
            destination: SocketAddr::new(self.ends.destination, self.header.destination_port()),
            sequence: self.header.sequence_number(),
            acknowledgment: self.header.acknowledgment_number(),
            flags: flags(&self.header),
            window: self.header.window_size(),
            options: &bytes[20..],
            payload: self.header.payload(),
            missing: u32::try_from(self.payload.missing()).unwrap_or(u32::MAX),
            origin,
        }
    }
}

/// The flag bits as they stand in the header, NS (RFC 3540) above the eight others.
fn flags(header: &TcpSlice<'_>) -> Flags {
    let bytes = header.header_slice();
    Flags(u16::from_be_bytes([bytes[12] & 1, bytes[13]]))
}

/// Takes off the link layer and the outermost IP header.
fn unwrap<'a>(packet: &Packet<'a>, trace: &mut impl Trace) -> Result<Carried<'a>, &'static str> {
    // Some writers note fewer bytes on the wire than they captured.
    let end = packet.data.len().max(packet.original_length as usize);
    let view = link::network(packet.link, View { bytes: packet.data, start: 0, end }, trace)?;
    ip::read(view, trace)
}

/// Decodes what an IP packet carries, through tunnels.
fn decode<'a>(mut carried: Carried<'a>, trace: &mut impl Trace) -> Result<Found<'a>, &'static str> {
    for _ in 0..=TUNNELS {
        let datagram = match carried {
            Carried::Datagram(datagram) => datagram,
            Carried::Fragment(fragment) => return Ok(Found::Fragment(fragment)),
        };
        let inside = match datagram.protocol {
            ip_number::TCP => return Tcp::read(datagram, trace).map(Found::Tcp),
            ip_number::UDP => match udp(datagram.payload, trace)? {
                Udp::Dns(message) => return Ok(Found::Dns(message)),
                Udp::Quic(ports, version) => {
                    let end = |address, port| SocketAddr::new(address, port);
                    let Ends { source, destination } = datagram.ends;
                    return Ok(Found::Quic(end(source, ports[0]), end(destination, ports[1]), version));
                }
                Udp::Tunnel(view) => view,
            },
            ip_number::GRE => tunnel::gre(datagram.payload, trace)?,
            // RFC 2003 and RFC 4213: the payload is an IP packet.
            ip_number::IPV4 | ip_number::IPV6 => datagram.payload,
            ip_number::ICMP => return Err("ICMP"),
            ip_number::IPV6_ICMP => return Err("ICMPv6"),
            ip_number::IGMP => return Err("IGMP"),
            ip_number::SCTP => return Err("SCTP"),
            ip_number::ENCAP_SEC => return Err("ESP"),
            _ => return Err("other IP protocol"),
        };
        carried = ip::read(inside, trace)?;
    }
    Err("too many tunnels")
}

/// What a UDP datagram carries that is of interest.
enum Udp<'a> {
    Dns(&'a [u8]),
    /// Ports, and the version.
    Quic([u16; 2], u8),
    Tunnel(View<'a>),
}

fn udp<'a>(view: View<'a>, trace: &mut impl Trace) -> Result<Udp<'a>, &'static str> {
    const DNS: u16 = 53;
    const MULTICAST_DNS: u16 = 5_353;
    const HTTPS: u16 = 443;
    let header =
        UdpHeaderSlice::from_slice(view.rest()).map_err(|_| view.short("truncated UDP header", "malformed UDP"))?;
    let size = header.slice().len();
    trace.header(Kind::Udp, &view, size);
    let payload = match usize::from(header.length()) {
        // A jumbogram (RFC 2675 section 4), or a datagram before the network card cut it.
        0 => view,
        length if length < size => return Err("malformed UDP"),
        length => view.limit(length),
    }
    .skip(size);
    match (header.source_port(), header.destination_port()) {
        (DNS | MULTICAST_DNS, _) | (_, DNS | MULTICAST_DNS) => Ok(Udp::Dns(payload.rest())),
        (_, tunnel::VXLAN_PORT) => tunnel::vxlan(payload, trace).map(Udp::Tunnel),
        (_, tunnel::GENEVE_PORT) => tunnel::geneve(payload, trace).map(Udp::Tunnel),
        (source, destination) if let Some(version) = quic::version(payload.rest()) => {
            Ok(Udp::Quic([source, destination], version))
        }
        // RFC 9000 section 17: in every packet of this version the fixed bit is set.
        (HTTPS, _) | (_, HTTPS) if payload.rest().first().is_some_and(|first| first & 0x40 != 0) => Err("QUIC"),
        _ => Err("UDP"),
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
