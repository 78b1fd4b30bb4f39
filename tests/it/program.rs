//! The program under test, and paths of the project.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::signals::default_in_programs;

/// A state folder that cannot exist. So no test changes the tester's list of databases, and each
/// test shows that the program works without one.
pub const NO_STATE: (&str, &str) = ("XDG_STATE_HOME", "/dev/null/state");

/// The program, without the variables of the tester's environment.
pub fn mcptap() -> Command {
    default_in_programs();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    command.env_remove("MCPTAP_DB").env_remove("SSLKEYLOGFILE").env("NO_COLOR", "1");
    // The tags of masked secrets are the same in every run.
    command.env("MCPTAP_MASK_KEY", "tests");
    command.env(NO_STATE.0, NO_STATE.1);
    command
}

/// The same program as words of a command line, for clients that pass no environment on.
pub fn program_words() -> [String; 3] {
    let state = format!("{}={}", NO_STATE.0, NO_STATE.1);
    ["env".to_owned(), state, env!("CARGO_BIN_EXE_mcptap").to_owned()]
}

/// The root folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A path below `tests/`.
pub fn data(path: &str) -> PathBuf {
    root().join("tests").join(path)
}
