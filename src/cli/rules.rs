//! `mcptap rules`: lists the rules, or shows the manual of one.

use std::io::Write;

use anyhow::{Result, bail};

use super::args::{Colour, Rules};
use super::output::{self, Output};
use crate::findings::{self, Rule, manual};
use crate::view::paint::{Paint, Tone};

pub fn run(arguments: Rules, colour: Colour) -> Result<()> {
    let paint = output::paint(colour);
    let mut out = output::stdout();
    match arguments.rule.as_deref() {
        None => {
            for rule in findings::all() {
                writeln!(out, "{} {:<44} {}", severity(rule, paint), rule.id, rule.title)?;
            }
        }
        Some(id) => match findings::rule(id) {
            Some(rule) => page(&mut out, paint, rule)?,
            None => bail!("there is no rule {id:?}: \"mcptap rules\" lists all rules"),
        },
    }
    Ok(out.flush()?)
}

fn severity(rule: &Rule, paint: Paint) -> String {
    paint.paint(rule.severity.into(), &format!("{:<8}", rule.severity.name()))
}

fn page(out: &mut Output, paint: Paint, rule: &Rule) -> Result<()> {
    writeln!(out, "{} {:<44} {}", severity(rule, paint), rule.id, rule.title)?;
    writeln!(out)?;
    let revisions = manual::revisions(rule);
    for (name, text) in [
        ("why", rule.why),
        ("example", rule.example),
        ("what to do", rule.remedy),
        ("revisions", revisions.as_str()),
        ("specification", rule.spec),
    ] {
        writeln!(out, "{} {text}", paint.paint(Tone::Dim, &format!("{name:>14}")))?;
    }
    Ok(())
}
