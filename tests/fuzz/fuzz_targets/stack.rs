//! Any packets, or any capture file, through the whole pipeline.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::engine::fuzz::fuzz_stack(data));
