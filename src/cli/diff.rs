//! `mcptap diff`: compares two recordings of the same conversation.

use std::hash::RandomState;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Colour, Comparing, Decoding, Diff, ReportFormat};
use super::{output, target};
use crate::compare::text::Style;
use crate::compare::{Report, Rules, json, junit, pairing, text};
use crate::replay::ComparedSession;

pub fn run(arguments: Diff, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let rules = rules(&arguments.comparing)?;
    let hashes = RandomState::new();
    let read = |target: &str, session, db| read(target, session, &arguments.decoding, db, &hashes);
    let mut old = read(&arguments.old, arguments.session, db.clone())?;
    let mut new = read(&arguments.new, arguments.other_session.or(arguments.session), db)?;
    let mut answer = |side, number| if side == 0 { old.texts.answer(number) } else { new.texts.answer(number) };
    let mut report = pairing::compare([&old.side, &new.side], &mut answer, &rules)?;
    if old.session.protocol_version != new.session.protocol_version {
        let revision = |one: &ComparedSession| one.session.protocol_version.clone().unwrap_or_else(|| "unknown".into());
        report.notes.push(format!("revision {} before, {} now", revision(&old), revision(&new)));
    }
    (report.old, report.new) = (arguments.old, arguments.new);
    print(&report, &arguments.comparing, colour)
}

/// Reads the session of a target that is compared.
fn read(
    target: &str,
    session: Option<u32>,
    decoding: &Decoding,
    db: Option<PathBuf>,
    hashes: &RandomState,
) -> Result<ComparedSession> {
    let opened = target::open(Some(target), session, decoding, db)?;
    let session = opened.one_session().with_context(|| format!("cannot compare {target}"))?;
    ComparedSession::read(&opened.reader, session, hashes)
}

/// The differences that the options set aside.
pub fn rules(comparing: &Comparing) -> Result<Rules> {
    let read = |texts: &[String]| texts.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>();
    Ok(Rules { ignored: read(&comparing.ignore)?, unordered: read(&comparing.unordered)? })
}

/// Prints a report. The exit status is 1 if anything differs.
pub fn print(report: &Report, comparing: &Comparing, colour: Colour) -> Result<ExitCode> {
    let mut out = output::stdout();
    match comparing.format {
        ReportFormat::Text => {
            let (paint, width) = (output::paint(colour), output::width());
            let style = Style { paint, width, side_by_side: comparing.side_by_side, all: comparing.all };
            write!(out, "{}", text::report(report, style))?;
        }
        ReportFormat::Json => {
            json::write(report, None, &mut out)?;
            writeln!(out)?;
        }
        ReportFormat::Junit => write!(out, "{}", junit::report(report))?,
    }
    out.flush()?;
    Ok(if report.is_same() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
