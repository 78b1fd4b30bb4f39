//! The state of one open session, and how each message changes it.

use rustc_hash::FxHashSet;

use super::{Oddity, TrackerEvent, TrackerSink, notes};
use crate::capture::Limits;
use crate::decode::{Direction, ExchangeNumber, Kind};
use crate::mcp::content::{self, Status};
use crate::mcp::handshake::Handshake;
use crate::mcp::operations::Operations;
use crate::mcp::pairing::{Pairing, PairingResult, Pending, Scope};
use crate::mcp::{Carrier, Message, MessageNumber, Note, Session};

/// The state of an open session.
#[derive(Debug)]
pub(super) struct TrackedSession {
    pub(super) session: Session,
    pub(super) pairing: Pairing,
    /// Hashes of the ids of delivered server-sent events.
    pub(super) events: FxHashSet<u64>,
    /// Whether the beginning of the session was captured.
    pub(super) has_beginning: bool,
    /// Whether its `initialize` was captured.
    pub(super) is_initialized: bool,
    /// Whether all its messages travelled on streams whose requests were not captured.
    pub(super) is_stray: bool,
    /// Whether it holds only `server/discover` requests and their errors: a client that found out
    /// that the server wants a handshake.
    pub(super) is_probe: bool,
    /// Whether a response finds its request only in its own exchange.
    pub(super) is_stateless: bool,
    /// The host name of a redirect's target.
    pub(super) redirected_to: Option<String>,
    pub(super) operations: Operations,
    pub(super) changed: bool,
    /// Whether a peer introduced itself since the last record: its name, or the revision.
    pub(super) is_introduced: bool,
}

impl TrackedSession {
    /// Stores a request, or finds the request of a response. Adds the irregularities of the message
    /// to `oddities`.
    pub(super) fn pair(
        &mut self,
        message: &mut Message,
        scope: Scope,
        is_refusal: bool,
        limits: &Limits,
        oddities: &mut Vec<Oddity>,
    ) {
        let envelope = &message.envelope;
        if envelope.kind.is_some() {
            let version = envelope.jsonrpc.clone().and_then(|range| message.raw.get(range));
            if version != Some(b"\"2.0\"") {
                oddities.push(Oddity::VersionField);
            }
            if envelope.duplicate {
                oddities.push(Oddity::DuplicateMember);
            }
            if envelope.result.is_some() && envelope.error.is_some() {
                oddities.push(Oddity::ResultAndError);
            }
        }
        let sender = message.direction;
        message.tool = content::tool(message);
        match (message.kind, &message.id) {
            (Kind::Request, Some(id)) if &**id == "null" => oddities.push(Oddity::NullId),
            (Kind::Request, Some(id)) => {
                let (number, time) = (message.number, message.time);
                let (method, tool) = (message.method.clone(), message.tool.clone());
                let pending =
                    Pending { number, time, method, tool, exchange: message.exchange, cancelled: false, ended: None };
                if self.pairing.add_request(sender, id, pending, limits.unanswered) {
                    oddities.push(Oddity::IdInFlight);
                }
            }
            (Kind::Response | Kind::Error, Some(id)) if !message.is_repeated() && &**id != "null" => {
                match self.pairing.take_request(sender, id, scope, limits.answered) {
                    PairingResult::Request(request) => self.answer(message, request),
                    PairingResult::Unknown if self.has_beginning => oddities.push(Oddity::UnknownId),
                    PairingResult::Unknown | PairingResult::NotCaptured => {}
                    PairingResult::AlreadyAnswered => oddities.push(Oddity::AnsweredAgain),
                    PairingResult::Ambiguous => oddities.push(Oddity::Ambiguous),
                }
            }
            _ => {}
        }
        // A server that could not read the request, or refused to, cannot always name its id.
        if let (Kind::Error, None, Carrier::ResponseBody, Some(exchange)) =
            (message.kind, message.answers, message.carrier, message.exchange)
            && is_refusal
            && let Some(request) = self.pairing.take_only_request(exchange)
        {
            self.answer(message, request);
        }
    }

