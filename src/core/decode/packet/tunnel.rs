//! Tunnels: from the tunnel's header to the IP packet inside.

use super::link::{after_ether_type, ether_type, ethernet};
use super::view::{HeaderKind, HeaderObserver, View};

/// Port of VXLAN (RFC 7348 section 8).
pub(super) const VXLAN_PORT: u16 = 4_789;
/// Port of Geneve (RFC 8926 section 3.3).
pub(super) const GENEVE_PORT: u16 = 6_081;

/// Port of GTP-U (3GPP TS 29.281 section 4.4.2).
pub(super) const GTP_PORT: u16 = 2_152;

/// GRE (RFC 2784) with key and sequence number (RFC 2890). Each flag announces four more bytes.
pub(super) fn gre<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 0x0007;
    let header: [u8; 4] = view.peek().ok_or(view.too_short("truncated GRE header", "malformed GRE"))?;
    let [flags, protocol] = [0, 2].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
    // Version 1 is that of PPTP (RFC 2637). Source routes (RFC 1701) are obsolete.
    if flags & (VERSION | ROUTING) != 0 {
        return Err("GRE of another version");
    }
    let options = [CHECKSUM, KEY, SEQUENCE].iter().filter(|flag| flags & **flag != 0).count();
    let length = header.len() + 4 * options;
    observer.header(HeaderKind::Gre, &view, length);
    inner(protocol, view.skip(length), observer)
}

/// VXLAN (RFC 7348 section 5). The I flag must be set. An Ethernet frame follows
/// the network identifier.
pub(super) fn vxlan<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    match view.peek::<8>() {
        Some([flags, ..]) if flags & 0x08 != 0 => {
            observer.header(HeaderKind::Vxlan, &view, 8);
            ethernet(view.skip(8), observer)
        }
        _ => Err("UDP"),
    }
}

/// Geneve (RFC 8926 section 3.4): version 0, the length of the options in units of four bytes, a
/// protocol, a network identifier.
pub(super) fn geneve<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    match view.peek::<8>() {
        Some([first, _, high, low, ..]) if first >> 6 == 0 => {
            let length = 8 + 4 * usize::from(first & 0x3f);
            observer.header(HeaderKind::Geneve, &view, length);
            inner(u16::from_be_bytes([high, low]), view.skip(length), observer)
        }
        _ => Err("UDP"),
    }
}

/// Skips to IP by the protocol field of a tunnel: an EtherType, or an Ethernet frame.
fn inner<'a>(protocol: u16, view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    match protocol {
        ether_type::TRANSPARENT_ETHERNET => ethernet(view, observer),
        _ => after_ether_type(protocol, view, observer),
    }
}

/// GTP-U version 1 (3GPP TS 29.281 section 5.1): a user's IP packet in a mobile network.
pub(super) fn gtp<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    const VERSION_AND_TYPE: u8 = 0xf0;
    const GTP_VERSION_1: u8 = 0x30;
    /// The message type G-PDU.
    const USER_DATA: u8 = 255;
    const HAS_OPTIONS: u8 = 0x07;
    const HAS_EXTENSIONS: u8 = 0x04;
    let Some([flags, kind, ..]) = view.peek::<8>() else { return Err("UDP") };
    if flags & VERSION_AND_TYPE != GTP_VERSION_1 || kind != USER_DATA {
        return Err("UDP");
    }
    let mut length = 8;
    if flags & HAS_OPTIONS != 0 {
        // Sequence number, N-PDU number, type of the first extension header.
        length += 4;
    }
    if flags & HAS_EXTENSIONS != 0 {
        // An extension header begins with its length in units of four bytes and ends with the type
        // of the next one (section 5.2.1).
        while view.rest().get(length - 1).is_some_and(|next| *next != 0) {
            match view.rest().get(length) {
                Some(units @ 1..) => length += 4 * usize::from(*units),
                _ => return Err("malformed GTP"),
            }
        }
    }
    observer.header(HeaderKind::Gtp, &view, length);
    let content = view.skip(length);
    match content.rest().first().map(|byte| byte >> 4) {
        Some(4 | 6) => Ok(content),
        _ => Err("GTP without IP"),
    }
}
