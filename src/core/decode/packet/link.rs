//! The link layer: from the first byte of a packet to its IP header.

use super::serial::{cisco_hdlc, frame_relay, ppp, ppp_or_hdlc};
use super::view::{HeaderKind, HeaderObserver, View};
use super::wireless;
use crate::capture::LinkType;

/// The EtherTypes (<https://www.iana.org/assignments/ieee-802-numbers>) that are decoded or named.
pub(super) mod ether_type {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub const VLAN: u16 = 0x8100;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_MULTICAST: u16 = 0x8848;
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    pub const PPPOE_SESSION: u16 = 0x8864;
    pub const PROVIDER_BRIDGING: u16 = 0x88a8;
    pub const LLDP: u16 = 0x88cc;
    /// QinQ, as products used it before IEEE 802.1ad assigned a number.
    pub const VLAN_DOUBLE: u16 = 0x9100;
    /// IEEE 802.3: values up to this one are a length, values from 0x0600 on are a type.
    pub const LENGTH_MAX: u16 = 1_500;
}

/// Skips the link layer. The returned view begins with an IP header.
pub(super) fn network<'a>(
    link: LinkType,
    view: View<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<View<'a>, &'static str> {
    match link {
        LinkType::ETHERNET => ethernet(view, observer),
        LinkType::NULL | LinkType::LOOP => null(view, observer),
        // Operating systems number raw IP 12 or 14 (DLT_RAW), and some programs write that
        // number into files.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12 | 14) => Ok(view),
        LinkType::LINUX_SLL => sll(view, observer),
        LinkType::LINUX_SLL2 => sll2(view, observer),
        LinkType::PPP | LinkType::PPP_HDLC => ppp_or_hdlc(view, observer),
        LinkType::PPP_ETHER => pppoe(view, observer),
        LinkType::CISCO_HDLC => cisco_hdlc(view, observer),
        LinkType::FRAME_RELAY => frame_relay(view, observer),
        LinkType::IEEE802_11 => wireless::frame(view, 0, observer),
        LinkType::IEEE802_11_RADIOTAP => wireless::radiotap(view, observer),
        link => Err(unsupported(link)),
    }
}

/// Why packets of a link type are skipped. The names are those of the registry of link types.
pub(super) fn unsupported(link: LinkType) -> &'static str {
    match link.0 {
        6 | 129 => "unsupported link type: Token Ring",
        7 => "unsupported link type: ARCnet",
        8 => "unsupported link type: SLIP",
        10 => "unsupported link type: FDDI",
        11 | 106 | 123 => "unsupported link type: ATM",
        119 | 163 => "unsupported link type: 802.11 with Prism or AVS header",
        122 => "unsupported link type: IP over Fibre Channel",
        138 => "unsupported link type: IP over FireWire",
        187 | 201 | 251 | 254 | 255 | 256 | 272 => "unsupported link type: Bluetooth",
        186 | 189 | 220 | 249 | 266 | 288 | 293 | 294 | 295 => "unsupported link type: USB",
        195 | 215 | 230 | 283 => "unsupported link type: IEEE 802.15.4",
        227 => "unsupported link type: CAN",
        239 => "unsupported link type: netfilter log",
        242 | 247 => "unsupported link type: IP over InfiniBand",
        143 => "unsupported link type: DOCSIS",
        192 => "unsupported link type: per-packet information",
        253 => "unsupported link type: netlink",
        149..=162 => "unsupported link type: private",
        _ => "unknown link type",
    }
}

/// Ethernet II, or IEEE 802.3 with SNAP (RFC 1042).
pub(super) fn ethernet<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 14] = view.peek().ok_or(view.too_short("truncated Ethernet header", "malformed Ethernet"))?;
    observer.header(HeaderKind::Ethernet, &view, header.len());
    after_ether_type(u16::from_be_bytes([header[12], header[13]]), view.skip(header.len()), observer)
}

/// BSD loopback: a 4-byte address family, then IP.
///
/// For LINKTYPE_NULL the family "is in the byte order of the machine on which the packets are
/// captured", which the file does not state. LINKTYPE_LOOP is always big-endian. Families fit into
/// 16 bits, so the order that leaves the upper half zero is right.
fn null<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 4] = view.peek().ok_or("truncated loopback header")?;
    observer.header(HeaderKind::Null, &view, header.len());
    match family(header) {
        // AF_INET is 2 everywhere. AF_INET6 is 24 (Windows, NetBSD), 28 (FreeBSD), 30 (Darwin)
        // or 10 (Linux).
        2 | 24 | 28 | 30 | 10 => Ok(view.skip(header.len())),
        _ => Err("unknown protocol family"),
    }
}

/// The protocol family of a BSD loopback header, in either byte order.
pub(super) fn family(header: [u8; 4]) -> u32 {
    u32::from_le_bytes(header).min(u32::from_be_bytes(header))
}

