//! `mcptap split`: divides captures into parts that can be decoded alone.
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::Split;

pub fn run(_: Split) -> Result<ExitCode> {
    bail!("later")
}
