//! Any text as a display filter.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::filter::fuzz_filter(data));
