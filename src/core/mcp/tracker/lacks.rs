//! Checks whether a text lacks something that has not been captured and may still arrive.
//!
//! TCP delivers nothing before the bytes that it acknowledges, so within a connection a request
//! arrives before its response. Between connections only the order of the capture is known, and
//! that may be wrong: a network card has several queues, and files of two interfaces are merged.
//! The pipeline calls these checks before it gives a text to the tracker, and holds the text while
//! it lacks something (`pipeline/arrivals.rs`).
//!
//! The checks change nothing in the tracker, and they do not guess. A response lacks its request
//! only if the session, the sender and the typed id leave no other request that it could answer.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use super::midway::is_midway;
use super::{Tracker, fingerprint};
use crate::capture::Time;
use crate::decode::jsonrpc::{Envelope, JsonRpcText};
use crate::decode::stack::{ParsedText, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction, Kind, json};
use crate::mcp::pairing::Scope;
use crate::mcp::session_index::ExchangeEvidence;
use crate::mcp::{MessageNumber, Method, Revision, SessionNumber, Transport};

/// The knowledge of the pipeline about input that may still arrive.
pub trait ExpectedInput {
    /// Whether a connection other than `except`, between the client's host and the server of the
    /// exchange, may still turn out to have its beginning in the capture.
    fn may_begin(&self, evidence: &ExchangeEvidence, except: ConnectionId) -> bool;

    /// Whether a text between the same client and server is held because its session is not known.
    fn holds_between(&self, evidence: &ExchangeEvidence) -> bool;
}

/// The number of messages so far, and the latest capture time.
pub type Moment = (MessageNumber, Time);

/// Sessions that may wait for their beginning at once.
const AWAITED: usize = 64;

/// Sessions that were opened by an id which no captured response had assigned, while their
/// `initialize` may still arrive. Mostly the capture began later than the session,
/// and none arrives.
#[derive(Debug, Default)]
pub(super) struct AwaitedBeginnings {
    sessions: VecDeque<AwaitedBeginning>,
}

#[derive(Debug)]
struct AwaitedBeginning {
    session: SessionNumber,
    client: IpAddr,
    server: SocketAddr,
    since: Moment,
}

impl AwaitedBeginning {
    fn is_at(&self, evidence: &ExchangeEvidence) -> bool {
        self.client == evidence.client.ip() && self.server == evidence.server
    }
}

impl AwaitedBeginnings {
    /// Adds a session that was opened by an unassigned id.
    pub(super) fn push(&mut self, session: SessionNumber, evidence: &ExchangeEvidence, since: Moment) {
        self.sessions.push_back(AwaitedBeginning {
            session,
            client: evidence.client.ip(),
            server: evidence.server,
            since,
        });
    }

    fn contains(&self, session: SessionNumber) -> bool {
        self.sessions.iter().any(|awaited| awaited.session == session)
    }

    fn is_at(&self, evidence: &ExchangeEvidence) -> bool {
        self.sessions.iter().any(|awaited| awaited.is_at(evidence))
    }

    /// The session between this client and server, if it is the only one.
    fn only_at(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        let mut awaited = self.sessions.iter().filter(|awaited| awaited.is_at(evidence));
        let only = awaited.next()?.session;
        awaited.next().is_none().then_some(only)
    }

    /// Removes a session whose beginning was captured.
    pub(super) fn beginning_found(&mut self, session: SessionNumber) {
        self.sessions.retain(|awaited| awaited.session != session);
    }

    fn forget(&mut self, is_due: impl Fn(Moment) -> bool) {
        while let Some(first) = self.sessions.front()
            && (self.sessions.len() > AWAITED || is_due(first.since))
        {
            self.sessions.pop_front();
        }
    }
}

impl Tracker {
    /// Stops waiting for the beginning of sessions that have waited for long enough.
    pub fn forget_awaited_beginnings(&mut self, is_due: impl Fn(Moment) -> bool) {
        self.awaited_beginnings.forget(is_due);
    }

