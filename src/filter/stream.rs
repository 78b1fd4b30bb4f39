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
use crate::mcp::content;
use crate::mcp::{Message, MessageNumber, Session, SessionNumber};

/// Bytes of messages that wait, and of tool names remembered for answers to come. Beyond, the oldest message is judged
/// by what is known and the oldest name forgotten.
const HELD: usize = 64 << 20;

/// What a waiting message costs beside its text.
const OVERHEAD: usize = 512;

/// Operations remembered; the oldest are forgotten first. They take less memory than the messages that wait.
const OPERATIONS: usize = 1 << 20;

/// Sessions remembered; the oldest are forgotten first. As many as there may be open connections.
const SESSIONS: usize = 65_536;

/// A message, and what was learnt of it since.
#[derive(Debug)]
struct Waiting {
    message: Box<Message>,
    tool: Option<Arc<str>>,
    answered: bool,
    findings: Vec<&'static str>,
    severities: Vec<Severity>,
}

/// Lets the messages through that a filter wants, with every other event.
#[derive(Debug)]
pub struct Stream {
    filter: Filter,
    settled: Settled,
    /// In order of their numbers.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    sessions: BTreeMap<SessionNumber, Session>,
    /// Of the messages that wait: how many of this exchange, and its record once it is over.
    exchanges: HashMap<ExchangeNumber, (usize, Option<Exchange>), FxBuildHasher>,
    /// First requests of operations, as far as later messages told.
    operations: BTreeSet<MessageNumber>,
    tools: BTreeMap<MessageNumber, Arc<str>>,
    tools_bytes: usize,
}

impl Stream {
    /// Filters a capture that is read from a file (`live` false) or as it is made.
    pub fn new(filter: Filter, live: bool) -> Stream {
        let awaited = filter.fields().into_iter().map(|field| field.settled());
        let settled = awaited.filter(|settled| !live || *settled != Settled::AtEnd).max().unwrap_or_default();
        Stream {
            filter,
            settled,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
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
                self.release(HELD, sink);
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
                    let before = record.replace(told(&exchange));
                    self.waiting_bytes += record.as_ref().map_or(0, cost);
                    self.waiting_bytes -= before.as_ref().map_or(0, cost);
                }
                sink(Event::Exchange(exchange));
                self.release(HELD, sink);
            }
            Event::Finding(finding) => {
                for number in &finding.messages {
                    let Some(waiting) = self.waiting(*number) else { continue };
                    if !waiting.findings.contains(&finding.rule.id) {
                        waiting.findings.push(finding.rule.id);
                    }
                    if !waiting.severities.contains(&finding.severity) {
                        waiting.severities.push(finding.severity);
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
        let tool = content::tool(&message);
        if let Some(tool) = &tool {
            self.remember(message.number, Arc::clone(tool));
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
            && let Some(waiting) = self.waiting(request)
        {
            waiting.answered = true;
        }
        if let Some(exchange) = message.exchange {
            self.exchanges.entry(exchange).or_default().0 += 1;
        }
        self.waiting_bytes += message.raw.len() + OVERHEAD;
        let (answered, findings) = (message.answered_by.is_some(), message.findings.clone());
        self.waiting.push_back(Waiting { message, tool, answered, findings, severities: Vec::new() });
    }

    /// The first request of a message's operation; the first one itself and its answer have no link.
    fn operation(&self, message: &Message) -> Option<MessageNumber> {
        let first = |number: &MessageNumber| self.operations.contains(number);
        message.operation.or_else(|| Some(message.number).filter(first)).or_else(|| message.answers.filter(first))
    }

    fn waiting(&mut self, number: MessageNumber) -> Option<&mut Waiting> {
        let position = self.waiting.binary_search_by_key(&number, |waiting| waiting.message.number).ok()?;
        self.waiting.get_mut(position)
    }

    fn remember(&mut self, call: MessageNumber, tool: Arc<str>) {
        self.tools_bytes += tool.len() + OVERHEAD;
        self.tools.insert(call, tool);
        while self.tools_bytes > HELD
            && let Some((_, oldest)) = self.tools.pop_first()
        {
            self.tools_bytes -= oldest.len() + OVERHEAD;
        }
    }

    /// Judges the messages at the front that need not wait, and as many more as hold more than `limit` bytes.
    fn release(&mut self, limit: usize, sink: &mut impl FnMut(Event)) {
        while let Some(first) = self.waiting.front() {
            let exchange = first.message.exchange;
            let settled = match self.settled {
                Settled::WithMessage => true,
                Settled::WithExchange => exchange
                    .is_none_or(|exchange| self.exchanges.get(&exchange).is_some_and(|(_, record)| record.is_some())),
                Settled::AtEnd => false,
            };
            if !settled && limit > 0 && self.waiting_bytes <= limit {
                return;
            }
            let Some(Waiting { mut message, tool, answered, findings, severities }) = self.waiting.pop_front() else {
                return;
            };
            if let Some(first) = self.operation(&message) {
                message.joins(first);
            }
            self.waiting_bytes -= message.raw.len() + OVERHEAD;
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
                    self.waiting_bytes -= over.as_ref().map_or(0, cost);
                }
            }
            if passes {
                sink(Event::Message(message));
            }
        }
    }
}

/// What filters ask of an exchange: not its packets, of which a long stream has many.
fn told(exchange: &Exchange) -> Exchange {
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
