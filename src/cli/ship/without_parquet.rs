//! Replaces `ship.rs` in builds without Parquet: a recording has no dataset beside it.

use std::convert::Infallible;
use std::path::Path;

use super::args::DatasetTarget;

pub fn beside(_: &DatasetTarget, _: &Path, _: impl Fn(&str)) -> Option<Infallible> {
    None
}

pub fn end(_: Option<Infallible>) -> Option<String> {
    None
}

#[cfg(any(feature = "http", feature = "live"))]
pub fn say(_: &str) {}
