//! From a packet to the payload that mcptap decodes, through link layer, IP, tunnels and UDP.

use std::net::SocketAddr;
use std::ops::Range;

use etherparse::{TcpSlice, UdpHeaderSlice, ip_number};

use super::ip::{self, Datagram, IpAddresses, IpPayload};
use super::view::{HeaderKind, HeaderObserver, View};
use super::{link, tunnel};
use crate::capture::{Packet, PacketRange};
use crate::decode::quic;
use crate::decode::tcp::{Flags, Segment};

/// The most tunnels inside each other that are followed. Networks nest one or two. The bound limits
/// the cost of a packet that consists of tunnel headers only.
const MAX_TUNNELS: usize = 4;

/// The result of decoding a packet.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// A complete TCP segment, from this packet or from the datagram that it completed.
    Tcp(Segment<'a>),
    /// The payload of a UDP datagram with a DNS message, for `dns.rs`.
    Dns(&'a [u8]),
    /// An Initial packet of QUIC, for `quic::Quic`: source, destination, and version.
    Quic(SocketAddr, SocketAddr, u8),
    /// A chunk of a pipe, for [`crate::capture::pipe::decode`].
    Pipe,
    /// A fragment. It is stored until its datagram is complete.
    Fragment,
    /// A packet that mcptap does not decode. The reason is a short noun phrase and is counted:
    /// `UDP`, `ARP`, `ICMP`, `unknown link type`, `malformed IPv4` ...
    Skipped(&'static str),
}

/// The payload of a packet after all IP headers and tunnels.
pub(super) enum InnerPayload<'a> {
    Tcp(Tcp<'a>),
    Fragment(ip::Fragment<'a>),
    Other(Decoded<'a>),
}

/// A TCP segment and the position of its payload.
pub(super) struct Tcp<'a> {
    addresses: IpAddresses,
    header: TcpSlice<'a>,
    payload: View<'a>,
}

impl<'a> Tcp<'a> {
    fn read(datagram: Datagram<'a>, observer: &mut impl HeaderObserver) -> Result<Tcp<'a>, &'static str> {
        let Datagram { addresses, payload: view, .. } = datagram;
        let header =
            TcpSlice::from_slice(view.rest()).map_err(|_| view.too_short("truncated TCP header", "malformed TCP"))?;
        let length = header.header_slice().len();
        observer.header(HeaderKind::Tcp, &view, length);
        Ok(Tcp { addresses, header, payload: view.skip(length) })
    }

    /// The range of the captured payload in the decoded bytes.
    pub(super) fn payload_range(&self) -> Range<usize> {
        self.payload.start..self.payload.start + self.payload.rest().len()
    }

    pub(super) fn segment(&self, packet: &Packet<'_>, origin: &'a [PacketRange]) -> Segment<'a> {
        let bytes = self.header.header_slice();
        Segment {
            time: packet.time,
            packet: packet.number,
            source: SocketAddr::new(self.addresses.source, self.header.source_port()),
            destination: SocketAddr::new(self.addresses.destination, self.header.destination_port()),
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

/// The flag bits as in the header, with NS (RFC 3540) above the eight others.
fn flags(header: &TcpSlice<'_>) -> Flags {
    let bytes = header.header_slice();
    Flags(u16::from_be_bytes([bytes[12] & 1, bytes[13]]))
}

/// Skips the link layer and the outermost IP header.
pub(super) fn strip_link_layer<'a>(
    packet: &Packet<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<IpPayload<'a>, &'static str> {
    // Some programs record an original length that is below the captured length.
    let end = packet.data.len().max(packet.original_length as usize);
    let view = link::network(packet.link, View { bytes: packet.data, start: 0, end }, observer)?;
    ip::read(view, observer)
}

/// Decodes the content of an IP packet, through tunnels.
pub(super) fn find_payload<'a>(
    mut payload_of_ip: IpPayload<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<InnerPayload<'a>, &'static str> {
    for _ in 0..=MAX_TUNNELS {
        let datagram = match payload_of_ip {
            IpPayload::Datagram(datagram) => datagram,
            IpPayload::Fragment(fragment) => return Ok(InnerPayload::Fragment(fragment)),
        };
        let inside = match datagram.protocol {
            ip_number::TCP => return Tcp::read(datagram, observer).map(InnerPayload::Tcp),
            ip_number::UDP => match udp(&datagram, observer)? {
                UdpContent::Final(decoded) => return Ok(InnerPayload::Other(decoded)),
                UdpContent::Tunnel(view) => view,
            },
            ip_number::GRE => tunnel::gre(datagram.payload, observer)?,
            // RFC 2003 and RFC 4213: the payload is an IP packet.
            ip_number::IPV4 | ip_number::IPV6 => datagram.payload,
            ip_number::ICMP => return Err("ICMP"),
            ip_number::IPV6_ICMP => return Err("ICMPv6"),
            ip_number::IGMP => return Err("IGMP"),
            ip_number::SCTP => return Err("SCTP"),
            ip_number::ENCAP_SEC => return Err("ESP"),
            _ => return Err("other IP protocol"),
        };
        payload_of_ip = ip::read(inside, observer)?;
    }
    Err("too many tunnels")
}

/// The content of a UDP datagram.
enum UdpContent<'a> {
    Final(Decoded<'a>),
    Tunnel(View<'a>),
}

fn udp<'a>(datagram: &Datagram<'a>, observer: &mut impl HeaderObserver) -> Result<UdpContent<'a>, &'static str> {
    const DNS: u16 = 53;
    const MULTICAST_DNS: u16 = 5_353;
    const HTTPS: u16 = 443;
    let Datagram { addresses, payload: view, .. } = *datagram;
    let header =
        UdpHeaderSlice::from_slice(view.rest()).map_err(|_| view.too_short("truncated UDP header", "malformed UDP"))?;
    let size = header.slice().len();
    observer.header(HeaderKind::Udp, &view, size);
    let payload = match usize::from(header.length()) {
        // A jumbogram (RFC 2675 section 4), or a datagram captured before the network
        // card segmented it.
        0 => view,
        length if length < size => return Err("malformed UDP"),
        length => view.limit(length),
    }
    .skip(size);
    match (header.source_port(), header.destination_port()) {
        (DNS | MULTICAST_DNS, _) | (_, DNS | MULTICAST_DNS) => Ok(UdpContent::Final(Decoded::Dns(payload.rest()))),
        (_, tunnel::VXLAN_PORT) => tunnel::vxlan(payload, observer).map(UdpContent::Tunnel),
        (tunnel::GTP_PORT, _) | (_, tunnel::GTP_PORT) => tunnel::gtp(payload, observer).map(UdpContent::Tunnel),
        (_, tunnel::GENEVE_PORT) => tunnel::geneve(payload, observer).map(UdpContent::Tunnel),
        (source, destination) if let Some(version) = quic::version(payload.rest()) => {
            let (source, destination) =
                (SocketAddr::new(addresses.source, source), SocketAddr::new(addresses.destination, destination));
            Ok(UdpContent::Final(Decoded::Quic(source, destination, version)))
        }
        // RFC 9000 section 17: the fixed bit is set in every packet of this version.
        (HTTPS, _) | (_, HTTPS) if payload.rest().first().is_some_and(|first| first & 0x40 != 0) => Err("QUIC"),
        _ => Err("UDP"),
    }
}
