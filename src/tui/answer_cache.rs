//! A cache of answers, and a record of the queries sent. Old answers stay visible until newer ones
//! arrive: nothing flickers and nothing waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::discriminant;
use std::sync::Arc;

use super::data::{
    Answer, CapabilityRow, ConnectionList, Detail, FindingLine, HostSessions, MessageLine, MessageList, NoteLine, PAGE,
    PacketDetail, PacketRow, PacketScope, Query, Rows, SessionRow, Statistics,
};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{FindingRow, StderrLine};
use crate::view::steps::Step;

/// Limit of the cached pages of one list: those around the window, and the ends of the list.
const CACHED_PAGES: usize = 24;

/// A version of the store. It grows with each observed change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreVersion {
    /// For queries that are repeated at once.
    pub quick: u64,
    /// For queries that are repeated once a second.
    pub slow: u64,
}

/// The cached answers.
#[derive(Debug, Default)]
pub struct AnswerCache {
    version: StoreVersion,
    /// Queries that were sent, each with the version of the store at that time.
    sent: HashMap<Query, u64>,
    sessions: Option<Vec<SessionRow>>,
    /// The sessions that a search found, its filter, and whether it is complete.
    sessions_found: Option<(String, BTreeSet<SessionNumber>, bool)>,
    /// Findings without a session.
    pub unplaced: Vec<FindingRow>,
    messages: PagedList<MessageList, MessageLine>,
    pub notes: ForSession<Vec<NoteLine>>,
    detail: Option<(SessionNumber, Arc<Detail>)>,
    pub steps: PagedList<SessionNumber, Step>,
    pub findings: ForSession<Vec<FindingLine>>,
    pub statistics: ForSession<Box<Statistics>>,
    pub connections: ForSession<Box<ConnectionList>, Option<SessionNumber>>,
    pub all_servers: ForSession<HostSessions>,
    pub packets: PagedList<(Option<SessionNumber>, PacketScope), PacketRow>,
    pub packet: ForSession<Arc<PacketDetail>, Option<SessionNumber>>,
    pub capabilities: ForSession<Vec<CapabilityRow>>,
    pub stderr: PagedList<SessionNumber, StderrLine>,
}

/// The last answer of a kind, and the session that it is about.
#[derive(Debug)]
pub struct ForSession<T, K = SessionNumber>(Option<(K, T)>);

impl<T, K> Default for ForSession<T, K> {
    fn default() -> ForSession<T, K> {
        ForSession(None)
    }
}

impl<T, K: PartialEq> ForSession<T, K> {
    /// The answer, if it is about this session.
    pub fn of(&self, session: K) -> Option<&T> {
        self.0.as_ref().filter(|(own, _)| *own == session).map(|(_, answer)| answer)
    }

    fn set(&mut self, session: K, answer: T) {
        self.0 = Some((session, answer));
    }
}

/// A list of which only some pages are cached.
#[derive(Debug)]
pub struct PagedList<K, T> {
    of: Option<K>,
    pages: BTreeMap<usize, Vec<T>>,
    total: usize,
    complete: bool,
}

impl<K, T> Default for PagedList<K, T> {
    fn default() -> PagedList<K, T> {
        PagedList { of: None, pages: BTreeMap::new(), total: 0, complete: false }
    }
}

impl<K: PartialEq, T> PagedList<K, T> {
    /// Stores a page. Returns the pages that were evicted for it.
    fn take(&mut self, of: K, page: usize, answer: Rows<T>) -> Vec<usize> {
        if self.of.as_ref() != Some(&of) {
            *self = PagedList { of: Some(of), ..PagedList::default() };
        }
        (self.total, self.complete) = (answer.total, answer.complete);
        self.pages.insert(page, answer.rows);
        let mut evicted = Vec::new();
        while self.pages.len() > CACHED_PAGES {
            let farthest = self.pages.keys().copied().max_by_key(|cached| cached.abs_diff(page));
            let Some(farthest) = farthest else { break };
            self.pages.remove(&farthest);
            evicted.push(farthest);
        }
        evicted
    }

