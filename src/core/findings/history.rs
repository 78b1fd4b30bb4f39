//! The state of a session that rules need: everything that happened before the message that is
//! checked. Each noun has a file of its own in `history/`.

mod answered_requests;
mod cursors;
mod elicitations;
mod endpoint;
mod event_streams;
mod fingerprint;
mod handshake;
mod listings;
mod log_level;
mod multiline;
mod open_requests;
mod process;
mod prompts;
mod rounds;
mod server_messages;
mod stateless_era;
mod subscriptions;
mod tasks;
mod used_ids;

pub use answered_requests::AnsweredRequests;
pub use cursors::Cursors;
pub use elicitations::{Elicitation, Elicitations};
pub use endpoint::Endpoint;
pub use event_streams::{EventStream, EventStreams};
pub use fingerprint::{content_hash, fingerprint, fingerprint_without};
pub use handshake::Handshake;
pub use listings::{ListedTool, Listing, Listings};
pub use log_level::LogLevel;
pub use multiline::MultilineValues;
pub use open_requests::{FLOOD, OpenRequest, OpenRequests, canonical};
pub use process::{Process, ProcessChange};
pub use prompts::Prompts;
pub use rounds::{Retry, Round, Rounds};
pub use server_messages::ServerMessages;
pub use stateless_era::StatelessEra;
pub use subscriptions::{Filter, Subscription, Subscriptions};
pub use tasks::{EXTENSION as TASKS_EXTENSION, Status, Task, TaskState, Tasks};
pub use used_ids::UsedIds;

use std::collections::BTreeSet;

use super::mcp_exchange::McpExchange;
use super::message_facts::{Evidence, InForce, MessageFacts};
use crate::capture::Limits;
use crate::decode::{Direction, Exchange, ExchangeNumber, Kind};
use crate::mcp::capability::{Capabilities, Capability, Declarer};
use crate::mcp::contract::Tools;
use crate::mcp::{Carrier, MessageNumber, Method, Revision, Revisions, SessionNumber, Transport, meta};

/// Limit of [`History::called_unlisted`]. Each name gives one finding, and more would
/// not help anybody.
const CALLED: usize = 64;

/// The part of a batch that was seen so far.
#[derive(Clone, Copy, Debug)]
pub struct BatchSoFar {
    /// The number of the batch.
    pub number: u64,
    /// Whether it contains requests or notifications.
    pub has_requests: bool,
    /// Whether it contains responses.
    pub has_responses: bool,
}

/// The state of a session.
#[derive(Debug, Default)]
pub struct History {
    pub session: SessionNumber,
    /// The transport of the session.
    pub transport: Transport,
    /// Whether the capture contains the beginning of the session. Rules about earlier messages
    /// are silent otherwise.
    pub saw_beginning: bool,
    /// Whether bytes of its connections are missing or could not be decoded. Messages may have been
    /// lost in them.
    pub has_gaps: bool,
    /// Whether messages that were sent before the current one may still arrive: bytes of another
    /// connection are missing, or packets of several connections were captured out of order.
    pub earlier_may_follow: bool,
    /// Numbers of messages by direction: of the client, of the server.
    pub messages: [u64; 2],
    /// Whether the client's first message was not `initialize`.
    pub began_without_handshake: bool,
    /// The handshake (revisions up to 2025-11-25).
    pub handshake: Handshake,
    /// Messages of the stateless era (2026-07-28).
    pub stateless: StatelessEra,
    /// The capabilities in the response to `server/discover`.
    pub discovered: Option<Capabilities>,
    /// Requests without a response so far.
    pub requests: OpenRequests,
    /// Requests that were answered recently and may still have progress, a task or a subscription.
    pub answered_requests: AnsweredRequests,
    /// Ids of all requests.
    pub used_ids: UsedIds,
    /// Progress tokens of all requests.
    pub used_tokens: UsedIds,
    /// The cursors of paged lists.
    pub cursors: Cursors,
    /// The log level that the server confirmed (`logging/setLevel`).
    pub log_level: Option<LogLevel>,
    pub tools: Tools,
    /// Lists as the server returned them, page by page.
    pub listings: Listings,
    pub prompts: Prompts,
    /// Subscriptions to resources and to streams of notifications.
    pub subscriptions: Subscriptions,
    pub elicitations: Elicitations,
    pub rounds: Rounds,
    pub tasks: Tasks,
    /// Whether the client ever requested the list of tools.
    pub requested_tools: bool,
    /// Names of tools that were called before they were ever listed, at most [`CALLED`].
    pub called_unlisted: BTreeSet<String>,
    /// The batch of the last message.
    pub batch: Option<BatchSoFar>,
    /// Streams of server-sent events, and the event ids by which they can be resumed.
    pub event_streams: EventStreams,
    /// The latest requests and notifications of the server over HTTP.
    pub server_messages: ServerMessages,
    /// The state that HTTP heads show: session id, end, credentials.
    pub endpoint: Endpoint,
    /// The process of a wrapped server.
    pub process: Process,
    /// JSON values that lines of a pipe began and did not complete.
    pub multiline: MultilineValues,
}

