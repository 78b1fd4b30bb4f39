//! What the tests of the core use of this folder: what needs no other crates.
#![allow(dead_code, missing_docs)]

pub mod needs;
pub mod waits;
