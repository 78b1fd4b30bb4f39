//! Properties of reading capture files that hold for any content.

use std::fs;
use std::path::{Path, PathBuf};

use nom::number::Endianness;
use proptest::collection::vec;
use proptest::prelude::*;

use super::file::Files;
use super::reader::{CaptureFileReader, fuzz_capture_file};
use super::samples::{Bytes, OwnedItem, drain, seen};

/// A sound file in one of the formats, with a few packets.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let packets = vec((any::<u32>(), vec(any::<u8>(), 0..60)), 0..8);
    (0..5u8, any::<bool>(), packets).prop_map(|(format, big, packets)| {
        let order = if big { Endianness::Big } else { Endianness::Little };
        let bytes = Bytes::new(order);
        let mut file = match format {
            0 => bytes.pcap_header(0xa1b2_c3d4, 1),
            1 => bytes.pcap_header(0xa1b2_3c4d, 113),
            _ => bytes.section().interface(1, 40, &[(9, &[9])]).interface(101, 0, &[(9, &[0x94])]),
        };
        for (number, data) in packets {
            file = match (format, number % 6) {
                (0 | 1, _) => file.record(number, number % 1_000_000, &data),
                (_, 0) => file.simple(data.len() as u32, &data),
                (_, 1) => file.secrets(0x544c_534b, &data),
                (_, 2) => file.section().interface(147, 0, &[(1, &data)]).interface(1, 0, &[]),
                _ => file.enhanced(number % 2, u64::from(number) << 20, &data),
            };
        }
        file.bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_sound_file_has_no_damage(file in files()) {
        prop_assert!(!seen(&file).iter().any(OwnedItem::is_damage));
    }

    #[test]
    fn a_cut_file_is_its_beginning_and_one_damage(file in files(), cut in any::<prop::sample::Index>()) {
        let whole = seen(&file);
        let cut = 4 + cut.index(file.len() - 3);
        let mut items = seen(&file[..cut]);
        if let Some(OwnedItem::Damage { offset, .. }) = items.last() {
            prop_assert!((*offset as usize) < cut);
            items.pop();
        }
        prop_assert_eq!(&items[..], &whole[..items.len()]);
    }

    #[test]
    fn broken_bytes_are_read_to_the_end(
        mut file in files(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        fuzz_capture_file(&file);
    }

    #[test]
    fn random_bytes_are_read_to_the_end(start in 0..4usize, noise in vec(any::<u8>(), 0..400)) {
        let start: &[u8] = [&b""[..], b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a", b"\xa1\xb2\xcd\x34"][start];
        fuzz_capture_file(&[start, &noise].concat());
    }

    /// A growing file is read up to its present end, whatever the steps of its growth.
    #[test]
    fn a_growing_file_is_read_in_the_end_as_a_whole_one(file in files(), steps in vec(1..50usize, 1..20)) {
        /// A file that grows by one step whenever its end is reached.
        struct Growing<'a> { file: &'a [u8], at: usize, end: usize, steps: std::vec::IntoIter<usize> }

        impl std::io::Read for Growing<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let length = buffer.len().min(self.end - self.at);
                buffer[..length].copy_from_slice(&self.file[self.at..self.at + length]);
                self.at += length;
                if length == 0 {
                    self.end = (self.end + self.steps.next().unwrap_or(self.file.len())).min(self.file.len());
                }
                Ok(length)
            }
        }

        let growing = Growing { file: &file, at: 0, end: 0, steps: steps.into_iter() };
        let mut reader = CaptureFileReader::new("growing", growing).follow(true);
        let mut items = Vec::new();
        let mut idle = 0;
        while idle < 25 {
            match super::Source::next(&mut reader).unwrap().map(OwnedItem::from) {
                Some(OwnedItem::Idle) => idle += 1,
                Some(item) => items.push(item),
                None => panic!("a growing file has no end"),
            }
        }
        prop_assert_eq!(items, seen(&file));
    }
}

/// A length beyond the bytes that arrive allocates nothing: the buffer grows with the bytes.
#[test]
fn a_claim_allocates_nothing() {
    let claims = Bytes::new(Endianness::Little).section().u32(6).u32(60 << 20).raw(b"few bytes");
    let record = Bytes::new(Endianness::Little).pcap_header(0xa1b2_c3d4, 1).u32(0).u32(0).u32(60 << 20).u32(0);
    for file in [claims.bytes, record.bytes] {
        let mut reader = CaptureFileReader::new("claims", &file[..]);
        assert!(drain(&mut reader).unwrap().iter().any(OwnedItem::is_damage));
        assert!(reader.memory() <= 1 << 20, "{} bytes", reader.memory());
    }
}

/// Noise in which every word begins a block that would end a megabyte later. The search must not
/// move a megabyte for each of them.
#[test]
fn a_search_through_noise_reads_in_large_steps() {
    struct Counted<'a>(&'a [u8], usize);

    impl std::io::Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.read(buffer)
        }
    }

    let broken = Bytes::new(Endianness::Little).section().u32(6).u32(13);
    let noise = (0..300_000).fold(broken, |bytes, _| bytes.u32(6).u32((1 << 20) - 4));
    let file = noise.raw(&[0; 2]).interface(1, 0, &[]).enhanced(0, 1, b"found");
    let mut reader = CaptureFileReader::new("noise", Counted(&file.bytes, 0));
    let items = drain(&mut reader).unwrap();
    assert!(
        matches!(&items[..], [OwnedItem::Damage { offset: 28, .. }, OwnedItem::Packet { data, .. }] if data == b"found")
    );
    assert!(reader.input().1 < 20, "{} reads", reader.input().1);
    assert!(reader.memory() <= 4 << 20);
}

