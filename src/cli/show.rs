//! `mcptap show`: shows sessions as timelines, or one message in full.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::{Colour, Show};
use super::filter;
use super::lines::Lines;
use super::target::{self, Opened};
use crate::engine::saver;
use crate::export::jsonl;
use crate::filter::Filter;
use crate::findings;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};
use crate::store::{CaptureId, Page, RowKey, Scope};
use crate::view::paint::Tone;
use crate::view::safe::{self, Align};
use crate::view::timeline::{self, TimelinePosition, TimelineRow};
use crate::view::times::Times;
use crate::view::timing::{Clock, Timing};
use crate::view::{json_tree, overview};

/// Maximum number of messages of an operation that are listed with one of them: about a screen.
const OPERATION: usize = 40;

/// Time between two looks at a followed database. A person sees a message within a tenth
/// of a second.
const LOOK: Duration = Duration::from_millis(30);

/// Number of looks after which a check follows that the writer still lives, if it wrote nothing.
const ASSURE: u32 = 32;

pub fn run(arguments: Show, db: Option<PathBuf>, colour: Colour) -> Result<()> {
    let filter = filter::parse(arguments.filter.as_deref())?;
    if arguments.follow && arguments.sessions.target.as_deref().is_none_or(|target| target == "latest") {
        target::await_recording(db.clone())?;
    }
    let opened = target::open_or_latest(&arguments.sessions, db)?;
    let mut timeline = Timeline { lines: Lines::new(arguments.json, colour, arguments.stderr), filter };
    if let Some(number) = arguments.message {
        let (session, message) = find(&opened, MessageNumber(number))?;
        timeline.whole(&opened, &session, &message)?;
        return Ok(());
    }
    let sessions = opened.sessions()?;
    if sessions.is_empty() && !arguments.follow {
        bail!("no MCP session in {}: \"mcptap read\" shows what it contains", opened.name);
    }
    if arguments.summary {
        sessions.iter().try_for_each(|session| timeline.summary(&opened, session))?;
        return Ok(timeline.lines.out.flush()?);
    }
    let mut last = TimelinePosition::default();
    for session in &sessions {
        last = timeline.session(&opened, session)?;
    }
    if arguments.follow {
        timeline.follow(&opened, last)?;
    } else {
        if opened.session.is_none() {
            timeline.findings(&opened, Scope::All, None)?;
        }
        timeline.totals()?;
    }
    Ok(())
}

/// The message with this number and its session: in the session of the target, or in the only
/// capture of the store.
pub fn find(opened: &Opened, number: MessageNumber) -> Result<(Session, Message)> {
    let session = opened.session.map(|_| opened.one_session()).transpose()?;
    let message = match &session {
        Some(session) => opened.reader.message_of(session.number, number)?,
        None => opened.reader.message(RowKey::new(CaptureId(1), number.0))?,
    };
    let Some(message) = message else {
        bail!("there is no message {}: \"mcptap show TARGET\" lists all messages", number.0)
    };
    let session = match session {
        Some(session) => session,
        None => match opened.reader.session(message.session)? {
            Some(session) => session,
            None => bail!("message {} belongs to no session", number.0),
        },
    };
    Ok((session, message))
}

/// The timing of the call that a message belongs to.
fn timing(opened: &Opened, message: &Message) -> Result<Option<Timing>> {
    let capture = opened.reader.capture_of(message.session)?;
    Ok(capture.map(|capture| Clock::new(&opened.reader, capture).of_message(message)).transpose()?.flatten())
}

/// Prints sessions as timelines.
struct Timeline {
    lines: Lines,
    filter: Option<Filter>,
}

impl Timeline {
    /// Prints a session as far as it is stored. Returns the end of its timeline.
    fn session(&mut self, opened: &Opened, session: &Session) -> Result<TimelinePosition> {
        self.lines.format.start = Some(session.started);
        if !self.lines.json {
            self.lines.session(session)?;
        }
        let last = self.rows(opened, session, TimelinePosition::default())?;
        self.findings(opened, Scope::Session(session.number), Some(session.number))?;
        if self.lines.json {
            self.record(opened, session.number)?;
        }
        self.lines.totals.session(session);
        Ok(last)
    }

    /// Prints the findings in this scope that belong to `session`, or to none.
    fn findings(&mut self, opened: &Opened, scope: Scope, session: Option<SessionNumber>) -> Result<()> {
        for row in opened.reader.all_findings(scope) {
            let row = row?;
            if row.session != session {
                continue;
            }
            self.lines.totals.finding(row.severity, row.repeated.max(1));
            // A rule of another version has no entry here, but the messages still name it.
            row.finding().map_or(Ok(()), |finding| self.lines.finding(&finding))?;
        }
        Ok(())
    }

    /// Prints the summary of a session.
    fn summary(&mut self, opened: &Opened, session: &Session) -> Result<()> {
        let overview = overview::read(&opened.reader, session)?;
        let times = Times::read(&opened.reader, session)?;
        let lines = &mut self.lines;
        if lines.json {
            return lines.write(|line| jsonl::write_overview(line, session.number, &overview, &times));
        }
        lines.session(session)?;
        for line in overview.lines(session).into_iter().chain(times.lines()) {
            let (tone, columns) = if line.depth == 0 { (Tone::Strong, 28) } else { (Tone::Plain, 26) };
            let name = safe::pad(&line.name, columns, Align::Left);
            let number = line.message.map(|number| format!("  ({})", number.0)).unwrap_or_default();
            let room = lines.format.width.saturating_sub(32 + number.len()).max(20);
            let value = safe::fit(&line.value, room);
            let paint = lines.format.paint;
            let text = format!("  {:2$}{} {value}", "", paint.paint(tone, &name), line.depth * 2);
            writeln!(lines.out, "{}{}", text.trim_end(), paint.paint(Tone::Dim, &number))?;
        }
        lines.text("")
    }

