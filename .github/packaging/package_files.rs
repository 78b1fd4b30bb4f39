//! Writes the man pages and the completions of a package into a folder:
//!
//! ```text
//! cargo run --locked --release --features full --example package-files -- target/package-files
//! ```

use std::path::PathBuf;
use std::{env, fs, io};

use clap::CommandFactory;
use clap_complete::Shell;
use mcptap::cli::args::Arguments;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| "target/package-files".into()));
    let man = folder.join("man");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(Arguments::command(), man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Arguments::command(), "mcptap", &folder)?;
    }
    Ok(())
}
