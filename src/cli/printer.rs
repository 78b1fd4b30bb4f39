//! Prints events on standard output, as text for people or as JSON lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use anyhow::Result;

use super::args::Colour;
use super::lines::Lines;
use crate::engine::Listener;
use crate::event::Event;
use crate::export::jsonl::{self, Summary};
use crate::filter::{EventFilter, Filter};
use crate::findings::Severity;
use crate::mcp::{Session, SessionNumber};
use crate::pipeline::Counts;
use crate::view::units::count;

/// Prints events as they arrive.
#[derive(Debug)]
pub struct Printer {
    lines: Lines,
    /// The latest record of each session that has not ended. It is printed at the session's end.
    sessions: BTreeMap<SessionNumber, Session>,
    /// Whether the line of a session was printed.
    has_shown_session: bool,
    began: Instant,
    filter: Option<EventFilter>,
}

impl Printer {
    /// Makes a printer to standard output. Messages are printed if they match the filter, as far as
    /// a live capture can decide that.
    pub fn new(json: bool, colour: Colour, filter: Option<Filter>, live: bool) -> Printer {
        Printer {
            lines: Lines::new(json, colour, false),
            sessions: BTreeMap::new(),
            has_shown_session: false,
            began: Instant::now(),
            filter: filter.map(|filter| EventFilter::new(filter, live)),
        }
    }

    /// Prints the remaining sessions and the summary.
    pub fn finish(&mut self, counts: &Counts) -> Result<()> {
        if let Some(mut filter) = self.filter.take() {
            let mut passed = Vec::new();
            filter.finish(&mut |event| passed.push(event));
            passed.into_iter().try_for_each(|event| self.print(event))?;
        }
        self.lines.end_of_stderr()?;
        self.lines.progress.clear();
        if !self.lines.json && !self.sessions.is_empty() {
            self.lines.text("")?;
        }
        for session in std::mem::take(&mut self.sessions).into_values() {
            self.session(&session)?;
        }
        if self.lines.json {
            let summary = self.summary(counts);
            self.lines.write(|line| jsonl::write_summary(line, &summary))?;
        } else {
            writeln!(self.lines.out, "{}", self.lines.totals.line(self.lines.format.paint))?;
            if self.lines.totals.messages == 0 {
                self.lines.text(nothing(counts))?;
            }
        }
        Ok(self.lines.out.flush()?)
    }

    /// Prints the last record of a session.
    fn session(&mut self, session: &Session) -> Result<()> {
        self.lines.totals.session(session);
        match self.lines.json {
            true => self.lines.write(|line| jsonl::write_session(line, session)),
            false => self.lines.session(session),
        }
    }

    fn summary(&self, counts: &Counts) -> Summary {
        let severities = [Severity::Info, Severity::Warning, Severity::Error];
        let findings = severities.into_iter().map(|severity| (severity, self.lines.totals.findings[severity as usize]));
        Summary {
            packets: counts.packets,
            bytes: counts.bytes,
            skipped: counts.skipped.iter().map(|(reason, count)| (Cow::Borrowed(*reason), *count)).collect(),
            tcp_connections: counts.tcp_connections,
            exchanges: counts.exchanges,
            sessions: self.lines.totals.sessions,
            messages: counts.messages,
            findings: findings.filter(|(_, count)| *count > 0).collect(),
            first_time: counts.first,
            last_time: counts.last,
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
        }
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
        self.lines.end_of_stderr()?;
        Ok(self.lines.out.flush()?)
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.lines.progress.set(read, total);
    }
}

impl Printer {
    fn print(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Session(session) => {
                let is_shown = self.has_shown_session && self.sessions.contains_key(&session.number);
                if !self.lines.json && !is_shown {
                    self.lines.format.start.get_or_insert(session.started);
                    self.lines.format.sessions = self.has_shown_session;
                    self.lines.session(&session)?;
                    self.has_shown_session = true;
                }
                self.sessions.insert(session.number, *session);
            }
            event => self.show(&event)?,
        }
        Ok(())
    }

    /// Prints an event that is not the record of a session.
    fn show(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Ended(number) => self.sessions.remove(number).map_or(Ok(()), |session| self.session(&session)),
            Event::Note(note) => self.lines.note(note),
            Event::Message(message) => self.lines.message(message, |line| jsonl::write_message(line, message)),
            Event::Exchange(exchange) if self.lines.json => {
                self.lines.write(|line| jsonl::write_exchange(line, exchange, None))
            }
            Event::Finding(finding) => {
                self.lines.totals.finding(finding.severity, finding.repeated.max(1));
                self.lines.finding(finding)
            }
            _ => Ok(()),
        }
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
