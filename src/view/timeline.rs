//! The timeline of a stored session: its messages, and the notes between them, in order of time.

use std::collections::VecDeque;

use anyhow::Result;

use crate::capture::Time;
use crate::filter::Filter;
use crate::mcp::note::NoteKind;
use crate::mcp::{Message, Note, Session, SessionNumber};
use crate::store::{LinePosition, NoteRow, RowKey, Scope, SessionPipes, StoreReader};

/// Rows that are read at once.
const PAGE: usize = 1_000;

/// Lines of stderr that are read at once. Each may be in another chunk of packets.
const LINES: usize = 64;

/// A row of the timeline.
#[derive(Clone, Debug)]
pub enum TimelineRow {
    /// A message of the session.
    Message(Box<Message>),
    /// An occurrence around the messages.
    Note(Box<Note>),
}

/// The position in a timeline up to which it was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelinePosition {
    /// The message with the largest number.
    message: Option<RowKey>,
    /// The last note.
    note: Option<(Time, u64)>,
    stderr: LinePosition,
    /// Complete lines of stderr before `stderr`.
    lines: u64,
}

/// Calls `visit` with the rows of a session after `from`, in order of time. With a filter only the
/// messages that match are visited. Returns the position after the last row.
pub fn visit(
    reader: &StoreReader,
    session: &Session,
    filter: Option<&Filter>,
    from: TimelinePosition,
    visit: &mut dyn FnMut(TimelineRow) -> Result<()>,
) -> Result<TimelinePosition> {
    let Some(capture) = reader.capture_of(session.number)? else { return Ok(from) };
    let mut end = from;
    let messages: Box<dyn Iterator<Item = Result<Message>>> = match from.message {
        None => Box::new(reader.session_messages(session.number, filter)),
        Some(after) => Box::new(reader.new_messages(session.number, filter, after)),
    };
    let mut notes = NoteQueue::new(reader, session, from)?;
    for message in messages {
        let message = message?;
        while filter.is_none()
            && let Some((note, place)) = notes.next_before(Some(message.time))?
        {
            end.pass(place);
            visit(TimelineRow::Note(Box::new(note)))?;
        }
        end.message = end.message.max(Some(RowKey::new(capture, message.number.0)));
        visit(TimelineRow::Message(Box::new(message)))?;
    }
    while filter.is_none()
        && let Some((note, place)) = notes.next_before(None)?
    {
        end.pass(place);
        visit(TimelineRow::Note(Box::new(note)))?;
    }
    Ok(end)
}

impl TimelinePosition {
    fn pass(&mut self, place: NotePlace) {
        match place {
            NotePlace::Stored(time, number) => self.note = Some((time, number)),
            NotePlace::Stderr(Some(next)) => (self.stderr, self.lines) = (next, self.lines + 1),
            // An incomplete line is shown again when it is complete.
            NotePlace::Stderr(None) => {}
        }
    }
}

/// Where a note was read.
#[derive(Clone, Copy, Debug)]
enum NotePlace {
    /// In the table of notes: its time and number.
    Stored(Time, u64),
    /// In the packets of stderr: the position of the next line.
    Stderr(Option<LinePosition>),
}

/// The notes of a session in order of time: those in the table, and the lines of stderr.
struct NoteQueue<'r> {
    reader: &'r StoreReader,
    session: SessionNumber,
    stored: VecDeque<(Note, NotePlace)>,
    lines: VecDeque<(Note, NotePlace)>,
    /// Where the next pages begin; `None` at the end.
    next_stored: Option<Option<(Time, u64)>>,
    next_lines: Option<(SessionPipes, LinePosition)>,
    line: u64,
}

impl<'r> NoteQueue<'r> {
    fn new(reader: &'r StoreReader, session: &Session, from: TimelinePosition) -> Result<NoteQueue<'r>> {
        let session = session.number;
        Ok(NoteQueue {
            reader,
            session,
            stored: VecDeque::new(),
            lines: VecDeque::new(),
            next_stored: Some(from.note),
            next_lines: reader.pipes(session)?.map(|pipes| (pipes, from.stderr)),
            line: from.lines,
        })
    }

    /// The next note, if it precedes `time`.
    fn next_before(&mut self, time: Option<Time>) -> Result<Option<(Note, NotePlace)>> {
        self.fill()?;
        let earlier = match (self.stored.front(), self.lines.front()) {
            // What a server wrote precedes its end.
            (Some((stored, _)), Some((line, _))) if stored.time < line.time => &mut self.stored,
            (Some(_), None) => &mut self.stored,
            _ => &mut self.lines,
        };
        let is_before = |(note, _): &mut (Note, NotePlace)| time.is_none_or(|time| note.time < time);
        Ok(earlier.pop_front_if(is_before))
    }

    fn fill(&mut self) -> Result<()> {
        if self.stored.is_empty()
            && let Some(after) = self.next_stored
        {
            let rows = self.reader.notes(Scope::Session(self.session), after, PAGE)?;
            let place = |row: &NoteRow| (row.note.time, row.number);
            self.next_stored = rows.last().map(|row| Some(place(row)));
            self.stored.extend(rows.into_iter().map(|row| {
                let (time, number) = place(&row);
                (row.note, NotePlace::Stored(time, number))
            }));
        }
        if self.lines.is_empty()
            && let Some((pipes, from)) = self.next_lines.take()
        {
            let session = Some(self.session);
            self.reader.visit_stderr(pipes, from, &mut |line, next| {
                self.line += 1;
                let kind = NoteKind::Stderr { line: self.line, text: line.text };
                let note = Note { session, time: line.time, packets: Vec::new(), kind };
                self.lines.push_back((note, NotePlace::Stderr(next)));
                self.next_lines = next.map(|next| (pipes, next));
                self.lines.len() < LINES
            })?;
            if self.lines.len() < LINES {
                self.next_lines = None;
            }
        }
        Ok(())
    }
}