impl History {
    pub(super) fn new(session: SessionNumber, transport: Transport, saw_beginning: bool, limits: &Limits) -> History {
        let requests = OpenRequests::new(limits.unanswered);
        History { session, transport, saw_beginning, requests, ..History::default() }
    }

    /// Whether the whole session so far was captured, from its beginning on. Then a message that is
    /// not in the history was not sent.
    pub fn is_whole(&self) -> bool {
        self.saw_beginning && !self.may_lack_messages()
    }

    /// Whether messages that were sent before may be missing in the history.
    pub fn may_lack_messages(&self) -> bool {
        self.has_gaps || self.earlier_may_follow
    }

    /// The revision in force for a message. The message itself, its exchange and its session are
    /// asked in this order (`docs/findings.md`, "The revision in force").
    pub(super) fn in_force(&self, facts: &MessageFacts<'_>, mcp: Option<&McpExchange>) -> InForce {
        let message = facts.message;
        if let Some(request) = message.answers.and_then(|number| self.requests.get(number)) {
            return request.in_force;
        }
        let from_client = message.direction == Direction::ClientToServer;
        if from_client && message.kind == Kind::Request && facts.meta().get(meta::VERSION).is_some() {
            let name = facts.meta().text(meta::VERSION).unwrap_or_default();
            let revisions = Revision::named(&name).map_or(Revisions::MODERN, Revisions::only);
            return InForce { revisions, evidence: Evidence::Meta };
        }
        if message.kind == Kind::Request && facts.method == Method::Initialize {
            let name = facts.body().text("protocolVersion").unwrap_or_default();
            let request =
                Revision::named(&name).map(Revisions::only).filter(|request| request.within(Revisions::LEGACY));
            return InForce { revisions: request.unwrap_or(Revisions::LEGACY), evidence: Evidence::Requested };
        }
        let exchange = mcp.and_then(|mcp| mcp.in_force);
        if let Some(in_force) = exchange.filter(|in_force| in_force.evidence <= Evidence::Header) {
            return in_force;
        }
        if let Some(in_force) = self.of_exchange(mcp) {
            return in_force;
        }
        let era = |revisions| InForce { revisions, evidence: Evidence::Era };
        match self.transport {
            _ if self.stateless.first_request.is_some() => era(Revisions::MODERN),
            Transport::HttpSse => era(Revisions::LEGACY),
            _ => InForce::default(),
        }
    }

    /// The revision in force by the handshake or `MCP-Protocol-Version`. A GET or DELETE has
    /// no other source.
    pub(super) fn of_exchange(&self, mcp: Option<&McpExchange>) -> Option<InForce> {
        let header = mcp.and_then(|mcp| mcp.version.as_deref()).and_then(Revision::named);
        let header =
            header.map(|revision| InForce { revisions: Revisions::only(revision), evidence: Evidence::Header });
        // A handshake never agrees on a stateless revision. A request whose headers name one does
        // not belong to the client of the handshake.
        let is_stateless = header.is_some_and(|header| header.revisions.within(Revisions::MODERN));
        if is_stateless && mcp.is_some_and(|mcp| mcp.names_method && !mcp.names_session) {
            return header;
        }
        self.handshake.in_force().or(header)
    }

