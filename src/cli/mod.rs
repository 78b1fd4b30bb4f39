//! The command line: one file a command.

pub mod args;
mod check;
mod diff;
mod export;
mod filter;
mod json_tree;
mod layers;
mod output;
mod printer;
mod read;
mod replay;
mod rules;
mod sessions;
mod show;
#[cfg(feature = "live")]
mod sniff;
mod stop;
pub mod target;
#[cfg(feature = "tui")]
mod tui;
mod wrap;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

/// Runs the program. A closed pipe at the reader's end is success: `mcptap read x | head`.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments_given()) {
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

/// The command line. `mcptap FILE` stands for `mcptap tui FILE`: a first argument that is a file and no command.
fn arguments_given() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let is_file = |first: &str| !first.starts_with('-') && Path::new(first).is_file();
    let is_command = |name: &str| Arguments::command().find_subcommand(name).is_some();
    let first = arguments.get(1).and_then(|first| first.to_str());
    if is_command("tui") && first.is_some_and(|first| is_file(first) && !is_command(first)) {
        arguments.insert(1, OsString::from("tui"));
    }
    arguments
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { command, db, color } = arguments;
    match command {
        Some(Command::Read(read)) => read::run(read, db, color),
        #[cfg(feature = "tui")]
        Some(Command::Tui(tui)) => tui::run(tui, db, color),
        #[cfg(feature = "tui")]
        None => tui::run(args::Tui::default(), db, color),
        #[cfg(not(feature = "tui"))]
        None => Ok(Arguments::command().print_help().map(|()| ExitCode::from(2))?),
        Some(Command::Sessions(sessions)) => sessions::run(sessions, db, color),
        Some(Command::Show(show)) => show::run(show, db, color),
        Some(Command::Layers(layers)) => layers::run(layers, db, color),
        Some(Command::Export(export)) => export::run(export, db),
        #[cfg(feature = "live")]
        Some(Command::Sniff(sniff)) => sniff::run(sniff, db, color),
        Some(Command::Wrap(wrap)) => wrap::run(wrap, db),
        Some(Command::Replay(replay)) => replay::run(replay, db, color),
        Some(Command::Diff(diff)) => diff::run(diff, db, color),
        Some(Command::Check(check)) => check::run(check, db, color),
        Some(Command::Rules(rules)) => rules::run(rules, color),
        Some(Command::Completions(completions)) => {
            clap_complete::generate(completions.shell, &mut Arguments::command(), "mcptap", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
