//! Any header blocks of HTTP/2.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_hpack(data));