    /// Whether the session of a text is not known yet and may become known. It may become known by
    ///
    /// - the head of the response to this `initialize`: it assigns a session id that other requests
    ///   may have named before;
    /// - the response that assigns the id which the text names;
    /// - for a stream that began before the capture: the beginning of another connection between
    ///   the two hosts.
    pub fn lacks_session(&self, text: &Text, expected: &impl ExpectedInput) -> bool {
        let exchange = match text.carrier {
            _ if text.announces_endpoint() => return false,
            TextCarrier::SseEvent { exchange, .. } | TextCarrier::Body(exchange) => exchange,
            TextCarrier::WebSocket(_) | TextCarrier::Line { .. } => return false,
        };
        let Some(evidence) = self.exchanges.get(&exchange) else { return false };
        if text.parsed.begins_session {
            let is_known = evidence.session.is_some() || evidence.session_id.is_some() || evidence.status.is_some();
            return !is_known && self.awaited_beginnings.is_at(evidence);
        }
        self.session_index.may_be_awaited_id(evidence)
            || is_midway(evidence, text) && expected.may_begin(evidence, text.connection)
    }

    /// Whether the request that a text answers, cancels or reports progress of was not captured so
    /// far and may still arrive.
    ///
    /// `was_held`: the text was held for this reason before. Then a request that was answered
    /// meanwhile is not the one.
    pub fn lacks_request(&self, text: &Text, expected: &impl ExpectedInput, was_held: bool) -> bool {
        let Some(evidence) = text.exchange().and_then(|exchange| self.exchanges.get(&exchange)) else { return false };
        let mut request_references = text.parsed.request_references(&text.raw).peekable();
        if request_references.peek().is_none() {
            return false;
        }
        let Some((session, scope)) = self.scope_of_waiting(evidence, text, expected) else {
            return false;
        };
        let state = session.and_then(|number| self.sessions.get(&number));
        let requester = text.direction.reversed();
        request_references.any(|reference| match reference {
            // Within an exchange the request arrives first. Nothing has to be held there.
            RequestReference::Response(id) => {
                matches!(scope, Scope::Session(_))
                    && state.is_none_or(|state| match was_held {
                        true => !state.pairing.awaits(requester, id),
                        false => !state.pairing.is_open_or_answered(requester, id),
                    })
            }
            // Since 2026-07-28 servers cancel requests of clients too.
            RequestReference::Cancellation(id) => {
                let is_open_or_answered =
                    |requester| state.is_some_and(|state| state.pairing.is_open_or_answered(requester, id));
                !is_open_or_answered(Direction::ClientToServer) && !is_open_or_answered(Direction::ServerToClient)
            }
            RequestReference::Progress(token) => {
                state.is_none_or(|state| !state.operations.may_have_progress_token(requester, token))
            }
        })
    }

    /// The session of a text, if it is known, and the scope in which the text looks for its
    /// request. `None` if no request can still arrive from another connection.
    fn scope_of_waiting(
        &self,
        evidence: &ExchangeEvidence,
        text: &Text,
        expected: &impl ExpectedInput,
    ) -> Option<(Option<SessionNumber>, Scope)> {
        let from_client = text.direction == Direction::ClientToServer;
        // The copy of a redirected request repeats messages that were tracked.
        if from_client
            && (evidence.copy_of.is_some() || self.session_index.repeats_redirected(evidence, fingerprint(&text.raw)))
        {
            return None;
        }
        let is_midway = is_midway(evidence, text);
        let existing_session = self.existing_session(evidence, text, text.parsed.single(), false);
        let state = existing_session.and_then(|number| self.sessions.get(&number));
        let (has_beginning, has_id, transport, version) = match state {
            Some(state) => {
                let has_beginning =
                    state.has_beginning && (state.is_initialized || !(is_midway && text.connected.is_midway));
                let session = &state.session;
                (has_beginning, session.session_id.is_some(), session.transport, session.protocol_version.as_deref())
            }
            None => (evidence.session_id.is_none() && !is_midway, false, Transport::StreamableHttp, None),
        };
        if let (Some(state), TextCarrier::SseEvent { id: Some(id), .. }) = (state, &text.carrier)
            && evidence.resumes
            && state.events.contains(&fingerprint(id.as_bytes()))
        {
            return None;
        }
        let is_stateless = !(has_id || evidence.session_id.is_some()) && transport != Transport::HttpSse;
        // Servers without sessions respond in the exchange of the request. Their requests to
        // clients may arrive late all the same. Since 2026-07-28 there are no such requests.
        if is_stateless
            && (!from_client
                || version
                    .or(evidence.version.as_deref())
                    .and_then(Revision::named)
                    .is_some_and(Revision::is_stateless))
        {
            return None;
        }
        let may_begin = match existing_session {
            Some(number) => self.awaited_beginnings.contains(number),
            None => evidence.session_id.is_some() && !evidence.is_assigned,
        };
        let may_follow = has_beginning
            || may_begin
            || expected.may_begin(evidence, text.connection)
            || expected.holds_between(evidence);
        may_follow.then(|| (existing_session, evidence.scope(text.direction, transport, is_stateless)))
    }

