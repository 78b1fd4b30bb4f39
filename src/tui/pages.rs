//! A cache of answers, and a record of the queries sent. Old answers stay visible until newer ones
//! arrive: nothing flickers and nothing waits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::data::{
    Answer, CapabilityRow, Detail, FindingLine, MessageLine, PAGE, PacketDetail, PacketRow, Request, Rows, SessionRow,
    Statistics, StderrLine, Together,
};
use crate::decode::ConnectionId;
use crate::event::Connection;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::FindingRow;
use crate::view::steps::Step;

/// Limit of the cached pages of one list: those around the window, and the ends of the list.
const KEPT: usize = 24;

/// A version of the store. It grows with each observed change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// For queries that are repeated at once.
    pub quick: u64,
    /// For queries that are repeated once a second.
    pub slow: u64,
}

/// The cached answers.
#[derive(Debug, Default)]
pub struct Pages {
    version: Version,
    /// Queries that were sent, each with the version of the store at that time.
    asked: HashMap<Request, u64>,
    sessions: Option<Vec<SessionRow>>,
    unplaced: Vec<FindingRow>,
    messages: List<(SessionNumber, String), MessageLine>,
    detail: Option<(SessionNumber, Arc<Detail>)>,
    steps: List<SessionNumber, Step>,
    findings: Of<Vec<FindingLine>>,
    statistics: Of<Box<Statistics>>,
    connections: Of<Vec<Connection>>,
    together: Of<Together>,
    packets: List<(SessionNumber, ConnectionId), PacketRow>,
    packet: Of<Box<PacketDetail>>,
    capabilities: Of<Vec<CapabilityRow>>,
    stderr: List<SessionNumber, StderrLine>,
}

/// An answer about a session.
type Of<T> = Option<(SessionNumber, T)>;

/// A list of which only some pages are cached.
#[derive(Debug)]
pub struct List<K, T> {
    of: Option<K>,
    pages: BTreeMap<usize, Vec<T>>,
    total: usize,
    complete: bool,
}

impl<K, T> Default for List<K, T> {
    fn default() -> List<K, T> {
        List { of: None, pages: BTreeMap::new(), total: 0, complete: false }
    }
}

impl<K: PartialEq, T> List<K, T> {
    /// Stores a page. Returns the pages that were evicted for it.
    fn take(&mut self, of: K, page: usize, answer: Rows<T>) -> Vec<usize> {
        if self.of.as_ref() != Some(&of) {
            *self = List { of: Some(of), ..List::default() };
        }
        (self.total, self.complete) = (answer.total, answer.complete);
        self.pages.insert(page, answer.rows);
        let mut forgotten = Vec::new();
        while self.pages.len() > KEPT {
            let farthest = self.pages.keys().copied().max_by_key(|kept| kept.abs_diff(page));
            let Some(farthest) = farthest else { break };
            self.pages.remove(&farthest);
            forgotten.push(farthest);
        }
        forgotten
    }

    /// This list, if its key is `of`.
    fn of(&self, of: &K) -> Option<&Self> {
        (self.of.as_ref() == Some(of)).then_some(self)
    }

    /// A row, if its page is cached.
    pub fn row(&self, row: usize) -> Option<&T> {
        self.pages.get(&(row / PAGE))?.get(row % PAGE)
    }

    /// The last row whose page is cached.
    pub fn last(&self) -> Option<usize> {
        let (page, rows) = self.pages.last_key_value()?;
        (page * PAGE + rows.len()).checked_sub(1)
    }

    /// Whether all rows are known.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The number of rows, as far as it is known.
    pub fn total(&self) -> usize {
        self.total
    }
}

impl Pages {
    /// Notes that the store changed.
    pub fn changed(&mut self) {
        self.version.quick += 1;
    }

    /// Notes that a second passed: costly queries may be sent again.
    pub fn beat(&mut self) {
        self.version.slow = self.version.quick;
    }

    /// Selects the needed queries that have to be sent now. They count as sent.
    pub fn ask(&mut self, needed: Vec<Request>) -> Vec<Request> {
        let mut asked = Vec::new();
        for request in needed {
            let version = if request.is_quick() { self.version.quick } else { self.version.slow };
            if self.asked.get(&request) != Some(&version) {
                self.asked.insert(request.clone(), version);
                asked.push(request);
            }
        }
        // Queries that the screen no longer needs are evicted. If needed again, they are sent
        // again.
        if self.asked.len() > 4 * KEPT {
            let (quick, slow) = (self.version.quick, self.version.slow);
            self.asked.retain(|_, version| *version == quick || *version == slow);
        }
        asked
    }

