//! `mcptap check`: reports findings, for people and for continuous integration.

mod baseline;
mod capture;
mod config;
mod expect;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Check, Colour, FailOn, Findings};
use super::output::{self, Output};
use super::target::{self, Opened, TargetKind};
use crate::cli::output::note;
use crate::export::{jsonl, junit, sarif};
use crate::findings::Severity;
use crate::store::{FindingRow, Scope};
use crate::view::expectations::Judgement;
use crate::view::paint::{Paint, Tone};
use crate::view::transcript::packets;
use crate::view::{safe, units};
use config::Config;

/// Maximum number of places of one rule in the text report.
const SHOWN: usize = 5;

pub fn run(arguments: Check, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let config = Config::read(arguments.config.as_deref())?.with(&arguments)?;
    let expectations = expect::read(&arguments.expect, &arguments.expect_file)?;
    let asks_store = arguments.write_baseline.is_some() || config.baseline.is_some() || !expectations.is_empty();
    let sessions = &arguments.sessions;
    let kind = sessions.target.as_deref().filter(|_| !asks_store).map(target::target_kind).transpose()?;
    let (findings, judgements) = if let Some(TargetKind::Capture(path)) = kind {
        (capture::findings(path, sessions.session, &sessions.decoding)?, Vec::new())
    } else {
        let opened = target::open_or_latest(sessions, db)?;
        if let Some(path) = &arguments.write_baseline {
            return write_baseline(&opened, path);
        }
        let mut findings = all_findings(&opened)?;
        if let Some(path) = config.baseline.as_deref() {
            findings.extend(baseline::drift(&opened, path)?);
        }
        (findings, expect::judge(&opened, &expectations)?)
    };
    let name = sessions.target.as_deref().unwrap_or("latest");
    let findings: Vec<(Severity, FindingRow)> =
        findings.into_iter().filter(|row| config.wants(row)).map(|row| (config.severity(&row), row)).collect();
    let fail_on = match config.fail_on {
        FailOn::Error => Some(Severity::Error),
        FailOn::Warning => Some(Severity::Warning),
        FailOn::Info => Some(Severity::Info),
        FailOn::Never => None,
    };
    let mut out = output::stdout();
    match arguments.format {
        Findings::Text => {
            expect::text(&mut out, output::paint(colour), &judgements)?;
            text(&mut out, output::paint(colour), &findings)?;
        }
        Findings::Json => json(&mut out, &findings, &judgements)?,
        Findings::Sarif => {
            let log = sarif::log(&relative_uri(name), env!("CARGO_PKG_VERSION"), &findings, &judgements);
            out.write_all(&sarif::text(&log))?;
        }
        Findings::Junit => {
            out.write_all(junit::suite(name, &findings, fail_on, &judgements).as_bytes())?;
        }
    }
    out.flush()?;
    let fails = fail_on.is_some_and(|bound| findings.iter().any(|(severity, _)| *severity >= bound))
        || judgements.iter().any(|judgement| !judgement.holds);
    Ok(if fails { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Accepts the tools of the target.
fn write_baseline(opened: &Opened, path: &Path) -> Result<ExitCode> {
    let tools = baseline::tools(opened)?;
    let text = serde_json::to_string_pretty(&tools)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write the baseline {}", path.display()))?;
    note!("accepted the tools of {} in {}", units::count(tools.len() as u64, "server"), path.display());
    Ok(ExitCode::SUCCESS)
}

/// All findings of the target, in order.
fn all_findings(opened: &Opened) -> Result<Vec<FindingRow>> {
    opened.reader.all_findings(opened.session.map_or(Scope::All, Scope::Session)).collect()
}

/// The target as a path relative to the working directory. Code-scanning services accept no other.
/// A file elsewhere is named without its folder.
fn relative_uri(target: &str) -> String {
    let path = Path::new(target);
    let here = std::env::current_dir().unwrap_or_default();
    let inside = path.strip_prefix(here).or_else(|_| path.strip_prefix("."));
    let is_elsewhere = path.is_absolute() || path.components().any(|part| part == Component::ParentDir);
    let name = || path.file_name().map(Path::new).filter(|_| is_elsewhere);
    inside.ok().or_else(name).unwrap_or(path).to_string_lossy().into_owned()
}

fn json(out: &mut Output, findings: &[(Severity, FindingRow)], judgements: &[Judgement]) -> Result<()> {
    let mut line = Vec::new();
    for judgement in judgements {
        output::json_line(out, &mut line, |line| jsonl::write_judgement(line, judgement))?;
    }
    for (severity, row) in findings {
        output::json_line(out, &mut line, |line| jsonl::write_finding_row(line, row, *severity))?;
    }
    Ok(())
}

/// The number of findings, with those that are stored as repetitions.
fn total<'f>(findings: impl Iterator<Item = &'f (Severity, FindingRow)>) -> u64 {
    findings.fold(0, |sum, (_, row)| sum.saturating_add(row.repeated.max(1)))
}

/// Writes the report as text: the worst and then the most frequent rules first, each with
/// its first places.
fn text(out: &mut Output, paint: Paint, findings: &[(Severity, FindingRow)]) -> Result<()> {
    let mut rules: BTreeMap<&str, Vec<&(Severity, FindingRow)>> = BTreeMap::new();
    for finding in findings {
        rules.entry(&finding.1.rule).or_default().push(finding);
    }
    let count = |of_rule: &[&(Severity, FindingRow)]| total(of_rule.iter().copied());
    let worst = |of_rule: &[&(Severity, FindingRow)]| of_rule.iter().map(|(severity, _)| *severity).max();
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, of_rule)| std::cmp::Reverse((worst(of_rule), count(of_rule))));
    for (rule, of_rule) in &rules {
        let severity = worst(of_rule).unwrap_or(Severity::Info);
        let head = paint.paint(severity.into(), &format!("{:<8}", severity.name()));
        writeln!(out, "{head} {rule}  ({})  {}", count(of_rule), safe::visible(&of_rule[0].1.title))?;
        for (_, row) in of_rule.iter().take(SHOWN) {
            writeln!(out, "         {}", finding_line(row, paint))?;
        }
        if of_rule.len() > SHOWN {
            writeln!(out, "         … {} more", count(of_rule).saturating_sub(SHOWN as u64))?;
        }
    }
    let of = |wanted: Severity| total(findings.iter().filter(|(severity, _)| *severity == wanted));
    let figures = [Severity::Error, Severity::Warning, Severity::Info].map(of);
    if !rules.is_empty() {
        writeln!(out)?;
    }
    let [errors, warnings, infos] = figures;
    let broken = units::count(rules.len() as u64, "rule");
    let [errors, warnings] = [units::count(errors, "error"), units::count(warnings, "warning")];
    writeln!(out, "{broken} broken: {errors}, {warnings}, {}", units::count(infos, "info"))?;
    if !rules.is_empty() {
        writeln!(out, "{}", paint.paint(Tone::Dim, "\"mcptap rules RULE\" explains a rule and what to do"))?;
    }
    Ok(())
}

fn finding_line(row: &FindingRow, paint: Paint) -> String {
    let session = row.session.map(|session| format!("session {}  ", session.0)).unwrap_or_default();
    let numbers: Vec<String> = row.messages.iter().take(4).map(|number| number.0.to_string()).collect();
    let noun = if numbers.len() == 1 { "message" } else { "messages" };
    let messages = if numbers.is_empty() { String::new() } else { format!("{noun} {}  ", numbers.join(", ")) };
    let (text, packets) = (safe::visible(&row.text), packets(&row.packets));
    format!("{session}{messages}{text}  {}", paint.paint(Tone::Dim, &packets)).trim_end().to_owned()
}
