//! Exports, read by other programs.

mod har;
mod html;
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::mcptap;
use crate::support::waits::Finishes;

/// Runs `mcptap export` on a capture.
fn export(capture: &Path, format: &str, more: &[&str]) -> Output {
    mcptap().arg("export").arg(capture).args(["--format", format]).args(more).finished()
}

/// The output of a successful export.
fn exported(capture: &Path, format: &str, more: &[&str]) -> String {
    let done = export(capture, format, more);
    assert!(done.status.success(), "{}: {}", capture.display(), String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("exports are UTF-8")
}

/// The JSON lines of one type.
fn lines(capture: &Path, kind: &str, more: &[&str]) -> Vec<Value> {
    let lines = exported(capture, "jsonl", more);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON"));
    lines.filter(|line| line["type"] == kind).collect()
}