    /// Prints the timeline of a session behind `from`. Returns the position of its end.
    fn rows(&mut self, opened: &Opened, session: &Session, from: TimelinePosition) -> Result<TimelinePosition> {
        let Some(capture) = opened.reader.capture_of(session.number)? else { return Ok(from) };
        let mut clock = Clock::new(&opened.reader, capture);
        let filter = self.filter.clone();
        let end = timeline::visit(&opened.reader, session, filter.as_ref(), from, &mut |row| match row {
            TimelineRow::Message(message) => {
                // The timing of a call is written once: with its response, in JSON.
                let is_timed = self.lines.json && message.answers.is_some();
                let timing = if is_timed { clock.of_message(&message)? } else { None };
                self.lines.message(&message, |line| jsonl::write_call(line, &message, timing.as_ref()))
            }
            TimelineRow::Note(note) => self.lines.note(&note),
        })?;
        self.lines.end_of_stderr()?;
        Ok(end)
    }

    /// Prints new messages until the session ends.
    fn follow(&mut self, opened: &Opened, mut last: TimelinePosition) -> Result<()> {
        let mut version = None;
        for look in 0u32.. {
            let now = opened.reader.data_version()?;
            // A writer that was killed makes no further change, so its state is checked from
            // time to time.
            if version != Some(now) || look.is_multiple_of(ASSURE) {
                version = Some(now);
                let session = match opened.session {
                    Some(number) => opened.reader.session(number)?,
                    None => opened.reader.latest_session()?,
                };
                if let Some(session) = session {
                    // Read before the messages: if it has ended, they are complete.
                    let listed = opened.reader.listed_session(session.number)?;
                    let live = listed.is_some_and(|listed| listed.is_live(saver::now()));
                    last = self.rows(opened, &session, last)?;
                    if !live {
                        return self.ended(opened, &session);
                    }
                }
                self.lines.out.flush()?;
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Prints the last record of a followed session.
    fn ended(&mut self, opened: &Opened, session: &Session) -> Result<()> {
        if self.lines.json {
            self.record(opened, session.number)?;
        } else {
            writeln!(self.lines.out, "\n{}", self.lines.format.session(session))?;
        }
        Ok(self.lines.out.flush()?)
    }

    /// Prints the JSON line of a session.
    fn record(&mut self, opened: &Opened, session: SessionNumber) -> Result<()> {
        let Some(listed) = opened.reader.listed_session(session)? else { return Ok(()) };
        self.lines.write(|line| jsonl::write_stored_session(line, &listed, saver::now()))
    }

    /// Prints one message in full.
    fn whole(&mut self, opened: &Opened, session: &Session, message: &Message) -> Result<()> {
        let timing = timing(opened, message)?;
        let lines = &mut self.lines;
        let paint = lines.format.paint;
        if lines.json {
            lines.write(|line| jsonl::write_call(line, message, timing.as_ref()))?;
            return Ok(lines.out.flush()?);
        }
        lines.format.start = Some(session.started);
        lines.session(session)?;
        lines.text(lines.format.message(message))?;
        for rule in message.findings.iter().filter_map(|id| findings::rule(id)) {
            let text = format!("        {} {}: {}", rule.severity.name(), rule.id, rule.title);
            lines.text(paint.paint(Tone::Warning, &text))?;
        }
        if let Some(timing) = timing {
            lines.text(paint.paint(Tone::Dim, &format!("        {}", timing.words())))?;
        }
        self.operation(opened, message)?;
        let pretty = json_tree::shown(&message.raw);
        self.lines.text("")?;
        self.lines.text(pretty.unwrap_or_else(|| safe::visible_bytes(&message.raw).into_owned()))?;
        Ok(self.lines.out.flush()?)
    }

    /// Prints the operation that a message is part of: its messages, each with the reason why it
    /// belongs to it.
    fn operation(&mut self, opened: &Opened, message: &Message) -> Result<()> {
        let Some(capture) = opened.reader.capture_of(message.session)? else { return Ok(()) };
        let own = opened.reader.message_row(RowKey::new(capture, message.number.0))?;
        let Some(operation) = own.and_then(|row| row.operation) else { return Ok(()) };
        let filter = Filter::parse(&format!("operation = {}", operation.0))?;
        let rows = opened.reader.matching(&filter, Scope::Session(message.session), Page::first(OPERATION + 1))?;
        self.lines.text(format_args!("        part of operation {}:", operation.0))?;
        for row in rows.iter().take(OPERATION) {
            let method = safe::visible(row.method.as_deref().unwrap_or("no method"));
            let why = match row.link {
                Some(link) => link.why.reason(link.previous),
                None => "the first request".to_owned(),
            };
            let mark = if row.number == message.number { "▸" } else { " " };
            let line = format!("      {mark} {:>6}  {}  {why}", row.number.0, safe::pad(&method, 25, Align::Left));
            self.lines.text(self.lines.format.paint.paint(Tone::Dim, &line))?;
        }
        if rows.len() > OPERATION {
            writeln!(self.lines.out, "        and more: mcptap show --filter \"operation = {}\"", operation.0)?;
        }
        Ok(())
    }

    fn totals(&mut self) -> Result<()> {
        if !self.lines.json {
            writeln!(self.lines.out, "\n{}", self.lines.totals.line(self.lines.format.paint))?;
        }
        Ok(self.lines.out.flush()?)
    }
}
