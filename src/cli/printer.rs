//! Prints events on standard output, as text for people or as JSON lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use anyhow::Result;

use super::args::Colour;
use super::output::{self, Output, Progress};
use crate::engine::Listener;
use crate::event::Event;
use crate::export::jsonl::{self, Summary};
use crate::filter::{EventFilter, Filter};
use crate::findings::Severity;
use crate::mcp::{Session, SessionNumber};
use crate::pipeline::Counts;
use crate::view::stderr_fold::{Folded, StderrFold};
use crate::view::transcript::{LineFormatter, Totals};
use crate::view::units::count;

/// Prints events as they arrive.
#[derive(Debug)]
pub struct Printer {
    out: Output,
    json: bool,
    lines: LineFormatter,
    /// The buffer for a line of JSON.
    line: Vec<u8>,
    totals: Totals,
    /// The latest record of each session that has not ended. It is printed at the session's end.
    sessions: BTreeMap<SessionNumber, Session>,
    /// Whether the line of a session was printed.
    has_shown_session: bool,
    progress: Progress,
    began: Instant,
    filter: Option<EventFilter>,
    fold: StderrFold,
}

impl Printer {
    /// Makes a printer to standard output. Messages are printed if they match the filter, as far as
    /// a live capture can decide that.
    pub fn new(json: bool, colour: Colour, filter: Option<Filter>, live: bool) -> Printer {
        let lines =
            LineFormatter { paint: output::paint(colour), width: output::width(), start: None, sessions: false };
        Printer {
            out: output::stdout(),
            json,
            lines,
            line: Vec::new(),
            totals: Totals::default(),
            sessions: BTreeMap::new(),
            has_shown_session: false,
            progress: Progress::new(),
            began: Instant::now(),
            filter: filter.map(|filter| EventFilter::new(filter, live)),
            fold: StderrFold::default(),
        }
    }

    /// Prints the remaining sessions and the summary.
    pub fn finish(&mut self, counts: &Counts) -> Result<()> {
        if let Some(mut filter) = self.filter.take() {
            let mut passed = Vec::new();
            filter.finish(&mut |event| passed.push(event));
            passed.into_iter().try_for_each(|event| self.print(event))?;
        }
        self.end_of_stderr()?;
        self.progress.clear();
        if !self.json && !self.sessions.is_empty() {
            writeln!(self.out)?;
        }
        for session in std::mem::take(&mut self.sessions).into_values() {
            self.session(&session)?;
        }
        if self.json {
            let summary = self.summary(counts);
            self.write(|line| jsonl::write_summary(line, &summary))?;
        } else {
            writeln!(self.out, "{}", self.totals.line(self.lines.paint))?;
            if self.totals.messages == 0 {
                writeln!(self.out, "{}", nothing(counts))?;
            }
        }
        self.out.flush()?;
        Ok(())
    }

    /// Prints the last record of a session.
    fn session(&mut self, session: &Session) -> Result<()> {
        self.totals.session(session);
        if self.json {
            self.write(|line| jsonl::write_session(line, session))?;
        } else {
            writeln!(self.out, "{}", self.lines.session(session))?;
        }
        Ok(())
    }

    fn summary(&self, counts: &Counts) -> Summary {
        let severities = [Severity::Info, Severity::Warning, Severity::Error];
        let findings = severities.into_iter().map(|severity| (severity, self.totals.findings[severity as usize]));
        Summary {
            packets: counts.packets,
            bytes: counts.bytes,
            skipped: counts.skipped.iter().map(|(reason, count)| (Cow::Borrowed(*reason), *count)).collect(),
            tcp_connections: counts.tcp_connections,
            exchanges: counts.exchanges,
            sessions: self.totals.sessions,
            messages: counts.messages,
            findings: findings.filter(|(_, count)| *count > 0).collect(),
            first_time: counts.first,
            last_time: counts.last,
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        Ok(output::json_line(&mut self.out, &mut self.line, write)?)
    }
}

impl Listener for Printer {
    fn event(&mut self, event: Event) -> Result<()> {
        let Some(filter) = &mut self.filter else { return self.print(event) };
        let mut passed = Vec::new();
        filter.push(event, &mut |event| passed.push(event));
        passed.into_iter().try_for_each(|event| self.print(event))
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Session(_) => self.event(event.clone()),
            _ if self.filter.is_some() => self.event(event.clone()),
            _ => self.show(event),
        }
    }

    fn idle(&mut self) -> Result<()> {
        self.end_of_stderr()?;
        self.out.flush()?;
        Ok(())
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.progress.set(read, total);
    }
}

impl Printer {
    fn print(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Session(session) => {
                if !self.json && !self.has_shown_session {
                    self.lines.start.get_or_insert(session.started);
                    writeln!(self.out, "{}", self.lines.session(&session))?;
                    self.has_shown_session = true;
                } else if !self.json && !self.sessions.contains_key(&session.number) {
                    self.lines.sessions = true;
                    writeln!(self.out, "{}", self.lines.session(&session))?;
                }
                self.sessions.insert(session.number, *session);
            }
            event => self.show(&event)?,
        }
        Ok(())
    }

    /// Prints what is left of a run of stderr lines.
    fn end_of_stderr(&mut self) -> Result<()> {
        let shown = self.fold.end();
        self.notes(shown)
    }

    fn notes(&mut self, shown: Vec<Folded>) -> Result<()> {
        for part in shown {
            self.progress.clear();
            writeln!(self.out, "{}", self.lines.folded(&part))?;
        }
        Ok(())
    }

    /// Prints an event that is not the record of a session.
    fn show(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Ended(number) => {
                if let Some(session) = self.sessions.remove(number) {
                    self.session(&session)?;
                }
            }
            Event::Note(note) if self.json => self.write(|line| jsonl::write_note(line, note))?,
            Event::Note(note) => {
                let shown = self.fold.note(note.clone());
                self.notes(shown)?;
            }
            Event::Message(message) => {
                self.end_of_stderr()?;
                self.totals.message(message);
                if self.json {
                    self.write(|line| jsonl::write_message(line, message))?;
                } else {
                    self.progress.clear();
                    writeln!(self.out, "{}", self.lines.message(message))?;
                }
            }
            Event::Exchange(exchange) if self.json => self.write(|line| jsonl::write_exchange(line, exchange, None))?,
            Event::Finding(finding) => {
                self.totals.finding(finding.severity, finding.repeated.max(1));
                if self.json {
                    self.write(|line| jsonl::write_finding(line, finding))?;
                } else if finding.messages.is_empty() {
                    // The line of a message already names its findings.
                    writeln!(self.out, "{}", self.lines.finding(finding))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An explanation for output without messages.
fn nothing(counts: &Counts) -> String {
    if counts.messages > 0 {
        return format!("the filter matches none of {}", count(counts.messages, "message"));
    }
    let skipped: Vec<String> = counts.skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; skipped: {}", skipped.join(", ")) };
    format!(
        "no MCP in {} packets, {} TCP connections, {} HTTP exchanges{skipped}",
        counts.packets, counts.tcp_connections, counts.exchanges
    )
}
