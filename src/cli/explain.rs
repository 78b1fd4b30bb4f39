//! `mcptap explain`: the most likely cause of a problem first, in sentences.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Colour, Explain};
use super::output::{self, Output};
use super::target::{self, Opened};
use crate::export::jsonl;
use crate::mcp::Session;
use crate::view::command_line;
use crate::view::explain::{self, Cause, Evidence, Explanation, Symptom};
use crate::view::paint::Tone;
use crate::view::safe::{self, Align};
use crate::view::secrets;
use crate::view::units::{count, relative};

/// Causes that are shown in full. The others are one line.
const SHOWN: usize = 1;

/// Lines of a place in the recording, so that an explanation fits on a screen.
const LINES: usize = 3;

/// Columns of the names of lines, and of places.
const NAME: usize = 10;
const PLACE: usize = 14;

pub fn run(arguments: Explain, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let opened = target::open_or_latest(&arguments.sessions, db.clone())?;
    let name = opened.name.as_str();
    let Some((session, explanation)) = worst(&opened, arguments.symptom)? else {
        bail!("no MCP session in {name}: \"mcptap read\" shows what it contains")
    };
    let commands = Commands { arguments: &arguments, name, session: &session, db: db.as_deref() };
    let mut out = output::stdout();
    if arguments.json {
        let masked = |text: &str| masked(text, &arguments);
        let next = |cause: &Cause| commands.next(cause);
        let mut line = Vec::new();
        output::json_line(&mut out, &mut line, |line| {
            jsonl::write_explanation(line, session.number, &explanation, &masked, &next);
        })?;
    } else {
        let others = opened.sessions()?.len() - 1;
        text(&mut out, colour, &session, &explanation, &commands, others)?;
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(!explanation.causes.is_empty())))
}

/// The session with the most causes, and the first one of several.
fn worst(opened: &Opened, symptom: Option<Symptom>) -> Result<Option<(Session, Explanation)>> {
    let mut worst: Option<(Session, Explanation)> = None;
    for session in opened.sessions()? {
        let explanation = explain::explain(&opened.reader, &session, symptom)?;
        if worst.as_ref().is_none_or(|(_, known)| explanation.causes.len() > known.causes.len()) {
            worst = Some((session, explanation));
        }
    }
    Ok(worst)
}

/// Commands for the next step, which work as they are printed.
struct Commands<'a> {
    arguments: &'a Explain,
    name: &'a str,
    session: &'a Session,
    db: Option<&'a Path>,
}

impl Commands<'_> {
    /// `mcptap VERB TARGET`, with the options that chose the target.
    fn of(&self, verb: &str, rest: &[String]) -> String {
        let number = self.session.number.0.to_string();
        let is_saved = matches!(self.name, "latest") || self.name.parse::<u32>().is_ok();
        let mut words = vec!["mcptap".to_owned()];
        if let Some(db) = self.db.filter(|_| is_saved) {
            words.extend(["--db".to_owned(), db.display().to_string()]);
        }
        words.push(verb.to_owned());
        if is_saved {
            words.push(number);
        } else {
            words.push(self.name.to_owned());
            words.extend(["--session".to_owned(), number]);
            if let Some(keys) = &self.arguments.sessions.decoding.keylog {
                words.extend(["--keylog".to_owned(), keys.display().to_string()]);
            }
        }
        words.extend_from_slice(rest);
        command_line::quoted(&words)
    }

    fn next(&self, cause: &Cause) -> String {
        match cause.message {
            Some(message) => self.of("show", &["--message".to_owned(), message.0.to_string()]),
            None => self.of("show", &[]),
        }
    }
}

/// A text from the recording, without secrets.
fn masked(text: &str, arguments: &Explain) -> String {
    if arguments.sessions.decoding.keep_secrets { text.to_owned() } else { secrets::masked_text(text).into_owned() }
}

fn text(
    out: &mut Output,
    colour: Colour,
    session: &Session,
    explanation: &Explanation,
    commands: &Commands<'_>,
    others: usize,
) -> Result<()> {
    let format = output::format(colour);
    let (paint, width) = (format.paint, format.width);
    writeln!(out, "{}\n", format.session(session))?;
    let Explanation { causes, also, checked } = explanation;
    let wrapped = |text: &str, room: usize| -> Vec<String> {
        let lines = safe::wrap(&masked(text, commands.arguments), room.max(20));
        lines.iter().map(|line| line.trim().to_owned()).collect()
    };
    if causes.is_empty() {
        let result = match commands.arguments.symptom {
            Some(symptom) => format!("No cause found for the symptom \"{}\".", symptom.name()),
            None => "No problem found.".to_owned(),
        };
        writeln!(out, "{}", paint.paint(Tone::Good, &result))?;
        writeln!(out, "Checked: {}.", checked.join(", "))?;
    }
    for cause in causes.iter().take(SHOWN) {
        for line in wrapped(&cause.sentence, width) {
            writeln!(out, "{}", paint.paint(Tone::Strong, &line))?;
        }
        for (at, Evidence { place, time, text }) in cause.evidence.iter().enumerate() {
            let name = if at == 0 { "evidence" } else { "" };
            let time = time.map(|time| relative(time, session.started)).unwrap_or_default();
            let room = width.saturating_sub(2 + NAME + 1 + PLACE + 1 + 12 + 2).max(20);
            let place = safe::pad(place, PLACE, Align::Left);
            let lines = wrapped(text, room);
            writeln!(out, "  {name:<NAME$} {place} {time:>12}  {}", lines[0])?;
            for line in lines.iter().take(LINES).skip(1) {
                writeln!(out, "{:1$}{line}", "", width.saturating_sub(room))?;
            }
        }
        for (at, line) in wrapped(&cause.advice, width.saturating_sub(3 + NAME)).iter().enumerate() {
            let name = if at == 0 { "next" } else { "" };
            writeln!(out, "  {name:<NAME$} {line}")?;
        }
        writeln!(out, "  {:<NAME$} {}", "", safe::visible(&commands.next(cause)))?;
    }
    let mut rest: Vec<String> =
        causes.iter().skip(SHOWN).map(|cause| cause.sentence.trim_end_matches('.').to_owned()).collect();
    rest.extend(also.iter().map(|text| text.trim_end_matches('.').to_owned()));
    if !rest.is_empty() {
        let check = commands.of("check", &[]);
        writeln!(out)?;
        for line in wrapped(&format!("Also: {}.", rest.join("; ")), width) {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{}", paint.paint(Tone::Dim, &safe::visible(&check)))?;
    }
    if others > 0 {
        let others = format!("{}: choose one with --session N", count(others as u64, "other session"));
        writeln!(out, "{}", paint.paint(Tone::Dim, &others))?;
    }
    Ok(())
}
