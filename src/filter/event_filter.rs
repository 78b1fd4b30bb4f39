//! A filter on events as they arrive.
//!
//! Some facts arrive after the message that they are about: the status of its HTTP exchange, or the
//! server's name for the `initialize` that asks for it. A stored message is tested with all facts.
//! To get the same result, this filter holds messages, in order, until the facts that it needs are
//! available ([`Filter::settled`]).
//!
//! A filter that needs no later facts holds nothing. On a live capture nothing is held until
//! the end of the capture. Fields that are final only at the end are tested with the facts
//! available by then.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rustc_hash::FxBuildHasher;

use super::{Filter, Row, Settled};
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::event::Event;
use crate::findings::Severity;
use crate::mcp::link::{Link, Why};
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// Maximum bytes of held messages. Beyond it the oldest message is tested with the facts available.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Bytes that a held message costs in addition to its text.
const OVERHEAD: usize = 512;

/// Maximum number of operations remembered; the oldest are evicted first. They take less memory
/// than the held messages.
const OPERATIONS: usize = 1 << 20;

/// Maximum number of sessions remembered; the oldest are evicted first. As many connections may be
/// open at once.
const SESSIONS: usize = 65_536;

/// A held message, with the facts that arrived after it.
#[derive(Debug)]
struct HeldMessage {
    message: Box<Message>,
    answered: bool,
    findings: Vec<&'static str>,
    severities: Vec<Severity>,
}

/// Passes on the messages that a filter selects, and every other event.
#[derive(Debug)]
pub struct EventFilter {
    filter: Filter,
    /// The moment that messages are held for. It is never `AtEnd` on a live capture.
    settled: Settled,
    /// Held messages, in the order of their numbers.
    held: VecDeque<HeldMessage>,
    held_bytes: usize,
    sessions: BTreeMap<SessionNumber, Session>,
    /// Exchanges of held messages: the number of these messages, and the exchange's record once
    /// it is over.
    exchanges: HashMap<ExchangeNumber, (usize, Option<Exchange>), FxBuildHasher>,
    /// First requests of operations, as far as later messages have linked to them.
    operations: BTreeSet<MessageNumber>,
    /// Links that were known only at the end of their session. The operations that these messages
    /// began belong to those of the links.
    late_links: BTreeMap<MessageNumber, Link>,
}

impl EventFilter {
    /// Makes the filter for a capture file (`live` is false) or for a live capture.
    pub fn new(filter: Filter, live: bool) -> EventFilter {
        let awaited = filter.fields().into_iter().map(|field| field.settled());
        let settled = awaited.filter(|settled| !live || *settled != Settled::AtEnd).max().unwrap_or_default();
        EventFilter {
            filter,
            settled,
            held: VecDeque::new(),
            held_bytes: 0,
            sessions: BTreeMap::new(),
            exchanges: HashMap::default(),
            operations: BTreeSet::new(),
            late_links: BTreeMap::new(),
        }
    }

    /// Takes the next event. Messages that pass are emitted in order; every other event is
    /// emitted at once.
    pub fn push(&mut self, event: Event, sink: &mut impl FnMut(Event)) {
        match event {
            Event::Message(message) => {
                self.hold(message);
                self.release(MAX_HELD_BYTES, sink);
            }
            Event::Session(session) => {
                self.sessions.insert(session.number, (*session).clone());
                if self.sessions.len() > SESSIONS {
                    self.sessions.pop_first();
                }
                sink(Event::Session(session));
            }
            Event::Exchange(exchange) => {
                if let Some((_, record)) = self.exchanges.get_mut(&exchange.number) {
                    let before = record.replace(without_packets(&exchange));
                    self.held_bytes += record.as_ref().map_or(0, memory_of);
                    self.held_bytes -= before.as_ref().map_or(0, memory_of);
                }
                sink(Event::Exchange(exchange));
                self.release(MAX_HELD_BYTES, sink);
            }
            Event::Finding(finding) => {
                for number in &finding.messages {
                    let Some(held) = self.held_message(*number) else { continue };
                    if !held.findings.contains(&finding.rule.id) {
                        held.findings.push(finding.rule.id);
                    }
                    if !held.severities.contains(&finding.severity) {
                        held.severities.push(finding.severity);
                    }
                }
                sink(Event::Finding(finding));
            }
            Event::Linked(session, message, link) => {
                if self.settled == Settled::AtEnd && self.late_links.len() < OPERATIONS {
                    self.operations.insert(link.operation);
                    self.late_links.insert(message, link);
                }
                sink(Event::Linked(session, message, link));
            }
            event => sink(event),
        }
    }

