//! Helpers for the tests of both crates: needs of a test, and waits with a bound.
//!
//! Each test binary uses a part of it.
#![allow(dead_code, missing_docs)]

pub mod needs;
pub mod pipes;
pub mod signals;
pub mod waits;
