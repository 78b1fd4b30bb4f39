//! Any conversation of HTTP/2 frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::decode::http2::fuzz_http2(data));
