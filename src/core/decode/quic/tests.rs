use proptest::prelude::*;

use super::initial::{Version, seal};
use super::*;

const CONNECTION: &[u8] = b"\x83\x94\xc8\xf0\x3e\x51\x57\x08";

fn end(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

/// A ClientHello that names a server and offers HTTP/3.
fn hello(name: &str) -> Vec<u8> {
    let short = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat();
    let named = [&(name.len() as u16 + 3).to_be_bytes()[..], &[0], &(name.len() as u16).to_be_bytes(), name.as_bytes()];
    let extensions = [short(0, &named.concat()), short(16, b"\0\x03\x02h3"), short(43, &[2, 3, 4])].concat();
    let body =
        [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &(extensions.len() as u16).to_be_bytes(), &extensions]
            .concat();
    [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
}

fn crypto(offset: u8, bytes: &[u8]) -> Vec<u8> {
    [&[6, offset][..], &(bytes.len() as u16 | 0x4000).to_be_bytes(), bytes].concat()
}

#[test]
fn the_name_is_read_once_for_each_server() {
    for (version, number) in [(Version::V1, 1), (Version::V2, 2)] {
        let mut quic = Quic::default();
        let packet = seal(version, CONNECTION, &crypto(0, &hello("mcp.example"))).unwrap();
        let padded = [packet.as_slice(), &[0; 100]].concat();
        assert!(sniff(&padded));
        let asked = Asked {
            client: end(50_000),
            server: end(443),
            version: number,
            name: Some("mcp.example".to_owned()),
            protocols: vec!["h3".to_owned()],
        };
        assert_eq!(quic.push(end(50_000), end(443), &padded), Some(asked));
        assert_eq!(quic.push(end(50_001), end(443), &padded), None);
        assert!(quic.push(end(50_000), end(8443), &padded).is_some());
        assert!(quic.open.is_empty());
    }
}

#[test]
fn a_hello_in_pieces_over_two_datagrams_in_any_order() {
    let hello = hello("mcp.example");
    let (first, second) = hello.split_at(40);
    let packets = [
        seal(Version::V1, CONNECTION, &[vec![0, 1], crypto(40, second)].concat()).unwrap(),
        seal(Version::V1, CONNECTION, &[crypto(20, &first[20..]), crypto(0, &first[..25])].concat()).unwrap(),
    ];
    let mut quic = Quic::default();
    assert_eq!(quic.push(end(1), end(443), &packets[0]), None);
    assert!(quic.push(end(1), end(443), &packets[1]).is_some_and(|asked| asked.name.as_deref() == Some("mcp.example")));
    let coalesced = packets.concat();
    assert!(Quic::default().push(end(1), end(443), &coalesced).is_some());
}

#[test]
fn what_cannot_be_opened_tells_nothing() {
    let mut packet = seal(Version::V1, CONNECTION, &crypto(0, &hello("a"))).unwrap();
    let last = packet.len() - 1;
    packet[last] ^= 1;
    assert_eq!(Quic::default().push(end(1), end(443), &packet), None);
    for bytes in [&b""[..], b"\xc3", b"\x40\0\0\0\x01", b"\xc3\0\0\0\x09\0\0\0\0", b"\xd3\0\0\0\x01\0\0\0\0"] {
        assert!(!sniff(bytes), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn any_datagrams(data: Vec<u8>) {
        fuzz_quic(&data);
    }

    #[test]
    fn any_frames(steps in prop::collection::vec(prop::collection::vec(prop::sample::select(&[0u8, 1, 2, 3, 6, 4, 0x40, 0xff][..]), 0..30), 0..9)) {
        let script: Vec<u8> = steps.iter().flat_map(|step| [&(step.len() as u16).to_be_bytes()[..], step].concat()).collect();
        fuzz_quic(&script);
    }
}
