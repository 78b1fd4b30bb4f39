use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::capture::{PacketNumber, Time, pipe};
use crate::decode::tcp::Flags;

const TEXT: &[u8] = b"POST /mcp HTTP/1.1\r\n\r\n";

/// A TCP segment from port 40000 to port 8000 with a window scale option.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x9c, 0x40, 0x1f, 0x40, 0, 0, 0, 7, 0, 0, 0, 9, 0x60, 0x18, 4, 0, 0, 0, 0, 0, 1, 3, 3, 7];
    bytes.extend(payload);
    bytes
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    [&[0xc0, 0][..], &port.to_be_bytes(), &(payload.len() as u16 + 8).to_be_bytes(), &[0, 0], payload].concat()
}

/// An IPv4 packet. `flags` are the three flag bits and the fragment offset in units of eight bytes.
fn ipv4_fragment(protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 + 20).to_be_bytes();
    let [high, low] = flags.to_be_bytes();
    let head = [0x45, 0, length[0], length[1], 0xab, 0xcd, high, low, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&head[..], payload].concat()
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_fragment(protocol, 0x4000, payload)
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    for last in [1, 2] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

fn ipv6_fragment(next: u8, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let field = (offset as u16 | u16::from(more)).to_be_bytes();
    ipv6(44, &[&[next, 0, field[0], field[1], 0, 0, 0, 5], payload].concat())
}

/// A header that ends in an EtherType, and its content.
fn with_ether_type(head: &[u8], ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [head, &ether_type.to_be_bytes(), rest].concat()
}

fn ethernet(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    with_ether_type(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], ether_type, rest)
}

fn packet(number: u64, link: u16, data: &[u8]) -> Packet<'_> {
    Packet {
        number: PacketNumber(number),
        time: Time(number as i64),
        link: LinkType(link),
        interface: 0,
        original_length: data.len() as u32,
        data,
    }
}

/// An 802.11 header with these two bytes of frame control and three addresses.
fn wireless(control: u8, flags: u8) -> [u8; 24] {
    let mut header = [0; 24];
    header[..2].copy_from_slice(&[control, flags]);
    for (address, last) in header[4..22].chunks_mut(6).zip(1..) {
        address.copy_from_slice(&[2, 0, 0, 0, 0, last]);
    }
    header
}

/// A GTP-U header before so many bytes.
fn gtp(flags: u8, length: usize) -> Vec<u8> {
    [&[flags, 255][..], &(length as u16).to_be_bytes(), &[0, 0, 0, 7]].concat()
}

