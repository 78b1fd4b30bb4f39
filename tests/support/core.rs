//! The part of this folder that the tests of the core use. It needs no other crates.
#![allow(dead_code, missing_docs)]

pub mod needs;
pub mod waits;
