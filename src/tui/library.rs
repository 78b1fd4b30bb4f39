//! Answers to questions, read from the store. Synchronous: the reader thread calls it, and so do tests.

mod calls;
mod capabilities;
mod curl;
mod detail;
mod export;
mod filtered;
mod groups;
mod layers;
mod packets;
mod replay;
mod stderr;
mod together;
mod trace;

use std::collections::HashMap;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::data::{
    Answer, FindingLine, MessageLine, PAGE, ROWS, Request, Rows, STEPS, SessionRow, Statistics, StderrLine,
};
use crate::capture::{PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::event::Connection;
use crate::mcp::{MessageNumber, Session, SessionNumber};
use crate::store::{FindingRow, MessageRow, Page, RowKey, Scope, StoreReader};
use crate::view::latencies::Latencies;
use crate::view::steps::{self, Step};
use crate::view::text;
use filtered::Matches;

/// Texts up to here are read to say what a message is about; of a longer one the list says its tool.
const ABOUT: u64 = 64 << 10;

/// Lines of messages that are kept: those of some pages.
const LINES: usize = 1_024;

/// Threads that search at most.
const SEARCHERS: usize = 8;

/// Findings that are shown where there is no session.
const UNPLACED: usize = 16;

/// How long is worked at what is counted or searched slice by slice before others are answered: keys wait no longer.
pub const TURN: Duration = Duration::from_millis(30);

/// Rows whose latencies stand for a session in the list of sessions.
const SAMPLE: usize = 4_096;

/// The store as the screens ask it.
pub struct Library {
    reader: StoreReader,
    /// The newest session first: right for a database, wrong for a capture.
    newest_first: bool,
    /// The time by the clock: tells live captures from those whose writer died.
    now: Time,
    version: Option<i64>,
    /// Sessions as they were listed last: of one that ended and is the same nothing is asked again.
    listed: HashMap<SessionNumber, SessionRow>,
    /// Latencies of sessions, and how many messages there were.
    latencies: HashMap<SessionNumber, (u64, Option<(i64, i64)>)>,
    /// Lines of messages that were asked for last.
    lines: HashMap<RowKey, MessageLine>,
    matches: Option<Matches>,
    /// More readers, for filters that go through much; opened with the first one.
    helpers: Option<Vec<StoreReader>>,
    /// Of the session whose figures were looked at last, and of the one whose steps were.
    figures: Option<calls::Figures>,
    steps: Option<steps::Index>,
    /// Of the session whose stderr was looked at last.
    stderr: Option<stderr::Lines>,
}

impl Library {
    /// Over a store.
    pub fn new(reader: StoreReader, newest_first: bool) -> Library {
        Library {
            reader,
            newest_first,
            now: Time::default(),
            version: None,
            listed: HashMap::new(),
            latencies: HashMap::new(),
            lines: HashMap::new(),
            matches: None,
            helpers: None,
            figures: None,
            steps: None,
            stderr: None,
        }
    }

    /// Tells the time.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Whether anybody wrote since this was asked last.
    pub fn has_changed(&mut self) -> bool {
        // A store that cannot be asked says so when it is asked for something.
        let version = self.reader.data_version().ok();
        let before = std::mem::replace(&mut self.version, version);
        before != version
    }

    /// The answer to a question.
    pub fn answer(&mut self, request: &Request) -> Answer {
        self.read(request).unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
    }

    fn read(&mut self, request: &Request) -> Result<Answer> {
        Ok(match request {
            Request::Sessions => Answer::Sessions(self.sessions()?),
            Request::Unplaced => Answer::Unplaced(self.reader.findings(Scope::All, Page::first(UNPLACED))?),
            Request::Messages { session, filter, page } => Answer::Messages(self.messages(*session, filter, *page)?),
            Request::Detail(session, message) => Answer::Detail(detail::read(&self.reader, *session, *message)?),
            Request::Steps { session, page } => Answer::Steps(self.steps(*session, *page)?),
            Request::Findings(session) => Answer::Findings(self.findings(*session)?),
            Request::Statistics(session) => Answer::Statistics(Box::new(self.statistics(*session)?)),
            Request::Connections(session) => Answer::Connections(self.connections(*session)?),
            Request::Packets { session, connection, page } => {
                Answer::Packets(packets::read(&self.reader, *session, *connection, *page)?)
            }
            Request::Packet(session, packet) => Answer::Packet(packets::detail(&self.reader, *session, *packet)?),
            Request::LocatePacket(session, packet) => Answer::PacketLocated(self.locate_packet(*session, *packet)?),
            Request::Together(session) => Answer::Together(self.together(*session)?),
            Request::Group { session, filter, row } => Answer::Groups(self.group(*session, filter, *row)?),
            Request::Groups { session, filter } => Answer::Groups(self.groups(*session, filter)?),
            Request::Capabilities(session) => Answer::Capabilities(capabilities::read(&self.reader, *session)?),
            Request::Stderr { session, page } => Answer::Stderr(self.stderr(*session, *page)?),
            Request::Locate { session, filter, message } => Answer::Located(self.locate(*session, filter, *message)?),
            Request::NextOdd { session, filter, after } => Answer::Located(self.next_odd(*session, filter, *after)?),
            Request::Draft { session, message } => {
                Answer::Draft(Box::new(replay::draft(&self.reader, *session, *message)?))
            }
            Request::Export { session, filter, only, path } => {
                Answer::Exported(export::write(&self.reader, *session, filter, only, path)?)
            }
        })
    }

    fn sessions(&mut self) -> Result<Vec<SessionRow>> {
        let page = if self.newest_first { Page::last(ROWS) } else { Page::first(ROWS) };
        let sessions = self.reader.sessions(page)?;
        let rows: Vec<SessionRow> = sessions.into_iter().map(|session| self.session(session)).collect::<Result<_>>()?;
        self.listed = rows.iter().map(|row| (row.session.number, row.clone())).collect();
        Ok(rows)
    }

    fn session(&mut self, session: Session) -> Result<SessionRow> {
        let number = session.number;
        if let Some(known) = self.listed.get(&number).filter(|known| !known.live && known.session == session) {
            return Ok(known.clone());
        }
        let mut findings = [0; 3];
        for (severity, count) in self.reader.finding_counts(Scope::Session(number))? {
            findings[severity as usize] = count;
        }
        let capture = self.reader.capture_of(number)?;
        let capture = capture.map(|capture| self.reader.capture(capture)).transpose()?.flatten();
        let live = capture.is_some_and(|capture| capture.is_live(self.now));
        Ok(SessionRow { latency: self.latency(&session)?, live, findings, session })
    }

    /// Median and 95th percentile over the session's first messages; found out again when there are some more.
    fn latency(&mut self, session: &Session) -> Result<Option<(i64, i64)>> {
        let messages = session.messages;
        if let Some((then, latency)) = self.latencies.get(&session.number)
            && (messages == *then || *then >= SAMPLE as u64)
        {
            return Ok(*latency);
        }
        let rows = self.reader.message_rows_at(session.number, 1, SAMPLE)?;
        let mut latencies: Latencies =
            rows.iter().filter(|row| row.answers.is_some()).filter_map(|row| row.latency).collect();
        let latency = latencies.percentile(50).zip(latencies.percentile(95));
        self.latencies.insert(session.number, (messages, latency));
        Ok(latency)
    }

    fn messages(&mut self, session: SessionNumber, filter: &str, page: usize) -> Result<Rows<MessageLine>> {
        if filter.is_empty() {
            let rows = self.reader.message_rows_at(session, (page * PAGE) as u64 + 1, PAGE)?;
            let total = self.reader.message_count(Scope::Session(session))? as usize;
            return Ok(Rows { rows: self.lines(rows)?, total, complete: true });
        }
        let matches = self.matches(session, filter)?;
        let positions = matches.page(page);
        let (total, complete) = (matches.len(), matches.is_complete());
        let mut rows = Vec::with_capacity(positions.len());
        for position in positions {
            rows.extend(self.reader.message_rows_at(session, position, 1)?);
        }
        Ok(Rows { rows: self.lines(rows)?, total, complete })
    }

    /// The rows with what only their texts and findings tell.
    fn lines(&mut self, rows: Vec<MessageRow>) -> Result<Vec<MessageLine>> {
        rows.into_iter().map(|row| self.line(row)).collect()
    }

    /// The line of a row. A page in view is asked for again whenever somebody wrote: of a row that is the same no text is read again.
    fn line(&mut self, row: MessageRow) -> Result<MessageLine> {
        if let Some(known) = self.lines.get(&row.key()).filter(|known| known.row == row) {
            return Ok(known.clone());
        }
        let line = self.read_line(row)?;
        if self.lines.len() >= LINES {
            self.lines.clear();
        }
        self.lines.insert(line.row.key(), line.clone());
        Ok(line)
    }

    fn read_line(&self, row: MessageRow) -> Result<MessageLine> {
        let about = match self.reader.message(row.key()).map(|message| message.filter(|_| row.size <= ABOUT)) {
            Ok(Some(message)) => {
                let tool = row.subject.as_deref().filter(|_| row.method.as_deref() == Some("tools/call"));
                text::about(&message, tool)
            }
            _ => row.subject.clone().unwrap_or_default(),
        };
        let mut rules: Vec<String> = Vec::new();
        if row.findings > 0 {
            for finding in self.reader.message_findings(row.key())? {
                if !rules.contains(&finding.rule) {
                    rules.push(finding.rule);
                }
            }
        }
        Ok(MessageLine { row, about, rules })
    }

    /// The matches of a filter, as far as it went; a first slice is searched at once.
    fn matches(&mut self, session: SessionNumber, filter: &str) -> Result<&mut Matches> {
        if !self.matches.as_ref().is_some_and(|matches| matches.is_of(session, filter)) {
            self.matches = Some(Matches::new(session, filter)?);
            self.search()?;
        }
        self.matches.as_mut().ok_or_else(|| anyhow::anyhow!("no filter"))
    }

    /// Searches on where a filter has not gone through all messages; whether it found out something.
    pub fn search_on(&mut self) -> bool {
        self.search().unwrap_or(false)
    }

    fn search(&mut self) -> Result<bool> {
        let Some(matches) = self.matches.as_mut().filter(|matches| !matches.is_complete()) else { return Ok(false) };
        if self.helpers.is_none() {
            let count = thread::available_parallelism().map_or(1, NonZero::get).min(SEARCHERS) - 1;
            let open = |_| StoreReader::open(self.reader.place()).ok();
            self.helpers = Some((0..count).filter_map(open).collect());
        }
        matches.search_on(&self.reader, self.helpers.as_deref_mut().unwrap_or_default())?;
        Ok(true)
    }

    /// More may have come since a filter went through all.
    pub fn search_again(&mut self) {
        if let Some(matches) = &mut self.matches {
            matches.more_may_follow();
        }
    }

    fn locate(&mut self, session: SessionNumber, filter: &str, message: MessageNumber) -> Result<Option<usize>> {
        let position = self.reader.message_position(session, message)?;
        let row = self.reader.message_rows_at(session, position, 1)?;
        if row.first().is_none_or(|row| row.number != message) {
            return Ok(None);
        }
        if filter.is_empty() {
            return Ok(Some(position as usize - 1));
        }
        Ok(self.matches(session, filter)?.row_of(position))
    }

    fn next_odd(&mut self, session: SessionNumber, filter: &str, after: usize) -> Result<Option<usize>> {
        let odd = |row: &MessageRow| row.findings > 0 || calls::failed(row);
        let first = match filter {
            "" => after as u64 + 2,
            _ => match self.matches(session, filter)?.position_of(after + 1) {
                Some(position) => position,
                None => return Ok(None),
            },
        };
        let mut position = first;
        loop {
            let rows = self.reader.message_rows_at(session, position, SAMPLE)?;
            let Some(last) = rows.last() else { return Ok(None) };
            for row in rows.iter().filter(|row| odd(row)) {
                let seen = match filter {
                    "" => Some(row.position as usize - 1),
                    _ => self.matches(session, filter)?.row_of(row.position),
                };
                if seen.is_some() {
                    return Ok(seen);
                }
            }
            position = last.position + 1;
        }
    }

    fn stderr(&mut self, session: SessionNumber, page: usize) -> Result<Rows<StderrLine>> {
        if !self.stderr.as_ref().is_some_and(|lines| lines.is_of(session)) {
            self.stderr = stderr::Lines::new(&self.reader, session)?;
        }
        match &mut self.stderr {
            Some(lines) => lines.page(&self.reader, page),
            None => Ok(Rows { rows: Vec::new(), total: 0, complete: true }),
        }
    }

    fn locate_packet(&self, session: SessionNumber, packet: PacketNumber) -> Result<Option<(usize, usize)>> {
        let Some(capture) = self.reader.capture_of(session)? else { return Ok(None) };
        let Some((connection, row)) = self.reader.packet_row(capture, packet)? else { return Ok(None) };
        let connections = self.connections(session)?;
        let position = connections.iter().position(|known| known.id == connection);
        Ok(position.map(|position| (position, row as usize)))
    }

    fn connections(&self, session: SessionNumber) -> Result<Vec<Connection>> {
        self.reader.connections(session, Page::<ConnectionId>::first(ROWS))
    }

    fn steps(&mut self, session: SessionNumber, page: usize) -> Result<Rows<Step>> {
        let known = self.steps.take().filter(|index| index.is_of(session));
        let mut index = known.unwrap_or_else(|| steps::Index::new(session, STEPS));
        // What is left is taken in when the page is asked for again.
        let until = Instant::now() + TURN;
        let complete = index.grow(&self.reader, &|| Instant::now() >= until)?;
        let rows = index.steps(&self.reader, page * PAGE, PAGE)?;
        let total = index.total();
        self.steps = Some(index);
        Ok(Rows { rows, total, complete })
    }

    fn statistics(&mut self, session: SessionNumber) -> Result<Statistics> {
        let mut figures = self
            .figures
            .take()
            .filter(|figures| figures.is_of(session))
            .unwrap_or_else(|| calls::Figures::new(session));
        let answer = figures.read(&self.reader);
        self.figures = Some(figures);
        answer
    }

    /// Grouped by rule: the worst first, then the most frequent.
    fn findings(&self, session: SessionNumber) -> Result<Vec<FindingLine>> {
        let mut groups: Vec<Vec<FindingRow>> = Vec::new();
        for finding in self.reader.findings(Scope::Session(session), Page::<u64>::first(ROWS))? {
            match groups.iter_mut().find(|group| group[0].rule == finding.rule) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        groups.sort_by_key(|group| (std::cmp::Reverse(group[0].severity), std::cmp::Reverse(group.len())));
        let mut lines = Vec::new();
        for group in groups {
            let first = &group[0];
            lines.push(FindingLine::Rule {
                id: first.rule.clone(),
                severity: first.severity,
                title: first.title.clone(),
                count: group.len(),
            });
            lines.extend(group.into_iter().map(FindingLine::Finding));
        }
        Ok(lines)
    }
}
