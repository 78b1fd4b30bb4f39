//! The speed of reading capture files: 64 MB in memory, with packets of the sizes of MCP traffic.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use mcptap::export::pcapng::Writer;
use mcptap::source::reader::CaptureFileReader;
use mcptap::source::{Item, Source};
use mcptap_core::internal::capture::{LinkType, Packet, PacketNumber, Time};

const SIZE: usize = 64 << 20;
/// Lengths of packets: acknowledgements, small messages, full segments. The average is 593 bytes.
const LENGTHS: [usize; 5] = [66, 66, 320, 1_000, 1_514];

fn main() {
    divan::main();
}

fn pcap() -> Vec<u8> {
    let mut file = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0".to_vec();
    for length in LENGTHS.iter().cycle() {
        if file.len() >= SIZE {
            break;
        }
        for number in [1_700_000_000, 0, *length as u32, *length as u32] {
            file.extend(number.to_le_bytes());
        }
        file.resize(file.len() + length, 0x55);
    }
    file
}

fn pcapng() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory takes everything");
    let data = [0x55; 1_514];
    let mut written = 0;
    for length in LENGTHS.iter().cycle() {
        if written >= SIZE {
            break;
        }
        written += length + 32;
        let packet = Packet {
            number: PacketNumber(0),
            time: Time(1_700_000_000_000_000_000),
            link: LinkType::ETHERNET,
            interface: 0,
            original_length: *length as u32,
            data: &data[..*length],
        };
        writer.packet(&packet).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

/// Reads a file to the end. Returns the number of packets and of their bytes.
fn read(file: &[u8]) -> (usize, usize) {
    let mut reader = CaptureFileReader::new("bench", file);
    let (mut packets, mut bytes) = (0, 0);
    while let Ok(Some(item)) = reader.next() {
        if let Item::Packet(packet) = item {
            packets += 1;
            bytes += packet.data.len();
        }
    }
    (packets, bytes)
}

fn measure(bencher: Bencher<'_, '_>, file: &[u8]) {
    let (packets, _) = read(file);
    bencher
        .counter(BytesCount::new(file.len()))
        .counter(ItemsCount::new(packets))
        .bench(|| read(divan::black_box(file)));
}

#[divan::bench]
fn read_pcap(bencher: Bencher<'_, '_>) {
    measure(bencher, &pcap());
}

#[divan::bench]
fn read_pcapng(bencher: Bencher<'_, '_>) {
    measure(bencher, &pcapng());
}
