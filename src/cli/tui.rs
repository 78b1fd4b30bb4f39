//! `mcptap tui`, which `mcptap` alone and `mcptap FILE` stand for.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Colour, Tui};
use super::target::{Named, database, named};
use crate::store::StoreReader;
use crate::tui::import::Decoding;
use crate::tui::theme::Theme;
use crate::tui::{self, Options, Target};

/// Shows the target until the person quits.
pub fn run(arguments: Tui, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    if !stdout().is_terminal() {
        bail!(
            "the terminal UI needs a terminal: \"mcptap read FILE\" prints messages, \"mcptap --help\" lists all commands"
        );
    }
    let target = target(&arguments.targets, db)?;
    let theme = match &arguments.theme {
        Some(name) => match Theme::named(name) {
            Some(theme) => theme,
            None => bail!("there is no theme \"{name}\": dark, light or mono"),
        },
        // https://no-color.org: "when present and not an empty string (regardless of its value)".
        None if colour == Colour::Never => Theme::Mono,
        None if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) && colour != Colour::Always => {
            Theme::Mono
        }
        None => Theme::default(),
    };
    let decoding =
        Decoding { key_log: arguments.decoding.key_log(false), keep_secrets: arguments.decoding.keep_secrets };
    tui::run(target, Options { decoding, theme })?;
    Ok(ExitCode::SUCCESS)
}

fn target(targets: &[String], db: Option<PathBuf>) -> Result<Target> {
    let [one] = targets else {
        return match targets {
            [] => Ok(Target::Database(database(db)?)),
            several => Ok(Target::Files(several.iter().map(PathBuf::from).collect())),
        };
    };
    Ok(match named(one)? {
        Named::Capture(path) => Target::Files(vec![path]),
        Named::Database(path) => Target::Database(path),
        Named::Session(number) => Target::Session(existing(database(db)?)?, number.0),
        Named::Latest => {
            let path = existing(database(db)?)?;
            match StoreReader::open(path.clone())?.latest_session()? {
                Some(session) => Target::Session(path, session.number.0),
                None => bail!("no session is saved yet: wrap a server, or read a capture with --save"),
            }
        }
    })
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        bail!(
            "there is no database {} yet: record a server with \"mcptap wrap -- CMD\", open a capture with \"mcptap FILE\", or see \
             \"mcptap --help\"",
            path.display()
        );
    }
    Ok(path)
}
