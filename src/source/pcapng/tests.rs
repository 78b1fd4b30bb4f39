use nom::number::Endianness::{Big, Little};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::export::pcapng::Writer;
use crate::source::reader::fuzz_capture_file;
use crate::source::samples::{Bytes, account, seen};

fn begun(order: nom::number::Endianness) -> Bytes {
    Bytes::new(order).section().interface(1, 0, &[])
}

#[test]
fn every_packet_block_in_both_byte_orders() {
    for order in [Big, Little] {
        let file = begun(order).enhanced(0, 7_000_001, b"abcde").simple(6, b"simple");
        let obsolete = Bytes::new(order).u16(0).u16(0xffff).u32(0).u32(9_000_000).u32(3).u32(90).padded(b"old");
        let file = file.block(2, obsolete);
        let expected = "packet 1 time 7000001000 link 1 interface 0 length 5 \"abcde\"\n\
                        packet 2 time 7000001000 link 1 interface 0 length 6 \"simple\"\n\
                        packet 3 time 9000000000 link 1 interface 0 length 90 \"old\"\n";
        assert_eq!(account(&seen(&file.bytes)), expected);
    }
}

#[test]
fn each_interface_has_its_link_type_and_its_clock() {
    let file = Bytes::new(Little)
        .section()
        .interface(1, 0, &[(9, &[9])])
        .interface(113, 0, &[(2, b"any"), (9, &[0x80 | 10]), (14, &100u64.to_le_bytes()), (0, b"")])
        .interface(101, 0, &[(1, b"a comment"), (9, &[3])])
        .enhanced(2, 4_000, b"raw")
        .enhanced(0, 4_000, b"eth")
        .enhanced(1, 1 << 10, b"sll");
    let expected = "packet 1 time 4000000000 link 101 interface 2 length 3 \"raw\"\n\
                    packet 2 time 4000 link 1 interface 0 length 3 \"eth\"\n\
                    packet 3 time 101000000000 link 113 interface 1 length 3 \"sll\"\n";
    assert_eq!(account(&seen(&file.bytes)), expected);
}

#[test]
fn a_section_has_its_own_byte_order_and_interfaces() {
    let mut file = Bytes::new(Big).section().interface(1, 0, &[]).interface(101, 0, &[]).enhanced(1, 1, b"one");
    file.order = Little;
    let file = file.section().interface(113, 0, &[]).enhanced(0, 2, b"two").enhanced(1, 3, b"none");
    let expected = "packet 1 time 1000 link 101 interface 1 length 3 \"one\"\n\
                    packet 2 time 2000 link 113 interface 2 length 3 \"two\"\n\
                    byte 188: enhanced packet block: it is on interface 1, which this section does not describe\n";
    assert_eq!(account(&seen(&file.bytes)), expected);
}

#[test]
fn a_simple_packet_is_as_long_as_the_snap_length_lets_it() {
    let file = Bytes::new(Little).section().interface(1, 5, &[]).simple(100, b"abcde").simple(3, b"abc");
    let expected = "packet 1 time 0 link 1 interface 0 length 100 \"abcde\"\n\
                    packet 2 time 0 link 1 interface 0 length 3 \"abc\"\n";
    assert_eq!(account(&seen(&file.bytes)), expected);
}

#[test]
fn secrets_come_without_padding_and_only_for_tls() {
    let file = begun(Big).secrets(0x544c_534b, b"CLIENT_RANDOM 1 2\n").secrets(0x5747_4b4c, b"LOCAL_STATIC");
    assert_eq!(account(&seen(&file.bytes)), "secrets \"CLIENT_RANDOM 1 2\\n\"\n");
}

#[test]
fn blocks_that_are_not_about_packets_are_skipped() {
    let body = Bytes::new(Little).raw(b"12345678");
    let mut file = begun(Little);
    for kind in [4, 5, 9, 0xbad, 0x4000_0bad, 0x7777_7777] {
        file = file.block(kind, body.clone());
    }
    let file = file.enhanced(0, 1, b"abc");
    assert_eq!(account(&seen(&file.bytes)), "packet 1 time 1000 link 1 interface 0 length 3 \"abc\"\n");
}

#[test]
fn a_broken_body_costs_its_block() {
    let number = |numbers: &[u32]| numbers.iter().fold(Bytes::new(Little), |bytes, number| bytes.u32(*number));
    let file = begun(Little)
        .block(6, number(&[0, 0, 0, 100, 100, 0]))
        .block(6, number(&[0, 0]))
        .block(3, number(&[]))
        .block(10, number(&[0x544c_534b, 5, 0]))
        .block(1, number(&[1]))
        .interface(1, 0, &[(9, &[6, 6])])
        .interface(1, 0, &[(14, &[0; 4])])
        .block(1, Bytes::new(Little).u32(1).u32(0).u16(2).u16(200))
        .block(0x0a0d_0d0a, Bytes::new(Little).u32(0x1a2b_3c4d).u32(2).raw(&[0xff; 8]))
        .interface(1, 0, &[])
        .enhanced(0, 1, b"abc");
    let expected = "\
byte 48: enhanced packet block: it claims 100 captured bytes and has room for 4
byte 84: enhanced packet block: it is too short
byte 104: simple packet block: it is too short
byte 116: decryption secrets block: it claims 5 bytes of secrets and has room for 4
byte 140: interface description block: it is too short
byte 156: interface description block: an option is broken; times on this interface may be wrong
byte 184: interface description block: an option is broken; times on this interface may be wrong
byte 212: interface description block: an option is broken; times on this interface may be wrong
byte 236: section header block: pcapng version 2.0 is not known; read as version 1.0
packet 1 time 1000 link 1 interface 5 length 3 \"abc\"
";
    assert_eq!(account(&seen(&file.bytes)), expected);
}

