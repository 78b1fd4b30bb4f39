//! The program under test, and where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::signals::default_in_programs;

/// The program, undisturbed by the environment of whoever runs the tests.
pub fn mcptap() -> Command {
    default_in_programs();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    command.env_remove("MCPTAP_DB").env_remove("SSLKEYLOGFILE").env("NO_COLOR", "1");
    command
}

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Something in `tests/`.
pub fn data(path: &str) -> PathBuf {
    root().join("tests").join(path)
}
