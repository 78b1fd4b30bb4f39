//! Packets of every link layer and tunnel.

mod fragments;
mod headers;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

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
