//! What was captured before what it follows: answers, progress and cancellations before their requests, requests of a session before its `initialize`.
//!
//! TCP delivers nothing before what it acknowledges, so within a connection a question comes first. Between connections only the order of the
//! capture tells, and that may be wrong: queues of a network card are read in turns, files of two interfaces are merged. A client's answer, or one
//! on the stream of HTTP+SSE, then comes before its question. Such an answer waits, so that whoever reads the events meets questions first.
//!
//! This is no guess: the question must have the answer's session, the other sender and its typed id, the session's beginning must have been captured, and
//! this id must not have been seen before, so that no other question fits. Progress and cancellations wait in the same way for the request that gives
//! the token, or has the id, which they name.
//!
//! A request that names a session id nobody assigned so far opens its session at once: mostly the capture began later than the session. But an
//! `initialize` that comes soon after, from the same client to the same server, may be that session's. It waits for the head of its answer, which
//! says the id. For as long, answers of such a session wait for questions too.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::kept::Kept;
use super::{Sink, Tracker};
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::jsonrpc::Kind;
use crate::decode::stack::{Connected, Text};
use crate::mcp::facts;
use crate::mcp::message::Message;
use crate::mcp::pairing::{self, Scope};
use crate::mcp::places::Place;
use crate::mcp::session::SessionNumber;

/// Messages after which an answer waits no longer. What changes places in a capture are packets close to each other, and few of them
/// complete a message, but one may complete a batch.
const MESSAGES: u64 = 1_024;

/// Capture time, in nanoseconds, after which an answer waits no longer. A window of packets that change places may hold a pause.
const PATIENCE: i64 = 10_000_000_000;

/// Bytes of answers that wait: in an orderly capture there are none. Beyond, those that wait for longest go first.
const BYTES: usize = 16 << 20;

/// Answers that wait, where those of a clock that is ahead may wait for any number of messages. Beyond, too, those that wait for longest go first.
const WAITING: usize = 16_384;

/// Sessions whose beginning is looked for at once, and each `initialize` that may be it: they are held against each other.
const MET: usize = 64;

/// What names a request that may still come, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Sessions that were met by an id that nobody assigned, while their beginning may still come.
    met: VecDeque<Met>,
    /// Each an `initialize` whose answer will say which session it begins.
    beginnings: VecDeque<Kept>,
    /// Messages told so far, of all sessions.
    told: u64,
    /// The latest time of a text.
    clock: Option<Time>,
    /// Nanoseconds by which packets may stand behind what was captured after them.
    late: i64,
}

#[derive(Debug)]
struct Waiting {
    message: Box<Message>,
    follows: Follows,
    since: Since,
}

/// The request that something follows.
#[derive(Debug)]
pub(super) enum Follows {
    /// An answer follows the other side's request with its id.
    Asked(Scope),
    /// A cancellation follows the request of its own side with this id.
    Cancelled(String),
    /// Progress follows the other side's request that gave this token.
    Progress(String),
}

/// What was told, and the clock, when something came.
pub(super) type Since = (u64, Time);

#[derive(Debug)]
struct Met {
    session: SessionNumber,
    client: IpAddr,
    server: SocketAddr,
    since: Since,
}

impl Met {
    fn is_at(&self, place: &Place) -> bool {
        self.client == place.client.ip() && self.server == place.server
    }
}

impl Early {
    /// A message for which there is no request yet.
    pub(super) fn hold(&mut self, message: Box<Message>, follows: Follows) {
        let since = self.now(message.time);
        self.bytes += message.raw.len();
        self.waiting.push_back(Waiting { message, follows, since });
    }

    pub(super) fn now(&mut self, time: Time) -> Since {
        (self.told, *self.clock.get_or_insert(time))
    }

    /// A session was met by an id that nobody assigned so far.
    pub(super) fn meet(&mut self, session: SessionNumber, place: &Place, time: Time) {
        let since = self.now(time);
        self.met.push_back(Met { session, client: place.client.ip(), server: place.server, since });
    }

    /// Whether the beginning of a session, which was not captured so far, may still come.
    pub(super) fn may_begin(&self, session: SessionNumber) -> bool {
        self.met.iter().any(|met| met.session == session)
    }

    /// The session met between a client and a server, where it is the only one.
    fn only_met_at(&self, place: &Place) -> Option<SessionNumber> {
        let mut met = self.met.iter().filter(|met| met.is_at(place));
        let only = met.next()?.session;
        met.next().is_none().then_some(only)
    }

    pub(super) fn is_due(&self, (told, time): Since, clock: Time) -> bool {
        let waited = clock.since(time).saturating_sub(self.late);
        self.told - told >= MESSAGES && waited >= 0 || waited >= PATIENCE
    }

    /// A message was told.
    pub(super) fn count(&mut self) {
        self.told += 1;
    }

    fn take(&mut self, position: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(position)?;
        self.bytes -= waiting.message.raw.len();
        Some(waiting)
    }
}

/// A request, as far as others may wait for it.
#[derive(Debug)]
pub(super) struct Question {
    session: SessionNumber,
    sender: Direction,
    id: Arc<str>,
    /// `_meta.progressToken`.
    token: Option<String>,
}

