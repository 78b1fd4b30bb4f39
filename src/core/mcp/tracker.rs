//! The tracker: assigns texts to sessions and pairs responses with requests.

mod http;
mod lacks;
mod midway;
mod notes;
mod sessions;
mod silent_exchanges;
mod tracked_session;

use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use super::handshake::Handshake;
use super::link::Link;
use super::message::{Carrier, Message};
use super::note::Note;
use super::numbers::{MessageNumber, SessionNumber};
use super::pairing::{Pending, Scope};
use super::session::{Session, Transport};
use super::session_index::{ExchangeEvidence, SessionIndex};
use crate::capture::{Limits, PacketNumber, Span, Time};
use crate::decode::json::Object;
use crate::decode::jsonrpc::{Envelope, InvalidText, JsonRpcText};
use crate::decode::raw::Raw;
use crate::decode::stack::{Process, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction, ExchangeNumber, Kind};
use lacks::AwaitedBeginnings;
pub use lacks::{ExpectedInput, Moment};
use midway::is_midway;
use sessions::{network_peers, process_peers};
use silent_exchanges::SilentExchanges;
use tracked_session::TrackedSession;

/// An irregularity of a message. The rules in `findings/` make findings of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Oddity {
    /// The text is no JSON-RPC message.
    NoMessage(InvalidText),
    /// Bytes of the line are missing, or it exceeds the limit.
    NotWhole,
    /// `jsonrpc: "2.0"` is missing.
    VersionField,
    /// A member name occurs twice.
    DuplicateMember,
    /// The message has both `result` and `error`.
    ResultAndError,
    /// A request whose id is null.
    NullId,
    /// A request whose id belongs to a request without a response.
    IdInFlight,
    /// A response whose id belongs to no request.
    UnknownId,
    /// A second response to one request.
    AnsweredAgain,
    /// A response that fits several requests.
    Ambiguous,
}

/// The output of the tracker.
#[derive(Debug)]
pub enum TrackerEvent {
    /// A session was opened.
    Opened(Box<Session>),
    /// A connection carries a session from now on.
    Carries(ConnectionId, SessionNumber),
    /// An exchange belongs to a session. Emitted once for each exchange that has one.
    Belongs(ExchangeNumber, SessionNumber),
    /// A session was ended to make room for others: its last record, and its requests
    /// without a response.
    Ended(Box<Session>, Vec<Pending>),
    /// A link of an earlier message that is known only now.
    Linked(SessionNumber, MessageNumber, Link),
    /// A message is complete. The rules have not judged it yet.
    Message(Box<Message>, Vec<Oddity>),
    /// An occurrence around the messages.
    Note(Box<Note>),
}

/// The bytes of a message: their position, and the packets that carried them.
struct MessagePlace {
    span: Span,
    packets: Vec<PacketNumber>,
}

/// The number of sessions in memory. When it is exceeded, the half that was idle longest is ended.
/// A session takes two kilobytes.
pub const SESSIONS: usize = 2_048;

type TrackerSink<'s> = dyn FnMut(TrackerEvent) + 's;

/// Tracks all sessions of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    limits: Limits,
    sessions: FxHashMap<SessionNumber, TrackedSession>,
    /// The evidence of each open exchange.
    exchanges: FxHashMap<ExchangeNumber, Box<ExchangeEvidence>>,
    session_index: SessionIndex,
    pipes: FxHashMap<ConnectionId, SessionNumber>,
    /// The sessions of each open connection. The connection of a proxy may carry many.
    carried: FxHashMap<ConnectionId, VecDeque<SessionNumber>>,
    awaited_beginnings: AwaitedBeginnings,
    silent: SilentExchanges,
    /// The latest capture time of a text.
    clock: Option<Time>,
    last_session: u32,
    last_message: u64,
    last_batch: u64,
}

impl Tracker {
    /// A tracker without sessions.
    pub fn new(limits: Limits) -> Tracker {
        Tracker { limits, ..Tracker::default() }
    }

    /// Forgets a closed connection. `time` is that of its last packet.
    pub fn connection_closed(&mut self, connection: ConnectionId, time: Option<Time>) {
        self.session_index.connection_closed(connection);
        self.pipes.remove(&connection);
        let carried = self.carried.remove(&connection).unwrap_or_default();
        for session in carried {
            if let (Some(state), Some(time)) = (self.sessions.get_mut(&session), time) {
                state.pairing.connection_ended(connection, time);
            }
        }
    }

    /// Updates a wrapped process. Its first update opens the session.
    pub fn process(&mut self, connection: ConnectionId, process: &Process, time: Time, sink: &mut TrackerSink<'_>) {
        let number = self.pipe_session(connection, process, time, sink);
        if let Some(state) = self.sessions.get_mut(&number) {
            (state.session.peers, state.session.name) = process_peers(process);
            state.session.ended = state.session.ended.max(time);
            state.session.exit = process.exit;
            state.changed = true;
        }
    }

    /// Advances the clock to the capture time of a text.
    pub fn advance(&mut self, time: Time) {
        self.clock = Some(self.clock.map_or(time, |clock| clock.max(time)));
    }

