//! Any packets, stored and written in every format.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::cli::fuzz_export(data));