/// The same segment in every kind of link layer and tunnel: name, link type and bytes.
fn wrappings(text: &[u8]) -> Vec<(&'static str, u16, Vec<u8>)> {
    let segment = tcp(text);
    let (four, six) = (ipv4(6, &segment), ipv6(6, &segment));
    let frame = ethernet(0x0800, &four);
    let sll = [0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0];
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &four].concat();
    let mut without_length = four.clone();
    without_length[2..4].fill(0);
    let mut jumbo = six.clone();
    jumbo[4..6].fill(0);
    vec![
        ("Ethernet", 1, frame.clone()),
        ("Ethernet, IPv6", 1, ethernet(0x86dd, &six)),
        ("total length 0", 1, ethernet(0x0800, &without_length)),
        ("payload length 0", 1, ethernet(0x86dd, &jumbo)),
        ("802.3", 1, ethernet(snap.len() as u16, &snap)),
        ("802.1Q", 1, ethernet(0x8100, &with_ether_type(&[0xa0, 42], 0x0800, &four))),
        ("802.1ad", 1, ethernet(0x88a8, &with_ether_type(&[0, 7], 0x8100, &with_ether_type(&[0, 8], 0x86dd, &six)))),
        ("QinQ", 1, ethernet(0x9100, &with_ether_type(&[0, 7], 0x8100, &with_ether_type(&[0, 8], 0x0800, &four)))),
        ("MPLS", 1, ethernet(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &four].concat())),
        ("MPLS pseudowire", 1, ethernet(0x8847, &[&[0, 1, 1, 64, 0, 0, 0, 0][..], &frame].concat())),
        ("PPPoE", 1, {
            let length = (four.len() as u16 + 2).to_be_bytes();
            ethernet(0x8864, &[&[0x11, 0, 0, 9, length[0], length[1], 0, 0x21][..], &four].concat())
        }),
        ("PPPoE, compressed protocol", 1, {
            let length = (four.len() as u16 + 1).to_be_bytes();
            ethernet(0x8864, &[&[0x11, 0, 0, 9, length[0], length[1], 0x21][..], &four].concat())
        }),
        ("PPPoE without Ethernet", 51, {
            let length = (six.len() as u16 + 2).to_be_bytes();
            [&[0x11, 0, 0, 9, length[0], length[1], 0, 0x57][..], &six].concat()
        }),
        ("PPP", 9, [&[0, 0x21][..], &four].concat()),
        ("PPP, HDLC framing", 50, [&[0xff, 3, 0, 0x57][..], &six].concat()),
        ("PPP, MPLS", 9, [&[0xff, 3, 0x02, 0x81, 0, 2, 1, 64][..], &four].concat()),
        ("Cisco HDLC", 104, with_ether_type(&[0x0f, 0], 0x0800, &four)),
        ("Cisco HDLC as PPP", 50, with_ether_type(&[0x8f, 0], 0x86dd, &six)),
        ("Frame Relay", 107, [&[0x18, 0x41, 3, 0xcc][..], &four].concat()),
        ("Frame Relay, IPv6, padded", 107, [&[0x18, 0x41, 3, 0, 0x8e][..], &six].concat()),
        ("Frame Relay, SNAP", 107, with_ether_type(&[0x18, 0x41, 3, 0, 0x80, 0, 0, 0], 0x0800, &four)),
        ("Frame Relay, Cisco, four bytes of address", 107, with_ether_type(&[0x18, 0x40, 0, 1], 0x0800, &four)),
        ("802.11", 105, [&wireless(0x08, 0x01)[..], &snap].concat()),
        ("802.11, QoS, four addresses", 105, [&wireless(0x88, 0x03)[..], &[2, 0, 0, 0, 0, 9, 0, 0], &snap].concat()),
        ("802.11, QoS, HT control", 105, [&wireless(0x88, 0x82)[..], &[0; 6], &snap].concat()),
        ("radiotap", 127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wireless(0x08, 0x02), &snap].concat()),
        ("radiotap, padded", 127, {
            // Two bitmaps, the timestamp aligned to eight bytes, the flags.
            let bitmaps = [3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];
            let fields = [&[1; 8][..], &[0x20], &[0; 3]].concat();
            [&[0, 0, 28, 0][..], &bitmaps, &fields, &wireless(0x88, 0x02), &[0; 4], &snap].concat()
        }),
        ("NULL, little-endian", 0, [&[2, 0, 0, 0][..], &four].concat()),
        ("NULL, big-endian", 0, [&[0, 0, 0, 30][..], &six].concat()),
        ("LOOP", 108, [&[0, 0, 0, 24][..], &six].concat()),
        ("RAW, IPv4", 101, four.clone()),
        ("RAW, IPv6", 12, six.clone()),
        ("IPV4", 228, four.clone()),
        ("IPV6", 229, six.clone()),
        ("SLL", 113, with_ether_type(&sll, 0x0800, &four)),
        ("SLL, 802.1Q", 113, with_ether_type(&sll, 0x8100, &with_ether_type(&[0, 42], 0x0800, &four))),
        ("SLL2", 276, [&[8, 0, 0, 0, 0, 0, 0, 1, 3, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &four].concat()),
        ("authentication header", 101, ipv4(51, &[&[6, 4][..], &[0; 22], &segment].concat())),
        ("extension headers", 101, ipv6(0, &[&[60, 0][..], &[0; 6], &[6, 0], &[0; 6], &segment].concat())),
        ("atomic fragment", 101, ipv6_fragment(6, 0, false, &segment)),
        ("GRE", 101, ipv4(47, &with_ether_type(&[0, 0], 0x0800, &four))),
        (
            "GRE, all options, Ethernet",
            101,
            ipv4(47, &with_ether_type(&[0xb0, 0], 0x6558, &[&[0; 12][..], &frame].concat())),
        ),
        ("IP in IP", 101, ipv6(4, &four)),
        ("6in4", 101, ipv4(41, &six)),
        ("VXLAN", 101, ipv4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &frame].concat()))),
        ("GTP-U", 101, ipv4(17, &udp(2152, &[&gtp(0x30, four.len())[..], &four].concat()))),
        ("GTP-U, extension header", 101, {
            let options = [0, 1, 0, 0x85, 1, 0, 9, 0];
            ipv4(17, &udp(2152, &[&gtp(0x34, options.len() + six.len())[..], &options, &six].concat()))
        }),
        ("Geneve", 101, ipv4(17, &udp(6081, &[&[1, 0, 0x86, 0xdd, 0, 0, 1, 0, 0, 0, 0, 0][..], &six].concat()))),
    ]
}