    /// Ends the capture: held messages are tested with the facts available.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event)) {
        self.release(0, sink);
    }

    fn hold(&mut self, message: Box<Message>) {
        if let Some(link) = message.link
            && self.settled == Settled::AtEnd
        {
            self.operations.insert(link.operation);
            if self.operations.len() > OPERATIONS {
                self.operations.pop_first();
            }
        }
        if let Some(request) = message.answers
            && let Some(held) = self.held_message(request)
        {
            held.answered = true;
        }
        if let Some(exchange) = message.exchange {
            self.exchanges.entry(exchange).or_default().0 += 1;
        }
        self.held_bytes += message.raw.len() + OVERHEAD;
        let (answered, findings) = (message.answered_by.is_some(), message.findings.clone());
        self.held.push_back(HeldMessage { message, answered, findings, severities: Vec::new() });
    }

    /// Adds a message to its operation, which later messages showed. The first request and its
    /// response carry no link themselves.
    fn join(&self, message: &mut Message) {
        let is_first = |number: &MessageNumber| self.operations.contains(number);
        let late = |number: &MessageNumber| self.late_links.get(number).copied();
        if message.link.is_none() {
            let answer = |previous| Link { operation: previous, previous, why: Why::Answer };
            let answered = message.answers.filter(|request| self.late_links.contains_key(request));
            message.link = late(&message.number).or_else(|| answered.map(answer));
        }
        let linked = message.link.map(|link| link.operation);
        let own = linked.or_else(|| Some(message.number).filter(is_first)).or_else(|| message.answers.filter(is_first));
        let Some(operation) = own.map(|own| late(&own).map_or(own, |link| link.operation)) else { return };
        if let Some(link) = &mut message.link {
            link.operation = operation;
        }
        message.joins(operation);
    }

    fn held_message(&mut self, number: MessageNumber) -> Option<&mut HeldMessage> {
        let position = self.held.binary_search_by_key(&number, |held| held.message.number).ok()?;
        self.held.get_mut(position)
    }

    /// Tests the messages at the front that are no longer held, and more of them while they hold
    /// more than `limit` bytes.
    fn release(&mut self, limit: usize, sink: &mut impl FnMut(Event)) {
        while let Some(first) = self.held.front() {
            let exchange = first.message.exchange;
            let settled = match self.settled {
                Settled::WithMessage => true,
                Settled::WithExchange => exchange
                    .is_none_or(|exchange| self.exchanges.get(&exchange).is_some_and(|(_, record)| record.is_some())),
                Settled::AtEnd => false,
            };
            if !settled && limit > 0 && self.held_bytes <= limit {
                return;
            }
            let Some(HeldMessage { mut message, answered, findings, severities }) = self.held.pop_front() else {
                return;
            };
            self.join(&mut message);
            self.held_bytes -= message.raw.len() + OVERHEAD;
            let passes = self.filter.matches(&Row {
                message: &message,
                answered,
                findings: &findings,
                severities: &severities,
                session: self.sessions.get(&message.session),
                exchange: exchange.and_then(|exchange| self.exchanges.get(&exchange)?.1.as_ref()),
            });
            if let Some(exchange) = exchange
                && let Some((count, _)) = self.exchanges.get_mut(&exchange)
            {
                *count -= 1;
                if *count == 0 {
                    let over = self.exchanges.remove(&exchange).and_then(|(_, record)| record);
                    self.held_bytes -= over.as_ref().map_or(0, memory_of);
                }
            }
            if passes {
                sink(Event::Message(message));
            }
        }
    }
}

/// A copy of an exchange with the facts that filters test. A long stream has many packets, so they
/// are left out.
fn without_packets(exchange: &Exchange) -> Exchange {
    let half = |half: &Half| Half { fields: half.fields.clone(), ..Half::default() };
    Exchange {
        number: exchange.number,
        connection: exchange.connection,
        method: exchange.method.clone(),
        target: exchange.target.clone(),
        status: exchange.status,
        request: half(&exchange.request),
        response: half(&exchange.response),
        ..Exchange::default()
    }
}

fn memory_of(exchange: &Exchange) -> usize {
    let texts = exchange.target.as_ref().map_or(0, String::len);
    OVERHEAD + texts + exchange.request.fields.size() + exchange.response.fields.size()
}
