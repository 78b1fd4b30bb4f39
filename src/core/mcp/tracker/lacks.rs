//! Whether a text can be taken yet, or names something that the capture has not shown so far and that may still come.
//!
//! TCP delivers nothing before what it acknowledges, so within a connection a request comes before its response. Between connections only the
//! order of the capture tells, and that may be wrong: queues of a network card are read in turns, files of two interfaces are merged.
//! The pipeline asks here before it hands a text to the tracker, and holds it while it lacks something (`pipeline/arrivals.rs`).
//!
//! Nothing here changes the tracker, and no answer is a guess: a response lacks its request only where the session, the sender and the
//! typed id leave no other request that it could answer.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use super::home::is_midway;
use super::{Reading, Tracker, fingerprint};
use crate::capture::Time;
use crate::decode::jsonrpc::{Envelope, Kind, Parsed};
use crate::decode::stack::{Connected, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction, json};
use crate::mcp::method::Method;
use crate::mcp::numbers::{MessageNumber, SessionNumber};
use crate::mcp::pairing::Scope;
use crate::mcp::places::Place;
use crate::mcp::revision::Revision;
use crate::mcp::session::Transport;

/// What connections may still bring, as far as the pipeline knows.
pub trait Outlook {
    /// Whether the beginning of a connection between the client's host and the server of `place`, other than this one, is still looked for.
    fn may_begin(&self, place: &Place, apart: ConnectionId) -> bool;

    /// Whether a text between the same two is held because it is not known whose it is.
    fn holds_between(&self, place: &Place) -> bool;
}

/// Messages told, and the latest capture time, at some moment: what patience is measured by.
pub type Moment = (MessageNumber, Time);

/// Sessions whose beginning is looked for at once.
const UNBEGUN: usize = 64;

/// Sessions that were opened by an id which nobody had assigned, while the `initialize` that begins them may still come. Mostly the capture began
/// later than the session, and none comes.
#[derive(Debug, Default)]
pub(super) struct Unbegun {
    sessions: VecDeque<Met>,
}

#[derive(Debug)]
struct Met {
    session: SessionNumber,
    client: IpAddr,
    server: SocketAddr,
    since: Moment,
}

impl Met {
    fn is_at(&self, place: &Place) -> bool {
        self.client == place.client.ip() && self.server == place.server
    }
}

impl Unbegun {
    /// A session was opened by an id that nobody had assigned.
    pub(super) fn push(&mut self, session: SessionNumber, place: &Place, since: Moment) {
        self.sessions.push_back(Met { session, client: place.client.ip(), server: place.server, since });
    }

    fn contains(&self, session: SessionNumber) -> bool {
        self.sessions.iter().any(|met| met.session == session)
    }

    fn is_at(&self, place: &Place) -> bool {
        self.sessions.iter().any(|met| met.is_at(place))
    }

    /// The session between a client and a server, where it is the only one.
    fn only_at(&self, place: &Place) -> Option<SessionNumber> {
        let mut met = self.sessions.iter().filter(|met| met.is_at(place));
        let only = met.next()?.session;
        met.next().is_none().then_some(only)
    }

    /// The beginning of this session was captured.
    pub(super) fn begun(&mut self, session: SessionNumber) {
        self.sessions.retain(|met| met.session != session);
    }

    fn forget(&mut self, is_due: impl Fn(Moment) -> bool) {
        while let Some(first) = self.sessions.front()
            && (self.sessions.len() > UNBEGUN || is_due(first.since))
        {
            self.sessions.pop_front();
        }
    }
}

impl Tracker {
    /// The beginning of sessions is not looked for any longer where that is due.
    pub fn forget_unbegun(&mut self, is_due: impl Fn(Moment) -> bool) {
        self.unbegun.forget(is_due);
    }

    /// Whether it is not known yet whose a text is, and what comes may tell: the head of the response to an `initialize`, which assigns a session id that
    /// requests may have named before; the response that assigns the id which the text names; or, for a stream that began before the
    /// capture, the beginning of another connection between the same two hosts.
    pub fn lacks_session(&self, text: &Text<'_>, reading: &Reading, outlook: &impl Outlook) -> bool {
        let exchange = match text.carrier {
            TextCarrier::SseEvent { kind: Some("endpoint"), .. } => return false,
            TextCarrier::SseEvent { exchange, .. } | TextCarrier::Body(exchange) => exchange,
            TextCarrier::WebSocket(_) | TextCarrier::Line { .. } => return false,
        };
        let Some(place) = self.exchanges.get(&exchange) else { return false };
        if reading.begins_session {
            let is_known = place.session.is_some() || place.session_id.is_some() || place.status.is_some();
            return !is_known && self.unbegun.is_at(place);
        }
        self.places.may_be_assigned(place)
            || is_midway(place, text.direction) && outlook.may_begin(place, text.connection)
    }