#[test]
fn one_segment_in_every_wrapping() {
    for (name, link, bytes) in wrappings(TEXT) {
        let mut packets = Packets::new(Limits::default());
        let Decoded::Tcp(segment) = packets.push(&packet(3, link, &bytes)) else { panic!("{name}: no segment") };
        assert_eq!(segment.payload, TEXT, "{name}");
        assert_eq!((segment.sequence, segment.acknowledgment, segment.window), (7, 9, 1024), "{name}");
        assert_eq!(segment.flags, Flags(Flags::PSH | Flags::ACK), "{name}");
        assert_eq!(segment.options, [1, 3, 3, 7], "{name}");
        let ends: [SocketAddr; 2] = if segment.source.is_ipv4() {
            ["10.0.0.1:40000".parse().unwrap(), "10.0.0.2:8000".parse().unwrap()]
        } else {
            ["[fd00::1]:40000".parse().unwrap(), "[fd00::2]:8000".parse().unwrap()]
        };
        assert_eq!([segment.source, segment.destination], ends, "{name}");
        let start = (bytes.len() - TEXT.len()) as u32;
        let here = PacketRange { packet: PacketNumber(3), start, end: bytes.len() as u32 };
        assert_eq!((segment.origin, segment.missing, segment.packet), (&[here][..], 0, PacketNumber(3)), "{name}");
    }
}

#[test]
fn a_snap_length_leaves_a_gap_of_known_size() {
    for (name, link, bytes) in wrappings(TEXT) {
        let header = bytes.len() - TEXT.len();
        for cut in 0..bytes.len() {
            let mut packets = Packets::new(Limits::default());
            let cut_packet = Packet { original_length: bytes.len() as u32, ..packet(1, link, &bytes[..cut]) };
            match packets.push(&cut_packet) {
                Decoded::Tcp(segment) => {
                    assert!(cut >= header, "{name} cut to {cut}");
                    assert_eq!(segment.payload, &TEXT[..cut - header]);
                    assert_eq!(segment.missing as usize, TEXT.len() - segment.payload.len());
                }
                Decoded::Skipped(_) => assert!(cut < header, "{name} cut to {cut}"),
                other => panic!("{name} cut to {cut}: {other:?}"),
            }
        }
    }
}

#[test]
fn padding_is_no_payload() {
    for (name, link, mut bytes) in wrappings(b"{}") {
        // Without a length field, padding looks like payload.
        if name.ends_with("length 0") {
            continue;
        }
        bytes.extend([0; 9]);
        let mut packets = Packets::new(Limits::default());
        let Decoded::Tcp(segment) = packets.push(&packet(1, link, &bytes)) else { panic!("{name}: no segment") };
        assert_eq!((segment.payload, segment.missing), (&b"{}"[..], 0), "{name}");
    }
}

