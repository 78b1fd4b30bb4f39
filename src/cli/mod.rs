//! The command line. Each command has a file.

pub mod args;
#[cfg(all(feature = "attach", target_os = "linux"))]
mod attach;
#[cfg(feature = "http")]
mod ca;
mod check;
mod databases;
#[cfg(feature = "parquet")]
mod dataset;
mod delete;
mod demo;
mod diff;
mod doctor;
mod explain;
mod export;
mod filter;
mod fuzz;
mod index;
mod install;
mod layers;
mod lines;
mod mask;
mod mcp;
mod mock;
mod output;
mod printer;
#[cfg(feature = "http")]
mod proxy;
mod prune;
mod read;
#[cfg(any(feature = "http", feature = "live"))]
mod recording;
mod redact;
mod replay;
mod rules;
#[cfg(all(feature = "attach", target_os = "linux"))]
mod run;
mod sessions;
#[cfg(feature = "parquet")]
mod ship;
#[cfg(not(feature = "parquet"))]
#[path = "ship/without_parquet.rs"]
mod ship;
mod show;
#[cfg(feature = "live")]
mod sniff;
mod split;
mod stop;
pub mod target;
mod telemetry;
#[cfg(feature = "tui")]
mod tui;
#[cfg(feature = "http")]
mod web;
#[cfg(feature = "live")]
mod wireshark;
mod wrap;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use args::{Arguments, Command};
pub use fuzz::{fuzz_database, fuzz_export};
use output::note;

use crate::store;

