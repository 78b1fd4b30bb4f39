//! From texts to messages: each in its session, each answer with its request.

mod home;
mod http;
mod lacks;
mod sessions;
mod state;

use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use super::handshake::Handshake;
use super::message::{Carrier, Message};
use super::numbers::{MessageNumber, SessionNumber};
use super::pairing::{Pending, Scope};
use super::places::{Place, Places};
use super::session::{Peers, Session, Transport};
use crate::capture::{Limits, Span, Time};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json::Object;
use crate::decode::jsonrpc::{self, Envelope, Fault, Kind, Parsed};
use crate::decode::raw::Raw;
use crate::decode::stack::{Connected, Process, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction};
use home::is_midway;
use lacks::Unbegun;
pub use lacks::{Moment, Outlook};
use state::State;

/// Something odd about a message; `findings/` words it.
#[derive(Clone, Debug, PartialEq)]
pub enum Oddity {
    /// The text is no message.
    NoMessage(Fault),
    /// Bytes of the line are missing, or it is over the limit.
    NotWhole,
    /// No `jsonrpc: "2.0"`.
    VersionField,
    /// A member name occurs twice.
    DuplicateMember,
    /// `result` and `error` in one.
    ResultAndError,
    /// A request whose id is null.
    NullId,
    /// A request whose id is still in flight.
    IdInFlight,
    /// An answer that no request asked for.
    UnknownId,
    /// A second answer to one request.
    AnsweredAgain,
    /// An answer that fits several requests.
    Ambiguous,
}

/// A text, parsed.
#[derive(Clone, Debug)]
pub struct Reading {
    parsed: Parsed,
    /// Whether it is, or holds, an `initialize`.
    begins_session: bool,
}

impl Reading {
    /// The only message of a text that is no batch.
    fn single(&self) -> Option<&Envelope> {
        if let Parsed::Single(envelope) = &self.parsed { Some(envelope) } else { None }
    }
}

/// What the tracker says.
#[derive(Debug)]
pub enum Tracked {
    /// A session was opened.
    Opened(Box<Session>),
    /// A connection carries a session.
    Carries(ConnectionId, SessionNumber),
    /// A session was ended to make room for others: its last record, and its requests that wait for their answer.
    Ended(Box<Session>, Vec<Pending>),
    /// A message is complete. Its findings are still to be judged.
    Message(Box<Message>, Vec<Oddity>),
}

/// Sessions kept in memory; beyond it those idle longest are ended. A session is two kilobytes.
pub const SESSIONS: usize = 2_048;

type Sink<'s> = dyn FnMut(Tracked) + 's;

/// The sessions of a capture.
#[derive(Debug)]
pub struct Tracker {
    limits: Limits,
    sessions: FxHashMap<SessionNumber, State>,
    /// Exchanges that are open.
    exchanges: FxHashMap<ExchangeNumber, Place>,
    places: Places,
    pipes: FxHashMap<ConnectionId, SessionNumber>,
    /// The sessions that each open connection carries; a proxy's carries many.
    carried: FxHashMap<ConnectionId, VecDeque<SessionNumber>>,
    unbegun: Unbegun,
    /// The latest time of a text.
    clock: Option<Time>,
    last_session: u32,
    last_message: u64,
    last_batch: u64,
}

impl Tracker {
    /// No session yet.
    pub fn new(limits: Limits) -> Tracker {
        Tracker {
            limits,
            sessions: FxHashMap::default(),
            exchanges: FxHashMap::default(),
            places: Places::default(),
            pipes: FxHashMap::default(),
            carried: FxHashMap::default(),
            unbegun: Unbegun::default(),
            clock: None,
            last_session: 0,
            last_message: 0,
            last_batch: 0,
        }
    }

    /// A connection is over.
    pub fn connection_over(&mut self, connection: ConnectionId) {
        self.places.closed(connection);
        self.pipes.remove(&connection);
        self.carried.remove(&connection);
    }

