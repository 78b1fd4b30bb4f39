//! Any bytes as a key log.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::decode::tls::fuzz_keylog(data));
