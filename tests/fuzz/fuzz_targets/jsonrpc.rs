//! Any bytes as a JSON-RPC text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::decode::jsonrpc::fuzz_jsonrpc(data));
