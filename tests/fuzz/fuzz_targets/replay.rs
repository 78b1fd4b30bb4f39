//! Any messages as a recording, and any new answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap::replay::fuzz::fuzz_replay(data));
