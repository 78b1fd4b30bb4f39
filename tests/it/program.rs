//! The program under test, and where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, undisturbed by the environment of whoever runs the tests.
pub fn mcptap() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    command.env_remove("MCPTAP_DB").env_remove("SSLKEYLOGFILE").env("NO_COLOR", "1");
    command
}

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The folder of captures beside the project; `None`, said aloud, where it is absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let found = root().join("../shared").join(path);
    if !found.exists() {
        eprintln!("skipped: {} is not here", found.display());
        return None;
    }
    Some(found)
}
