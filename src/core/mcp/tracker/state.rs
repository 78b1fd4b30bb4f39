//! What is known of a session that is not over, and what each message adds to it.

use rustc_hash::FxHashSet;

use super::Oddity;
use crate::capture::Limits;
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts;
use crate::mcp::handshake::Handshake;
use crate::mcp::message::Message;
use crate::mcp::operations::Operations;
use crate::mcp::pairing::{Answered, Pairing, Pending, Scope};
use crate::mcp::session::Session;

/// Everything known of a session that is not over.
#[derive(Debug)]
pub(super) struct State {
    pub(super) session: Session,
    pub(super) pairing: Pairing,
    /// Fingerprints of the events that were delivered, by their ids.
    pub(super) events: FxHashSet<u64>,
    /// Whether the capture holds its beginning.
    pub(super) begun: bool,
    /// Whether it was opened by an `initialize` that was captured.
    pub(super) is_initialized: bool,
    /// Whether all that is known of it came on streams whose requests were not seen.
    pub(super) is_stray: bool,
    /// An answer is looked for in the exchange of its request alone.
    pub(super) stateless: bool,
    /// Where the server redirected to.
    pub(super) redirected_to: Option<String>,
    /// What its messages are parts of.
    pub(super) operations: Operations,
    pub(super) changed: bool,
}

impl State {
    /// Finds the request of a response, remembers a request.
    pub(super) fn pair(&mut self, message: &mut Message, scope: Scope, limits: &Limits, oddities: &mut Vec<Oddity>) {
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
        message.tool = facts::tool(message);
        match (message.kind, &message.id) {
            (Kind::Request, Some(id)) if &**id == "null" => oddities.push(Oddity::NullId),
            (Kind::Request, Some(id)) => {
                let (number, time) = (message.number, message.time);
                let (method, tool) = (message.method.clone(), message.tool.clone());
                let pending = Pending { number, time, method, tool, exchange: message.exchange, cancelled: false };
                if self.pairing.request(sender, id, pending, limits.unanswered) {
                    oddities.push(Oddity::IdInFlight);
                }
            }
            (Kind::Notification, _) if message.method.as_deref() == Some("notifications/cancelled") => {
                if let Some(id) = facts::body(message).get("requestId") {
                    self.pairing.cancel(sender, id);
                }
            }
            (Kind::Response | Kind::Error, Some(id)) if !message.is_repeated() && &**id != "null" => {
                match self.pairing.answer(sender, id, scope, limits.answered) {
                    Answered::Request(request) => {
                        message.answers = Some(request.number);
                        message.latency = Some(message.time.since(request.time));
                        message.method = request.method;
                        message.tool = request.tool;
                        self.learn(message);
                    }
                    Answered::Unknown if self.begun => oddities.push(Oddity::UnknownId),
                    Answered::Unknown | Answered::Unseen => {}
                    Answered::Again => oddities.push(Oddity::AnsweredAgain),
                    Answered::Ambiguous => oddities.push(Oddity::Ambiguous),
                }
            }
            _ => {}
        }
    }

    /// What an answer says of the revision and of the server.
    fn learn(&mut self, message: &Message) {
        if message.kind != Kind::Response {
            return;
        }
        let server = match message.method.as_deref() {
            Some("initialize") => {
                let Handshake { version, party } = Handshake::of_initialize(&facts::body(message));
                if version.is_some() {
                    self.session.protocol_version = version;
                }
                party
            }
            _ if self.session.server.is_none() => Handshake::of_meta(&facts::body(message)).party,
            _ => None,
        };
        if server.is_some() {
            self.session.server = server;
        }
    }

    pub(super) fn count(&mut self, message: &Message) {
        let session = &mut self.session;
        session.messages += 1;
        *match message.kind {
            Kind::Request => &mut session.requests,
            Kind::Notification => &mut session.notifications,
            Kind::Response => &mut session.responses,
            Kind::Error => &mut session.errors,
            Kind::Invalid => &mut session.invalid,
        } += 1;
        session.started = session.started.min(message.time);
        session.ended = session.ended.max(message.time);
        self.changed = true;
    }

    pub(super) fn fresh(&self) -> Session {
        Session { unanswered: self.pairing.open() as u64, ..self.session.clone() }
    }
}
