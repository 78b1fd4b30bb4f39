//! The notes of a session between its messages: HTTP refusals, the server's stderr and its end,
//! waits without an answer.

use std::collections::VecDeque;

use anyhow::Result;

use super::super::data::{NoteLine, NoteTarget};
use super::QueryRunner;
use crate::capture::Time;
use crate::mcp::note::NoteKind;
use crate::mcp::{Note, SessionNumber};
use crate::store::{LinePosition, Scope, StoreReader};
use crate::view::notes;
use crate::view::paint::Tone;
use crate::view::stderr_fold::{Folded, StderrFold};
use crate::view::units::count;

/// Limit of the notes of one session apart from stderr: more than anybody reads.
const NOTES: usize = 2_000;

/// Limit of the lines of stderr that are read. The screen of stderr has them all.
const LINES: usize = 50_000;

/// Limit of the shown lines at either end of stderr. The last ones mostly name the cause.
const SHOWN: usize = 1_000;

impl QueryRunner {
    /// The notes of a session in order of time, each with the row that it precedes.
    pub(super) fn notes(&self, session: SessionNumber) -> Result<Vec<NoteLine>> {
        let mut places = Places::new(&self.reader, session)?;
        let mut lines: Vec<NoteLine> = Vec::new();
        for row in self.reader.notes(Scope::Session(session), None, NOTES)? {
            let before = places.before(row.note.time)?;
            lines.push(line(before, &row.note));
        }
        lines.extend(self.stderr_notes(session)?);
        // What a server wrote precedes its end.
        let is_stderr = |line: &NoteLine| line.target == Some(NoteTarget::Stderr);
        lines.sort_by_key(|line| (line.before, line.time, !is_stderr(line)));
        Ok(lines)
    }

    /// The lines of stderr, with long runs folded.
    fn stderr_notes(&self, session: SessionNumber) -> Result<Vec<NoteLine>> {
        let Some(pipes) = self.reader.pipes(session)? else { return Ok(Vec::new()) };
        let mut read = Vec::new();
        self.reader.visit_stderr(pipes, LinePosition::default(), &mut |line, _| {
            read.push(line);
            read.len() < LINES
        })?;
        // Of more lines the last ones are read from the end.
        let (all, mut end) = match read.len() == LINES {
            true => self.reader.last_stderr(pipes, SHOWN)?,
            false => (read.len() as u64, Vec::new()),
        };
        let unread = usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(read.len());
        end.drain(..end.len().saturating_sub(unread));
        let first_of_end = all.saturating_sub(end.len() as u64) + 1;
        let omitted = unread - end.len();
        let mut places = Places::new(&self.reader, session)?;
        let mut shown = Ends::default();
        let mut fold = StderrFold::default();
        let mut last = 0;
        let numbered = (1..).zip(read).chain((first_of_end..).zip(end));
        for (number, stderr) in numbered {
            if number == first_of_end && omitted > 0 {
                shown.take(last, fold.end());
                shown.take(last, vec![Folded::Omitted(omitted as u64)]);
            }
            let before = places.before(stderr.time)?;
            if before != last {
                shown.take(last, fold.end());
                last = before;
            }
            let kind = NoteKind::Stderr { line: number, text: stderr.text };
            let note = Note { session: Some(session), time: stderr.time, packets: Vec::new(), kind };
            shown.take(before, fold.note(Box::new(note)));
        }
        shown.take(last, fold.end());
        Ok(shown.lines())
    }
}

fn line(before: usize, note: &Note) -> NoteLine {
    let target = match &note.kind {
        NoteKind::Stderr { .. } => Some(NoteTarget::Stderr),
        NoteKind::Ended { pending, .. } => pending.first().copied().map(NoteTarget::Message),
        NoteKind::Refused(http) | NoteKind::Redirected(http) => http.requests.first().copied().map(NoteTarget::Message),
        NoteKind::Unanswered { request, .. } => Some(NoteTarget::Message(*request)),
        NoteKind::Connection { .. } => None,
    };
    let packet = note.packets.first().copied();
    NoteLine { before, time: note.time, words: notes::words(&note.kind), target, packet }
}

/// The first and the last lines of a long list.
#[derive(Default)]
struct Ends {
    first: Vec<NoteLine>,
    last: VecDeque<NoteLine>,
}

impl Ends {
    fn take(&mut self, before: usize, parts: Vec<Folded>) {
        let mut time = self.last.back().or(self.first.last()).map_or(Time::default(), |line| line.time);
        for part in parts {
            let line = match part {
                Folded::Line(note) => line(before, &note),
                Folded::Omitted(lines) => NoteLine {
                    before,
                    time,
                    words: notes::NoteWords {
                        sign: "┊",
                        tone: Tone::Dim,
                        what: "stderr".to_owned(),
                        about: format!("… {} (enter shows all)", count(lines, "more line")),
                        messages: String::new(),
                    },
                    target: Some(NoteTarget::Stderr),
                    packet: None,
                },
            };
            time = line.time;
            if self.first.len() < SHOWN {
                self.first.push(line);
            } else {
                self.last.push_back(line);
                if self.last.len() > SHOWN {
                    self.last.pop_front();
                }
            }
        }
    }

    fn lines(self) -> Vec<NoteLine> {
        self.first.into_iter().chain(self.last).collect()
    }
}

/// Finds the rows of a session's messages by time. The times have to ascend.
struct Places<'r> {
    reader: &'r StoreReader,
    session: SessionNumber,
    messages: u64,
    /// The row that was found last, and the time of its message; `None` at the end.
    row: u64,
    time: Option<Time>,
}

impl<'r> Places<'r> {
    fn new(reader: &'r StoreReader, session: SessionNumber) -> Result<Places<'r>> {
        let messages = reader.message_count(Scope::Session(session))?;
        let mut places = Places { reader, session, messages, row: 0, time: None };
        places.time = places.time_of(0)?;
        Ok(places)
    }

    /// The time of the message in a row (from 0).
    fn time_of(&self, row: u64) -> Result<Option<Time>> {
        let rows = self.reader.message_rows_at(self.session, row + 1, 1)?;
        Ok(rows.first().map(|row| row.time))
    }

    /// The row of the first message after this time. The search begins at the last row, in
    /// steps that double.
    fn before(&mut self, time: Time) -> Result<usize> {
        let is_later = |of: Option<Time>| of.is_none_or(|of| of > time);
        if is_later(self.time) {
            return Ok(self.row as usize);
        }
        let (mut low, mut step) = (self.row, 1);
        let mut high = loop {
            let next = low + step;
            if next >= self.messages {
                break self.messages;
            }
            if is_later(self.time_of(next)?) {
                break next;
            }
            low = next;
            step *= 2;
        };
        // The message in `low` is not later, the one in `high` is.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_later(self.time_of(middle)?) {
                high = middle;
            } else {
                low = middle;
            }
        }
        (self.row, self.time) = (high, if high < self.messages { self.time_of(high)? } else { None });
        Ok(high as usize)
    }
}
