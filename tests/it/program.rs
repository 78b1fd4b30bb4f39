//! The program under test, and paths of the project.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::signals::default_in_programs;

/// The program, without the variables of the tester's environment.
pub fn mcptap() -> Command {
    default_in_programs();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    command.env_remove("MCPTAP_DB").env_remove("SSLKEYLOGFILE").env("NO_COLOR", "1");
    // The tags of masked secrets are the same in every run.
    command.env("MCPTAP_MASK_KEY", "tests");
    command
}

/// The root folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A path below `tests/`.
pub fn data(path: &str) -> PathBuf {
    root().join("tests").join(path)
}
