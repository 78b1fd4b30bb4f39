//! Any bytes as a message, held against every shape.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcptap_core::internal::mcp::shape::fuzz_shape(data));
