//! Any WebSocket frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::decode::websocket::fuzz_websocket(data));
