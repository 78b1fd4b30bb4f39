//! Any texts as a schema and values that are checked against it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::fuzz::fuzz_schema(data));