/// Runs the program. A pipe that its reader closed is not an error: `mcptap read x | head`.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(with_command(std::env::args_os().collect())) {
        Ok(arguments) => arguments,
        Err(error) => {
            // An error repeats words of the command line, which may come from elsewhere.
            match (suggestion(&error), error.use_stderr()) {
                (Some(suggestion), _) => note!("{suggestion}"),
                (None, true) => output::say(&error.render().to_string()),
                (None, false) => drop(error.print()),
            }
            // clap's exit codes: 0 for help and version, 2 for a bad argument.
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let result = run(arguments);
    // A thread that was not waited for may still hold one.
    store::remove_temporary_databases();
    stop::end_by_caught_signal();
    match result {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // An error may contain text of a file, a server or a configuration.
            note!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// Words that people know from other programs, and what they can use here.
const KNOWN_WORDS: &[(&[&str], &str)] = &[
    (&["list", "ls", "ps", "history"], "\"mcptap sessions\" lists recordings"),
    (&["log", "logs", "cat", "print", "view"], "\"mcptap show\" prints a recording"),
    (&["tail", "watch"], "\"mcptap show latest --follow\" prints a recording as it grows"),
    (&["rm", "remove", "del", "prune", "clean"], "\"mcptap delete\" deletes recordings"),
    (
        &["record", "start"],
        "\"mcptap run\" records a client with its servers, \"mcptap wrap\" an STDIO server, \"mcptap proxy\" an HTTP server",
    ),
    (&["capture", "dump", "listen"], "\"mcptap sniff\" captures from an interface"),
    (&["open", "browse", "ui"], "\"mcptap tui\" opens the terminal UI"),
    (&["lint", "validate", "test"], "\"mcptap check\" reports findings"),
    (&["why", "debug", "diagnose"], "\"mcptap explain\" names the most likely cause of a problem"),
    (&["convert", "save"], "\"mcptap export\" writes other formats, \"mcptap read --save\" saves a capture"),
];

/// Commands that only some builds have.
const OPTIONAL_COMMANDS: &[&str] =
    &["attach", "ca", "dataset", "proxy", "run", "ship", "sniff", "tui", "web", "wireshark"];

/// The error of a build that lacks a part of the program.
fn lacking(part: &str) -> String {
    format!(
        "this mcptap was built without {part}: packages have it, and so has a build with \"cargo install mcptap --features full\""
    )
}

/// The words for an unknown command: why this build lacks it, or what to use in place of one that
/// people know from other programs.
fn suggestion(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    if OPTIONAL_COMMANDS.contains(&word.as_str()) {
        return Some(match ["attach", "run"].contains(&word.as_str()) && cfg!(not(target_os = "linux")) {
            true => format!("the command {word} works on Linux only"),
            false => lacking(&format!("the command {word}")),
        });
    }
    let (_, text) = KNOWN_WORDS.iter().find(|(words, _)| words.contains(&word.as_str()))?;
    Some(format!("there is no command {word}: {text}"))
}

/// An error in a text in TOML, in one line.
fn toml_error(text: &str, message: &str, place: Option<Range<usize>>) -> anyhow::Error {
    let before = place.and_then(|place| text.get(..place.start)).unwrap_or_default();
    anyhow!("line {}: {}", before.matches('\n').count() + 1, message.trim_end().replace('\n', ", "))
}

/// Inserts the command `tui` where it was left out.
///
/// `mcptap FILE` means `mcptap tui FILE`, with options before or after the file. So do `mcptap
/// latest` and `mcptap --theme light`.
fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let program = Arguments::command();
    let Some(tui) = program.find_subcommand("tui") else { return arguments };
    let takes_value = |command: &clap::Command, name: &str| {
        let option = command.get_arguments().find(|option| option.get_long() == Some(name))?;
        Some(option.get_action().takes_values())
    };
    let (mut words, mut is_meant) = (arguments.iter().skip(1), false);
    while let Some(word) = words.next() {
        let Some(word) = word.to_str() else { break };
        let Some(option) = word.strip_prefix("--").filter(|option| !option.is_empty()) else {
            let is_command = program.find_subcommand(word).is_some();
            is_meant = word != "--" && !word.starts_with('-') && !is_command && is_target(word);
            break;
        };
        let (name, has_value) = option.split_once('=').map_or((option, false), |(name, _)| (name, true));
        let (own, general) = (takes_value(tui, name), takes_value(&program, name));
        is_meant |= own.is_some() && general.is_none();
        match own.or(general) {
            Some(true) if !has_value => drop(words.next()),
            Some(_) => {}
            // --help, --version or an unknown option: clap handles it for the whole program.
            None => return arguments,
        }
    }
    if is_meant {
        arguments.insert(1, OsString::from("tui"));
    }
    arguments
}

/// Whether a word is a target, and not a misspelt command.
fn is_target(word: &str) -> bool {
    word == "latest" || word.parse::<u32>().is_ok() || word.contains(['.', '/', '\\']) || Path::new(word).is_file()
}

/// Runs the program with these words.
fn run_words(words: &[&str]) -> Result<ExitCode> {
    run(Arguments::try_parse_from(words)?)
}

/// The exit status of a command that has only one, unless it fails.
fn succeeded(done: Result<()>) -> Result<ExitCode> {
    done.map(|()| ExitCode::SUCCESS)
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { command, db, color } = arguments;
    // Read here and not by clap: clap's usage line would then show `--db` as required
    // in every error.
    let db = db.or_else(|| std::env::var_os("MCPTAP_DB").filter(|path| !path.is_empty()).map(PathBuf::from));
    match command {
        Some(Command::Read(read)) => read::run(read, db, color),
        #[cfg(feature = "tui")]
        Some(Command::Tui(tui)) => succeeded(tui::run(tui, db, color)),
        #[cfg(feature = "tui")]
        None => succeeded(tui::run(args::Tui::default(), db, color)),
        #[cfg(not(feature = "tui"))]
        None => Ok(Arguments::command().print_help().map(|()| ExitCode::from(2))?),
        Some(Command::Sessions(sessions)) => succeeded(sessions::run(sessions, db, color)),
        Some(Command::Delete(delete)) => delete::delete(delete, db),
        Some(Command::Pin(pin)) => delete::pin(pin, db),
        Some(Command::Index) => succeeded(index::run(db)),
        Some(Command::Show(show)) => succeeded(show::run(show, db, color)),
        Some(Command::Layers(layers)) => succeeded(layers::run(layers, db, color)),
        Some(Command::Export(export)) => export::run(export, db),
        #[cfg(feature = "http")]
        Some(Command::Web(web)) => succeeded(web::run(web, db)),
        #[cfg(feature = "parquet")]
        Some(Command::Ship(ship)) => succeeded(ship::run(ship, db)),
        #[cfg(feature = "parquet")]
        Some(Command::Dataset(command)) => dataset::run(command),
        Some(Command::Split(split)) => split::run(split),
        #[cfg(feature = "live")]
        Some(Command::Sniff(sniff)) => succeeded(sniff::run(sniff, db, color)),
        Some(Command::Wrap(wrap)) => wrap::run(wrap, db),
        #[cfg(all(feature = "attach", target_os = "linux"))]
        Some(Command::Attach(attach)) => succeeded(attach::run(attach, db, color)),
        #[cfg(all(feature = "attach", target_os = "linux"))]
        Some(Command::Run(arguments)) => run::run(arguments, db),
        #[cfg(feature = "http")]
        Some(Command::Proxy(proxy)) => succeeded(proxy::run(proxy, db, color)),
        #[cfg(feature = "http")]
        Some(Command::Ca) => succeeded(ca::run()),
        Some(Command::Replay(replay)) => replay::run(replay, db, color),
        Some(Command::Mock(mock)) => mock::run(mock, db),
        Some(Command::Mcp(mcp)) => succeeded(mcp::run(mcp, db)),
        Some(Command::Diff(diff)) => diff::run(diff, db, color),
        Some(Command::Check(check)) => check::run(check, db, color),
        Some(Command::Explain(explain)) => explain::run(explain, db, color),
        Some(Command::Rules(rules)) => succeeded(rules::run(rules, color)),
        Some(Command::Install(install)) => install::install(install, db),
        Some(Command::Uninstall(uninstall)) => install::uninstall(uninstall),
        Some(Command::Demo(demo)) => succeeded(demo::run(demo, color)),
        Some(Command::Mask(mask)) => mask::run(mask, db),
        Some(Command::Doctor) => doctor::run(db, color),
        #[cfg(feature = "live")]
        Some(Command::Wireshark(wireshark)) => succeeded(wireshark::run(wireshark)),
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

#[cfg(all(test, feature = "full"))]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_full_program_has_all_commands() {
        let program = Arguments::command();
        OPTIONAL_COMMANDS.iter().for_each(|name| assert!(program.find_subcommand(name).is_some(), "{name}"));
    }

    fn meant(line: &str) -> String {
        let words = with_command(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_file_opens_the_terminal_ui_in_any_position() {
        for line in [
            "mcptap a.pcap",
            "mcptap a.pcap --keylog keys.log",
            "mcptap --keylog keys.log a.pcap",
            "mcptap --keylog=keys.log --db x a.pcap b.pcap",
            "mcptap --keep-secrets --theme light latest",
            "mcptap --db x 7",
            "mcptap --theme light",
        ] {
            assert_eq!(meant(line), line.replacen("mcptap", "mcptap tui", 1));
            assert!(Arguments::try_parse_from(meant(line).split(' ')).is_ok(), "{line}");
        }
        for line in [
            "mcptap",
            "mcptap --db x",
            "mcptap read a.pcap",
            "mcptap --db a.db sessions",
            "mcptap reed a.pcap",
            "mcptap --help",
            "mcptap -V",
            "mcptap --nothing a.pcap",
        ] {
            assert_eq!(meant(line), line);
        }
    }
}