/// Linux cooked capture: packet type, ARPHRD_ type, address length, address, protocol.
fn sll<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 16] = view.peek().ok_or("truncated cooked header")?;
    observer.header(HeaderKind::Sll, &view, header.len());
    let [device, protocol] = [2, 14].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
    cooked(device, protocol, view.skip(header.len()), observer)
}

/// Linux cooked capture v2: protocol, reserved, interface index, ARPHRD_ type, packet type,
/// address length, address.
fn sll2<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 20] = view.peek().ok_or("truncated cooked header")?;
    observer.header(HeaderKind::Sll2, &view, header.len());
    let [device, protocol] = [8, 0].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
    cooked(device, protocol, view.skip(header.len()), observer)
}

/// Skips to IP by the protocol of a Linux cooked header. It is an EtherType unless the device's
/// ARPHRD_ type is FRAD (770), 802.11 with radiotap (803) or netlink (824).
fn cooked<'a>(
    device: u16,
    protocol: u16,
    view: View<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<View<'a>, &'static str> {
    match (device, protocol) {
        (770 | 803 | 824, _) => Err("no IP"),
        // Values below 0x0600 are Linux's own protocol numbers: 4 is 802.2 LLC.
        (_, 4) => snap(view, observer),
        _ => after_ether_type(protocol, view, observer),
    }
}

/// Skips tags, labels and sessions after an EtherType, up to the IP header. Each turn of the
/// loop consumes bytes.
pub(super) fn after_ether_type<'a>(
    mut ether_type: u16,
    mut view: View<'a>,
    observer: &mut impl HeaderObserver,
) -> Result<View<'a>, &'static str> {
    loop {
        match ether_type {
            ether_type::IPV4 | ether_type::IPV6 => return Ok(view),
            ether_type::VLAN | ether_type::PROVIDER_BRIDGING | ether_type::VLAN_DOUBLE => {
                let tag: [u8; 4] = view.peek().ok_or(view.too_short("truncated VLAN tag", "malformed VLAN tag"))?;
                observer.header(HeaderKind::Vlan, &view, tag.len());
                ether_type = u16::from_be_bytes([tag[2], tag[3]]);
                view = view.skip(tag.len());
            }
            ether_type::MPLS | ether_type::MPLS_MULTICAST => return mpls(view, observer),
            ether_type::PPPOE_SESSION => return pppoe(view, observer),
            ether_type::PPPOE_DISCOVERY => return Err("PPPoE discovery"),
            ether_type::ARP => return Err("ARP"),
            ether_type::LLDP => return Err("LLDP"),
            0..=ether_type::LENGTH_MAX => return snap(view.limit(usize::from(ether_type)), observer),
            _ => return Err("no IP"),
        }
    }
}

/// IEEE 802.2 LLC. Only SNAP with the organization code of Ethernet carries IP (RFC 1042).
pub(super) fn snap<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    match view.peek::<8>() {
        Some([0xaa, 0xaa, 3, 0, 0, 0, high, low]) => {
            observer.header(HeaderKind::Snap, &view, 8);
            match u16::from_be_bytes([high, low]) {
                ether_type::IPV4 | ether_type::IPV6 => Ok(view.skip(8)),
                _ => Err("802.3 LLC"),
            }
        }
        _ => Err("802.3 LLC"),
    }
}

/// A stack of MPLS labels (RFC 3032).
///
/// The labels do not name the content. As in routers, its first four bits decide (RFC 4928 section
/// 3): 4 and 6 are IP. 0 is the control word of a pseudowire (RFC 4385), which usually carries
/// Ethernet (RFC 4448).
fn mpls<'a>(mut view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    loop {
        let label: [u8; 4] = view.peek().ok_or(view.too_short("truncated MPLS label", "malformed MPLS"))?;
        observer.header(HeaderKind::Mpls, &view, label.len());
        view = view.skip(label.len());
        let bottom_of_stack = label[2] & 1 == 1;
        if bottom_of_stack {
            break;
        }
    }
    match view.rest().first().map(|byte| byte >> 4) {
        Some(4 | 6) => Ok(view),
        Some(0) => ethernet(view.skip(4), observer),
        _ => Err("MPLS pseudowire"),
    }
}

/// A PPPoE session (RFC 2516 section 4): version and type 1, code 0, session, length, then
/// the PPP protocol.
fn pppoe<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 6] = view.peek().ok_or(view.too_short("truncated PPPoE header", "malformed PPPoE"))?;
    match header {
        [0x11, 0, ..] => {}
        [0x11, ..] => return Err("PPPoE discovery"),
        _ => return Err("malformed PPPoE"),
    }
    observer.header(HeaderKind::Pppoe, &view, header.len());
    // "LENGTH ... does not include the length of the Ethernet or PPPoE headers": it starts at
    // the PPP protocol.
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    ppp(view.limit(header.len() + length).skip(header.len()), 0, observer)
}
