//! Folds long runs of stderr lines on a timeline. The last lines of a run mostly name the cause, so
//! the middle is left out.

use std::collections::VecDeque;

use crate::mcp::Note;
use crate::mcp::note::NoteKind;

/// Lines at the start of a run that are shown.
const FIRST: u64 = 2;

/// Lines at the end of a run that are shown.
const LAST: usize = 4;

/// A part of a folded run.
#[derive(Clone, Debug, PartialEq)]
pub enum Folded {
    /// A line to show.
    Line(Box<Note>),
    /// The number of lines that are left out here.
    Omitted(u64),
}

/// Folds a run of lines.
#[derive(Debug, Default)]
pub struct StderrFold {
    /// Lines of the run so far.
    lines: u64,
    /// The last lines, which are shown when the run ends.
    last: VecDeque<Box<Note>>,
    omitted: u64,
    /// Show every line.
    all: bool,
}

impl StderrFold {
    /// A fold before the first run. With `all`, nothing is left out.
    pub fn new(all: bool) -> StderrFold {
        StderrFold { all, ..StderrFold::default() }
    }

    /// Takes a note. Returns what is to be shown now. A note that is no line of
    /// stderr ends the run.
    pub fn note(&mut self, note: Box<Note>) -> Vec<Folded> {
        if !matches!(note.kind, NoteKind::Stderr { .. }) {
            let mut shown = self.end();
            shown.push(Folded::Line(note));
            return shown;
        }
        self.lines += 1;
        if self.all || self.lines <= FIRST {
            return vec![Folded::Line(note)];
        }
        self.last.push_back(note);
        if self.last.len() > LAST {
            self.last.pop_front();
            self.omitted += 1;
        }
        Vec::new()
    }

    /// Ends the run. Returns what of it is still to be shown.
    pub fn end(&mut self) -> Vec<Folded> {
        self.lines = 0;
        let mut shown = Vec::new();
        match std::mem::take(&mut self.omitted) {
            0 => {}
            omitted => shown.push(Folded::Omitted(omitted)),
        }
        shown.extend(self.last.drain(..).map(Folded::Line));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Time;

    fn shown(parts: Vec<Folded>) -> Vec<String> {
        let words = |part| match part {
            Folded::Omitted(lines) => format!("{lines} omitted"),
            Folded::Line(note) => match note.kind {
                NoteKind::Stderr { text, .. } => text,
                _ => unreachable!("only lines"),
            },
        };
        parts.into_iter().map(words).collect()
    }

    fn run(fold: &mut StderrFold, lines: u64) -> Vec<String> {
        let mut all = Vec::new();
        for line in 1..=lines {
            let kind = NoteKind::Stderr { line, text: line.to_string() };
            all.extend(fold.note(Box::new(Note { session: None, time: Time(0), packets: Vec::new(), kind })));
        }
        all.extend(fold.end());
        shown(all)
    }

    #[test]
    fn the_middle_of_a_long_run_is_left_out() {
        let mut fold = StderrFold::default();
        assert_eq!(run(&mut fold, 1), ["1"]);
        assert_eq!(run(&mut fold, 6), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!(run(&mut fold, 9), ["1", "2", "3 omitted", "6", "7", "8", "9"]);
        fold.all = true;
        assert_eq!(run(&mut fold, 9).len(), 9);
    }
}