#[test]
fn behind_a_broken_frame_reading_goes_on_with_the_next_block() {
    let whole = begun(Little).enhanced(0, 1, b"one").enhanced(0, 2, b"two").enhanced(0, 3, b"three");
    let second = 48 + 36; // the block of the second packet, 36 bytes long
    let broken = |at: usize, number: u32| {
        let mut bytes = whole.bytes.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        account(&seen(&bytes))
    };
    let expected = |reason: &str| {
        format!(
            "packet 1 time 1000 link 1 interface 0 length 3 \"one\"\n\
             byte 84: block type 0x00000006 {reason}\n\
             packet 2 time 3000 link 1 interface 0 length 5 \"three\"\n"
        )
    };
    assert_eq!(broken(second + 4, 37), expected("has length 37, not a multiple of 4"));
    assert_eq!(broken(second + 4, 8), expected("has length 8, below the 12 bytes of an empty block"));
    assert_eq!(broken(second + 4, u32::MAX - 3), expected("claims 4294967292 bytes, which no block has"));
    assert_eq!(broken(second + 4, 32), expected("begins with length 32 and ends with length 7305076"));
    assert_eq!(broken(second + 32, 4), expected("begins with length 36 and ends with length 4"));
}

#[test]
fn a_broken_section_header_does_not_hide_the_blocks_behind_it() {
    for order in [Big, Little] {
        let mut bytes = begun(order).enhanced(0, 1, b"one").bytes;
        let length = if order == Big { 29u32.to_be_bytes() } else { 29u32.to_le_bytes() };
        bytes[4..8].copy_from_slice(&length);
        let expected = "byte 0: block type 0x0a0d0d0a has length 29, not a multiple of 4\n\
                        packet 1 time 1000 link 1 interface 0 length 3 \"one\"\n";
        assert_eq!(account(&seen(&bytes)), expected);
    }
    let mut bytes = begun(Little).bytes;
    bytes[8..12].fill(0);
    let bytes = [bytes, begun(Big).enhanced(0, 1, b"one").bytes].concat();
    let expected = "byte 0: the section's byte-order magic is 00000000\n\
                    packet 1 time 1000 link 1 interface 1 length 3 \"one\"\n";
    assert_eq!(account(&seen(&bytes)), expected);
}

#[test]
fn a_section_of_the_other_byte_order_is_found_behind_a_broken_frame() {
    let broken = begun(Little).enhanced(0, 1, b"one").u32(6).u32(9).bytes;
    let bytes = [broken, begun(Big).enhanced(0, 2, b"two").bytes].concat();
    let expected = "packet 1 time 1000 link 1 interface 0 length 3 \"one\"\n\
                    byte 84: block type 0x00000006 has length 9, below the 12 bytes of an empty block\n\
                    packet 2 time 2000 link 1 interface 1 length 3 \"two\"\n";
    assert_eq!(account(&seen(&bytes)), expected);
}

#[test]
fn a_cut_says_what_it_went_through() {
    let whole = begun(Little).secrets(0x544c_534b, b"CLIENT_RANDOM 1 2\n").block(0x7777, Bytes::new(Little)).bytes;
    for (length, expected) in [
        (5, "byte 0: block head cut short by the end of the file: 5 of 8 bytes\n"),
        (20, "byte 0: section header block cut short by the end of the file: 20 of 28 bytes\n"),
        (28, ""),
        (80, "byte 48: decryption secrets block cut short by the end of the file: 32 of 40 bytes\n"),
    ] {
        assert_eq!(account(&seen(&whole[..length])), expected, "cut at {length}");
    }
    let cut = account(&seen(&whole[..whole.len() - 1]));
    assert!(
        cut.ends_with("byte 88: block of type 0x00007777 cut short by the end of the file: 11 of 12 bytes\n"),
        "{cut}"
    );
}

/// A file with chunks of two pipes, as it is exported.
fn pipes(chunks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (time, (which, bytes)) in (0..).zip(chunks) {
        let event = match which {
            0 => PipeEvent::Data(Pipe::Stderr, bytes),
            1 => PipeEvent::Data(Pipe::Stdin, bytes),
            _ => PipeEvent::Data(Pipe::Stdout, bytes),
        };
        let mut data = Vec::new();
        pipe::encode(7, &event, &mut data);
        let original_length = data.len() as u32;
        let (number, link) = (PacketNumber(0), LinkType::PIPE);
        let packet = Packet { number, time: Time(time), link, interface: 0, original_length, data: &data };
        writer.packet(&packet).unwrap();
    }
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Damage may cost lines, but the file is read to its end, and no byte comes twice.
    #[test]
    fn damaged_lines_of_pipes_are_read_to_the_end(
        chunks in vec((0..4u8, vec(prop::sample::select(b"{}1\n".to_vec()), 0..20)), 1..12),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = pipes(&chunks);
        prop_assert_eq!(seen(&file).len(), chunks.len());
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(4 + cut.index(file.len() - 3));
        fuzz_capture_file(&file);
    }
}
