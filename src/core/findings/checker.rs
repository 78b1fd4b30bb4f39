//! Runs the rules: one table from what is seen to the rules that look at it, one history for each session.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::carried::Carried;
use super::history::History;
use super::lifecycle::versions::Versions;
use super::report::{Report, SAID};
use super::rule::Check;
use super::seen::{Facts, Seen};
use super::{Finding, Rule, Severity, all, jsonrpc, stdio, transport};
use crate::capture::pipe::PipeEvent;
use crate::capture::{Limits, Time};
use crate::decode::Direction;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::jsonrpc::Kind;
use crate::decode::{ConnectionId, sse, tcp};
use crate::mcp::contract;
use crate::mcp::message::Carrier;
use crate::mcp::method::Method;
use crate::mcp::pairing::Pending;
use crate::mcp::revision::Revisions;
use crate::mcp::tracker::Oddity;
use crate::mcp::{Message, SessionNumber, Transport};

type AtMessage = fn(&Seen<'_, '_>, &mut Report<'_>);
type AtExchange = fn(&Exchange, &Carried, &History, &mut Report<'_>);
type AtEvent = fn(&sse::Event<'_>, ExchangeNumber, &Carried, &History, &mut Report<'_>);
type AtEnd = fn(&History, &mut Report<'_>);

/// Which rules look at what.
struct Table {
    /// By kind and method, with the revisions that the rule is looked for in.
    messages: Vec<Vec<(&'static Rule, Revisions, AtMessage)>>,
    responses: Vec<(&'static Rule, AtExchange)>,
    exchanges: Vec<(&'static Rule, AtExchange)>,
    events: Vec<(&'static Rule, AtEvent)>,
    ends: Vec<(&'static Rule, AtEnd)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let kinds = Kind::Invalid as usize + 1;
    let mut table = Table {
        messages: vec![Vec::new(); kinds * Method::COUNT],
        responses: Vec::new(),
        exchanges: Vec::new(),
        events: Vec::new(),
        ends: Vec::new(),
    };
    for rule in all() {
        for check in rule.checks {
            match check {
                Check::Message(kinds, methods, look) | Check::Any(kinds, methods, look) => {
                    let is_any = matches!(check, Check::Any(..));
                    let revisions = if is_any { Revisions::ALL } else { rule.revisions };
                    let every: Vec<Method> = Method::KNOWN.iter().copied().chain([Method::Other]).collect();
                    let methods = if methods.is_empty() { every.as_slice() } else { methods };
                    for (kind, method) in kinds.iter().flat_map(|kind| methods.iter().map(move |method| (kind, method)))
                    {
                        table.messages[slot(*kind, *method)].push((rule, revisions, *look));
                    }
                }
                Check::Response(look) => table.responses.push((rule, *look)),
                Check::Exchange(look) => table.exchanges.push((rule, *look)),
                Check::Event(look) => table.events.push((rule, *look)),
                Check::End(look) => table.ends.push((rule, *look)),
            }
        }
    }
    table
});

fn slot(kind: Kind, method: Method) -> usize {
    kind as usize * Method::COUNT + method as usize
}

/// Findings of a rule so far, and the worst severity of them.
type Said = (u64, Severity);

/// Findings by rule, and by what is told once.
type Counts = BTreeMap<(&'static str, &'static str), Said>;

/// A session as the checker keeps it.
#[derive(Debug)]
struct Kept {
    history: History,
    said: Counts,
}

/// Holds every session to the rules. Its findings come in the order of what they are about.
#[derive(Debug)]
pub struct Checker {
    limits: Limits,
    /// Boxed: a table that grows would move them, and has room for twice as many.
    sessions: FxHashMap<SessionNumber, Box<Kept>>,
    /// Findings that belong to no session.
    elsewhere: Counts,
    /// Exchanges that are open.
    exchanges: FxHashMap<ExchangeNumber, Carried>,
    /// Schemas of tools, compiled: many sessions use one server.
    schemas: RefCell<contract::Checker>,
    /// What servers gave of the versions they were asked for: one server has many sessions.
    versions: RefCell<Versions>,
    /// Open connections on which a client listens (GET), and its session.
    listening: FxHashMap<ConnectionId, SessionNumber>,
    found: Vec<Finding>,
}

impl Checker {
    /// Before any message.
    pub fn new(limits: Limits) -> Checker {
        Checker {
            limits,
            sessions: FxHashMap::default(),
            elsewhere: BTreeMap::new(),
            exchanges: FxHashMap::default(),
            schemas: RefCell::default(),
            versions: RefCell::default(),
            listening: FxHashMap::default(),
            found: Vec::new(),
        }
    }

    /// A message is complete. `begun` says whether the capture holds the beginning of its session, and is asked once; `awaits` whether what was sent
    /// before may be told later. The ids of the rules that it breaks are added to it.
    pub fn message(
        &mut self,
        message: &mut Message,
        oddities: &[Oddity],
        begun: impl FnOnce() -> bool,
        awaits: bool,
    ) -> Vec<Finding> {
        let kept = self.sessions.entry(message.session).or_insert_with(|| {
            let history = History::new(message.session, message.transport, begun(), &self.limits);
            Box::new(Kept { history, said: BTreeMap::new() })
        });
        kept.history.awaits_bytes = awaits;
        let is_elsewhere =
            oddities.contains(&Oddity::IdInFlight) && !is_in_flight_here(message, &kept.history, &self.exchanges);
        let mut carried = message.exchange.and_then(|exchange| self.exchanges.get_mut(&exchange));
        let mut facts = Facts::new(message);
        kept.history.transport = message.transport;
        facts.in_force = kept.history.in_force(&facts, carried.as_deref());
        // What is wrong with the original of a copy was said there.
        let is_said = |oddity: &&Oddity| message.copies.is_none() && !(is_elsewhere && **oddity == Oddity::IdInFlight);
        for oddity in oddities.iter().filter(is_said) {
            jsonrpc::judge(oddity, &facts, &kept.history, &mut self.found);
        }
        if !message.is_repeated() {
            let asked = message.answers.and_then(|number| kept.history.requests.get(number));
            let seen = Seen {
                facts: &facts,
                asked,
                carried: carried.as_deref(),
                history: &kept.history,
                schemas: &self.schemas,
                versions: &self.versions,
            };
            for (rule, revisions, look) in &TABLE.messages[slot(message.kind, facts.method)] {
                if facts.revisions().within(*revisions) {
                    look(&seen, &mut Report::at_message(rule, message, &mut self.found));
                }
            }
        }
        if let Some(carried) = carried.as_mut() {
            kept.history.spoken.observe(message, carried);
            carried.pass(&facts);
        }
        let breaks = self.found.iter().map(|finding| finding.rule).collect();
        if message.carrier == Carrier::Line {
            line(&facts, breaks, &mut kept.history, &mut self.found);
        } else {
            kept.history.observe(&facts, breaks);
        }
        drop(facts);
        let said = self.said();
        for finding in said.iter().filter(|finding| finding.messages.contains(&message.number)) {
            if !message.findings.contains(&finding.rule.id) {
                message.findings.push(finding.rule.id);
            }
        }
        said
    }

    /// A head of an HTTP exchange is complete; `session` is the one that it belongs to, as far as is known.
    pub fn head(&mut self, exchange: &Exchange, direction: Direction, session: Option<SessionNumber>) -> Vec<Finding> {
        let carried = self.exchanges.entry(exchange.number).or_insert_with(|| Carried::new(exchange));
        // Only its events tell the session of a GET for sure.
        carried.session = session.or(carried.session);
        // A server may answer before it has read the request; the rules wait for both.
        if direction == Direction::ServerToClient && exchange.request.complete {
            self.response(exchange);
        }
        self.said()
    }

    /// A server-sent event is complete, and the message that it carried was seen; `session` is the one that it belongs to, as
    /// far as is known. `opened` says how that travels and whether the capture holds its beginning, unless it is over.
    pub fn event(
        &mut self,
        exchange: ExchangeNumber,
        event: &sse::Event<'_>,
        session: Option<SessionNumber>,
        opened: impl Fn(SessionNumber) -> Option<(Transport, bool)>,
    ) -> Vec<Finding> {
        let Some(carried) = self.exchanges.get_mut(&exchange) else { return Vec::new() };
        // Only its events tell the session of a GET for sure.
        carried.session = session.or(carried.session);
        if let Some(session) = carried.session {
            let kept = match self.sessions.entry(session) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(place) => {
                    let Some((transport, begun)) = opened(session) else { return Vec::new() };
                    let history = History::new(session, transport, begun, &self.limits);
                    place.insert(Box::new(Kept { history, said: BTreeMap::new() }))
                }
            };
            // The endpoint makes a session that requests opened before one of HTTP+SSE.
            if let (Some("endpoint"), Some((transport, _))) = (event.kind, opened(session)) {
                kept.history.transport = transport;
            }
            let history = &kept.history;
            let in_force = history.in_force_at(carried);
            for (rule, look) in &TABLE.events {
                if in_force.revisions.within(rule.revisions) {
                    let mut report = at_session(rule, history.session, &mut self.found);
                    look(event, exchange, carried, history, &mut report);
                }
            }
            if let (Some("endpoint"), Some(said)) = (event.kind, event.data) {
                kept.history.endpoint.announce(&carried.target, &String::from_utf8_lossy(said));
            }
            kept.history.streams.event(exchange, carried.last_event_id.as_deref(), event);
        }
        carried.served.observe(event);
        self.said()
    }

    /// An exchange is over.
    pub fn exchange(&mut self, exchange: &Exchange) -> Vec<Finding> {
        self.response(exchange);
        if let Some(carried) = self.exchanges.remove(&exchange.number)
            && let Some(kept) = carried.session.and_then(|session| self.sessions.get_mut(&session))
        {
            kept.history.exchange_over(exchange, carried.last_event_id.as_deref());
            judge(&TABLE.exchanges, exchange, &carried, &kept.history, &mut self.found);
        }
        self.said()
    }

    fn response(&mut self, exchange: &Exchange) {
        let Some(carried) = self.exchanges.get_mut(&exchange.number) else { return };
        let Some(kept) = carried.session.and_then(|session| self.sessions.get_mut(&session)) else { return };
        if exchange.status.is_some() && !std::mem::replace(&mut carried.is_judged, true) {
            judge(&TABLE.responses, exchange, carried, &kept.history, &mut self.found);
            kept.history.responded(exchange);
            if carried.is_get {
                self.listening.insert(exchange.connection, kept.history.session);
            }
        }
    }

    /// Something happened to the pipes of a session, or to their process.
    pub fn piped(&mut self, session: SessionNumber, content: &PipeEvent<'_>, time: Time) {
        if let Some(kept) = self.sessions.get_mut(&session) {
            kept.history.process.observe(content, time);
        }
    }

    /// A connection is over.
    pub fn closed(&mut self, connection: ConnectionId, facts: &tcp::Facts) {
        let session = self.listening.remove(&connection);
        if let Some(kept) = session.and_then(|session| self.sessions.get_mut(&session)) {
            kept.history.endpoint.closed(connection, facts);
        }
    }

    /// What a decoder stated, about a connection, a packet, the capture.
    pub fn stated(&mut self, finding: Finding) -> Vec<Finding> {
        if let Some(kept) = finding.session.and_then(|session| self.sessions.get_mut(&session)) {
            kept.history.has_gaps |= transport::hides_messages(finding.rule);
        }
        self.found.push(finding);
        self.said()
    }

    /// A session, or the capture, is over; `unanswered` are its requests without an answer.
    pub fn ended(&mut self, session: SessionNumber, unanswered: &[&Pending]) -> Vec<Finding> {
        let Some(kept) = self.sessions.get_mut(&session) else { return Vec::new() };
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.found.extend(kept.history.fragments.take_kept_back(direction));
        }
        for (rule, look) in &TABLE.ends {
            look(&kept.history, &mut at_session(rule, session, &mut self.found));
        }
        for pending in unanswered {
            let mut report = at_session(&jsonrpc::UNANSWERED, session, &mut self.found);
            jsonrpc::unanswered(pending, &kept.history, &mut report);
        }
        let mut said = self.said();
        if let Some(kept) = self.sessions.remove(&session) {
            said.extend(counted(Some(session), &kept.said));
        }
        said
    }

    /// The capture is over: what was counted and belongs to no session.
    pub fn finish(&mut self) -> Vec<Finding> {
        counted(None, &std::mem::take(&mut self.elsewhere)).collect()
    }

    /// What was found, as far as it is said one by one.
    fn said(&mut self) -> Vec<Finding> {
        if self.found.is_empty() {
            return Vec::new();
        }
        let mut said = std::mem::take(&mut self.found);
        said.retain(|finding| {
            let kept = finding.session.and_then(|session| self.sessions.get_mut(&session));
            let counts = kept.map_or(&mut self.elsewhere, |kept| &mut kept.said);
            let said = counts.entry((finding.rule.id, finding.once)).or_insert((0, finding.severity));
            *said = (said.0 + 1, said.1.max(finding.severity));
            said.0 <= listed(finding.once)
        });
        said
    }
}

/// Takes in a line of a pipe. One that belongs to a value which is not over yet is judged when that is: lines that are one message together
/// are told of once.
fn line(facts: &Facts<'_>, breaks: Vec<&'static Rule>, history: &mut History, found: &mut Vec<Finding>) {
    let direction = facts.message.direction;
    let is_whole = found.iter().any(|finding| finding.rule == &stdio::framing::EMBEDDED_NEWLINE);
    let mut of_lines = history.fragments.take_kept_back(direction);
    history.observe(facts, breaks);
    if facts.message.kind == Kind::Invalid {
        of_lines.extend(found.extract_if(.., |finding| stdio::is_of_line(finding.rule)));
    }
    if !is_whole && !of_lines.is_empty() {
        let told = history.fragments.keep_back(direction, of_lines);
        found.splice(0..0, told);
    }
}

/// Whether a request with the id of this one is open where only its own sender sends: on the same pipe or connection. Over HTTP a
/// server that keeps no session sees the same ids from all its clients.
fn is_in_flight_here(message: &Message, history: &History, exchanges: &FxHashMap<ExchangeNumber, Carried>) -> bool {
    let connection = |exchange| exchanges.get(&exchange).map(|carried: &Carried| carried.connection);
    let Some(here) = message.exchange.map(connection) else { return true };
    let id = message.id.as_deref().unwrap_or_default();
    let mut same = history.requests.each_with_id(message.direction, id);
    same.any(|asked| asked.refused.is_none() && asked.exchange.map(connection) == Some(here))
}

fn at_session<'r>(rule: &'static Rule, session: SessionNumber, found: &'r mut Vec<Finding>) -> Report<'r> {
    Report { rule, session: Some(session), messages: &[], packets: &[], span: None, found }
}

fn judge(
    rules: &[(&'static Rule, AtExchange)],
    exchange: &Exchange,
    carried: &Carried,
    history: &History,
    found: &mut Vec<Finding>,
) {
    // Nothing can be said of a request that was not captured.
    if exchange.method.is_none() {
        return;
    }
    let in_force = history.in_force_at(carried);
    let messages = carried.numbers();
    let packets = match exchange.request.head_packets.as_slice() {
        [] => &exchange.response.head_packets,
        packets => packets,
    };
    for (rule, look) in rules {
        if in_force.revisions.within(rule.revisions) {
            let session = Some(history.session);
            let mut report = Report { rule, session, messages: &messages, packets, span: None, found };
            look(exchange, carried, history, &mut report);
        }
    }
}

/// How many are listed.
fn listed(once: &str) -> u64 {
    if once.is_empty() { SAID } else { 1 }
}

/// One finding for each rule that was found more often than it was said.
fn counted(session: Option<SessionNumber>, counts: &Counts) -> impl Iterator<Item = Finding> {
    counts.iter().filter_map(move |((id, once), (count, severity))| {
        let repeated = count.checked_sub(listed(once)).filter(|more| *more > 0)?;
        let what = if once.is_empty() { "found" } else { once };
        let text = match repeated {
            1 => format!("{what} once more, which is not listed"),
            _ => format!("{what} {repeated} more times, which are not listed"),
        };
        Some(Finding { session, severity: *severity, repeated, text, ..Finding::of(super::rule(id)?) })
    })
}
