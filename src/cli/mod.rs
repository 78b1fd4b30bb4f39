//! The command line: one file a command.

pub mod args;
mod export;
mod filter;
mod json_tree;
mod layers;
mod output;
mod printer;
mod read;
mod rules;
mod sessions;
mod show;
#[cfg(feature = "live")]
mod sniff;
pub mod target;
mod wrap;

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

/// Runs the program. A closed pipe at the reader's end is success: `mcptap read x | head`.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            // clap's own codes: 0 for help and version, 2 for a bad argument.
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(arguments) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcptap: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { command, db, color } = arguments;
    match command {
        Some(Command::Read(read)) => read::run(read, db, color),
        Some(Command::Sessions(sessions)) => sessions::run(sessions, db, color),
        Some(Command::Show(show)) => show::run(show, db, color),
        Some(Command::Layers(layers)) => layers::run(layers, db, color),
        Some(Command::Export(export)) => export::run(export, db),
        #[cfg(feature = "live")]
        Some(Command::Sniff(sniff)) => sniff::run(sniff, db, color),
        Some(Command::Wrap(wrap)) => wrap::run(wrap, db),
        Some(Command::Rules(rules)) => rules::run(rules, color),
        Some(Command::Completions(completions)) => {
            clap_complete::generate(completions.shell, &mut Arguments::command(), "mcptap", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        _ => anyhow::bail!("not yet"),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
