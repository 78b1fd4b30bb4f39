//! Any bytes as requests to the mock server.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::http::requests::fuzz_requests(data));
