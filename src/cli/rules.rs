//! `mcptap rules`: every rule, or one.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Colour, Rules};
use super::output;
use crate::findings::{self, Severity};
use crate::view::paint::Tone;

pub fn run(arguments: Rules, colour: Colour) -> Result<ExitCode> {
    let paint = output::paint(colour);
    let mut out = output::stdout();
    let mut found = false;
    for rule in findings::all().filter(|rule| arguments.rule.as_deref().is_none_or(|wanted| wanted == rule.id)) {
        found = true;
        let tone = match rule.severity {
            Severity::Error => Tone::Error,
            Severity::Warning => Tone::Warning,
            Severity::Info => Tone::Dim,
        };
        let severity = paint.paint(tone, &format!("{:<8}", rule.severity.name()));
        writeln!(out, "{severity} {:<34} {}", rule.id, rule.title)?;
        if arguments.rule.is_some() && !rule.spec.is_empty() {
            writeln!(out, "         {}", paint.paint(Tone::Dim, rule.spec))?;
        }
    }
    out.flush()?;
    if !found {
        bail!("there is no rule {:?}: \"mcptap rules\" lists them", arguments.rule.unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}
