//! Any conversation of HTTP/2 frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_http2(data));
