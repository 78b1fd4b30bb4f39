//! `--expect` and `--expect-file`: expectations are read, judged and reported.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use crate::cli::output::{self, Output};
use crate::cli::target::Opened;
use crate::filter::{Expectation, FilterError};
use crate::store::Scope;
use crate::view::expectations::{Breach, Judge, Judgement};
use crate::view::paint::{Paint, Tone};
use crate::view::safe;
use crate::view::units::count;

/// Maximum number of messages of one expectation in the text report.
const SHOWN: usize = 5;

/// Reads all expectations: those of the command line, then those of the files.
pub fn read(given: &[String], files: &[PathBuf]) -> Result<Vec<Expectation>> {
    let parse = |text: &str, place: &str| {
        let wrong = |error: FilterError| anyhow!("{place}\n{}", error.render(output::width()));
        Expectation::parse(text).map_err(wrong)
    };
    let mut expectations = Vec::new();
    for text in given {
        expectations.push(parse(text, "cannot read the expectation")?);
    }
    for path in files {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read the expectations {}", path.display()))?;
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                expectations.push(parse(line, &format!("cannot read {}, line {}", path.display(), index + 1))?);
            }
        }
    }
    Ok(expectations)
}

/// Judges the expectations on the target.
pub fn judge(opened: &Opened, expectations: &[Expectation]) -> Result<Vec<Judgement>> {
    if expectations.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = opened.sessions()?;
    let scope = opened.session.map_or(Scope::All, Scope::Session);
    let judge = Judge { reader: &opened.reader, sessions: &sessions, scope };
    expectations.iter().map(|expectation| judge.judge(expectation)).collect()
}

/// Writes the judgements as text, each broken one with its first messages.
pub fn text(out: &mut Output, paint: Paint, judgements: &[Judgement]) -> Result<()> {
    for judgement in judgements {
        let (word, tone) = if judgement.holds { ("holds", Tone::Good) } else { ("broken", Tone::Error) };
        let expectation = safe::visible(&judgement.expectation);
        writeln!(out, "{} {expectation}  ({})", paint.paint(tone, &format!("{word:<8}")), judgement.sentence)?;
        let more = judgement.breaches.len().saturating_sub(SHOWN) as u64 + judgement.more;
        let lines = judgement.breaches.iter().take(SHOWN).map(Breach::line);
        for line in lines.chain((more > 0).then(|| format!("… {more} more"))) {
            writeln!(out, "         {}", safe::visible(&line))?;
        }
    }
    if !judgements.is_empty() {
        let broken = judgements.iter().filter(|judgement| !judgement.holds).count();
        writeln!(out, "{broken} of {} broken\n", count(judgements.len() as u64, "expectation"))?;
    }
    Ok(())
}
