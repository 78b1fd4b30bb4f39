//! Any bytes as the two directions of a TLS connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_tls(data));
