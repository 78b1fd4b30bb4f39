//! Any bytes as a key log.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::decode::tls::fuzz_keylog(data));
