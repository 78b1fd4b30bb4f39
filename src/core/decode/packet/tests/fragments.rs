//! Fragments of datagrams: any order, overlaps, limits.

use super::*;

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
}
