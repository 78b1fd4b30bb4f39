//! The object file that is checked in is the one that its source gives.

use std::fs;
use std::process::Command;

use super::project;
use crate::support::needs::{self, have};
use crate::support::waits::Finishes;

/// Other versions of clang give other bytes.
const VERSION: &str = "clang version 14.";

#[test]
fn the_object_file_is_what_its_source_gives() {
    let version = Command::new("clang").arg("--version").try_finished();
    let version = version.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
    if !have(&needs::CLANG, version.contains(VERSION)) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = folder.path().join("probe.bpf.o");
    let done = Command::new(project("src/source/attach/build.sh")).arg(&built).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let [built, checked_in] =
        [built, project("src/source/attach/probe.bpf.o")].map(|path| fs::read(path).expect("it is there"));
    assert!(built == checked_in, "run src/source/attach/build.sh");
}