    /// The messages so far and the capture time. Waiting times are measured from it.
    pub fn now(&self) -> Moment {
        (MessageNumber(self.last_message), self.clock.unwrap_or_default())
    }

    /// Takes a text that the arrivals stage passed or released, and emits its messages.
    pub fn track_text(&mut self, mut text: Text, sink: &mut TrackerSink<'_>) {
        if let (true, Some(exchange)) = (text.announces_endpoint(), text.exchange()) {
            return self.endpoint_announced(exchange, &text, sink);
        }
        if matches!(text.parsed.envelopes, JsonRpcText::Invalid(_)) && !self.expects_message(&text) {
            return;
        }
        let Some(session) = self.session_of(&text, sink) else { return };
        let mut packets = std::mem::take(&mut text.parsed.packets).into_iter();
        let nothing = JsonRpcText::Invalid(InvalidText::NotAMessage);
        let envelope = match std::mem::replace(&mut text.parsed.envelopes, nothing) {
            JsonRpcText::Single(envelope) => Ok(envelope),
            JsonRpcText::Invalid(fault) => Err(fault),
            JsonRpcText::Batch(members) => {
                self.last_batch += 1;
                let batch = self.last_batch;
                for (index, (range, member)) in members.into_iter().enumerate() {
                    let start = text.span.start + range.start as u64;
                    let span = Span { start, end: start + range.len() as u64, ..text.span };
                    let raw = Raw::from(&text.raw[range]).into_owned();
                    let place = MessagePlace { span, packets: packets.next().unwrap_or_default() };
                    self.message(&text, session, raw, place, member, Some((batch, index as u32)), sink);
                }
                return self.text_taken(&text);
            }
        };
        let (raw, span) = (std::mem::take(&mut text.raw), text.span);
        let place = MessagePlace { span, packets: packets.next().unwrap_or_default() };
        self.message(&text, session, raw, place, envelope, None, sink);
        self.text_taken(&text);
    }

    /// Applies a redirect that was captured before the text of its request.
    fn text_taken(&mut self, text: &Text) {
        if let Some(exchange) = text.exchange() {
            self.redirect(exchange);
        }
    }

    /// The session that a text belongs to. A session is opened where none is found.
    fn session_of(&mut self, text: &Text, sink: &mut TrackerSink<'_>) -> Option<SessionNumber> {
        let (single, initialize) = (text.parsed.single(), text.parsed.begins_session);
        let params =
            single.and_then(|envelope| Some(Object::indexed(text.raw.part(envelope.params.clone()?)?, &envelope.body)));
        let Some(exchange) = text.exchange() else {
            let process = text.connected.process.as_ref()?;
            let number = self.pipe_session(text.connection, process, text.time, sink);
            self.take_client_info(number, None, params, initialize);
            return Some(number);
        };
        let evidence = self.exchanges.get_mut(&exchange)?;
        if text.direction == Direction::ClientToServer {
            evidence.has_request_text = true;
            evidence.text_hash = Some(fingerprint(&text.raw));
            evidence.copy_of = self.session_index.take_original(evidence);
            evidence.first_message = Some(MessageNumber(self.last_message + 1));
        }
        let evidence = self.exchanges.get(&exchange)?;
        let reopened = if initialize { self.awaited_beginning_at(evidence) } else { None };
        let is_midway = is_midway(evidence, text);
        let number = match reopened.or_else(|| self.existing_session(evidence, text, single, initialize)) {
            Some(number) => number,
            None if Tracker::is_refusal(evidence, text.direction) => return None,
            None => {
                let evidence = evidence.clone();
                let streamable = evidence.accepts_events || evidence.session_id.is_some() || evidence.version.is_some();
                let transport = match text.carrier {
                    TextCarrier::WebSocket(_) => Transport::WebSocket,
                    TextCarrier::SseEvent { .. } => Transport::StreamableHttp,
                    _ if streamable => Transport::StreamableHttp,
                    _ => Transport::Http,
                };
                let number = self.open(transport, (network_peers(&evidence, &text.connected), None), text.time, sink);
                if let Some(state) = self.sessions.get_mut(&number) {
                    state.session.session_id = evidence.session_id.as_deref().map(str::to_owned);
                    state.has_beginning = evidence.session_id.is_none() && !is_midway;
                    // A WebSocket is no evidence for requests elsewhere.
                    state.is_stray = is_midway && transport != Transport::WebSocket;
                }
                if evidence.session_id.is_some() && !evidence.is_assigned {
                    self.awaited_beginnings.push(number, &evidence, self.now());
                }
                self.session_begins(&evidence, number, sink);
                number
            }
        };
        let evidence = self.exchanges.get_mut(&exchange)?;
        if evidence.session.is_none() {
            sink(TrackerEvent::Belongs(exchange, number));
        }
        self.session_index.bind(evidence, number, initialize);
        let (session_id, version) = (evidence.session_id.clone(), evidence.version.clone());
        if let Some(state) = self.sessions.get_mut(&number) {
            state.is_initialized |= initialize;
            state.is_stray &= is_midway;
            // A stream that began before the capture belongs to a session that did too.
            state.has_beginning &= state.is_initialized || !(is_midway && text.connected.is_midway);
            if let (None, Some(id)) = (&state.session.session_id, session_id) {
                state.session.session_id = Some(id.as_ref().to_owned());
                state.changed = true;
            }
            state.is_stateless = state.session.session_id.is_none() && state.session.transport != Transport::HttpSse;
        }
        if reopened.is_some() {
            self.beginning_found(exchange, number);
        }
        self.take_client_info(number, version, params, initialize);
        self.carries(text.connection, number, sink);
        Some(number)
    }