    /// The session that the `initialize` of an exchange begins although it was opened before: by
    /// the id that the response assigns. If there is no response, or a redirect, it is the only
    /// session that waits for its beginning.
    pub(super) fn awaited_beginning_at(&self, evidence: &ExchangeEvidence) -> Option<SessionNumber> {
        if evidence.session.is_some() || evidence.session_id.is_some() || !self.awaited_beginnings.is_at(evidence) {
            return None;
        }
        match (&evidence.assigned_id, evidence.status) {
            (Some(id), _) => self.session_index.by_session_id(evidence.server.port(), id),
            (None, None | Some(300..=399)) => self.awaited_beginnings.only_at(evidence),
            (None, Some(_)) => None,
        }
    }
}

/// A reference of a message to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestReference<'a> {
    /// A response, with the id of its request.
    Response(&'a str),
    /// A cancellation, with the id of the request.
    Cancellation(&'a str),
    /// A progress notification, with the token of the request.
    Progress(&'a str),
}

impl<'a> RequestReference<'a> {
    /// The id or the token, as JSON text.
    pub fn id_or_token(self) -> &'a str {
        match self {
            RequestReference::Response(name)
            | RequestReference::Cancellation(name)
            | RequestReference::Progress(name) => name,
        }
    }

    fn of(raw: &'a [u8], member: &Envelope) -> Option<RequestReference<'a>> {
        let part = |range: &Option<Range<usize>>| std::str::from_utf8(raw.get(range.clone()?)?).ok();
        let named = |name| json::member(part(&member.params)?, name);
        match member.kind? {
            Kind::Response | Kind::Error => part(&member.id).filter(|id| *id != "null").map(RequestReference::Response),
            Kind::Notification => match Method::named(member.method_name.as_deref()?) {
                Method::Cancelled => named("requestId").map(RequestReference::Cancellation),
                Method::Progress => named("progressToken").map(RequestReference::Progress),
                _ => None,
            },
            _ => None,
        }
    }
}

impl ParsedText {
    /// The references of the messages of this text. None if the text contains a request: other
    /// texts may wait for that request.
    pub fn request_references<'a>(&'a self, raw: &'a [u8]) -> impl Iterator<Item = RequestReference<'a>> {
        let single = self.single().and_then(|envelope| RequestReference::of(raw, envelope));
        let is_request =
            |member: &Result<Envelope, _>| matches!(member, Ok(Envelope { kind: Some(Kind::Request), .. }));
        let members = match &self.envelopes {
            JsonRpcText::Batch(members) if !members.iter().any(|(_, member)| is_request(member)) => members.as_slice(),
            _ => &[],
        };
        let members = members
            .iter()
            .filter_map(|(range, member)| RequestReference::of(raw.get(range.clone())?, member.as_ref().ok()?));
        single.into_iter().chain(members)
    }
}