/// Packets of several megabytes exist, with buffers full of small ones between them.
#[test]
fn a_packet_larger_than_the_buffer_is_read() {
    let large: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    let mut file = Bytes::new(Endianness::Little).section().interface(1, 0, &[]);
    for _ in 0..3 {
        file = file.enhanced(0, 1, b"small").enhanced(0, 1, &large);
    }
    let items = drain(&mut CaptureFileReader::new("large", &file.bytes[..])).unwrap();
    assert_eq!(items.len(), 6);
    assert!(
        items.iter().all(|item| matches!(item, OwnedItem::Packet { data, .. } if *data == large || data == b"small"))
    );
}

/// A folder of captures: real ones, or public ones.
fn captures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

/// Compares the number of packets with the frames that tshark counts, for each capture for which
/// that is written down.
#[test]
fn the_public_captures_have_the_packets_that_tshark_counts() {
    let folder = captures("captures-public");
    let mut compared = 0;
    for entry in fs::read_dir(folder.join("expected")).unwrap() {
        let expected: serde_json::Value = serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let (Some(name), Some(frames)) = (expected["file"].as_str(), expected["frames"].as_u64()) else { continue };
        let items = drain(&mut Files::open(&[folder.join(name)], false).unwrap()).unwrap();
        assert_eq!(items.iter().filter(|item| item.is_packet()).count() as u64, frames, "{name}");
        assert!(!items.iter().any(OwnedItem::is_damage), "{name}: {:?}", items.last());
        compared += 1;
    }
    assert!(compared > 50, "{compared} captures compared");
}

/// Captures that were damaged on purpose give their packets and the expected damage.
#[test]
fn the_broken_captures_give_their_packets_and_say_what_is_wrong() {
    let folder = captures("captures-public");
    for (name, packets, damage) in [
        ("derived/get-caplen-4g.pcap", 0, "byte 24: the record claims 4294967295 captured bytes"),
        (
            "derived/get-cut-at-global-header.pcap",
            0,
            "byte 0: pcap header cut short by the end of the file: 20 of 24 bytes",
        ),
        ("derived/get-cut-mid-packet.pcap", 5, "byte 590: packet cut short by the end of the file: 1394 of 1514"),
        (
            "derived/get-cut-mid-record-header.pcap",
            1,
            "byte 118: record head cut short by the end of the file: 3 of 16",
        ),
        (
            "derived/get-with-trailing-garbage.pcap",
            14,
            "byte 6335: record head cut short by the end of the file: 7 of 16",
        ),
        ("derived/get-origlen-less-than-caplen.pcap", 14, ""),
        ("derived/get-snaplen-zero.pcap", 14, ""),
        ("derived/get-unknown-linktype.pcap", 14, ""),
        ("derived/get-version-99.pcap", 14, ""),
        (
            "derived/pcapng-cut-mid-block.pcapng",
            5,
            "byte 1132: enhanced packet block cut short by the end of the file: 207 of 216",
        ),
        ("derived/pcapng-trailing-length-wrong.pcapng", 5, "begins with length 216 and ends with length 4"),
        ("derived/shb-length-not-multiple-of-4.pcapng", 6, "byte 0: block type 0x0a0d0d0a has length 27"),
        ("derived/dsb-cut-in-secrets.pcapng", 0, "decryption secrets block cut short by the end of the file"),
        ("pcap-parser/err-buffertoosmall.pcapng", 27, ""),
        ("pcap-parser/modified-format.pcap", 1, ""),
        ("tcpdump/empty.pcapng", 0, ""),
        ("zeek/empty.pcap", 0, ""),
        ("zeek/pcapng-multi-interface.pcapng", 6, ""),
        ("pcapng-test-generator/be/difficult/test202.pcapng", 8, ""),
        ("pcapng-test-generator/le/difficult/test202.pcapng", 8, ""),
    ] {
        let items = drain(&mut Files::open(&[folder.join(name)], false).unwrap()).unwrap();
        assert_eq!(items.iter().filter(|item| item.is_packet()).count(), packets, "{name}: {:?}", items.last());
        let damages: Vec<String> = items
            .iter()
            .filter_map(|item| match item {
                OwnedItem::Damage { offset, reason } => Some(format!("byte {offset}: {reason}")),
                _ => None,
            })
            .collect();
        match damage {
            "" => assert_eq!(damages, [""; 0], "{name}"),
            part => assert!(matches!(&damages[..], [one] if one.contains(part)), "{name}: {damages:?}"),
        }
    }
    let empty = drain(&mut Files::open(&[folder.join("derived/zero-bytes.pcap")], false).unwrap()).unwrap_err();
    assert!(empty.to_string().ends_with("zero-bytes.pcap\": the file is empty"), "{empty}");
}

/// The captures of real MCP traffic have no damage, except for the one that was cut.
#[test]
fn the_real_captures_are_read_without_damage() {
    for entry in fs::read_dir(captures("captures")).unwrap() {
        let folder = entry.unwrap().path();
        for name in ["capture.pcap", "capture.pcapng", "capture.pcap.gz"] {
            let path = folder.join(name);
            if path.exists() {
                let items = drain(&mut Files::open(&[path], false).unwrap()).unwrap();
                assert!(items.iter().any(OwnedItem::is_packet), "{}", folder.display());
                assert_eq!(
                    items.iter().any(OwnedItem::is_damage),
                    folder.ends_with("06_cutfile"),
                    "{}",
                    folder.display()
                );
            }
        }
    }
}