    /// What is known of a wrapped process changed. The first word of it opens its session.
    pub fn process(&mut self, connection: ConnectionId, process: &Process, time: Time, sink: &mut Sink<'_>) {
        let number = self.pipe_session(connection, process, time, sink);
        if let Some(state) = self.sessions.get_mut(&number) {
            state.session.peers = process_peers(process);
            state.session.ended = state.session.ended.max(time);
            state.session.exit = process.exit;
            state.changed = true;
        }
    }

    /// A text was captured at this time.
    pub fn advance(&mut self, time: Time) {
        self.clock = Some(self.clock.map_or(time, |clock| clock.max(time)));
    }

    /// This moment.
    pub fn now(&self) -> Moment {
        (MessageNumber(self.last_message), self.clock.unwrap_or_default())
    }

    /// Parses a text that may be JSON-RPC. `None` where its carrier and its content say that it is somebody else's.
    pub fn parse(&self, text: &Text<'_>) -> Option<Reading> {
        let parsed = match text.carrier {
            TextCarrier::SseEvent { kind: Some("endpoint"), .. } => Parsed::Invalid(Fault::NotAMessage),
            TextCarrier::Line { .. } if text.raw.iter().all(u8::is_ascii_whitespace) => return None,
            TextCarrier::Line { whole: false, .. } => Parsed::Invalid(Fault::NotAMessage),
            _ => match jsonrpc::read(&text.raw, self.limits.json_depth, self.limits.batch) {
                // "an Array with at least one value" (JSON-RPC 2.0 section 6).
                Parsed::Batch(members) if members.is_empty() => Parsed::Invalid(Fault::NotAMessage),
                // An array of anything else is somebody else's JSON.
                Parsed::Batch(members) if text.is_http() && members.iter().all(|(_, member)| member.is_err()) => {
                    return None;
                }
                parsed => parsed,
            },
        };
        let begins_session = match &parsed {
            Parsed::Single(envelope) => is_initialize(envelope),
            Parsed::Batch(members) => members.iter().any(|(_, member)| member.as_ref().is_ok_and(is_initialize)),
            Parsed::Invalid(_) => false,
        };
        Some(Reading { parsed, begins_session })
    }

    /// A text that lacks nothing, or for which nothing is waited any longer.
    pub fn text(&mut self, mut text: Text<'_>, reading: Reading, connected: &Connected, sink: &mut Sink<'_>) {
        if let TextCarrier::SseEvent { kind: Some("endpoint"), exchange, .. } = text.carrier {
            return self.endpoint(exchange, &text, connected, sink);
        }
        if matches!(reading.parsed, Parsed::Invalid(_)) && !self.expects_message(&text) {
            return;
        }
        let Some(session) = self.session_of(&text, &reading, connected, sink) else { return };
        let envelope = match reading.parsed {
            Parsed::Single(envelope) => Ok(envelope),
            Parsed::Invalid(fault) => Err(fault),
            Parsed::Batch(members) => {
                self.last_batch += 1;
                let batch = self.last_batch;
                for (index, (range, member)) in members.into_iter().enumerate() {
                    let start = text.span.start + range.start as u64;
                    let span = Span { start, end: start + range.len() as u64, ..text.span };
                    let raw = Raw::from(&text.raw[range]).into_owned();
                    self.message(&text, session, raw, span, member, Some((batch, index as u32)), sink);
                }
                return self.text_taken(&text);
            }
        };
        let (raw, span) = (std::mem::take(&mut text.raw).into_owned(), text.span);
        self.message(&text, session, raw, span, envelope, None, sink);
        self.text_taken(&text);
    }

    /// A redirect that came before the text of its request takes effect now.
    fn text_taken(&mut self, text: &Text<'_>) {
        if let Some(exchange) = text.exchange() {
            self.redirect(exchange);
        }
    }