    /// This list, if its key is `of`.
    pub fn of(&self, of: &K) -> Option<&Self> {
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

impl AnswerCache {
    /// Notes that the store changed.
    pub fn store_changed(&mut self) {
        self.version.quick += 1;
    }

    /// Notes that a second passed: costly queries may be sent again.
    pub fn second_passed(&mut self) {
        self.version.slow = self.version.quick;
    }

    /// Selects the needed queries that have to be sent now. They count as sent.
    pub fn select_unsent(&mut self, needed: Vec<Query>) -> Vec<Query> {
        let mut sent = Vec::new();
        for query in needed {
            let version = if query.is_quick() { self.version.quick } else { self.version.slow };
            if self.sent.get(&query) != Some(&version) {
                self.sent.insert(query.clone(), version);
                sent.push(query);
            }
        }
        // Queries that the screen no longer needs are evicted. If needed again, they
        // are sent again.
        if self.sent.len() > 4 * CACHED_PAGES {
            let (quick, slow) = (self.version.quick, self.version.slow);
            self.sent.retain(|_, version| *version == quick || *version == slow);
        }
        sent
    }

    /// Stores an answer.
    pub fn take(&mut self, query: &Query, answer: Answer) {
        // Of most kinds only one answer is cached. The query of the replaced answer has to be sent
        // again when it is needed.
        self.sent.retain(|sent_query, _| !replaces(query, sent_query));
        let evicted = match (query, answer) {
            (Query::Messages(list, page), Answer::Messages(rows)) => self.messages.take(list.clone(), *page, rows),
            (Query::Packets(session, scope, page), Answer::Packets(rows)) => {
                self.packets.take((*session, *scope), *page, rows)
            }
            (Query::Stderr(session, page), Answer::Stderr(rows)) => self.stderr.take(*session, *page, rows),
            (Query::Steps(session, page), Answer::Steps(rows)) => self.steps.take(*session, *page, rows),
            (query, answer) => return self.take_whole(query, answer),
        };
        // So are those of evicted pages.
        let is_evicted = |sent_query: &Query| sent_query.page().is_some_and(|page| evicted.contains(&page));
        self.sent.retain(|sent_query, _| discriminant(sent_query) != discriminant(query) || !is_evicted(sent_query));
    }

    /// Stores an answer that has no pages.
    fn take_whole(&mut self, query: &Query, answer: Answer) {
        match (query, answer) {
            (Query::Sessions, Answer::Sessions(list)) => self.sessions = Some(list.rows),
            (Query::SessionSearch(filter), Answer::SessionsFound(found, complete)) => {
                self.sessions_found = Some((filter.clone(), found, complete));
            }
            (Query::Unplaced, Answer::Unplaced(rows)) => self.unplaced = rows,
            (Query::Notes(session), Answer::Notes(lines)) => self.notes.set(*session, lines),
            (Query::Detail(session, _), Answer::Detail(detail)) => {
                self.detail = detail.map(|detail| (*session, Arc::from(detail)));
            }
            (Query::Findings(session), Answer::Findings(rows)) => self.findings.set(*session, rows),
            (Query::Statistics(session), Answer::Statistics(figures)) => self.statistics.set(*session, figures),
            (Query::AllServers(session), Answer::AllServers(rows)) => self.all_servers.set(*session, rows),
            (Query::Connections(session), Answer::Connections(rows)) => self.connections.set(*session, rows),
            (Query::Packet(session, _), Answer::Packet(packet)) => {
                self.packet = ForSession(packet.map(|packet| (*session, Arc::from(packet))));
            }
            (Query::Capabilities(session), Answer::Capabilities(rows)) => self.capabilities.set(*session, rows),
            _ => {}
        }
    }

    pub fn sessions(&self) -> Option<&[SessionRow]> {
        self.sessions.as_deref()
    }

    /// The sessions that a search found so far, and whether it is complete.
    pub fn sessions_found(&self, filter: &str) -> Option<(&BTreeSet<SessionNumber>, bool)> {
        let (_, found, complete) = self.sessions_found.as_ref().filter(|(own, ..)| own == filter)?;
        Some((found, *complete))
    }

    pub fn session(&self, number: SessionNumber) -> Option<&SessionRow> {
        self.sessions()?.iter().find(|row| row.session.number == number)
    }

    /// The list of messages that a filter selects, once a page of it was read.
    pub fn messages(&self, session: SessionNumber, filter: &str) -> Option<&PagedList<MessageList, MessageLine>> {
        let own = |of: &MessageList| of.session == session && of.filter == filter;
        Some(&self.messages).filter(|list| list.of.as_ref().is_some_and(own))
    }

    pub fn detail(&self, session: SessionNumber, message: MessageNumber) -> Option<&Arc<Detail>> {
        let (of, detail) = self.detail.as_ref()?;
        (*of == session && detail.message.number == message).then_some(detail)
    }
}

/// Whether the answer to `query` replaces the one to `other`.
fn replaces(query: &Query, other: &Query) -> bool {
    match (query, other) {
        (Query::Messages(list, _), Query::Messages(own, _)) => list != own,
        (Query::Packets(session, scope, _), Query::Packets(own, other, _)) => (session, scope) != (own, other),
        (Query::Stderr(session, _), Query::Stderr(own, _)) | (Query::Steps(session, _), Query::Steps(own, _)) => {
            session != own
        }
        _ => discriminant(query) == discriminant(other) && query != other,
    }
}
