//! IPv4 (RFC 791) and IPv6 (RFC 8200): headers, extension headers, lengths that lie.

use std::net::IpAddr;

use etherparse::{
    IpAuthHeaderSlice, IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice,
    ip_number,
};

use super::view::{HeaderKind, HeaderObserver, View};

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpAddresses {
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// A whole IP datagram: its payload, behind all headers of IP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub addresses: IpAddresses,
    pub protocol: IpNumber,
    pub payload: View<'a>,
}

/// A fragment of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub addresses: IpAddresses,
    /// What the payload of the first fragment begins with.
    pub protocol: IpNumber,
    pub identification: u32,
    /// Where its bytes belong in the datagram's payload.
    pub offset: usize,
    /// Whether others follow behind it.
    pub more: bool,
    pub payload: View<'a>,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum IpPayload<'a> {
    Datagram(Datagram<'a>),
    Fragment(Fragment<'a>),
}

/// Reads the IP header at the start of `view`; its first nibble says which (the layer below may be wrong about it).
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
        // A kernel that leaves the cutting to the network card hands out packets without a length, the more so when they
        // do not fit its 16 bits (TSO, BIG TCP): all that is there belongs to it.
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

/// Whether every option fits, as a receiver checks before it accepts the packet: a packet that it drops must not put
/// bytes into a stream. Kinds 0 and 1 are single bytes, all others have a length that counts both bytes before the
/// data (RFC 791 section 3.1); of the security option "the minimum length ... is 3 octets" (RFC 1108 section 2.2).
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
        // A jumbogram (RFC 2675 section 3: "The Payload Length field ... must be set to zero") or a packet before TSO.
        0 => view,
        payload => view.limit(length + payload),
    };
    observer.header(HeaderKind::Ipv6, &view, length);
    let addresses = IpAddresses { source: header.source_addr().into(), destination: header.destination_addr().into() };
    extensions(Datagram { addresses, protocol: header.next_header(), payload: view.skip(length) }, observer)
}

/// Passes over extension headers (RFC 8200 section 4) and the authentication header (RFC 4302) up to the payload, or up
/// to a fragment header: what follows that one is the start of a datagram only in the first fragment. "IPv6 nodes must
/// accept and attempt to process extension headers in any order." Each takes at least eight bytes, so this ends.
///
/// etherparse's own iterator reads behind the slice after an extension header that is cut off, hence the loop.
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