#[test]
fn packets_without_tcp_have_a_reason() {
    let segment = tcp(TEXT);
    let mut short = segment.clone();
    short[12] = 0x40;
    let mut options = ipv4(6, &[&[130, 2, 0, 0][..], &segment].concat());
    options[0] = 0x46;
    let nested = (0..9).fold(ipv4(6, &segment), |inner, _| ipv4(4, &inner));
    let cases = [
        (1, ethernet(0x0806, &[0; 28]), "ARP"),
        (1, ethernet(0x88cc, &[0; 28]), "LLDP"),
        (1, ethernet(0x0026, &[0x42; 38]), "802.3 LLC"),
        (1, ethernet(0x1234, &[0; 28]), "no IP"),
        (0, vec![7, 0, 0, 0, 0x45], "unknown protocol family"),
        (105, vec![0; 60], "802.11 without data"),
        (105, [&wireless(0x08, 0x41)[..], &[0; 40]].concat(), "encrypted 802.11"),
        (105, [&wireless(0x88, 0x01)[..], &[0x80, 0], &[0; 40]].concat(), "802.11 aggregate"),
        (105, [&wireless(0x08, 0x05)[..], &[0; 40]].concat(), "802.11 fragment"),
        (127, vec![1; 60], "malformed radiotap"),
        (9, vec![0xc0, 0x21, 1, 1, 0, 4], "PPP"),
        (9, vec![0x2d, 1, 1], "PPP with compressed TCP headers"),
        (107, vec![0x18, 0x41, 3, 0xb1, 0, 0], "Frame Relay"),
        (107, vec![0, 0, 0, 0, 0], "malformed Frame Relay"),
        (195, vec![0; 60], "unsupported link type: IEEE 802.15.4"),
        (65_000, vec![0; 60], "unknown link type"),
        (1, ethernet(0x8863, &[0x11, 9, 0, 0, 0, 0]), "PPPoE discovery"),
        (101, ipv4(17, &udp(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])), "UDP"),
        (101, ipv4(17, &udp(2152, &[&gtp(0x34, 6)[..], &[0, 1, 0, 0x85, 0, 0]].concat())), "malformed GTP"),
        (147, b"somebody else's".to_vec(), "unknown link type"),
        (101, ipv4(17, &udp(9999, b"x")), "UDP"),
        (101, ipv4(17, &udp(4789, b"too short")), "UDP"),
        (101, ipv4(1, &[8; 8]), "ICMP"),
        (101, ipv6(58, &[128; 8]), "ICMPv6"),
        (101, ipv4(2, &[0; 8]), "IGMP"),
        (101, ipv4(132, &[0; 12]), "SCTP"),
        (101, ipv4(89, &[0; 12]), "other IP protocol"),
        (101, vec![0x50; 40], "unknown IP version"),
        (101, vec![0x44; 40], "malformed IPv4"),
        (101, options, "malformed IPv4"),
        (101, ipv4(6, &segment[..19]), "malformed TCP"),
        (101, ipv4(6, &short), "malformed TCP"),
        (101, ipv6(60, &[6, 9, 0, 0, 0, 0, 0, 0]), "malformed IP extension header"),
        (101, ipv4(47, &with_ether_type(&[0, 1], 0x880b, &[0; 9])), "GRE of another version"),
        (101, nested, "too many tunnels"),
    ];
    for (link, bytes, reason) in cases {
        let mut packets = Packets::new(Limits::default());
        match packets.push(&packet(1, link, &bytes)) {
            Decoded::Skipped(why) => assert_eq!(why, reason),
            other => panic!("{reason}: {other:?}"),
        }
    }
}

#[test]
fn names_and_pipes_are_handed_on() {
    let mut packets = Packets::new(Limits::default());
    let query = ipv4(17, &udp(53, b"query"));
    assert!(matches!(packets.push(&packet(1, 101, &query)), Decoded::Dns(b"query")));
    let mut chunk = Vec::new();
    pipe::encode(4711, &pipe::PipeEvent::Data(pipe::Pipe::Stdout, b"{}"), &mut chunk);
    assert!(matches!(packets.push(&packet(2, 147, &chunk)), Decoded::Pipe));
}

/// Cuts a segment into IPv4 fragments of `size` units of eight bytes.
fn fragments(segment: &[u8], size: usize) -> Vec<Vec<u8>> {
    let last = segment.len().div_ceil(8 * size) - 1;
    let cut = segment.chunks(8 * size).enumerate();
    cut.map(|(index, piece)| {
        let more = if index < last { 0x2000 } else { 0 };
        ipv4_fragment(6, more | (index * size) as u16, piece)
    })
    .collect()
}

#[test]
fn each_byte_of_a_datagram_is_traced_to_its_packet() {
    let segment = tcp(TEXT);
    let pieces = fragments(&segment, 2);
    let mut packets = Packets::new(Limits::default());
    assert!(matches!(packets.push(&packet(1, 101, &pieces[2])), Decoded::Fragment));
    assert!(matches!(packets.push(&packet(2, 101, &pieces[0])), Decoded::Fragment));
    let Decoded::Tcp(segment) = packets.push(&packet(3, 101, &pieces[1])) else { panic!("complete") };
    assert_eq!((segment.payload, segment.packet, segment.missing), (TEXT, PacketNumber(3), 0));
    // The TCP header has 24 bytes: all of the first fragment and half of the second.
    let range = |packet, start, end| PacketRange { packet: PacketNumber(packet), start, end };
    assert_eq!(segment.origin, [range(3, 28, 36), range(1, 20, 34)]);
}