    /// Whether the request that a text answers, cancels or reports progress of was not captured so far and may still come. `was_held`: the text was
    /// held for it; then a request that was answered meanwhile is not the one.
    pub fn lacks_request(
        &self,
        text: &Text<'_>,
        reading: &Reading,
        connected: &Connected,
        outlook: &impl Outlook,
        was_held: bool,
    ) -> bool {
        let Some(place) = text.exchange().and_then(|exchange| self.exchanges.get(&exchange)) else { return false };
        let mut following = reading.following(&text.raw).peekable();
        if following.peek().is_none() {
            return false;
        }
        let Some((session, scope)) = self.scope_of_waiting(place, text, reading, connected, outlook) else {
            return false;
        };
        let state = session.and_then(|number| self.sessions.get(&number));
        let asker = text.direction.reversed();
        following.any(|follows| match follows {
            // In one exchange, and where requests are known by their exchange alone, a request comes first.
            Follows::Request(id) => {
                matches!(scope, Scope::Session(_))
                    && state.is_none_or(|state| match was_held {
                        true => !state.pairing.awaits(asker, id),
                        false => !state.pairing.knows(asker, id),
                    })
            }
            // Since 2026-07-28 servers cancel what clients asked for, too.
            Follows::Cancelled(id) => {
                let knows = |asker| state.is_some_and(|state| state.pairing.knows(asker, id));
                !knows(Direction::ClientToServer) && !knows(Direction::ServerToClient)
            }
            Follows::Progress(token) => state.is_none_or(|state| !state.operations.knows_progress(asker, token)),
        })
    }

    /// Where a text may wait for its request: the session that it belongs to, if that is known, and the scope of its responses. `None` where no request can
    /// still come, or none on another connection.
    fn scope_of_waiting(
        &self,
        place: &Place,
        text: &Text<'_>,
        reading: &Reading,
        connected: &Connected,
        outlook: &impl Outlook,
    ) -> Option<(Option<SessionNumber>, Scope)> {
        let from_client = text.direction == Direction::ClientToServer;
        // The copy of a redirected request repeats what was said.
        if from_client && (place.copy_of.is_some() || self.places.is_copy(place, fingerprint(&text.raw))) {
            return None;
        }
        let is_midway = is_midway(place, text.direction);
        let home = self.home(place, text, reading.single(), false, connected);
        let state = home.and_then(|number| self.sessions.get(&number));
        let (has_begun, has_id, transport, version) = match state {
            Some(state) => {
                let begun = state.begun && (state.is_initialized || !(is_midway && connected.is_midway));
                let session = &state.session;
                (begun, session.session_id.is_some(), session.transport, session.protocol_version.as_deref())
            }
            None => (place.session_id.is_none() && !is_midway, false, Transport::StreamableHttp, None),
        };
        if let (Some(state), TextCarrier::SseEvent { id: Some(id), .. }) = (state, &text.carrier)
            && place.resumes
            && state.events.contains(&fingerprint(id.as_bytes()))
        {
            return None;
        }
        let is_stateless = !(has_id || place.session_id.is_some()) && transport != Transport::HttpSse;
        // What servers without sessions answer stands in the exchange of the request. Their requests to clients may come late all the same; since
        // 2026-07-28 there are none.
        if is_stateless
            && (!from_client
                || version.or(place.version.as_deref()).and_then(Revision::named).is_some_and(Revision::is_stateless))
        {
            return None;
        }
        let may_begin = match home {
            Some(number) => self.unbegun.contains(number),
            None => place.session_id.is_some() && !place.is_assigned,
        };
        let may_follow =
            has_begun || may_begin || outlook.may_begin(place, text.connection) || outlook.holds_between(place);
        may_follow.then(|| (home, place.scope(text.direction, transport, is_stateless)))
    }

    /// The session that the `initialize` of an exchange begins, where one was opened before by the id that its response assigns, or where
    /// one alone lacks its beginning and the response was not captured, or redirects.
    pub(super) fn unbegun_at(&self, place: &Place) -> Option<SessionNumber> {
        if place.session.is_some() || place.session_id.is_some() || !self.unbegun.is_at(place) {
            return None;
        }
        match (&place.assigned_id, place.status) {
            (Some(id), _) => self.places.assigned(place.server.port(), id),
            (None, None | Some(300..=399)) => self.unbegun.only_at(place),
            (None, Some(_)) => None,
        }
    }
}

/// How a message names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows<'a> {
    /// A response, by its id.
    Request(&'a str),
    /// A cancellation, by the id of the request.
    Cancelled(&'a str),
    /// Progress, by the token that the request gave.
    Progress(&'a str),
}

impl<'a> Follows<'a> {
    /// The id, or the token.
    pub fn name(self) -> &'a str {
        match self {
            Follows::Request(name) | Follows::Cancelled(name) | Follows::Progress(name) => name,
        }
    }

    fn of(raw: &'a [u8], member: &Envelope) -> Option<Follows<'a>> {
        let part = |range: &Option<Range<usize>>| std::str::from_utf8(raw.get(range.clone()?)?).ok();
        let named = |name| json::member(part(&member.params)?, name);
        match member.kind? {
            Kind::Response | Kind::Error => part(&member.id).filter(|id| *id != "null").map(Follows::Request),
            Kind::Notification => match Method::named(member.method_name.as_deref()?) {
                Method::Cancelled => named("requestId").map(Follows::Cancelled),
                Method::Progress => named("progressToken").map(Follows::Progress),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Reading {
    /// The messages of the text that name a request. None where the text holds a request itself: others may wait for that.
    pub fn following<'a>(&'a self, raw: &'a [u8]) -> impl Iterator<Item = Follows<'a>> {
        let single = self.single().and_then(|envelope| Follows::of(raw, envelope));
        let is_request =
            |member: &Result<Envelope, _>| matches!(member, Ok(Envelope { kind: Some(Kind::Request), .. }));
        let members = match &self.parsed {
            Parsed::Batch(members) if !members.iter().any(|(_, member)| is_request(member)) => members.as_slice(),
            _ => &[],
        };
        let members =
            members.iter().filter_map(|(range, member)| Follows::of(raw.get(range.clone())?, member.as_ref().ok()?));
        single.into_iter().chain(members)
    }

    /// Whether it is, or holds, an `initialize`.
    pub fn begins_session(&self) -> bool {
        self.begins_session
    }
}
