//! Any bytes as a JSON-RPC text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_jsonrpc(data));
