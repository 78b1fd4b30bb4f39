//! `mcptap tui`, also as `mcptap` alone and `mcptap FILE`.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::args::{Colour, Tui};
use super::target::{TargetKind, database, existing, latest, pipeline_options, store_options, target_kind};
use crate::event::Detail;
use crate::store::StoreReader;
use crate::tui::import::Decoding;
use crate::tui::theme::Theme;
use crate::tui::{self, Target, UiOptions};

/// Shows the target until the user quits.
pub fn run(arguments: Tui, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    run_with_hint(arguments, db, colour, None)
}

/// The same, with a sentence in the bottom line until the first key.
pub fn run_with_hint(arguments: Tui, db: Option<PathBuf>, colour: Colour, hint: Option<String>) -> Result<()> {
    if !stdout().is_terminal() {
        bail!(
            "the terminal UI needs a terminal: \"mcptap read FILE\" prints messages, \"mcptap --help\" lists all commands"
        );
    }
    let redaction = arguments.decoding.redaction()?;
    let target = target(&arguments.targets, db)?;
    if redaction.is_some() && !matches!(target, Target::Files(_)) {
        bail!(
            "the terminal UI redacts capture files, not saved sessions: \"mcptap export --redact-...\" writes them redacted"
        );
    }
    let theme = match &arguments.theme {
        Some(name) => match Theme::named(name) {
            Some(theme) => Some(theme),
            None => bail!("there is no theme \"{name}\": choose dark, light or mono"),
        },
        // https://no-color.org: "when present and not an empty string (regardless of its value)".
        None if colour == Colour::Never => Some(Theme::Mono),
        None if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) && colour != Colour::Always => {
            Some(Theme::Mono)
        }
        // The one chosen last, or the one that fits the terminal.
        None => None,
    };
    let decoding = &arguments.decoding;
    let decoding = Decoding {
        key_log: decoding.key_log(false),
        threads: decoding.threads(),
        pipeline: pipeline_options(decoding.keep_secrets, Detail::Store, redaction),
        store: store_options(decoding.keep_secrets, redaction),
    };
    tui::run(target, UiOptions { decoding, theme, hint })?;
    Ok(())
}

fn target(targets: &[String], db: Option<PathBuf>) -> Result<Target> {
    let [one] = targets else {
        return match targets {
            [] => Ok(Target::Database(database(db)?)),
            several => Ok(Target::Files(several.iter().map(PathBuf::from).collect())),
        };
    };
    Ok(match target_kind(one)? {
        TargetKind::Capture(path) => Target::Files(vec![path]),
        TargetKind::Database(path) => Target::Database(path),
        TargetKind::Session(number) => Target::Session(existing(database(db)?)?, number.0),
        TargetKind::Latest => {
            let path = existing(database(db)?)?;
            let number = latest(&StoreReader::open(path.clone())?)?;
            Target::Session(path, number.0)
        }
    })
}