    /// Stores an answer.
    pub fn take(&mut self, request: &Request, answer: Answer) {
        // Of most kinds only one answer is cached. The query of the replaced answer has to be sent
        // again when it is needed.
        self.asked.retain(|known, _| !displaces(request, known));
        match (request, answer) {
            (Request::Sessions, Answer::Sessions(rows)) => self.sessions = Some(rows),
            (Request::Unplaced, Answer::Unplaced(rows)) => self.unplaced = rows,
            (Request::Messages { session, filter, page }, Answer::Messages(answer)) => {
                let forgotten = self.messages.take((*session, filter.clone()), *page, answer);
                self.forget(|known| matches!(known, Request::Messages { page, .. } if forgotten.contains(page)));
            }
            (Request::Packets { session, connection, page }, Answer::Packets(answer)) => {
                let forgotten = self.packets.take((*session, *connection), *page, answer);
                self.forget(|known| matches!(known, Request::Packets { page, .. } if forgotten.contains(page)));
            }
            (Request::Stderr { session, page }, Answer::Stderr(answer)) => {
                let forgotten = self.stderr.take(*session, *page, answer);
                self.forget(|known| matches!(known, Request::Stderr { page, .. } if forgotten.contains(page)));
            }
            (Request::Detail(session, _), Answer::Detail(detail)) => {
                self.detail = detail.map(|detail| (*session, Arc::from(detail)));
            }
            (Request::Steps { session, page }, Answer::Steps(answer)) => {
                let forgotten = self.steps.take(*session, *page, answer);
                self.forget(|known| matches!(known, Request::Steps { page, .. } if forgotten.contains(page)));
            }
            (Request::Findings(session), Answer::Findings(rows)) => self.findings = Some((*session, rows)),
            (Request::Statistics(session), Answer::Statistics(figures)) => self.statistics = Some((*session, figures)),
            (Request::Together(session), Answer::Together(rows)) => self.together = Some((*session, rows)),
            (Request::Connections(session), Answer::Connections(rows)) => self.connections = Some((*session, rows)),
            (Request::Packet(session, _), Answer::Packet(packet)) => {
                self.packet = packet.map(|packet| (*session, packet));
            }
            (Request::Capabilities(session), Answer::Capabilities(rows)) => self.capabilities = Some((*session, rows)),
            _ => {}
        }
    }

    /// Forgets sent queries whose pages were evicted, so that they are sent again when needed.
    fn forget(&mut self, gone: impl Fn(&Request) -> bool) {
        self.asked.retain(|known, _| !gone(known));
    }

    pub fn sessions(&self) -> Option<&[SessionRow]> {
        self.sessions.as_deref()
    }

    /// Findings without a session.
    pub fn unplaced(&self) -> &[FindingRow] {
        &self.unplaced
    }

    pub fn session(&self, number: SessionNumber) -> Option<&SessionRow> {
        self.sessions()?.iter().find(|row| row.session.number == number)
    }

    /// The number of rows in a list of messages, and whether the filter was applied to all; `None`
    /// before the first answer.
    pub fn message_count(&self, session: SessionNumber, filter: &str) -> Option<(usize, bool)> {
        self.list(session, filter).map(|list| (list.total, list.complete))
    }

    /// A row of a list of messages, if its page is cached.
    pub fn message(&self, session: SessionNumber, filter: &str, row: usize) -> Option<&MessageLine> {
        self.list(session, filter)?.row(row)
    }

    /// The last cached row of a list of messages.
    pub fn last_message(&self, session: SessionNumber, filter: &str) -> Option<usize> {
        self.list(session, filter)?.last()
    }

    pub fn detail(&self, session: SessionNumber, message: MessageNumber) -> Option<&Arc<Detail>> {
        let (of, detail) = self.detail.as_ref()?;
        (*of == session && detail.message.number == message).then_some(detail)
    }

    pub fn steps(&self, session: SessionNumber) -> Option<&List<SessionNumber, Step>> {
        self.steps.of(&session)
    }

    pub fn findings(&self, session: SessionNumber) -> Option<&[FindingLine]> {
        of(&self.findings, session).map(Vec::as_slice)
    }

    pub fn statistics(&self, session: SessionNumber) -> Option<&Statistics> {
        of(&self.statistics, session).map(Box::as_ref)
    }

    pub fn connections(&self, session: SessionNumber) -> Option<&[Connection]> {
        of(&self.connections, session).map(Vec::as_slice)
    }

    /// The messages of all sessions of the session's host.
    pub fn together(&self, session: SessionNumber) -> Option<&Together> {
        of(&self.together, session)
    }

    pub fn packets(
        &self,
        session: SessionNumber,
        connection: ConnectionId,
    ) -> Option<&List<(SessionNumber, ConnectionId), PacketRow>> {
        self.packets.of(&(session, connection))
    }

    /// The packet that was read last.
    pub fn packet(&self, session: SessionNumber) -> Option<&PacketDetail> {
        of(&self.packet, session).map(Box::as_ref)
    }

    pub fn capabilities(&self, session: SessionNumber) -> Option<&[CapabilityRow]> {
        of(&self.capabilities, session).map(Vec::as_slice)
    }

    pub fn stderr(&self, session: SessionNumber) -> Option<&List<SessionNumber, StderrLine>> {
        self.stderr.of(&session)
    }

    fn list(&self, session: SessionNumber, filter: &str) -> Option<&List<(SessionNumber, String), MessageLine>> {
        let own = |of: &(SessionNumber, String)| of.0 == session && of.1 == filter;
        Some(&self.messages).filter(|list| list.of.as_ref().is_some_and(own))
    }
}

/// Whether the answer to `request` replaces the one to `other`.
fn displaces(request: &Request, other: &Request) -> bool {
    match (request, other) {
        (Request::Messages { session, filter, .. }, Request::Messages { session: own, filter: other, .. }) => {
            (session, filter) != (own, other)
        }
        (Request::Packets { session, connection, .. }, Request::Packets { session: own, connection: other, .. }) => {
            (session, connection) != (own, other)
        }
        (Request::Stderr { session, .. }, Request::Stderr { session: own, .. })
        | (Request::Steps { session, .. }, Request::Steps { session: own, .. }) => session != own,
        _ => std::mem::discriminant(request) == std::mem::discriminant(other) && request != other,
    }
}

fn of<T>(answer: &Of<T>, session: SessionNumber) -> Option<&T> {
    answer.as_ref().filter(|(own, _)| *own == session).map(|(_, value)| value)
}