impl Question {
    fn is_followed_by(&self, Waiting { message, follows, .. }: &Waiting) -> bool {
        let is_own = message.direction == self.sender;
        let names = |id: &str| pairing::is_same_id(id, &self.id);
        message.session == self.session
            && match follows {
                Follows::Asked(_) => !is_own && message.id.as_deref().is_some_and(names),
                Follows::Cancelled(id) => is_own && names(id),
                Follows::Progress(token) => {
                    !is_own && self.token.as_deref().is_some_and(|given| pairing::is_same_id(given, token))
                }
            }
    }
}

impl Tracker {
    /// Packets may stand so many nanoseconds behind what was captured after them: as much longer is waited for what belongs before.
    pub fn may_be_late(&mut self, nanoseconds: i64) {
        self.early.late = self.early.late.max(nanoseconds);
    }

    /// The question that a message is, where answers wait for any.
    pub(super) fn question(&self, message: &Message) -> Option<Question> {
        let Message { session, direction: sender, id: Some(id), kind: Kind::Request, .. } = message else {
            return None;
        };
        (!self.early.waiting.is_empty()).then(|| {
            let token = facts::body(message).object("_meta").get("progressToken").map(str::to_owned);
            Question { session: *session, sender: *sender, id: Arc::clone(id), token }
        })
    }

    /// A question was told: what waited for it comes right behind, up to the answer. A second answer waits for another question.
    pub(super) fn asked(&mut self, question: &Question, sink: &mut Sink<'_>) {
        while let Some(position) = self.early.waiting.iter().position(|waiting| question.is_followed_by(waiting)) {
            let is_answer = matches!(self.early.waiting[position].follows, Follows::Asked(_));
            self.conclude(position, sink);
            if is_answer {
                break;
            }
        }
    }

    /// A text was captured at `time`. Answers that have waited long enough, or are too many, are told without their questions.
    pub(super) fn give_up_due(&mut self, time: Time, sink: &mut Sink<'_>) {
        let clock = self.early.clock.map_or(time, |clock| clock.max(time));
        self.early.clock = Some(clock);
        while let Some(met) = self.early.met.front()
            && (self.early.met.len() > MET || self.early.is_due(met.since, clock))
        {
            self.early.met.pop_front();
        }
        while let Some(first) = self.early.beginnings.front()
            && (self.early.beginnings.len() > MET || self.early.bytes > BYTES || self.early.is_due(first.since, clock))
        {
            self.begin(first.exchange, None, sink);
        }
        self.name_due(clock, sink);
        while let Some(first) = self.early.waiting.front()
            && (self.early.bytes > BYTES || self.early.waiting.len() > WAITING || self.early.is_due(first.since, clock))
        {
            self.conclude(0, sink);
        }
    }

    /// Keeps an `initialize` back where it may begin a session that was met before. Says whether it is kept.
    pub(super) fn keeps_back(&mut self, exchange: ExchangeNumber, text: &Text<'_>, connected: &Connected) -> bool {
        let Some(place) = self.exchanges.get(&exchange) else { return false };
        let is_known = place.session.is_some() || place.session_id.is_some() || place.status.is_some();
        if is_known || !self.early.met.iter().any(|met| met.is_at(place)) {
            return false;
        }
        let since = self.early.now(text.time);
        let Some(kept) = Kept::new(text, connected, since) else { return false };
        self.early.bytes += kept.size();
        self.early.beginnings.push_back(kept);
        true
    }

    /// The answer to an `initialize` said the id of the session that it begins, or none is waited for any more: what was kept back is told.
    pub(super) fn begin(&mut self, exchange: ExchangeNumber, id: Option<&str>, sink: &mut Sink<'_>) {
        let position = self.early.beginnings.iter().position(|kept| kept.exchange == exchange);
        let Some(kept) = position.and_then(|position| self.early.beginnings.remove(position)) else { return };
        self.early.bytes -= kept.size();
        let Some(place) = self.exchanges.get_mut(&exchange) else { return };
        let port = place.server.port();
        let met = match (id, place.status) {
            (Some(id), _) => self.places.assigned(port, &id.into()),
            // The answer was not captured, or is on its way to where it was redirected: where one session alone lacks its beginning, this is it.
            (None, None | Some(300..=399)) => self.early.only_met_at(place),
            (None, Some(_)) => None,
        };
        place.session = met;
        self.read(kept.text(), &kept.connected, true, sink);
        if let Some(state) = met.and_then(|session| self.sessions.get_mut(&session)) {
            let session = state.session.number;
            state.begun = true;
            if let Some(id) = state.session.session_id.clone() {
                self.places.assign(port, id.into(), session);
            }
            self.early.met.retain(|met| met.session != session);
        }
    }

    /// These answers wait no longer.
    pub(super) fn give_up_where(&mut self, these: impl Fn(&Message) -> bool, sink: &mut Sink<'_>) {
        while let Some(position) = self.early.waiting.iter().position(|waiting| these(&waiting.message)) {
            self.conclude(position, sink);
        }
    }

    fn conclude(&mut self, position: usize, sink: &mut Sink<'_>) {
        let Some(Waiting { message, follows, .. }) = self.early.take(position) else { return };
        let scope = if let Follows::Asked(scope) = follows { scope } else { Scope::Session(None) };
        self.tell(message, scope, Vec::new(), false, sink);
    }

    /// The capture is over: no question comes any more.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        while let Some(first) = self.early.beginnings.front() {
            self.begin(first.exchange, None, sink);
        }
        self.name_all(sink);
        self.give_up_where(|_| true, sink);
    }
}
