//! Links between two ends: PPP, Cisco HDLC and Frame Relay, up to the IP header.

use super::link::{after_ether_type, ether_type};
use super::view::{HeaderKind, HeaderObserver, View};

/// PPP protocols (<https://www.iana.org/assignments/ppp-numbers>) that carry IP.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;

/// PPP, with or without the address and control bytes of HDLC (RFC 1662 section 3.1), or Cisco
/// HDLC. LINKTYPE_PPP and LINKTYPE_PPP_HDLC are used for all three.
pub(super) fn ppp_or_hdlc<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    match view.peek::<2>() {
        Some([0xff, 0x03]) => ppp(view, 2, observer),
        Some([0x0f | 0x8f, 0]) => cisco_hdlc(view, observer),
        _ => ppp(view, 0, observer),
    }
}

/// A PPP frame (RFC 1661 section 2) whose protocol field follows `before` bytes. The field has one
/// byte instead of two if the ends agreed to compress it: then its first byte is odd (section 6.5).
pub(super) fn ppp<'a>(
    view: View<'a>,
    before: usize,
    observer: &mut impl HeaderObserver,
) -> Result<View<'a>, &'static str> {
    let field = view.skip(before).rest();
    let (protocol, length) = match *field {
        [first, ..] if first & 1 == 1 => (u16::from(first), 1),
        [high, low, ..] => (u16::from_be_bytes([high, low]), 2),
        _ => return Err(view.too_short("truncated PPP header", "malformed PPP")),
    };
    observer.header(HeaderKind::Ppp, &view, before + length);
    let content = view.skip(before + length);
    match protocol {
        PPP_IPV4 | PPP_IPV6 => Ok(content),
        PPP_MPLS => after_ether_type(ether_type::MPLS, content, observer),
        // Van Jacobson compression (RFC 1144) leaves out what the last segment had.
        0x002d | 0x002f => Err("PPP with compressed TCP headers"),
        _ => Err("PPP"),
    }
}

/// Cisco HDLC: address, control, EtherType.
pub(super) fn cisco_hdlc<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    let header: [u8; 4] = view.peek().ok_or(view.too_short("truncated HDLC header", "malformed HDLC"))?;
    observer.header(HeaderKind::CiscoHdlc, &view, header.len());
    after_ether_type(u16::from_be_bytes([header[2], header[3]]), view.skip(header.len()), observer)
}

/// Frame Relay: an address of two to four bytes, whose last has its lowest bit set (ITU-T Q.922
/// section 3.3). Then the encapsulation of RFC 2427, or, as Cisco routers send it, an EtherType.
pub(super) fn frame_relay<'a>(view: View<'a>, observer: &mut impl HeaderObserver) -> Result<View<'a>, &'static str> {
    const CONTROL_UI: u8 = 0x03;
    const NLPID_SNAP: u8 = 0x80;
    const NLPID_IPV4: u8 = 0xcc;
    const NLPID_IPV6: u8 = 0x8e;
    let bytes = view.rest();
    let last = bytes.iter().take(4).position(|byte| byte & 1 == 1);
    let address = last.ok_or(view.too_short("truncated Frame Relay header", "malformed Frame Relay"))? + 1;
    if address < 2 {
        return Err("malformed Frame Relay");
    }
    let rest = &bytes[address..];
    // RFC 2427 section 3: a pad byte aligns what follows.
    let pad = usize::from(rest.get(1) == Some(&0));
    let (length, ether_type) = match (rest.first(), rest.get(1 + pad)) {
        (Some(&CONTROL_UI), Some(&(NLPID_IPV4 | NLPID_IPV6))) => (2 + pad, None),
        (Some(&CONTROL_UI), Some(&NLPID_SNAP)) => {
            // Organization code and EtherType (section 4.1).
            let at = 2 + pad + 3;
            let bytes = rest.get(at..at + 2).ok_or("truncated Frame Relay header")?;
            (at + 2, Some(u16::from_be_bytes([bytes[0], bytes[1]])))
        }
        (Some(&CONTROL_UI), _) => return Err("Frame Relay"),
        _ => {
            let bytes = rest.get(..2).ok_or("truncated Frame Relay header")?;
            (2, Some(u16::from_be_bytes([bytes[0], bytes[1]])))
        }
    };
    observer.header(HeaderKind::FrameRelay, &view, address + length);
    let content = view.skip(address + length);
    match ether_type {
        Some(ether_type) => after_ether_type(ether_type, content, observer),
        None => Ok(content),
    }
}
