//! The headers of one packet with every field in words, for people. It is written for
//! clarity, not speed.

use etherparse::{
    EtherType, IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice, SingleVlanHeaderSlice,
    TcpHeaderSlice, TcpOptionElement, TcpOptionReadError, TcpOptionsIterator, UdpHeaderSlice,
};

use super::link;
use super::payload::{find_payload, strip_link_layer};
use super::view::{HeaderKind, HeaderObserver, View};
use crate::capture::{LinkType, Packet};

/// One header of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The layer of the header: `link`, `network`, `transport` or `tunnel`.
    pub layer: &'static str,
    /// The name of the protocol: `Ethernet II`, `Linux cooked v1`, `802.1Q`, `IPv4`, `TCP` ...
    pub protocol: String,
    /// Offset of the header's first byte in the packet's data.
    pub start: u32,
    /// Offset after the header's last byte.
    pub end: u32,
    /// Names and values of the fields, in the order of the header.
    pub fields: Vec<(&'static str, String)>,
}

/// The headers of a packet, outermost first, as far as they were captured and are supported. Empty
/// for a chunk of a pipe.
pub fn headers(packet: &Packet<'_>) -> Vec<Header> {
    if packet.link == LinkType::PIPE {
        return Vec::new();
    }
    let mut list = HeaderList::default();
    // `Packets::push` reports why decoding stopped. Here the missing headers show it.
    let _ = strip_link_layer(packet, &mut list).and_then(|payload_of_ip| find_payload(payload_of_ip, &mut list));
    list.0.iter().filter_map(|position| header(position, packet.data)).collect()
}

/// Collects the headers of a packet while it is decoded.
#[derive(Default)]
struct HeaderList(Vec<HeaderPosition>);

struct HeaderPosition {
    kind: HeaderKind,
    start: usize,
    end: usize,
    /// Size in bytes of the payload after the header, as sent.
    payload: usize,
}

impl HeaderObserver for HeaderList {
    fn header(&mut self, kind: HeaderKind, view: &View<'_>, length: usize) {
        let end = view.start + length;
        self.0.push(HeaderPosition { kind, start: view.start, end, payload: view.end.saturating_sub(end) });
    }
}

/// The header at `position`; `None` if it was not captured completely.
fn header(position: &HeaderPosition, data: &[u8]) -> Option<Header> {
    let bytes = data.get(position.start..position.end)?;
    let (layer, protocol, fields) = match position.kind {
        HeaderKind::Ethernet => ("link", "Ethernet II".to_owned(), ethernet(bytes)?),
        HeaderKind::Snap => ("link", "802.2 SNAP".to_owned(), vec![("type", ether_type(u16_at(bytes, 6)?))]),
        HeaderKind::Null => ("link", "BSD loopback".to_owned(), vec![("family", null(bytes)?)]),
        HeaderKind::Sll => ("link", "Linux cooked v1".to_owned(), sll(bytes)?),
        HeaderKind::Sll2 => ("link", "Linux cooked v2".to_owned(), sll2(bytes)?),
        HeaderKind::Vlan => ("link", "802.1Q".to_owned(), vlan(bytes)?),
        HeaderKind::Mpls => ("link", "MPLS".to_owned(), mpls(bytes)?),
        HeaderKind::Pppoe => ("link", "PPPoE".to_owned(), vec![("session", u16_at(bytes, 2)?.to_string())]),
        HeaderKind::Ppp => ("link", "PPP".to_owned(), vec![("protocol", ppp_protocol(bytes))]),
        HeaderKind::CiscoHdlc => ("link", "Cisco HDLC".to_owned(), vec![("type", ether_type(u16_at(bytes, 2)?))]),
        HeaderKind::FrameRelay => ("link", "Frame Relay".to_owned(), vec![("identifier", frame_relay(bytes)?)]),
        HeaderKind::Radiotap => ("link", "radiotap".to_owned(), vec![("length", bytes.len().to_string())]),
        HeaderKind::Ieee80211 => ("link", "802.11".to_owned(), ieee80211(bytes)?),
        HeaderKind::Ipv4 => ("network", "IPv4".to_owned(), ipv4(bytes)?),
        HeaderKind::Ipv6 => ("network", "IPv6".to_owned(), ipv6(bytes)?),
        HeaderKind::Fragment => ("network", "IPv6 fragment".to_owned(), fragment(bytes)?),
        HeaderKind::Extension(number) => {
            let fields =
                vec![("next header", ip_number(IpNumber(*bytes.first()?))), ("length", bytes.len().to_string())];
            ("network", extension(number).to_owned(), fields)
        }
        HeaderKind::Gre => ("tunnel", "GRE".to_owned(), gre(bytes)?),
        HeaderKind::Gtp => {
            ("tunnel", "GTP-U".to_owned(), vec![("tunnel endpoint identifier", format!("{:#010x}", u32_at(bytes, 4)?))])
        }
        HeaderKind::Vxlan => ("tunnel", "VXLAN".to_owned(), vec![("network identifier", network_identifier(bytes)?)]),
        HeaderKind::Geneve => {
            let fields =
                vec![("protocol", ether_type(u16_at(bytes, 2)?)), ("network identifier", network_identifier(bytes)?)];
            ("tunnel", "Geneve".to_owned(), fields)
        }
        HeaderKind::Udp => ("transport", "UDP".to_owned(), udp(bytes)?),
        HeaderKind::Tcp => ("transport", "TCP".to_owned(), tcp(bytes, position.payload)?),
    };
    Some(Header { layer, protocol, start: position.start as u32, end: position.end as u32, fields })
}