#[test]
fn ipv6_fragments_with_extension_headers_behind_the_fragment_header() {
    let rest = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp(TEXT)].concat();
    let first = ipv6_fragment(60, 0, true, &rest[..24]);
    // The next header counts in the first fragment only. Here the bytes are no options.
    let second = ipv6_fragment(60, 24, false, &rest[24..]);
    let mut packets = Packets::new(Limits::default());
    assert!(matches!(packets.push(&packet(1, 101, &second)), Decoded::Fragment));
    let Decoded::Tcp(segment) = packets.push(&packet(2, 101, &first)) else { panic!("complete") };
    assert_eq!(segment.payload, TEXT);
}

#[test]
fn the_first_copy_of_overlapping_fragments_wins_and_is_counted() {
    let segment = tcp(TEXT);
    let mut other = segment.clone();
    other[24..].make_ascii_lowercase();
    let mut packets = Packets::new(Limits::default());
    packets.push(&packet(1, 101, &ipv4_fragment(6, 0x2000, &segment[..32])));
    packets.push(&packet(2, 101, &ipv4_fragment(6, 0x2003, &other[24..40])));
    assert_eq!(packets.fragment_conflicts(), 1);
    let last = ipv4_fragment(6, 5, &segment[40..]);
    let Decoded::Tcp(segment) = packets.push(&packet(3, 101, &last)) else { panic!("complete") };
    assert_eq!(segment.payload, b"POST /mcp http/1.1\r\n\r\n");
}

#[test]
fn fragments_that_fit_no_datagram_are_malformed() {
    for (bytes, why) in [
        (ipv4_fragment(6, 0x2000, &[0; 13]), "not a multiple of eight"),
        (ipv4_fragment(6, 0x2000, &[]), "empty"),
        (ipv4_fragment(6, 0x1fff, &[0; 16]), "beyond 65,535"),
        (ipv4_fragment(6, 9, &[0; 8]), "another end"),
        (ipv4_fragment(6, 0x2009, &[0; 8]), "behind the end"),
    ] {
        let mut packets = Packets::new(Limits::default());
        packets.push(&packet(1, 101, &ipv4_fragment(6, 5, &[0; 8])));
        let decoded = packets.push(&packet(2, 101, &bytes));
        assert!(matches!(decoded, Decoded::Skipped("malformed fragment")), "{why}: {decoded:?}");
    }
}

#[test]
fn too_many_or_too_old_datagrams_are_discarded() {
    let segment = tcp(TEXT);
    let pieces = fragments(&segment, 3);
    let mut packets = Packets::new(Limits { datagrams: 2, ..Limits::default() });
    packets.push(&packet(1, 101, &pieces[0]));
    for number in 0..2 {
        let mut other = pieces[0].clone();
        other[4] = number;
        packets.push(&packet(2, 101, &other));
    }
    assert_eq!(packets.abandoned_datagrams(), 1);
    assert!(matches!(packets.push(&packet(3, 101, &pieces[1])), Decoded::Fragment), "its start was given up");

    let mut packets = Packets::new(Limits::default());
    packets.push(&packet(1, 101, &pieces[0]));
    let late = Packet { time: Time(61_000_000_000), ..packet(2, 101, &pieces[1]) };
    assert!(matches!(packets.push(&late), Decoded::Fragment), "of a later datagram with the same identification");
}

#[test]
fn a_tunnel_in_fragments_and_fragments_in_a_tunnel() {
    let segment = tcp(TEXT);
    let tunnel = ipv4(47, &with_ether_type(&[0, 0], 0x0800, &ipv4(6, &segment)));
    let mut outside: Vec<Vec<u8>> = tunnel[20..].chunks(32).map(<[u8]>::to_vec).collect();
    for (index, piece) in outside.iter_mut().enumerate() {
        *piece = ipv4_fragment(47, if index < 2 { 0x2000 } else { 0 } | (index * 4) as u16, piece);
    }
    let inside: Vec<Vec<u8>> = fragments(&segment, 3).iter().map(|piece| ipv6(4, piece)).collect();
    for (pieces, name) in [(outside, "outside"), (inside, "inside")] {
        let mut packets = Packets::new(Limits::default());
        for (number, piece) in pieces.iter().enumerate() {
            match packets.push(&packet(number as u64, 101, piece)) {
                Decoded::Tcp(segment) => assert_eq!(segment.payload, TEXT, "{name}"),
                other => assert!(matches!(other, Decoded::Fragment) && number + 1 < pieces.len(), "{name}: {other:?}"),
            }
        }
    }
}

const SYN_ACK: &str = "\
link Ethernet II 0..14
  destination: 02:00:00:00:00:02
  source: 02:00:00:00:00:01
  type: 802.1Q (0x8100)
