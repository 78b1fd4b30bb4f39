//! The body of the fuzz target for everything between a capture file and events.

use mcptap_core::internal::fuzz::{self, Observed};

use crate::capture::Packet;
use crate::source::reader::CaptureFileReader;
use crate::source::{Item, Source, pcap, pcapng};

/// Runs a capture file, or a script of packets ([`fuzz::fuzz_stack`]), through the whole pipeline.
/// The first bytes decide which it is.
///
/// # Panics
///
/// If a property of the pipeline does not hold.
pub fn fuzz_stack(data: &[u8]) {
    if !pcap::recognises(data) && !pcapng::recognises(data) {
        return fuzz::fuzz_stack(data);
    }
    let (mut packets, mut secrets) = (Vec::new(), Vec::new());
    let mut reader = CaptureFileReader::new("fuzz", data);
    while let Ok(Some(item)) = reader.next() {
        match item {
            Item::Packet(Packet { time, link, original_length, data, .. }) => {
                packets.push(Observed { time, link, original_length, data: data.to_vec() });
            }
            Item::Secrets(lines) => secrets.extend_from_slice(lines),
            Item::Damage(_) | Item::Dropped(_) | Item::Idle => {}
        }
    }
    fuzz::fuzz_packets(&packets, &secrets);
}

#[cfg(test)]
mod tests {
    use super::fuzz_stack;

    #[test]
    fn samples_keep_all_properties() {
        let mut captures = 0;
        for sample in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/samples")).expect("samples is readable") {
            let capture = sample.expect("samples is readable").path().join("capture.pcapng");
            if let Ok(bytes) = std::fs::read(capture) {
                fuzz_stack(&bytes);
                captures += 1;
            }
        }
        assert!(captures > 2, "the samples were found");
    }

    #[test]
    fn a_capture_may_end_in_a_handshake() {
        let capture = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/samples/tls/capture.pcapng")).unwrap();
        let mut end = 0;
        for _ in 0..24 {
            let length = &capture[end + 4..end + 8];
            end += u32::from_le_bytes(length.try_into().unwrap()) as usize;
            fuzz_stack(&capture[..end]);
        }
    }
}