    /// The revision in force for an exchange.
    pub(super) fn in_force_at(&self, mcp: &McpExchange) -> InForce {
        mcp.in_force.or_else(|| self.of_exchange(Some(mcp))).unwrap_or_default()
    }

    /// Whether the client declared a capability: in this request (2026-07-28 on), or else in its
    /// handshake. `None` if the capture does not contain the declaration.
    pub fn client_has(&self, capability: Capability, request: Option<&OpenRequest>) -> Option<bool> {
        let declared = request.and_then(|request| request.client.as_deref()).or(self.handshake.client.as_ref());
        declared.map(|declared| declared.has(capability))
    }

    /// Whether the server declared a capability. `None` if the capture does not
    /// contain the declaration.
    pub fn server_has(&self, capability: Capability) -> Option<bool> {
        let declared = self.handshake.server.as_ref().or(self.discovered.as_ref());
        declared.map(|declared| declared.has(capability))
    }

    /// Whether the side that can declare a capability did so. `None` if the capture does not
    /// contain the declaration.
    pub fn has(&self, capability: Capability) -> Option<bool> {
        match capability.declarer() {
            Declarer::Client => self.client_has(capability, None),
            Declarer::Server => self.server_has(capability),
        }
    }

    /// Whether a request still waits for its response: it was not cancelled or refused, and its
    /// session was not terminated.
    pub fn awaits_response(&self, request: MessageNumber) -> bool {
        let request = self.requests.get(request);
        request.is_some_and(|request| request.cancelled.is_none() && request.refused.is_none())
            && self.endpoint.terminated.is_none()
    }

    /// Records the head of a response.
    pub(super) fn record_response_head(&mut self, exchange: &Exchange) {
        self.endpoint.observe(exchange);
        self.event_streams.record_response_head(exchange);
        if let Some(status @ 300..) = exchange.status {
            self.mark_refused(exchange.number, status);
        }
    }

    /// Records that a server refused an exchange by an HTTP status, so its requests will not be
    /// answered. After a redirect the client sends the same requests again.
    fn mark_refused(&mut self, exchange: ExchangeNumber, status: u16) {
        let is_redirect = matches!(status, 301 | 302 | 307 | 308);
        self.requests.change_in(exchange, |request| {
            request.refused = Some(status);
            if is_redirect {
                self.used_ids.forget(request.sender, &request.id);
            }
        });
    }

    /// Records the end of an exchange. "Closing the response stream is the cancellation signal"
    /// (2026-07-28 basic/transports/streamable-http): an incomplete response was closed by the
    /// client, or bytes were lost.
    pub(super) fn exchange_ended(&mut self, exchange: &Exchange, last_event_id: Option<&str>) {
        self.event_streams.exchange_ended(exchange, last_event_id);
        if !exchange.response.complete {
            let ended = exchange.response.ended.or(exchange.request.ended).unwrap_or_default();
            self.requests.change_in(exchange.number, |request| {
                if request.in_force.revisions.within(Revisions::MODERN) {
                    request.cancelled.get_or_insert(ended);
                }
            });
        }
    }

