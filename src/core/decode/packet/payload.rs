//! From a packet to the payload that mcptap decodes: link layer, IP, tunnels and UDP are taken off.

use std::net::SocketAddr;
use std::ops::Range;

use etherparse::{TcpSlice, UdpHeaderSlice, ip_number};

use super::ip::{self, Carried, Datagram, Ends};
use super::view::{Kind, Trace, View};
use super::{link, tunnel};
use crate::capture::{Packet, PacketRange};
use crate::decode::quic;
use crate::decode::tcp::{Flags, Segment};

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

/// What stands in a datagram, tunnels taken off.
pub(super) enum Found<'a> {
    Tcp(Tcp<'a>),
    Fragment(ip::Fragment<'a>),
    Other(Decoded<'a>),
}

/// A TCP segment and where its payload stands.
pub(super) struct Tcp<'a> {
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
    pub(super) fn payload_range(&self) -> Range<usize> {
        self.payload.start..self.payload.start + self.payload.rest().len()
    }

    pub(super) fn segment(&self, packet: &Packet<'_>, origin: &'a [PacketRange]) -> Segment<'a> {
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
pub(super) fn unwrap<'a>(packet: &Packet<'a>, trace: &mut impl Trace) -> Result<Carried<'a>, &'static str> {
    // Some writers note fewer bytes on the wire than they captured.
    let end = packet.data.len().max(packet.original_length as usize);
    let view = link::network(packet.link, View { bytes: packet.data, start: 0, end }, trace)?;
    ip::read(view, trace)
}

/// Decodes what an IP packet carries, through tunnels.
pub(super) fn decode<'a>(mut carried: Carried<'a>, trace: &mut impl Trace) -> Result<Found<'a>, &'static str> {
    for _ in 0..=TUNNELS {
        let datagram = match carried {
            Carried::Datagram(datagram) => datagram,
            Carried::Fragment(fragment) => return Ok(Found::Fragment(fragment)),
        };
        let inside = match datagram.protocol {
            ip_number::TCP => return Tcp::read(datagram, trace).map(Found::Tcp),
            ip_number::UDP => match udp(&datagram, trace)? {
                Udp::Payload(decoded) => return Ok(Found::Other(decoded)),
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
    Payload(Decoded<'a>),
    Tunnel(View<'a>),
}

fn udp<'a>(datagram: &Datagram<'a>, trace: &mut impl Trace) -> Result<Udp<'a>, &'static str> {
    const DNS: u16 = 53;
    const MULTICAST_DNS: u16 = 5_353;
    const HTTPS: u16 = 443;
    let Datagram { ends, payload: view, .. } = *datagram;
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
        (DNS | MULTICAST_DNS, _) | (_, DNS | MULTICAST_DNS) => Ok(Udp::Payload(Decoded::Dns(payload.rest()))),
        (_, tunnel::VXLAN_PORT) => tunnel::vxlan(payload, trace).map(Udp::Tunnel),
        (_, tunnel::GENEVE_PORT) => tunnel::geneve(payload, trace).map(Udp::Tunnel),
        (source, destination) if let Some(version) = quic::version(payload.rest()) => {
            let (source, destination) =
                (SocketAddr::new(ends.source, source), SocketAddr::new(ends.destination, destination));
            Ok(Udp::Payload(Decoded::Quic(source, destination, version)))
        }
        // RFC 9000 section 17: in every packet of this version the fixed bit is set.
        (HTTPS, _) | (_, HTTPS) if payload.rest().first().is_some_and(|first| first & 0x40 != 0) => Err("QUIC"),
        _ => Err("UDP"),
    }
}