link 802.1Q 14..18
  identifier: 42
  priority: 5
  type: IPv4 (0x0800)
network IPv4 18..38
  source: 10.0.0.1
  destination: 10.0.0.2
  header length: 20
  dscp: 0
  ecn: not ECN-capable
  total length: 68
  identification: 0xabcd
  flags: don't fragment
  fragment offset: 0
  time to live: 64
  protocol: TCP (6)
  header checksum: 0x0000 (not filled in)
transport TCP 38..86
  source port: 40000
  destination port: 8000
  sequence number (raw): 7
  acknowledgment number (raw): 9
  header length: 48
  flags: [SYN, ACK]
  window: 1024
  checksum: 0x0000
  options: MSS 1460, SACK permitted, TSval 1 TSecr 2, multipath TCP abcd, NOP, WS 7 (multiply by 128)
  payload length: 0
";

#[test]
fn a_packet_in_words() {
    let mut syn = tcp(b"");
    syn.splice(20.., [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 30, 4, 0xab, 0xcd, 1, 1, 1, 3, 3, 7, 0, 0]);
    syn[12] = 0xc0;
    syn[13] = 0x12;
    let bytes = ethernet(0x8100, &with_ether_type(&[0xa0, 42], 0x0800, &ipv4(6, &syn)));
    let mut text = String::new();
    for header in headers(&packet(1, 1, &bytes)) {
        text += &format!("{} {} {}..{}\n", header.layer, header.protocol, header.start, header.end);
        header.fields.iter().for_each(|(name, value)| text += &format!("  {name}: {value}\n"));
    }
    assert_eq!(text, SYN_ACK);
}

#[test]
fn all_headers_are_described_up_to_the_payload() {
    for (name, link, bytes) in wrappings(TEXT) {
        let headers = headers(&packet(1, link, &bytes));
        let ends = headers.iter().map(|header| header.end);
        let starts = headers.iter().skip(1).map(|header| header.start);
        // Only the control word of a pseudowire is not listed.
        assert!(name == "MPLS pseudowire" || starts.eq(ends.take(headers.len() - 1)), "{name}: {headers:?}");
        let last = headers.last().expect("headers");
        assert_eq!((last.protocol.as_str(), last.end as usize), ("TCP", bytes.len() - TEXT.len()), "{name}");
        assert!(last.fields.contains(&("payload length", TEXT.len().to_string())), "{name}");
        assert_eq!(headers.first().map(|header| header.start), Some(0), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Fragments of any size and order, with repetitions, give the datagram, and each byte is
    /// traced to its packet.
    #[test]
    fn fragments_in_any_order_are_the_datagram(
        text in proptest::collection::vec(any::<u8>(), 1..600),
        size in 1usize..12,
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let pieces = fragments(&tcp(&text), size);
        // Any sequence, followed by each fragment once, so that the datagram is complete
        // at the end.
        let order: Vec<usize> = order.iter().map(|index| index.index(pieces.len())).chain(0..pieces.len()).collect();
        let mut packets = Packets::new(Limits::default());
        let mut complete = 0;
        for (number, index) in order.iter().enumerate() {
            match packets.push(&packet(number as u64, 101, &pieces[*index])) {
                Decoded::Tcp(segment) => {
                    complete += 1;
                    prop_assert_eq!(segment.payload, &text[..]);
                    let bytes = segment.origin.iter().flat_map(|range| {
                        pieces[order[range.packet.0 as usize]][range.start as usize..range.end as usize].iter()
                    });
                    prop_assert!(bytes.eq(text.iter()));
                }
                other => prop_assert!(matches!(other, Decoded::Fragment)),
            }
        }
        prop_assert!(complete >= 1);
        prop_assert_eq!(packets.fragment_conflicts(), 0);
    }

    #[test]
    fn any_bytes_are_a_packet(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_packet(&bytes);
    }

    /// Damaged packets reach deeper into the decoder than random bytes.
    #[test]
    fn damaged_packets_are_packets(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<u8>(),
    ) {
        let wrappings = wrappings(TEXT);
        let (_, link, bytes) = which.get(&wrappings);
        let link = [1, 0, 101, 108, 113, 228, 229, 276].iter().position(|known| known == link).unwrap_or(2);
        let mut input = vec![link as u8, cut];
        for _ in 0..2 {
            let mut bytes = bytes.clone();
            for (place, byte) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            input.extend((bytes.len() as u16).to_be_bytes());
            input.extend(bytes);
        }
        fuzz_packet(&input);
    }
}