    /// Marks the request as cancelled that a notification cancels. Returns a note if it
    /// is a request of the client.
    pub(super) fn cancel(&mut self, message: &Message) -> Option<Note> {
        if message.kind != Kind::Notification || message.method.as_deref() != Some("notifications/cancelled") {
            return None;
        }
        let id = content::body(message).get("requestId")?;
        let pending = self.pairing.cancel(message.direction, id)?;
        if message.direction == Direction::ServerToClient {
            return None;
        }
        self.session.outcomes.cancel();
        Some(notes::cancelled(message, pending))
    }

    /// Joins a response with its request.
    fn answer(&mut self, message: &mut Message, request: Pending) {
        message.answers = Some(request.number);
        message.latency = Some(message.time.since(request.time));
        message.method = request.method;
        message.tool = request.tool;
        if message.direction == Direction::ServerToClient
            && let Some(status) = content::status(message)
        {
            self.session.outcomes.settle(request.cancelled, status);
        }
        self.take_server_info(message);
    }

    /// Counts the requests of an exchange that the status of its response refused. Returns
    /// the numbers of these requests.
    pub(super) fn refuse(&mut self, exchange: ExchangeNumber) -> Vec<MessageNumber> {
        let refused = self.pairing.take_exchange(exchange);
        for (sender, pending) in &refused {
            if *sender == Direction::ClientToServer {
                self.session.outcomes.settle(pending.cancelled, Status::Error);
            }
        }
        self.changed |= !refused.is_empty();
        refused.into_iter().map(|(_, pending)| pending.number).collect()
    }

    /// Takes the revision and the server's name from a response.
    fn take_server_info(&mut self, message: &Message) {
        if message.kind != Kind::Response {
            return;
        }
        let server = match message.method.as_deref() {
            Some("initialize") => {
                let Handshake { version, party } = Handshake::of_initialize(&content::body(message));
                if version.is_some() {
                    self.is_introduced |= self.session.protocol_version != version;
                    self.session.protocol_version = version;
                }
                party
            }
            _ if self.session.server.is_none() => Handshake::of_meta(&content::body(message)).party,
            _ => None,
        };
        if server.is_some() {
            self.is_introduced |= self.session.server != server;
            self.session.server = server;
        }
    }

    /// Whether the client sent only `server/discover` requests, and the server refused them.
    pub(super) fn is_refused_probe(&self) -> bool {
        self.is_probe && self.session.outcomes.errors > 0 && self.pairing.open() == 0
    }

    pub(super) fn count(&mut self, message: &Message) {
        let is_refusal = message.kind == Kind::Error && message.answers.is_some();
        let is_discover = message.method.as_deref() == Some("server/discover");
        self.is_probe &= is_discover && (is_refusal || message.kind == Kind::Request);
        let session = &mut self.session;
        session.messages += 1;
        match (message.kind, message.direction) {
            // The copy of a redirected request is the same request.
            (Kind::Request, Direction::ClientToServer) if message.copies.is_some() => {}
            (Kind::Request, Direction::ClientToServer) => session.outcomes.unanswered += 1,
            (Kind::Request, Direction::ServerToClient) => session.server_requests += 1,
            (Kind::Notification, _) => session.notifications += 1,
            (Kind::Response, _) => session.responses += 1,
            (Kind::Error, _) => {}
            (Kind::Invalid, _) => session.invalid += 1,
        }
        session.started = session.started.min(message.time);
        session.ended = session.ended.max(message.time);
        self.changed = true;
    }

    /// Emits the links that are known only at the end of the session.
    pub(super) fn late_links(&self, sink: &mut TrackerSink<'_>) {
        for (message, link) in self.operations.late_links() {
            sink(TrackerEvent::Linked(self.session.number, message, link));
        }
    }
}
