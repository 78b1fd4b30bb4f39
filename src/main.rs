//! The entry of the program: parses the command line, runs the command, returns the exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcptap::cli::main()
}
