//! The handshake of the revisions up to 2025-11-25 (basic/lifecycle "Initialization").

use crate::capture::Time;
use crate::decode::{Direction, Kind};
use crate::findings::message_facts::{Evidence, InForce, MessageFacts};
use crate::mcp::capability::{Capabilities, Declarer};
use crate::mcp::{MessageNumber, Method, Revision, Revisions};

/// An `initialize` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialize {
    pub number: MessageNumber,
    /// The JSON-RPC id as JSON text.
    pub id: String,
    /// The requested `protocolVersion`.
    pub version: Option<String>,
}

/// The progress of a handshake.
#[derive(Debug, Default)]
pub struct Handshake {
    /// The last `initialize` request.
    pub initialize: Option<Initialize>,
    /// The result of `initialize`.
    pub answered: Option<MessageNumber>,
    /// The `protocolVersion` of that result.
    pub agreed_version: Option<String>,
    /// The error that answered `initialize`.
    pub refused: Option<MessageNumber>,
    /// When `notifications/initialized` was captured.
    pub initialized: Option<Time>,
    /// The first request of the client that arrived before the response to `initialize`, and
    /// when it was captured. Messages of another connection may arrive too early, so rules
    /// compare the capture times.
    pub early_request: Option<(MessageNumber, Time)>,
    /// The same for `notifications/initialized`.
    pub early_initialized: Option<(MessageNumber, Time)>,
    /// Whether the client sent a request after the result.
    pub client_continued: bool,
    /// The capabilities of the client. Those of a repeated `initialize` count once it is accepted.
    pub client: Option<Capabilities>,
    /// The last capabilities of the server. An error, or a result without them, replaces nothing.
    pub server: Option<Capabilities>,
    /// The client's capabilities in a repeated `initialize` that waits for its response.
    offered: Option<Capabilities>,
}

impl Handshake {
    /// The revision that the handshake requested or agreed on. `None` before `initialize`.
    pub fn in_force(&self) -> Option<InForce> {
        let initialize = self.initialize.as_ref()?;
        let (name, evidence) = match &self.agreed_version {
            Some(given) => (Some(given), Evidence::Negotiated),
            // The client continued, so there was a response. The capture does not hold it.
            None if self.initialized.is_some() => (None, Evidence::Era),
            None => (initialize.version.as_ref(), Evidence::Requested),
        };
        let named = name.and_then(|name| Revision::named(name)).filter(|named| !named.is_stateless());
        Some(match named {
            Some(revision) => InForce { revisions: Revisions::only(revision), evidence },
            None => InForce { revisions: Revisions::LEGACY, evidence: Evidence::Era },
        })
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>) {
        let message = facts.message;
        let text = |name: &str| facts.body().text(name).map(|text| text.into_owned());
        // If the member is missing or is not an object, the declaration is unknown.
        let capabilities = || facts.body().get("capabilities").filter(|declared| declared.starts_with('{'));
        let declared = |declarer| capabilities().map(|declared| Capabilities::read(declarer, declared));
        match (message.kind, facts.method) {
            (Kind::Request, Method::Initialize) => {
                let id = message.id.as_deref().unwrap_or_default().to_owned();
                let initialize = Initialize { number: message.number, id, version: text("protocolVersion") };
                let client = declared(Declarer::Client);
                // A repeated `initialize` has its own rule. Until the server accepts it, the first
                // handshake stays in force.
                if self.answered.is_some() {
                    (self.initialize, self.refused, self.offered) = (Some(initialize), None, client);
                    return;
                }
                // `initialized` stays valid if it was captured after an `initialize` that arrives
                // late.
                let initialized = self.initialized.filter(|time| *time > message.time);
                *self = Handshake { initialize: Some(initialize), client, initialized, ..Handshake::default() };
            }
            (Kind::Response, Method::Initialize) => {
                self.answered = Some(message.number);
                self.agreed_version = text("protocolVersion").or(self.agreed_version.take());
                self.server = declared(Declarer::Server).or(self.server.take());
                self.client = self.offered.take().or(self.client.take());
            }
            (Kind::Error, Method::Initialize) => self.refused = Some(message.number),
            // A notification with an id has its own rule.
            (Kind::Notification | Kind::Request, Method::Initialized) => {
                self.initialized.get_or_insert(message.time);
                if self.answered.is_none() {
                    self.early_initialized.get_or_insert((message.number, message.time));
                }
            }
            (Kind::Request, method) if method != Method::Ping => {
                let from_client = message.direction == Direction::ClientToServer;
                self.client_continued |= self.answered.is_some() && from_client;
                if from_client && self.initialize.is_some() && self.answered.is_none() {
                    self.early_request.get_or_insert((message.number, message.time));
                }
            }
            _ => {}
        }
    }
}
