//! Runs the check functions of all rules, with one history for each session.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::history::{History, ProcessChange};
use super::known_lists::{self, KnownList, KnownLists};
use super::mcp_exchange::McpExchange;
use super::message_context::MessageContext;
use super::message_facts::MessageFacts;
use super::rule::{Check, Finding, Report, Rule, Severity};
use super::server_versions::ServerVersions;
use super::{all, http, jsonrpc, stdio};
use crate::capture::{Limits, Time};
use crate::decode::{ConnectionId, Direction, Exchange, ExchangeNumber, Kind, sse, tcp};
use crate::mcp::pairing::Pending;
use crate::mcp::tracker::Oddity;
use crate::mcp::{Carrier, Message, Method, Revisions, SessionNumber, Transport, contract};

type AtMessage = fn(&MessageContext<'_, '_>, &mut Report<'_>);
type AtExchange = fn(&Exchange, &McpExchange, &History, &mut Report<'_>);
type AtEvent = fn(&sse::Event<'_>, &McpExchange, &History, &mut Report<'_>);
type AtEnd = fn(&History, &mut Report<'_>);

/// The check functions of all rules, by what they are called for.
#[derive(Default)]
struct CheckRegistry {
    /// By kind and method of the message, with the revisions in which the rule applies.
    messages: Vec<Vec<(&'static Rule, Revisions, AtMessage)>>,
    responses: Vec<(&'static Rule, AtExchange)>,
    exchanges: Vec<(&'static Rule, AtExchange)>,
    events: Vec<(&'static Rule, AtEvent)>,
    ends: Vec<(&'static Rule, AtEnd)>,
}

static CHECKS: LazyLock<CheckRegistry> = LazyLock::new(|| {
    let kinds = Kind::ALL.len();
    let messages = vec![Vec::new(); kinds * Method::COUNT];
    let mut table = CheckRegistry { messages, ..CheckRegistry::default() };
    for rule in all() {
        for check in rule.checks {
            match check {
                Check::Message(kinds, methods, check_fn) | Check::Any(kinds, methods, check_fn) => {
                    let is_any = matches!(check, Check::Any(..));
                    let revisions = if is_any { Revisions::ALL } else { rule.revisions };
                    let every: Vec<Method> = Method::KNOWN.iter().copied().chain([Method::Other]).collect();
                    let methods = if methods.is_empty() { every.as_slice() } else { methods };
                    for (kind, method) in kinds.iter().flat_map(|kind| methods.iter().map(move |method| (kind, method)))
                    {
                        table.messages[slot(*kind, *method)].push((rule, revisions, *check_fn));
                    }
                }
                Check::Response(check_fn) => table.responses.push((rule, *check_fn)),
                Check::Exchange(check_fn) => table.exchanges.push((rule, *check_fn)),
                Check::Event(check_fn) => table.events.push((rule, *check_fn)),
                Check::End(check_fn) => table.ends.push((rule, *check_fn)),
            }
        }
    }
    table
});

fn slot(kind: Kind, method: Method) -> usize {
    kind as usize * Method::COUNT + method as usize
}

/// The number of findings so far, and the highest severity of them.
type FindingCount = (u64, Severity);

/// Counts by rule id and by [`Finding::once`].
type FindingCounts = BTreeMap<(&'static str, &'static str), FindingCount>;

/// The state of one session.
#[derive(Debug)]
struct CheckedSession {
    history: History,
    counts: FindingCounts,
    /// Findings about single lines of a pipe, by direction. They are held until the JSON value that
    /// the lines begin is complete.
    held: [Vec<Finding>; 2],
}

impl CheckedSession {
    fn new(history: History) -> Box<CheckedSession> {
        Box::new(CheckedSession { history, counts: BTreeMap::new(), held: Default::default() })
    }
}

/// Limit of held findings. There is one for each line, and a list of many tools printed with
/// indentation has hundreds of lines.
const HELD: usize = 1_024;

/// Findings of one rule that are listed for a session. Further ones are counted and summarised at
/// the end of the session. A hundred show the pattern. A million would hide everything else and
/// fill the disk.
const LISTED: u64 = 100;

/// Checks the traffic of all sessions. The findings are returned in the order of the traffic.
#[derive(Debug, Default)]
pub struct Checker {
    limits: Limits,
    /// Boxed: a growing hash table would otherwise move large values and reserve room for
    /// twice as many.
    sessions: FxHashMap<SessionNumber, Box<CheckedSession>>,
    /// Counts of the findings that belong to no session.
    elsewhere: FindingCounts,
    /// Exchanges that have not ended.
    exchanges: FxHashMap<ExchangeNumber, Box<McpExchange>>,
    /// Compiled schemas of tools. They are shared, because many sessions use one server.
    schemas: RefCell<contract::SchemaChecker>,
    /// Lists of tools that were judged before. They are shared for the same reason.
    lists: KnownLists,
    /// The versions to which servers agreed. They are shared, because one server has many sessions.
    versions: RefCell<ServerVersions>,
    /// Open connections that carry a GET stream, with the session of the stream.
    listening: FxHashMap<ConnectionId, SessionNumber>,
    found: Vec<Finding>,
}

impl Checker {
    /// A checker that has seen no traffic.
    pub fn new(limits: Limits) -> Checker {
        Checker { limits, ..Checker::default() }
    }

    /// Checks a message and adds the ids of broken rules to it.
    ///
    /// `saw_beginning` returns whether the capture contains the beginning of the session. It is
    /// called at most once, for a new session. `earlier_may_follow` is true if messages that were
    /// sent earlier may still arrive.
    pub fn message(
        &mut self,
        message: &mut Message,
        oddities: &[Oddity],
        saw_beginning: impl FnOnce() -> bool,
        earlier_may_follow: bool,
    ) -> Vec<Finding> {
        let state = self.sessions.entry(message.session).or_insert_with(|| {
            let history = History::new(message.session, message.transport, saw_beginning(), &self.limits);
            CheckedSession::new(history)
        });
        state.history.earlier_may_follow = earlier_may_follow;
        let is_elsewhere =
            oddities.contains(&Oddity::IdInFlight) && !is_in_flight_here(message, &state.history, &self.exchanges);
        let mcp = message.exchange.and_then(|exchange| self.exchanges.get_mut(&exchange));
        let mut mcp = mcp.map(Box::as_mut);
        let mut facts = MessageFacts::new(message);
        state.history.transport = message.transport;
        facts.in_force = state.history.in_force(&facts, mcp.as_deref());
        // The findings of a copy were reported at its original.
        let is_reported =
            |oddity: &&Oddity| message.copies.is_none() && !(is_elsewhere && **oddity == Oddity::IdInFlight);
        for oddity in oddities.iter().filter(is_reported) {
            jsonrpc::report_oddity(oddity, &facts, &state.history, &mut self.found);
        }
        if !message.is_repeated() {
            let request = message.answers.and_then(|number| state.history.requests.get(number));
            let context = MessageContext {
                facts: &facts,
                request,
                exchange: mcp.as_deref(),
                history: &state.history,
                schemas: &self.schemas,
                versions: &self.versions,
                call_verdict: OnceCell::new(),
            };
            let list = (facts.method == Method::ToolsList && facts.is_listing()).then(|| self.lists.key(&facts));
            let known_list = list.and_then(|list| self.lists.get(list));
            known_list.into_iter().for_each(|known| facts.recall(known));
            let is_clean_list = known_list.is_some_and(|known| known.is_clean);
            let hides_fields = mcp.as_ref().is_some_and(|mcp| mcp.may_hide_fields(&state.history));
            for (rule, revisions, check_fn) in &CHECKS.messages[slot(message.kind, facts.method)] {
                let hides = hides_fields && http::reports_absence(rule);
                let is_known = is_clean_list && known_lists::is_about_text(rule.id);
                if facts.revisions().within(*revisions) && !hides && !is_known {
                    check_fn(&context, &mut Report::at_message(rule, message, &mut self.found));
                }
            }
            if let (Some(list), None) = (list, known_list) {
                self.lists.insert(list, KnownList::of(&facts, &self.found));
            }
        }
        if let Some(mcp) = mcp.as_mut() {
            state.history.server_messages.observe(message, mcp);
            mcp.add_message(&facts);
        }
        let breaks = self.found.iter().map(|finding| finding.rule.id).collect();
        if message.carrier == Carrier::Line {
            hold_line_findings(&facts, breaks, state, &mut self.found);
        } else {
            state.history.observe(&facts, breaks);
        }
        drop(facts);
        let findings = self.take_findings();
        for finding in findings.iter().filter(|finding| finding.messages.contains(&message.number)) {
            if !message.findings.contains(&finding.rule.id) {
                message.findings.push(finding.rule.id);
            }
        }
        findings
    }

    /// Checks the head of a request or response. `session` is its session, if it is known.
    pub fn head(&mut self, exchange: &Exchange, direction: Direction, session: Option<SessionNumber>) -> Vec<Finding> {
        let mcp = self.exchanges.entry(exchange.number).or_insert_with(|| Box::new(McpExchange::new(exchange)));
        // Only the events of a GET identify its session reliably.
        mcp.session = session.or(mcp.session);
        // A server may respond before it has read the whole request. The rules wait for both.
        if direction == Direction::ServerToClient && exchange.request.complete {
            self.response(exchange);
        }
        self.take_findings()
    }

    /// Checks a server-sent event after the message that it carries. `session` is the session of
    /// the event, if it is known. For a session, `opened` returns the transport and whether the
    /// capture contains the beginning. It returns `None` if the session has ended.
    pub fn event(
        &mut self,
        exchange: ExchangeNumber,
        event: &sse::Event<'_>,
        session: Option<SessionNumber>,
        opened: impl Fn(SessionNumber) -> Option<(Transport, bool)>,
    ) -> Vec<Finding> {
        let Some(mcp) = self.exchanges.get_mut(&exchange) else { return Vec::new() };
        // Only the events of a GET identify its session reliably.
        mcp.session = session.or(mcp.session);
        if let Some(session) = mcp.session {
            let Some(state) = checked_session(&mut self.sessions, session, &opened, &self.limits) else {
                return Vec::new();
            };
            // An `endpoint` event shows that a session is HTTP+SSE, also if requests
            // opened it earlier.
            if let (Some("endpoint"), Some((transport, _))) = (event.kind, opened(session)) {
                state.history.transport = transport;
            }
            let history = &state.history;
            let in_force = history.in_force_at(mcp);
            for (rule, check_fn) in &CHECKS.events {
                if in_force.revisions.within(rule.revisions) {
                    let mut report = at_session(rule, history.session, &mut self.found);
                    check_fn(event, mcp, history, &mut report);
                }
            }
            if let (Some("endpoint"), Some(endpoint)) = (event.kind, event.data) {
                state.history.endpoint.announce(&mcp.target, &String::from_utf8_lossy(endpoint));
            }
            state.history.event_streams.record_event(exchange, mcp.last_event_id.as_deref(), event);
        }
        mcp.event_counts.observe(event);
        self.take_findings()
    }

    /// Checks an exchange that ended.
    pub fn exchange(&mut self, exchange: &Exchange) -> Vec<Finding> {
        self.response(exchange);
        if let Some(mcp) = self.exchanges.remove(&exchange.number)
            && let Some(state) = mcp.session.and_then(|session| self.sessions.get_mut(&session))
        {
            state.history.exchange_ended(exchange, mcp.last_event_id.as_deref());
            check_exchange(&CHECKS.exchanges, exchange, &mcp, &state.history, &mut self.found);
        }
        self.take_findings()
    }

    fn response(&mut self, exchange: &Exchange) {
        let Some(mcp) = self.exchanges.get_mut(&exchange.number) else { return };
        let Some(state) = mcp.session.and_then(|session| self.sessions.get_mut(&session)) else { return };
        if exchange.status.is_some() && !std::mem::replace(&mut mcp.is_judged, true) {
            check_exchange(&CHECKS.responses, exchange, mcp, &state.history, &mut self.found);
            state.history.record_response_head(exchange);
            if mcp.is_get {
                self.listening.insert(exchange.connection, state.history.session);
            }
        }
    }

    /// Records a packet of the pipes of a process. `opened` is as in [`Checker::event`].
    pub fn process_changed(
        &mut self,
        session: SessionNumber,
        change: Option<&ProcessChange>,
        time: Time,
        opened: impl Fn(SessionNumber) -> Option<(Transport, bool)>,
    ) {
        if let Some(state) = checked_session(&mut self.sessions, session, &opened, &self.limits) {
            change.into_iter().for_each(|change| state.history.process.observe(change, time));
        }
    }

    /// Records the end of a connection.
    pub fn connection_closed(&mut self, connection: ConnectionId, facts: &tcp::Facts) {
        let session = self.listening.remove(&connection);
        if let Some(state) = session.and_then(|session| self.sessions.get_mut(&session)) {
            state.history.endpoint.closed(connection, facts);
        }
    }

    /// Records that messages of a session may be missing. `opened` is as in [`Checker::event`].
    pub fn messages_missing(
        &mut self,
        session: SessionNumber,
        opened: impl Fn(SessionNumber) -> Option<(Transport, bool)>,
    ) {
        if let Some(state) = checked_session(&mut self.sessions, session, &opened, &self.limits) {
            state.history.has_gaps = true;
        }
    }

    /// Whether messages of a session may be missing.
    pub fn has_gaps(&self, session: SessionNumber) -> bool {
        self.sessions.get(&session).is_some_and(|state| state.history.has_gaps)
    }

    /// Counts a finding of a decoder about a connection, a packet or the capture.
    pub fn decoder_finding(&mut self, finding: Finding) -> Vec<Finding> {
        self.found.push(finding);
        self.take_findings()
    }

    /// Checks a session that ended, or whose capture ended. `unanswered` are its requests without a
    /// response. The state of the session is removed.
    pub fn session_ended(&mut self, session: SessionNumber, unanswered: &[&Pending]) -> Vec<Finding> {
        let Some(state) = self.sessions.get_mut(&session) else { return Vec::new() };
        state.held.iter_mut().for_each(|held| self.found.append(held));
        for (rule, check_fn) in &CHECKS.ends {
            check_fn(&state.history, &mut at_session(rule, session, &mut self.found));
        }
        for pending in unanswered {
            let mut report = at_session(&jsonrpc::UNANSWERED, session, &mut self.found);
            jsonrpc::unanswered(pending, &state.history, &mut report);
        }
        let mut findings = self.take_findings();
        if let Some(state) = self.sessions.remove(&session) {
            findings.extend(repetition_findings(Some(session), &state.counts));
        }
        findings
    }

    /// Summarises the unlisted findings that belong to no session, at the end of the capture.
    pub fn finish(&mut self) -> Vec<Finding> {
        repetition_findings(None, &std::mem::take(&mut self.elsewhere)).collect()
    }

    /// Takes the new findings, counts them, and returns those that are listed one by one.
    fn take_findings(&mut self) -> Vec<Finding> {
        if self.found.is_empty() {
            return Vec::new();
        }
        let mut findings = std::mem::take(&mut self.found);
        findings.retain(|finding| {
            let state = finding.session.and_then(|session| self.sessions.get_mut(&session));
            let counts = state.map_or(&mut self.elsewhere, |state| &mut state.counts);
            let (count, highest) = counts.entry((finding.rule.id, finding.once)).or_insert((0, finding.severity));
            *count += 1;
            *highest = finding.severity.max(*highest);
            *count <= list_limit(finding.once)
        });
        findings
    }
}

/// The state of a session. It is made if the session was opened and not judged before.
fn checked_session<'s>(
    sessions: &'s mut FxHashMap<SessionNumber, Box<CheckedSession>>,
    session: SessionNumber,
    opened: impl Fn(SessionNumber) -> Option<(Transport, bool)>,
    limits: &Limits,
) -> Option<&'s mut CheckedSession> {
    Some(match sessions.entry(session) {
        Entry::Occupied(state) => state.into_mut(),
        Entry::Vacant(entry) => {
            let (transport, saw_beginning) = opened(session)?;
            entry.insert(CheckedSession::new(History::new(session, transport, saw_beginning, limits)))
        }
    })
}

/// Adds a line of a pipe to the history. Findings about the line are held while it is part of
/// an incomplete JSON value. They are dropped if the lines are one message together, which has
/// its own finding.
fn hold_line_findings(
    facts: &MessageFacts<'_>,
    breaks: Vec<&'static str>,
    state: &mut CheckedSession,
    found: &mut Vec<Finding>,
) {
    let direction = facts.message.direction;
    let is_whole = found.iter().any(|finding| finding.rule == &stdio::framing::EMBEDDED_NEWLINE);
    let mut held = std::mem::take(&mut state.held[direction as usize]);
    state.history.observe(facts, breaks);
    if facts.message.kind == Kind::Invalid {
        held.extend(found.extract_if(.., |finding| stdio::is_about_single_line(finding.rule)));
    }
    if is_whole {
        return;
    }
    if state.history.multiline.get(direction).is_open() && held.len() <= HELD {
        state.held[direction as usize] = held;
    } else {
        found.splice(0..0, held);
    }
}

/// Whether a request with the same id is open on the same pipe or connection, where only one sender
/// sends. Over HTTP, a server without sessions receives the same ids from all its clients.
fn is_in_flight_here(
    message: &Message,
    history: &History,
    exchanges: &FxHashMap<ExchangeNumber, Box<McpExchange>>,
) -> bool {
    let connection = |exchange| exchanges.get(&exchange).map(|mcp| mcp.connection);
    let Some(here) = message.exchange.map(connection) else { return true };
    let id = message.id.as_deref().unwrap_or_default();
    let mut same = history.requests.each_with_id(message.direction, id);
    same.any(|request| request.refused.is_none() && request.exchange.map(connection) == Some(here))
}

fn at_session<'r>(rule: &'static Rule, session: SessionNumber, found: &'r mut Vec<Finding>) -> Report<'r> {
    Report { rule, session: Some(session), messages: &[], packets: &[], span: None, found }
}

fn check_exchange(
    rules: &[(&'static Rule, AtExchange)],
    exchange: &Exchange,
    mcp: &McpExchange,
    history: &History,
    found: &mut Vec<Finding>,
) {
    // Without the captured request there is nothing to check.
    if exchange.method.is_none() {
        return;
    }
    let in_force = history.in_force_at(mcp);
    let hides_fields = mcp.may_hide_fields(history);
    let messages = mcp.sent_numbers();
    let packets = match exchange.request.head_packets.as_slice() {
        [] => &exchange.response.head_packets,
        packets => packets,
    };
    for (rule, check_fn) in rules {
        let hides = hides_fields && http::reports_absence(rule);
        if in_force.revisions.within(rule.revisions) && !hides {
            let session = Some(history.session);
            let mut report = Report { rule, session, messages: &messages, packets, span: None, found };
            check_fn(exchange, mcp, history, &mut report);
        }
    }
}

/// The number of findings that are listed.
fn list_limit(once: &str) -> u64 {
    if once.is_empty() { LISTED } else { 1 }
}

/// Summary findings: one for each rule with more findings than were listed.
fn repetition_findings(session: Option<SessionNumber>, counts: &FindingCounts) -> impl Iterator<Item = Finding> {
    counts.iter().filter_map(move |((id, once), (count, severity))| {
        let repeated = count.checked_sub(list_limit(once)).filter(|more| *more > 0)?;
        let subject = if once.is_empty() { "found" } else { once };
        let text = match repeated {
            1 => format!("{subject} once more, which is not listed"),
            _ => format!("{subject} {repeated} more times, which are not listed"),
        };
        Some(Finding { session, severity: *severity, repeated, text, ..Finding::of(super::rule(id)?) })
    })
}