    /// Adds a message, after the rules have checked it. `breaks` are the ids of the rules
    /// that it breaks.
    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, breaks: Vec<&'static str>) {
        let message = facts.message;
        let is_first_of_client = self.messages == [0; 2] && message.direction == Direction::ClientToServer;
        self.began_without_handshake |= is_first_of_client && facts.method != Method::Initialize;
        self.messages[message.direction as usize] += 1;
        if message.redelivered {
            return;
        }
        let request = message.answers.and_then(|number| self.requests.get(number));
        self.handshake.observe(facts);
        if message.carrier == Carrier::Line && message.batch.is_none() {
            self.multiline.observe(message);
        }
        self.stateless.observe(facts, request);
        self.listings.observe(facts, request.and_then(|request| request.cursor.as_deref()));
        self.prompts.observe(facts, request.is_none_or(|request| request.cursor.is_none()));
        self.subscriptions.observe(facts, request);
        self.elicitations.observe(facts);
        self.rounds.observe(facts, request);
        self.tasks.observe(facts, request);
        let before = self.batch.take();
        self.batch = message.batch.map(|(number, _)| {
            let before = before.filter(|batch| batch.number == number);
            let (requests, responses) =
                before.map_or((false, false), |batch| (batch.has_requests, batch.has_responses));
            let is_response = matches!(message.kind, Kind::Response | Kind::Error);
            let is_request = matches!(message.kind, Kind::Request | Kind::Notification);
            BatchSoFar { number, has_requests: requests || is_request, has_responses: responses || is_response }
        });
        match message.kind {
            Kind::Request => {
                if let Some(original) = message.copies {
                    self.requests.remove(original);
                }
                if let Some(id) = message.id.as_deref().filter(|id| *id != "null") {
                    self.used_ids.insert(message.direction, id);
                }
                self.requested_tools |= facts.method == Method::ToolsList;
                let request = OpenRequest { breaks, ..OpenRequest::of(facts) };
                if let (Method::ToolsCall, false, Some(name)) = (facts.method, self.requested_tools, &request.subject)
                    && self.called_unlisted.len() < CALLED
                    && !self.called_unlisted.contains(name)
                {
                    self.called_unlisted.insert(name.clone());
                }
                if let Some(token) = &request.progress_token {
                    self.used_tokens.insert(message.direction, token);
                }
                if facts.method.is_paged() {
                    self.cursors.request_page(facts.method, request.cursor.as_deref());
                }
                self.requests.insert(request);
            }
            Kind::Response | Kind::Error => {
                if let Some(request) = self.requests.intended_request(message).map(|request| request.number) {
                    self.requests.record_bad_answer(request, message.number);
                }
                if message.kind == Kind::Response
                    && facts.method == Method::ServerDiscover
                    && let Some(text) = facts.body().get("capabilities").filter(|text| text.starts_with('{'))
                {
                    self.discovered = Some(Capabilities::read(Declarer::Server, text));
                }
                if facts.method == Method::ToolsList && facts.is_listing() {
                    let request = message.answers.and_then(|number| self.requests.get(number));
                    let first = request.is_none_or(|request| request.cursor.is_none());
                    self.tools.add_page(facts.body(), facts.tools(), first);
                }
                if let Some(request) = message.answers.and_then(|number| self.requests.remove(number)) {
                    if let (Carrier::SseEvent, Some(exchange)) = (message.carrier, request.exchange) {
                        self.event_streams.record_answer(exchange, message.time);
                    }
                    if message.kind == Kind::Response {
                        self.record_success(&request, facts);
                    }
                    self.answered_requests.insert(request, facts);
                }
            }
            Kind::Notification if facts.method == Method::Cancelled => {
                if let Some(id) = facts.body().get("requestId") {
                    self.requests.cancel(message.direction, id, message.time);
                }
            }
            Kind::Notification if facts.method == Method::Progress => {
                let token = facts.body().get("progressToken").map(canonical).unwrap_or_default();
                let request = self.requests.progress_target(message.direction.reversed(), &token, message.exchange);
                let value = facts.body().get("progress").and_then(|value| value.parse().ok());
                if let (Some(number), Some(value)) = (request.map(|request| request.number), value) {
                    self.requests.record_progress(number, value, message.time);
                }
            }
            Kind::Invalid => self.requests.record_unreadable(message),
            Kind::Notification => {}
        }
    }

    /// Records that a request was answered with a result.
    fn record_success(&mut self, request: &OpenRequest, facts: &MessageFacts<'_>) {
        match request.method {
            // A result that asks for input (2026-07-28) has set nothing yet.
            Method::LoggingSetLevel if facts.body().get("inputRequests").is_none() => {
                self.log_level = request.log_level;
            }
            _ if facts.is_listing() => {
                self.cursors.add_page(request, facts.message.number, facts.body().get("nextCursor"));
            }
            _ => {}
        }
    }
}
