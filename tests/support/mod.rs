//! What the tests of both crates share: what a test needs of the machine, and waits that have a bound.
//!
//! Each test binary uses a part of it.
#![allow(dead_code, missing_docs)]

pub mod needs;
pub mod pipes;
pub mod signals;
pub mod waits;
