//! Any bytes as a conversation through the proxy.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::proxy::fuzz_proxy(data));