/// Names and values of a header's fields; `None` if the header is cut off.
type HeaderFields = Option<Vec<(&'static str, String)>>;

fn ethernet(bytes: &[u8]) -> HeaderFields {
    let number = u16_at(bytes, 12)?;
    let kind = if number <= link::ether_type::LENGTH_MAX {
        ("length", number.to_string())
    } else {
        ("type", ether_type(number))
    };
    Some(vec![("destination", mac_address(bytes.get(..6)?)), ("source", mac_address(bytes.get(6..12)?)), kind])
}

fn null(bytes: &[u8]) -> Option<String> {
    let family = link::family(*bytes.first_chunk()?);
    Some(if family == 2 { "IPv4 (2)".to_owned() } else { format!("IPv6 ({family})") })
}

fn sll(bytes: &[u8]) -> HeaderFields {
    let length = usize::from(u16_at(bytes, 4)?).min(8);
    Some(vec![
        ("packet type", packet_type(u16_at(bytes, 0)?)),
        ("device type", u16_at(bytes, 2)?.to_string()),
        ("source", mac_address(bytes.get(6..6 + length)?)),
        ("protocol", ether_type(u16_at(bytes, 14)?)),
    ])
}

fn sll2(bytes: &[u8]) -> HeaderFields {
    let length = usize::from(*bytes.get(11)?).min(8);
    Some(vec![
        ("protocol", ether_type(u16_at(bytes, 0)?)),
        ("interface index", u32_at(bytes, 4)?.to_string()),
        ("device type", u16_at(bytes, 8)?.to_string()),
        ("packet type", packet_type(u16::from(*bytes.get(10)?))),
        ("source", mac_address(bytes.get(12..12 + length)?)),
    ])
}

fn vlan(bytes: &[u8]) -> HeaderFields {
    let tag = SingleVlanHeaderSlice::from_slice(bytes).ok()?;
    let mut fields = vec![
        ("identifier", tag.vlan_identifier().value().to_string()),
        ("priority", tag.priority_code_point().value().to_string()),
    ];
    if tag.drop_eligible_indicator() {
        fields.push(("drop eligible", "yes".to_owned()));
    }
    fields.push(("type", ether_type(tag.ether_type().0)));
    Some(fields)
}

/// RFC 3032 section 2.1: label (20 bits), traffic class (3), bottom of stack (1), time to live (8).
fn mpls(bytes: &[u8]) -> HeaderFields {
    let entry = u32_at(bytes, 0)?;
    Some(vec![
        ("label", (entry >> 12).to_string()),
        ("traffic class", (entry >> 9 & 7).to_string()),
        ("bottom of stack", yes(entry >> 8 & 1 == 1)),
        ("time to live", (entry & 0xff).to_string()),
    ])
}

/// The protocol field, which is last and has one or two bytes.
fn ppp_protocol(bytes: &[u8]) -> String {
    let field = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    let number = field.iter().fold(0u16, |number, byte| number << 8 | u16::from(*byte));
    match number {
        0x21 => format!("IPv4 ({number:#06x})"),
        0x57 => format!("IPv6 ({number:#06x})"),
        0x281 => format!("MPLS ({number:#06x})"),
        _ => format!("{number:#06x}"),
    }
}

/// The data link connection identifier of an address of two bytes: six bits and four bits.
fn frame_relay(bytes: &[u8]) -> Option<String> {
    let [high, low] = *bytes.first_chunk()?;
    Some((u16::from(high >> 2) << 4 | u16::from(low >> 4)).to_string())
}

/// IEEE 802.11-2020 table 9-30: which address is whose depends on the direction.
fn ieee80211(bytes: &[u8]) -> HeaderFields {
    let address = |number: usize| bytes.get(4 + 6 * (number - 1)..4 + 6 * number).map(mac_address);
    let (destination, source) = match bytes.get(1)? & 3 {
        0 => (address(1)?, address(2)?),
        1 => (address(3)?, address(2)?),
        2 => (address(1)?, address(3)?),
        _ => (address(3)?, bytes.get(24..30).map(mac_address)?),
    };
    Some(vec![
        ("destination", destination),
        ("source", source),
        ("sequence number", (u16::from_le_bytes([*bytes.get(22)?, *bytes.get(23)?]) >> 4).to_string()),
    ])
}

fn ipv4(bytes: &[u8]) -> HeaderFields {
    let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
    let flags = match (header.dont_fragment(), header.more_fragments()) {
        (false, false) => "none",
        (true, false) => "don't fragment",
        (false, true) => "more fragments",
        (true, true) => "don't fragment, more fragments",
    };
    let expected = header.to_header().calc_header_checksum();
    let verdict = match header.header_checksum() {
        sum if sum == expected => "correct".to_owned(),
        // Captured before the network card computes it.
        0 => "not filled in".to_owned(),
        _ => format!("incorrect, should be {expected:#06x}"),
    };
    let mut fields = vec![
        ("source", header.source_addr().to_string()),
        ("destination", header.destination_addr().to_string()),
        ("header length", header.slice().len().to_string()),
        ("dscp", header.dcp().value().to_string()),
        ("ecn", ecn(header.ecn().value())),
        ("total length", header.total_len().to_string()),
        ("identification", format!("{:#06x}", header.identification())),
        ("flags", flags.to_owned()),
        ("fragment offset", header.fragments_offset().byte_offset().to_string()),
        ("time to live", header.ttl().to_string()),
        ("protocol", ip_number(header.protocol())),
        ("header checksum", format!("{:#06x} ({verdict})", header.header_checksum())),
    ];
    if !header.options().is_empty() {
        fields.push(("options", hex(header.options())));
    }
    Some(fields)
}

fn ipv6(bytes: &[u8]) -> HeaderFields {
    let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
    Some(vec![
        ("source", header.source_addr().to_string()),
        ("destination", header.destination_addr().to_string()),
        ("dscp", header.dscp().value().to_string()),
        ("ecn", ecn(header.ecn().value())),
        ("flow label", format!("{:#07x}", header.flow_label().value())),
        ("payload length", header.payload_length().to_string()),
        ("next header", ip_number(header.next_header())),
        ("hop limit", header.hop_limit().to_string()),
    ])
}

fn fragment(bytes: &[u8]) -> HeaderFields {
    let header = Ipv6FragmentHeaderSlice::from_slice(bytes).ok()?;
    Some(vec![
        ("next header", ip_number(header.next_header())),
        ("fragment offset", header.fragment_offset().byte_offset().to_string()),
        ("more fragments", yes(header.more_fragments())),
        ("identification", format!("{:#010x}", header.identification())),
    ])
}

/// Optional fields follow in the order of their flags: checksum, key, sequence number (RFC
/// 2890 section 2).
fn gre(bytes: &[u8]) -> HeaderFields {
    let flags = u16_at(bytes, 0)?;
    let mut fields = vec![("protocol", ether_type(u16_at(bytes, 2)?))];
    let mut at = 4;
    for (flag, name) in [(0x8000, "checksum"), (0x2000, "key"), (0x1000, "sequence number")] {
        if flags & flag != 0 {
            let value = u32_at(bytes, at)?;
            let text = if name == "checksum" { format!("{:#06x}", value >> 16) } else { value.to_string() };
            fields.push((name, text));
            at += 4;
        }
    }
    Some(fields)
}

/// The identifier of VXLAN or Geneve: 24 bits at the same offset in both.
fn network_identifier(bytes: &[u8]) -> Option<String> {
    Some((u32_at(bytes, 4)? >> 8).to_string())
}

fn udp(bytes: &[u8]) -> HeaderFields {
    let header = UdpHeaderSlice::from_slice(bytes).ok()?;
    Some(vec![
        ("source port", header.source_port().to_string()),
        ("destination port", header.destination_port().to_string()),
        ("length", header.length().to_string()),
        ("checksum", format!("{:#06x}", header.checksum())),
    ])
}

fn tcp(bytes: &[u8], payload: usize) -> HeaderFields {
    let header = TcpHeaderSlice::from_slice(bytes).ok()?;
    let flags = [
        (header.ns(), "NS"),
        (header.cwr(), "CWR"),
        (header.ece(), "ECE"),
        (header.urg(), "URG"),
        (header.syn(), "SYN"),
        (header.fin(), "FIN"),
        (header.rst(), "RST"),
        (header.psh(), "PSH"),
        (header.ack(), "ACK"),
    ];
    let flags: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    let mut fields = vec![
        ("source port", header.source_port().to_string()),
        ("destination port", header.destination_port().to_string()),
        ("sequence number (raw)", header.sequence_number().to_string()),
        ("acknowledgment number (raw)", header.acknowledgment_number().to_string()),
        ("header length", bytes.len().to_string()),
        ("flags", format!("[{}]", flags.join(", "))),
        ("window", header.window_size().to_string()),
        ("checksum", format!("{:#06x}", header.checksum())),
    ];
    if header.urg() || header.urgent_pointer() != 0 {
        fields.push(("urgent pointer", header.urgent_pointer().to_string()));
    }
    if !header.options().is_empty() {
        fields.push(("options", options(header.options()).join(", ")));
    }
    fields.push(("payload length", payload.to_string()));
    Some(fields)
}

/// The options of a TCP header, one text each. Consecutive NOPs are one text.
fn options(mut rest: &[u8]) -> Vec<String> {
    use TcpOptionElement::*;
    let mut texts: Vec<String> = Vec::new();
    // etherparse stops at an unknown option. Its length byte leads to the next one (RFC
    // 9293 section 3.1).
    loop {
        let mut elements = TcpOptionsIterator::from_slice(rest);
        let (text, length) = match elements.next() {
            None => break,
            Some(Ok(element)) => {
                let text = match element {
                    Noop => "NOP".to_owned(),
                    MaximumSegmentSize(size) => format!("MSS {size}"),
                    WindowScale(shift) => format!("WS {shift} (multiply by {})", 1u64 << shift.min(14)),
                    SelectiveAcknowledgementPermitted => "SACK permitted".to_owned(),
                    SelectiveAcknowledgement(first, others) => {
                        let blocks = std::iter::once(first).chain(others.into_iter().flatten());
                        let blocks: Vec<String> = blocks.map(|(left, right)| format!("{left}-{right}")).collect();
                        format!("SACK {}", blocks.join(" "))
                    }
                    Timestamp(value, echo) => format!("TSval {value} TSecr {echo}"),
                };
                (text, rest.len() - elements.rest().len())
            }
            Some(Err(TcpOptionReadError::UnknownId(kind))) => match rest.get(1).map(|length| usize::from(*length)) {
                Some(length) if (2..=rest.len()).contains(&length) => {
                    (format!("{} {}", option_name(kind), hex(&rest[2..length])), length)
                }
                _ => (format!("{} (malformed)", option_name(kind)), rest.len()),
            },
            Some(Err(_)) => (format!("malformed option {}", hex(rest)), rest.len()),
        };
        rest = &rest[length..];
        if text != "NOP" || texts.last().is_none_or(|last| last != "NOP") {
            texts.push(text.trim_end().to_owned());
        }
    }
    texts
}

/// The name of an option that etherparse does not support, from IANA's registry.
fn option_name(kind: u8) -> String {
    match kind {
        19 => "MD5 signature".to_owned(),
        28 => "user timeout".to_owned(),
        29 => "authentication".to_owned(),
        30 => "multipath TCP".to_owned(),
        34 => "fast open cookie".to_owned(),
        _ => format!("option {kind}"),
    }
}

fn extension(number: u8) -> &'static str {
    match number {
        0 => "IPv6 hop-by-hop options",
        43 => "IPv6 routing header",
        60 => "IPv6 destination options",
        51 => "authentication header",
        _ => "IPv6 extension header",
    }
}