    /// Takes the revision and the client's name from a request.
    fn take_client_info(
        &mut self,
        number: SessionNumber,
        header: Option<Arc<str>>,
        params: Option<Object<'_>>,
        initialize: bool,
    ) {
        let Some(state) = self.sessions.get_mut(&number) else { return };
        // The revision of a refused probe is not that of the session.
        if initialize && state.is_refused_probe() {
            state.session.protocol_version = None;
        }
        let session = &mut state.session;
        let handshake = match params {
            Some(params) if initialize => Handshake::of_initialize(&params),
            Some(params) if session.client.is_none() || session.protocol_version.is_none() => {
                Handshake::of_meta(&params)
            }
            _ => Handshake::default(),
        };
        if session.protocol_version.is_none() {
            session.protocol_version = handshake.version.or(header.map(|header| header.as_ref().to_owned()));
            state.is_introduced |= session.protocol_version.is_some();
        }
        if let Some(party) = handshake.party {
            state.is_introduced |= session.client.as_ref() != Some(&party);
            session.client = Some(party);
        }
        state.changed = true;
    }

    fn pipe_session(
        &mut self,
        connection: ConnectionId,
        process: &Process,
        time: Time,
        sink: &mut TrackerSink<'_>,
    ) -> SessionNumber {
        if let Some(number) = self.pipes.get(&connection) {
            return *number;
        }
        let number = self.open(Transport::Stdio, process_peers(process), time, sink);
        if let Some(state) = self.sessions.get_mut(&number) {
            state.has_beginning = process.start.as_ref().is_some_and(|start| !start.already_ran);
        }
        self.pipes.insert(connection, number);
        self.carries(connection, number, sink);
        number
    }

    /// Emits one message of a text.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message, each made elsewhere")]
    fn message(
        &mut self,
        text: &Text,
        number: SessionNumber,
        raw: Raw<'static>,
        place: MessagePlace,
        envelope: Result<Envelope, InvalidText>,
        batch: Option<(u64, u32)>,
        sink: &mut TrackerSink<'_>,
    ) {
        let Some(state) = self.sessions.get_mut(&number) else { return };
        let exchange = text.exchange();
        let evidence = exchange.and_then(|exchange| self.exchanges.get(&exchange));
        let (carrier, line, sse_id) = match &text.carrier {
            TextCarrier::Line { number, .. } => (Carrier::Line, Some(*number), None),
            TextCarrier::SseEvent { id, .. } => (Carrier::SseEvent, None, id.as_deref().map(str::to_owned)),
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
                !new && evidence.is_some_and(|evidence| evidence.resumes)
            }
            None => false,
        };
        let original =
            evidence.filter(|_| text.direction == Direction::ClientToServer).and_then(|evidence| evidence.copy_of);
        let index = batch.map_or(0, |(_, index)| u64::from(index));
        self.last_message += 1;
        let mut message = Box::new(Message {
            session: number,
            number: MessageNumber(self.last_message),
            time: text.time,
            transport: state.session.transport,
            direction: text.direction,
            kind: envelope.kind.unwrap_or(Kind::Invalid),
            id: envelope.id.clone().and_then(|id| raw.part(id)).map(Arc::from),
            method: envelope.method_name.clone(),
            raw,
            envelope,
            batch,
            span: place.span,
            packets: place.packets,
            carrier,
            exchange,
            sse_id,
            line,
            redelivered,
            copies: original.map(|(_, MessageNumber(first))| MessageNumber(first + index)),
            ..Message::default()
        });
        let scope = match evidence {
            Some(evidence) => evidence.scope(text.direction, state.session.transport, state.is_stateless),
            None => Scope::Session(None),
        };
        let is_refusal = evidence.is_some_and(|evidence| evidence.is_refused());
        state.pair(&mut message, scope, is_refusal, &self.limits, &mut oddities);
        message.link = state.operations.link(&message, state.is_stateless);
        message.operation = message.link.map(|link| link.operation);
        if std::mem::take(&mut state.is_introduced) {
            sink(TrackerEvent::Opened(Box::new(state.session.clone())));
        }
        state.count(&message);
        let cancelled = state.cancel(&message);
        sink(TrackerEvent::Message(message, oddities));
        if let Some(note) = cancelled {
            sink(TrackerEvent::Note(Box::new(note)));
        }
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