    /// The session that a text belongs to; opened where it begins one.
    fn session_of(
        &mut self,
        text: &Text<'_>,
        reading: &Reading,
        connected: &Connected,
        sink: &mut Sink<'_>,
    ) -> Option<SessionNumber> {
        let (single, initialize) = (reading.single(), reading.begins_session);
        let params =
            single.and_then(|envelope| Some(Object::indexed(text.raw.part(envelope.params.clone()?)?, &envelope.body)));
        let Some(exchange) = text.exchange() else {
            let process = connected.process.as_ref()?;
            let number = self.pipe_session(text.connection, process, text.time, sink);
            self.revise(number, None, params, initialize);
            return Some(number);
        };
        let place = self.exchanges.get_mut(&exchange)?;
        if text.direction == Direction::ClientToServer {
            place.asked = true;
            place.text = Some(fingerprint(&text.raw));
            place.copy_of = self.places.copied(place);
            place.first_message = Some(MessageNumber(self.last_message + 1));
        }
        let place = self.exchanges.get(&exchange)?;
        let begun = if initialize { self.unbegun_at(place) } else { None };
        let is_midway = is_midway(place, text.direction);
        let number = match begun.or_else(|| self.home(place, text, single, initialize, connected)) {
            Some(number) => number,
            None => {
                let place = place.clone();
                let streamable = place.accepts_events || place.session_id.is_some() || place.version.is_some();
                let transport = match text.carrier {
                    TextCarrier::WebSocket(_) => Transport::WebSocket,
                    TextCarrier::SseEvent { .. } => Transport::StreamableHttp,
                    _ if streamable => Transport::StreamableHttp,
                    _ => Transport::Http,
                };
                let number = self.open(transport, network_peers(&place, connected), text.time, sink);
                if let Some(state) = self.sessions.get_mut(&number) {
                    state.session.session_id = place.session_id.as_deref().map(str::to_owned);
                    state.begun = place.session_id.is_none() && !is_midway;
                    state.is_stray = is_midway;
                }
                if place.session_id.is_some() && !place.is_assigned {
                    self.unbegun.push(number, &place, self.now());
                }
                number
            }
        };
        let place = self.exchanges.get_mut(&exchange)?;
        self.places.bind(place, number, initialize);
        let (session_id, version) = (place.session_id.clone(), place.version.clone());
        if let Some(state) = self.sessions.get_mut(&number) {
            state.is_initialized |= initialize;
            state.is_stray &= is_midway;
            // A stream that began before the capture is of a session that did.
            state.begun &= state.is_initialized || !(is_midway && connected.is_midway);
            if let (None, Some(id)) = (&state.session.session_id, session_id) {
                state.session.session_id = Some(id.as_ref().to_owned());
                state.changed = true;
            }
            state.stateless = state.session.session_id.is_none() && state.session.transport != Transport::HttpSse;
        }
        if begun.is_some() {
            self.begun(exchange, number);
        }
        self.revise(number, version, params, initialize);
        self.carries(text.connection, number, sink);
        Some(number)
    }

    /// What a request says of the revision and of its sender (`mcp/facts`, "Recognising the era and version").
    fn revise(
        &mut self,
        number: SessionNumber,
        header: Option<Arc<str>>,
        params: Option<Object<'_>>,
        initialize: bool,
    ) {
        let Some(state) = self.sessions.get_mut(&number) else { return };
        let session = &mut state.session;
        let said = match params {
            Some(params) if initialize => Handshake::of_initialize(&params),
            Some(params) if session.client.is_none() || session.protocol_version.is_none() => {
                Handshake::of_meta(&params)
            }
            _ => Handshake::default(),
        };
        if session.protocol_version.is_none() {
            session.protocol_version = said.version.or(header.map(|header| header.as_ref().to_owned()));
        }
        if let Some(party) = said.party {
            session.client = Some(party);
        }
        state.changed = true;
    }

    fn pipe_session(
        &mut self,
        connection: ConnectionId,
        process: &Process,
        time: Time,
        sink: &mut Sink<'_>,
    ) -> SessionNumber {
        if let Some(number) = self.pipes.get(&connection) {
            return *number;
        }
        let number = self.open(Transport::Stdio, process_peers(process), time, sink);
        if let Some(state) = self.sessions.get_mut(&number) {
            state.begun = process.start.is_some();
        }
        self.pipes.insert(connection, number);
        self.carries(connection, number, sink);
        number
    }