fn ecn(value: u8) -> String {
    ["not ECN-capable", "ECT(1)", "ECT(0)", "congestion experienced"][usize::from(value & 3)].to_owned()
}

/// The packet type of a Linux cooked header.
fn packet_type(number: u16) -> String {
    match number {
        0 => "sent to us".to_owned(),
        1 => "broadcast".to_owned(),
        2 => "multicast".to_owned(),
        3 => "sent to another host".to_owned(),
        4 => "sent by us".to_owned(),
        _ => number.to_string(),
    }
}

fn ether_type(number: u16) -> String {
    let name = match EtherType(number) {
        EtherType::IPV4 => "IPv4",
        EtherType::IPV6 => "IPv6",
        EtherType::ARP => "ARP",
        EtherType::VLAN_TAGGED_FRAME => "802.1Q",
        EtherType::PROVIDER_BRIDGING => "802.1ad",
        EtherType::VLAN_DOUBLE_TAGGED_FRAME => "QinQ",
        EtherType(link::ether_type::MPLS | link::ether_type::MPLS_MULTICAST) => "MPLS",
        EtherType(link::ether_type::PPPOE_SESSION) => "PPPoE session",
        EtherType(link::ether_type::TRANSPARENT_ETHERNET) => "Ethernet",
        _ => return format!("{number:#06x}"),
    };
    format!("{name} ({number:#06x})")
}

fn ip_number(number: IpNumber) -> String {
    match number.keyword_str() {
        Some(name) => format!("{name} ({})", number.0),
        None => number.0.to_string(),
    }
}

fn mac_address(bytes: &[u8]) -> String {
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// The big-endian 16-bit integer at offset `at`.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// The big-endian 32-bit integer at offset `at`.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
