//! The headers of IPv4 (RFC 791) and IPv6 (RFC 8200), their extensions, and length fields
//! that are wrong.

use std::net::IpAddr;

use etherparse::{
    IpAuthHeaderSlice, IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice,
    ip_number,
};

use super::view::{HeaderKind, HeaderObserver, View};

/// The source and destination address of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpAddresses {
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// A whole IP datagram, after all its IP headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub addresses: IpAddresses,
    pub protocol: IpNumber,
    pub payload: View<'a>,
}

/// A fragment of an IP datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub addresses: IpAddresses,
    /// The protocol at the start of the datagram's payload. Valid in the first fragment only.
    pub protocol: IpNumber,
    pub identification: u32,
    /// Offset of the fragment in the datagram's payload, in bytes.
    pub offset: usize,
    /// Whether more fragments follow this one.
    pub more: bool,
    pub payload: View<'a>,
}

/// The content of an IP packet: a whole datagram or a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) enum IpPayload<'a> {
    Datagram(Datagram<'a>),
    Fragment(Fragment<'a>),
}

/// Parses the IP header at the start of `view`. Its first four bits give the version, because the
/// layer below may name the wrong one.
pub(super) fn read<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<IpPayload<'a>, &'static str> {
    match view.rest().first().map(|byte| byte >> 4) {
        Some(4) => ipv4(view, observer),
        Some(6) => ipv6(view, observer),
        Some(_) => Err("unknown IP version"),
        None => Err(view.too_short("truncated IP header", "malformed IP")),
    }
}

fn ipv4<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<IpPayload<'a>, &'static str> {
    let header = Ipv4HeaderSlice::from_slice(view.rest())
        .map_err(|_| view.too_short("truncated IP header", "malformed IPv4"))?;
    let length = header.slice().len();
    let view = match usize::from(header.total_len()) {
        // A kernel that leaves segmentation to the network card (TSO, BIG TCP) sends packets with
        // length 0, as the length may exceed 16 bits. Then all captured bytes belong to the packet.
        0 => view,
        total if total < length => return Err("malformed IPv4"),
        // RFC 894: "the data field should be padded ... This padding is not part of the IP packet".
        total => view.limit(total),
    };
    if !options_are_sound(header.options()) {
        return Err("malformed IPv4");
    }
    observer.header(HeaderKind::Ipv4, &view, length);
    let addresses = IpAddresses { source: header.source_addr().into(), destination: header.destination_addr().into() };
    let (protocol, payload) = (header.protocol(), view.skip(length));
    if header.is_fragmenting_payload() {
        return Ok(IpPayload::Fragment(Fragment {
            addresses,
            protocol,
            identification: u32::from(header.identification()),
            offset: usize::from(header.fragments_offset().byte_offset()),
            more: header.more_fragments(),
            payload,
        }));
    }
    extensions(Datagram { addresses, protocol, payload }, observer)
}

/// Whether all options of an IPv4 header are well-formed.
///
/// A receiver checks this too, and drops a malformed packet, so its bytes must not enter a
/// stream. Kinds 0 and 1 are single bytes. All others have a length that includes kind and
/// length (RFC 791 section 3.1). For the security option "the minimum length ... is 3 octets"
/// (RFC 1108 section 2.2).
fn options_are_sound(mut options: &[u8]) -> bool {
    const SECURITY: u8 = 130;
    loop {
        options = match options {
            [] | [0, ..] => return true,
            [1, rest @ ..] => rest,
            [SECURITY, 2, ..] => return false,
            [_, length @ 2..=u8::MAX, ..] => match options.get(usize::from(*length)..) {
                Some(rest) => rest,
                None => return false,
            },
            _ => return false,
        };
    }
}

fn ipv6<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<IpPayload<'a>, &'static str> {
    let header = Ipv6HeaderSlice::from_slice(view.rest())
        .map_err(|_| view.too_short("truncated IP header", "malformed IPv6"))?;
    let length = header.slice().len();
    let view = match usize::from(header.payload_length()) {
        // A jumbogram (RFC 2675 section 3: "The Payload Length field ... must be set to zero"), or
        // a packet captured before segmentation (TSO).
        0 => view,
        payload => view.limit(length + payload),
    };
    observer.header(HeaderKind::Ipv6, &view, length);
    let addresses = IpAddresses { source: header.source_addr().into(), destination: header.destination_addr().into() };
    extensions(Datagram { addresses, protocol: header.next_header(), payload: view.skip(length) }, observer)
}

/// Skips extension headers (RFC 8200 section 4) and the authentication header (RFC 4302), up to the
/// payload or a fragment header.
///
/// Headers may come in any order (section 4.1). After a fragment header, only the first fragment
/// continues with headers. Each header has at least eight bytes, so the loop ends. etherparse's own
/// iterator reads beyond the slice if an extension header is cut off.
pub(super) fn extensions<'a>(
    datagram: Datagram<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<IpPayload<'a>, &'static str> {
    let Datagram { addresses, mut protocol, payload: mut view } = datagram;
    loop {
        let too_short = || view.too_short("truncated IP header", "malformed IP extension header");
        let (next, length) = match protocol {
            ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_ROUTE | ip_number::IPV6_DEST_OPTIONS => {
                let header = Ipv6RawExtHeaderSlice::from_slice(view.rest()).map_err(|_| too_short())?;
                (header.next_header(), header.slice().len())
            }
            ip_number::AUTH => {
                let header = IpAuthHeaderSlice::from_slice(view.rest()).map_err(|_| too_short())?;
                (header.next_header(), header.slice().len())
            }
            ip_number::IPV6_FRAG => {
                let header = Ipv6FragmentHeaderSlice::from_slice(view.rest()).map_err(|_| too_short())?;
                let length = header.slice().len();
                observer.header(HeaderKind::Fragment, &view, length);
                if header.is_fragmenting_payload() {
                    return Ok(IpPayload::Fragment(Fragment {
                        addresses,
                        protocol: header.next_header(),
                        identification: header.identification(),
                        offset: usize::from(header.fragment_offset().byte_offset()),
                        more: header.more_fragments(),
                        payload: view.skip(length),
                    }));
                }
                // An atomic fragment (RFC 6946) is a whole datagram.
                (protocol, view) = (header.next_header(), view.skip(length));
                continue;
            }
            _ => return Ok(IpPayload::Datagram(Datagram { addresses, protocol, payload: view })),
        };
        observer.header(HeaderKind::Extension(protocol.0), &view, length);
        (protocol, view) = (next, view.skip(length));
    }
}
