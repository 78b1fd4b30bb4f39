//! Any bytes as a capture file.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::source::reader::fuzz_capture_file(data));
