//! Answers queries from the store. It is synchronous: the query thread calls it, and so do tests.

mod calls;
mod capabilities;
mod export;
mod groups;
mod host_sessions;
mod matches;
mod notes;
mod packet_content;
mod packet_index;
mod packets;
mod replay;
mod session_list;
mod stderr;

use std::collections::HashMap;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::data::{Answer, FindingLine, MessageLine, PAGE, Query, ROWS, Rows, STEPS, Statistics};
use crate::capture::Time;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{FindingRow, MessageRow, Page, RowKey, Scope, StderrLine, StoreReader};
use crate::view::steps::{self, Step};
use crate::view::{detail, text};
use matches::Matches;
use session_list::{SessionList, SessionSearch};

/// Limit in bytes of the texts that are read for the column "about". For a longer text it shows
/// only the tool.
const ABOUT: u64 = 64 << 10;

/// Limit of the cached lines of messages: those of some pages.
const LINES: usize = 1_024;

/// Limit of the threads of a search.
const SEARCHERS: usize = 8;

/// Limit of the findings shown if there is no session.
const UNPLACED: usize = 16;

/// Time slice of counting and searching before other queries are answered: keys wait no longer.
pub const TURN: Duration = Duration::from_millis(30);

/// Number of messages that a search for the next problem reads at once.
const SAMPLE: usize = 4_096;

/// Answers queries, with what it has computed so far.
pub struct QueryRunner {
    reader: StoreReader,
    /// The order of the sessions: newest first for a database, oldest first for a capture.
    newest_first: bool,
    /// Wall-clock time. It separates live captures from those whose writer died.
    now: Time,
    version: Option<i64>,
    sessions: SessionList,
    session_search: Option<SessionSearch>,
    /// Lines of the messages that were read last.
    lines: HashMap<RowKey, MessageLine>,
    matches: Option<Matches>,
    /// More readers for searches in parallel. They are opened with the first search.
    helpers: Option<Vec<StoreReader>>,
    /// Figures of the session whose statistics were read last.
    figures: Option<calls::Figures>,
    steps: Option<steps::StepTable>,
    stderr: Option<stderr::StderrIndex>,
    /// The packets of the capture that was listed last.
    packet_index: Option<packet_index::PacketIndex>,
    /// The session that was read last, and whether its capture had ended. Its messages are in order
    /// of time from then on.
    order: Option<(SessionNumber, bool)>,
}

impl QueryRunner {
    /// Answers from a store.
    pub fn new(reader: StoreReader, newest_first: bool) -> QueryRunner {
        QueryRunner {
            reader,
            newest_first,
            now: Time::default(),
            version: None,
            sessions: SessionList::default(),
            session_search: None,
            lines: HashMap::new(),
            matches: None,
            helpers: None,
            figures: None,
            steps: None,
            stderr: None,
            packet_index: None,
            order: None,
        }
    }

