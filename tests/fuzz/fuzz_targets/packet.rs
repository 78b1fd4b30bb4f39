//! Any bytes as packets of any link type.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::decode::packet::fuzz_packet(data));
