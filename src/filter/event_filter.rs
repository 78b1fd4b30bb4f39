//! A filter on events as they come.
//!
//! Some facts come after the message they are about: the status of its HTTP exchange, the server's name for the
//! `initialize` that asks for it. A stored message is judged by all of them. So that a stream gives the same answer,
//! messages wait here, in order, until what the filter asks for is known ([`Filter::settled`]); a filter that asks for
//! nothing of the kind never makes one wait. On a live capture nothing waits for the end: there the answer rests on
//! what is known.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::{Filter, Row, Settled};
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::event::Event;
use crate::findings::Severity;
use crate::mcp::facts;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// Bytes of messages that wait, and of tool names remembered for answers to come. Beyond, the oldest message is judged
/// by what is known and the oldest name forgotten.
const MAX_HELD_BYTES: usize = 64 << 20;

/// What a held message costs beside its text.
const OVERHEAD: usize = 512;

/// Operations remembered; the oldest are forgotten first. They take less memory than the messages that wait.
const OPERATIONS: usize = 1 << 20;

/// Sessions remembered; the oldest are forgotten first. As many as there may be open connections.
const SESSIONS: usize = 65_536;

/// A message, and what was learnt of it since.
#[derive(Debug)]
struct HeldMessage {
    message: Box<Message>,
    tool: Option<Arc<str>>,
    answered: bool,
    findings: Vec<&'static str>,
    severities: Vec<Severity>,
}

/// Lets the messages through that a filter wants, with every other event.
#[derive(Debug)]
pub struct EventFilter {
    filter: Filter,
    settled: Settled,
    /// In order of their numbers.
    held: VecDeque<HeldMessage>,
    held_bytes: usize,
    sessions: BTreeMap<SessionNumber, Session>,
    /// Of the messages that wait: how many of this exchange, and its record once it is over.
    exchanges: HashMap<ExchangeNumber, (usize, Option<Exchange>), FxBuildHasher>,
    /// First requests of operations, as far as later messages told.
    operations: BTreeSet<MessageNumber>,
    tools: BTreeMap<MessageNumber, Arc<str>>,
    tools_bytes: usize,
}

impl EventFilter {
    /// Filters a capture that is read from a file (`live` false) or as it is made.
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
            tools: BTreeMap::new(),
            tools_bytes: 0,
        }
    }

    /// The next event. Messages that pass come out in order; every other event comes out at once.
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
                    self.held_bytes += record.as_ref().map_or(0, cost);
                    self.held_bytes -= before.as_ref().map_or(0, cost);
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
            event => sink(event),
        }
    }

    /// The capture is over: what waits is judged by what is known.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event)) {
        self.release(0, sink);
    }

    fn hold(&mut self, message: Box<Message>) {
        let tool = facts::tool(&message);
        if let Some(tool) = &tool {
            self.remember_tool(message.number, Arc::clone(tool));
        }
        let tool = tool.or_else(|| self.tools.get(&message.answers?).cloned());
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
        self.held.push_back(HeldMessage { message, tool, answered, findings, severities: Vec::new() });
    }

    /// The first request of a message's operation; the first one itself and its answer have no link.
    fn operation(&self, message: &Message) -> Option<MessageNumber> {
        let first = |number: &MessageNumber| self.operations.contains(number);
        message.operation.or_else(|| Some(message.number).filter(first)).or_else(|| message.answers.filter(first))
    }

    fn held_message(&mut self, number: MessageNumber) -> Option<&mut HeldMessage> {
        let position = self.held.binary_search_by_key(&number, |held| held.message.number).ok()?;
        self.held.get_mut(position)
    }

    fn remember_tool(&mut self, call: MessageNumber, tool: Arc<str>) {
        self.tools_bytes += tool.len() + OVERHEAD;
        self.tools.insert(call, tool);
        while self.tools_bytes > MAX_HELD_BYTES
            && let Some((_, oldest)) = self.tools.pop_first()
        {
            self.tools_bytes -= oldest.len() + OVERHEAD;
        }
    }

    /// Judges the messages at the front that need not wait, and as many more as hold more than `limit` bytes.
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
            let Some(HeldMessage { mut message, tool, answered, findings, severities }) = self.held.pop_front() else {
                return;
            };
            if let Some(first) = self.operation(&message) {
                message.joins(first);
            }
            self.held_bytes -= message.raw.len() + OVERHEAD;
            let passes = self.filter.matches(&Row {
                message: &message,
                tool: tool.as_deref(),
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
                    self.held_bytes -= over.as_ref().map_or(0, cost);
                }
            }
            if passes {
                sink(Event::Message(message));
            }
        }
    }
}

/// What filters ask of an exchange: not its packets, of which a long stream has many.
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

fn cost(exchange: &Exchange) -> usize {
    let texts = exchange.target.as_ref().map_or(0, String::len);
    OVERHEAD + texts + exchange.request.fields.size() + exchange.response.fields.size()
}
