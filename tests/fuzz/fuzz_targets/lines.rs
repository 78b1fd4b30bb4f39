//! Any bytes as lines of a pipe.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_lines(data));
