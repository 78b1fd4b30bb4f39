//! Lines about sessions on standard output: text for people, or JSON.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;

use super::args::Colour;
use super::output::{self, Output, Progress};
use crate::export::jsonl;
use crate::findings::Finding;
use crate::mcp::{Message, Note, Session};
use crate::view::stderr_fold::{Folded, StderrFold};
use crate::view::transcript::{LineFormatter, Totals};

/// Prints lines, and counts what they are about.
#[derive(Debug)]
pub struct Lines {
    pub out: Output,
    pub json: bool,
    pub format: LineFormatter,
    pub totals: Totals,
    pub progress: Progress,
    /// The buffer for a line of JSON.
    buffer: Vec<u8>,
    fold: StderrFold,
}

impl Lines {
    /// Lines on standard output. With `stderr`, no line that a server wrote there is left out.
    pub fn new(json: bool, colour: Colour, stderr: bool) -> Lines {
        Lines {
            out: output::stdout(),
            json,
            format: output::format(colour),
            totals: Totals::default(),
            progress: Progress::new(),
            buffer: Vec::new(),
            fold: StderrFold::new(stderr),
        }
    }

    /// Prints a line of JSON.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        Ok(output::json_line(&mut self.out, &mut self.buffer, write)?)
    }

    /// Prints a line of text.
    pub fn text(&mut self, line: impl Display) -> Result<()> {
        self.progress.clear();
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Prints a session as text.
    pub fn session(&mut self, session: &Session) -> Result<()> {
        self.text(self.format.session(session))
    }

    /// Prints a message; `write` makes its JSON.
    pub fn message(&mut self, message: &Message, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.end_of_stderr()?;
        self.totals.message(message);
        if self.json { self.write(write) } else { self.text(self.format.message(message)) }
    }

    /// Prints a note.
    pub fn note(&mut self, note: &Note) -> Result<()> {
        if self.json {
            return self.write(|line| jsonl::write_note(line, note));
        }
        let shown = self.fold.note(Box::new(note.clone()));
        self.folded(shown)
    }

    /// Prints what is left of a run of stderr lines.
    pub fn end_of_stderr(&mut self) -> Result<()> {
        let shown = self.fold.end();
        self.folded(shown)
    }

    fn folded(&mut self, shown: Vec<Folded>) -> Result<()> {
        shown.iter().try_for_each(|part| self.text(self.format.folded(part)))
    }

    /// Prints a finding. In text, the lines of messages name those about them.
    pub fn finding(&mut self, finding: &Finding) -> Result<()> {
        if self.json {
            return self.write(|line| jsonl::write_finding(line, finding));
        }
        if finding.messages.is_empty() { self.text(self.format.finding(finding)) } else { Ok(()) }
    }
}