    /// One message of a text.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message, each made elsewhere")]
    fn message(
        &mut self,
        text: &Text<'_>,
        number: SessionNumber,
        raw: Raw<'static>,
        span: Span,
        envelope: Result<Envelope, Fault>,
        batch: Option<(u64, u32)>,
        sink: &mut Sink<'_>,
    ) {
        let Some(state) = self.sessions.get_mut(&number) else { return };
        let exchange = text.exchange();
        let place = exchange.and_then(|exchange| self.exchanges.get(&exchange));
        let (carrier, line, sse_id) = match &text.carrier {
            TextCarrier::Line { number, .. } => (Carrier::Line, Some(*number), None),
            TextCarrier::SseEvent { id, .. } => (Carrier::SseEvent, None, id.map(str::to_owned)),
            TextCarrier::WebSocket(_) => (Carrier::WebSocket, None, None),
            TextCarrier::Body(_) if text.direction == Direction::ClientToServer => (Carrier::RequestBody, None, None),
            TextCarrier::Body(_) => (Carrier::ResponseBody, None, None),
        };
        let mut oddities = Vec::new();
        let envelope = match envelope {
            Ok(envelope) => envelope,
            Err(_) if matches!(text.carrier, TextCarrier::Line { whole: false, .. }) => {
                oddities.push(Oddity::NotWhole);
                Envelope::default()
            }
            Err(fault) => {
                oddities.push(Oddity::NoMessage(fault));
                Envelope::default()
            }
        };
        let redelivered = match &sse_id {
            Some(id) => {
                let new = state.events.insert(fingerprint(id.as_bytes()));
                if state.events.len() > self.limits.event_ids {
                    state.events.clear();
                }
                !new && place.is_some_and(|place| place.resumes)
            }
            None => false,
        };
        let copied = place.filter(|_| text.direction == Direction::ClientToServer).and_then(|place| place.copy_of);
        let index = batch.map_or(0, |(_, index)| u64::from(index));
        let message = Message {
            session: number,
            number: MessageNumber::default(),
            time: text.time,
            transport: state.session.transport,
            direction: text.direction,
            kind: envelope.kind.unwrap_or(Kind::Invalid),
            id: envelope.id.clone().and_then(|id| raw.part(id)).map(Arc::from),
            method: envelope.method_name.clone(),
            tool: None,
            raw,
            envelope,
            batch,
            answers: None,
            answered_by: None,
            latency: None,
            span,
            packets: match text.carrier {
                TextCarrier::Line { .. } => Vec::new(),
                _ => text.provenance.packets(span),
            },
            carrier,
            exchange,
            sse_id,
            line,
            redelivered,
            copies: copied.map(|(_, MessageNumber(first))| MessageNumber(first + index)),
            operation: None,
            link: None,
            findings: Vec::new(),
        };
        let scope = match place {
            Some(place) => place.scope(text.direction, state.session.transport, state.stateless),
            None => Scope::Session(None),
        };
        let mut message = Box::new(message);
        message.number = MessageNumber(self.last_message + 1);
        self.last_message += 1;
        state.pair(&mut message, scope, &self.limits, &mut oddities);
        message.link = state.operations.link(&message, state.stateless);
        message.operation = message.link.map(|link| link.operation);
        state.count(&message);
        sink(Tracked::Message(message, oddities));
    }
}

impl Text<'_> {
    /// The exchange, where it came over HTTP.
    pub fn exchange(&self) -> Option<ExchangeNumber> {
        match self.carrier {
            TextCarrier::Body(exchange) | TextCarrier::WebSocket(exchange) | TextCarrier::SseEvent { exchange, .. } => {
                Some(exchange)
            }
            TextCarrier::Line { .. } => None,
        }
    }

    fn is_http(&self) -> bool {
        self.exchange().is_some()
    }
}

fn is_initialize(envelope: &Envelope) -> bool {
    envelope.kind == Some(Kind::Request) && envelope.method_name.as_deref() == Some("initialize")
}

fn network_peers(place: &Place, connected: &Connected) -> Peers {
    let host = place.host.clone().or_else(|| connected.server_name.clone());
    Peers::Network { client: place.client, server: place.server, host }
}

fn process_peers(process: &Process) -> Peers {
    let start = process.start.clone().unwrap_or_default();
    Peers::Process { process: process.id, command: start.command, name: start.name }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