    /// Sets the wall-clock time.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Whether the store changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        // An error of the store appears in the next query.
        let version = self.reader.data_version().ok();
        let before = std::mem::replace(&mut self.version, version);
        before != version
    }

    /// Answers a query.
    pub fn answer(&mut self, query: &Query) -> Answer {
        self.read(query).unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
    }

    fn read(&mut self, query: &Query) -> Result<Answer> {
        Ok(match query {
            Query::Sessions => Answer::Sessions(self.sessions()?),
            Query::SessionSearch(filter) => {
                let (found, complete) = self.search_sessions(filter)?;
                Answer::SessionsFound(found, complete)
            }
            Query::Unplaced => Answer::Unplaced(self.reader.findings(Scope::All, Page::first(UNPLACED))?),
            Query::Messages(list, page) => Answer::Messages(self.messages(list.session, &list.filter, *page)?),
            Query::Notes(session) => Answer::Notes(self.notes(*session)?),
            Query::Detail(session, message) => Answer::Detail(detail::read(&self.reader, *session, *message)?),
            Query::Steps(session, page) => Answer::Steps(self.steps(*session, *page)?),
            Query::Findings(session) => Answer::Findings(self.findings(*session)?),
            Query::Statistics(session) => Answer::Statistics(Box::new(self.statistics(*session)?)),
            Query::Connections(session) => Answer::Connections(Box::new(self.connections(*session)?)),
            Query::Packets(session, scope, page) => Answer::Packets(self.packets(*session, *scope, *page)?),
            Query::Packet(session, packet) => Answer::Packet(self.packet(*session, *packet)?),
            Query::LocatePacket(session, scope, packet) => {
                Answer::PacketLocated(self.locate_packet(*session, *scope, *packet)?)
            }
            Query::AllServers(session) => Answer::AllServers(self.host_sessions(*session)?),
            Query::Group(list, row) => Answer::Groups(self.group(list.session, &list.filter, *row)?),
            Query::Groups(list) => Answer::Groups(self.groups(list.session, &list.filter)?),
            Query::Capabilities(session) => Answer::Capabilities(capabilities::read(&self.reader, *session)?),
            Query::Stderr(session, page) => Answer::Stderr(self.stderr(*session, *page)?),
            Query::Locate(list, message) => Answer::Located(self.locate(list.session, &list.filter, *message)?),
            Query::NextProblem(list, after) => {
                Answer::Located(self.next_problem(list.session, &list.filter, *after)?)
            }
            Query::Draft(session, message) => Answer::Draft(Box::new(replay::draft(&self.reader, *session, *message)?)),
            Query::Export(list, only, path) => Answer::Exported(export::write(&self.reader, list, only, path)?),
        })
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

    /// Adds to the rows what only their texts and findings contain.
    fn lines(&mut self, rows: Vec<MessageRow>) -> Result<Vec<MessageLine>> {
        rows.into_iter().map(|row| self.line(row)).collect()
    }

    /// The line of a row. A visible page is read again after each write, but the text of an
    /// unchanged row is not.
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
            Ok(Some(message)) => text::about(&message),
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

    /// Forgets what was read by positions, if these may have changed.
    fn check_order(&mut self, session: SessionNumber) -> Result<()> {
        let capture = self.reader.capture_of(session)?.map(|capture| self.reader.capture(capture)).transpose()?;
        let has_ended = capture.flatten().is_some_and(|capture| capture.summary.is_some());
        let order = Some((session, has_ended));
        if std::mem::replace(&mut self.order, order) != order {
            (self.matches, self.figures, self.steps) = (None, None, None);
        }
        Ok(())
    }

    /// The matches of a filter so far. The first slice is searched at once.
    fn matches(&mut self, session: SessionNumber, filter: &str) -> Result<&mut Matches> {
        self.check_order(session)?;
        if !self.matches.as_ref().is_some_and(|matches| matches.is_of(session, filter)) {
            self.matches = Some(Matches::new(session, filter)?);
            self.search()?;
        }
        self.matches.as_mut().ok_or_else(|| anyhow::anyhow!("no filter"))
    }

    /// Continues a search that is not complete. Returns whether it advanced.
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

    /// Marks the search as incomplete, because new messages may match.
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
        Ok(self.rows(session, filter, vec![position])?.pop())
    }

    fn next_problem(&mut self, session: SessionNumber, filter: &str, after: usize) -> Result<Option<usize>> {
        let is_problem = |row: &MessageRow| row.findings > 0 || calls::failed(row);
        let Some(mut position) = self.position(session, filter, after + 1)? else { return Ok(None) };
        loop {
            let rows = self.reader.message_rows_at(session, position, SAMPLE)?;
            let Some(last) = rows.last() else { return Ok(None) };
            let problems = rows.iter().filter(|row| is_problem(row)).map(|row| row.position).collect();
            if let Some(row) = self.rows(session, filter, problems)?.first() {
                return Ok(Some(*row));
            }
            position = last.position + 1;
        }
    }

    fn stderr(&mut self, session: SessionNumber, page: usize) -> Result<Rows<StderrLine>> {
        if !self.stderr.as_ref().is_some_and(|lines| lines.is_of(session)) {
            self.stderr = stderr::StderrIndex::new(&self.reader, session)?;
        }
        match &mut self.stderr {
            Some(lines) => lines.page(&self.reader, page),
            None => Ok(Rows { rows: Vec::new(), total: 0, complete: true }),
        }
    }

    fn steps(&mut self, session: SessionNumber, page: usize) -> Result<Rows<Step>> {
        self.check_order(session)?;
        let known = self.steps.take().filter(|index| index.is_of(session));
        let index = self.steps.insert(known.unwrap_or_else(|| steps::StepTable::new(session, STEPS)));
        // The rest is read when the page is queried again.
        let until = Instant::now() + TURN;
        let complete = index.grow(&self.reader, &|| Instant::now() >= until)?;
        Ok(Rows { rows: index.steps(&self.reader, page * PAGE, PAGE)?, total: index.total(), complete })
    }

    fn statistics(&mut self, session: SessionNumber) -> Result<Statistics> {
        self.check_order(session)?;
        let known = self.figures.take().filter(|figures| figures.is_of(session));
        self.figures.insert(known.unwrap_or_else(|| calls::Figures::new(session))).read(&self.reader)
    }

    /// The findings grouped by rule: the most severe first, then the most frequent.
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
