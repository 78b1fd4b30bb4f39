//! Operations: messages that belong to one thing.
//!
//! Examples: the pages of a list; a request that is sent again with the required input; a task and
//! its polls; a subscription and its notifications; a call with its progress and cancellation.
//!
//! A message is linked to an earlier one if it carries a token (a cursor, a state, a task id) that
//! only that message can have given. If two messages gave the same token and neither was used, no
//! link is made: a link is proven, or it does not exist. The exception is a likely retry, which no
//! member proves ([`retries`]).

mod open_requests;
mod retries;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use ring::digest::SHA256;
use rustc_hash::FxHasher;

use self::open_requests::{Name, OpenRequests};
use super::content::{self, Status, body};
use super::link::{Link, Why};
use super::message::Message;
use super::meta;
use super::method::Method;
use super::numbers::MessageNumber;
use crate::capture::Time;
use crate::decode::json::{Object, array, string};
use crate::decode::{Direction, ExchangeNumber, Kind};

/// Open requests, and tokens not used so far, that are stored for one session. Real sessions have
/// tens. The oldest are evicted, which costs a link.
const OPEN: usize = 256;

/// Progress tokens of answered requests, stored for one session. They distinguish progress that
/// arrives after the response from progress that arrives before its request.
const ANSWERED_PROGRESS: usize = 1_024;

/// Elicitations that one error may require. A person goes through all of them.
const ELICITATIONS: usize = 16;

/// Nanoseconds after a failure, or after a call without an answer, within which an equal call
/// counts as a retry. Clients give up a call within a minute, and people repeat one within minutes.
const RETRY_TIME: i64 = 5 * 60 * 1_000_000_000;

/// A short form of a text, made by [`digest`]. Cursors and states may have megabytes.
type Digest = [u8; DIGEST];

/// The length of a digest in bytes.
const DIGEST: usize = 16;

/// A value that one message gives and a later one uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    /// The `nextCursor` of a list, with the method.
    Cursor(u8, Digest),
    /// The `requestState` of a response that requires input, with the method.
    State(u8, Digest),
    /// A request that requires input and has no state: its method and params.
    Input(u8, Digest),
    /// A task, with the peer that runs it.
    Task(Direction, Digest),
    /// A `subscriptions/listen` request: its exchange and id.
    Listen(Option<ExchangeNumber>, Digest),
    /// A `resources/subscribe` request: its URI.
    Resource(Digest),
    /// A call that failed or was cancelled: the hash of its tool and arguments.
    Failure(u64),
    /// The id of an elicitation by URL.
    Elicitation(Digest),
    /// The progress token of a request that became a task, with the sender of the request.
    Progress(Direction, Digest),
}

/// The message that gave a token.
#[derive(Clone, Copy, Debug)]
struct TokenOrigin {
    operation: MessageNumber,
    by: MessageNumber,
    time: Time,
    /// Whether another message gave the same token before it was used. Then the
    /// token proves nothing.
    ambiguous: bool,
}

/// A request without a response so far, with the values that later messages may name.
#[derive(Debug)]
struct LinkableRequest {
    method: Method,
    operation: MessageNumber,
    sender: Direction,
    exchange: Option<ExchangeNumber>,
    id: Digest,
    /// Its `_meta.progressToken`.
    progress: Option<Digest>,
    /// Whether a later message was linked to it already.
    has_more: bool,
    /// The digest of its params, if it may be sent again with input.
    repeatable: Option<Digest>,
    /// For a tool call: the hash of its tool and arguments.
    call: Option<u64>,
    /// The equal call that was sent while this one was open, and its time.
    repeated_by: Option<(MessageNumber, Time)>,
    time: Time,
    /// The token that the request itself gave. It is withdrawn when the request fails or ends.
    token: Option<Token>,
}

/// The operations of one session.
#[derive(Debug, Default)]
pub struct Operations {
    requests: OpenRequests,
    tokens: BTreeMap<Token, TokenOrigin>,
    /// Tokens by the message that gave them first, to evict the oldest.
    by_age: BTreeSet<(MessageNumber, Token)>,
    /// Progress tokens of answered requests, with the senders of the requests.
    answered_progress: BTreeSet<(Direction, Digest)>,
}

impl Operations {
    /// Adds a message and returns its link to an earlier message of the session. `None` where
    /// nothing links it, or where two messages might be meant.
    ///
    /// Each message is given once, in order, after pairing. `is_shared`: several clients may use
    /// the session, and they choose ids independently.
    pub fn link(&mut self, message: &Message, is_shared: bool) -> Option<Link> {
        // A redelivered message gives and uses nothing new.
        if message.redelivered {
            return None;
        }
        let link = match message.kind {
            Kind::Request => self.link_request(message),
            Kind::Notification => {
                let params = body(message);
                let method = Method::named(message.method.as_deref()?);
                match method {
                    Method::Progress => self.link_progress(message, &params, is_shared),
                    Method::Cancelled => {
                        let link = self.link_cancellation(message, &params, is_shared);
                        link.inspect(|link| self.note_cancelled_call(link.previous, message))
                    }
                    _ => self.named_token(message, method, &params).map(|(origin, why)| origin.link(why)),
                }
            }
            Kind::Response | Kind::Error => self.link_response(message),
            Kind::Invalid => None,
        };
        if let Some(first) = link.and_then(|link| self.requests.get_mut(link.operation)) {
            first.has_more = true;
        }
        link
    }

    fn link_request(&mut self, message: &Message) -> Option<Link> {
        let method = Method::named(message.method.as_deref().unwrap_or_default());
        let params = body(message);
        let link = match message.copies.and_then(|original| self.link_copy(original)) {
            Some(link) => Some(link),
            None => self.used_token(message, method, &params).map(|(origin, why)| origin.link(why)),
        };
        let operation = link.map_or(message.number, |link| link.operation);
        let token = match method {
            Method::SubscriptionsListen => message.id.as_deref().map(|id| Token::Listen(message.exchange, digest(id))),
            Method::ResourcesSubscribe => params.get("uri").map(|uri| Token::Resource(digest_value(uri))),
            Method::ElicitationCreate => params.get("elicitationId").map(|id| Token::Elicitation(digest_value(id))),
            _ => None,
        };
        if let Some(token) = token {
            self.store_token(token, operation, message);
        }
        // Only a request of the stateless era can be answered with a demand for input.
        let meta = params.object("_meta");
        let repeatable = meta.get(meta::VERSION).is_some().then(|| params_digest(&params));
        let call = if method == Method::ToolsCall { call_hash(message, &params) } else { None };
        if let (None, Some(call)) = (link, call) {
            self.note_repeat(message, call);
        }
        let request = LinkableRequest {
            method,
            operation,
            sender: message.direction,
            exchange: message.exchange,
            id: message.id.as_deref().map(digest_typed).unwrap_or_default(),
            progress: meta.get("progressToken").map(digest_typed),
            has_more: false,
            repeatable,
            call,
            repeated_by: None,
            time: message.time,
            token,
        };
        self.requests.insert(message.number, request);
        link
    }

    /// The only open request of `sender` with this name that fits: in this exchange, or else in the
    /// whole session. If several clients share the session, a message with an exchange matches
    /// only in its exchange.
    fn only_match(
        &self,
        sender: Direction,
        exchange: Option<ExchangeNumber>,
        is_shared: bool,
        name: Name,
        fits: impl Fn(&LinkableRequest) -> bool,
    ) -> Option<(MessageNumber, MessageNumber)> {
        let only_match = |same_exchange: bool| {
            let is_it = |request: &LinkableRequest| fits(request) && (!same_exchange || request.exchange == exchange);
            let mut fitting = self.requests.named(sender, name).filter(|(_, request)| is_it(request));
            let (number, request) = fitting.next()?;
            fitting.next().is_none().then_some((number, request.operation))
        };
        let in_exchange = exchange.and_then(|_| only_match(true));
        in_exchange.or_else(|| only_match(false).filter(|_| exchange.is_none() || !is_shared))
    }

    /// The link of a progress notification to its request.
    fn link_progress(&self, message: &Message, params: &Object<'_>, is_shared: bool) -> Option<Link> {
        let token = digest_typed(params.get("progressToken")?);
        let requester = message.direction.reversed();
        let name = Name::Progress(token);
        if let Some((previous, operation)) = self.only_match(requester, message.exchange, is_shared, name, |_| true) {
            return Some(Link { operation, previous, why: Why::Progress });
        }
        // "the progressToken provided in the original request remains valid … until the task
        // reaches a terminal status" (2025-11-25).
        let is_open = self.requests.named(requester, name).next().is_some();
        let origin = self.token_origin(Token::Progress(requester, token)).filter(|_| !is_open)?;
        Some(origin.link(Why::Progress))
    }

    /// Whether a request of `sender` may have given this progress token. True also when older
    /// requests were evicted.
    pub fn may_have_progress_token(&self, requester: Direction, token: &str) -> bool {
        let token = digest_typed(token);
        self.answered_progress.contains(&(requester, token))
            || self.requests.is_full()
            || self.requests.named(requester, Name::Progress(token)).next().is_some()
    }

    /// The link of a cancellation to its request.
    fn link_cancellation(&self, message: &Message, params: &Object<'_>, is_shared: bool) -> Option<Link> {
        let id = Name::Id(digest_typed(params.get("requestId")?));
        let from_client = message.direction == Direction::ClientToServer;
        let by = |sender, exchange| self.only_match(sender, exchange, is_shared, id, |_| true);
        // Over HTTP a client's cancellation has an exchange of its own. From 2026-07-28 on a server
        // ends a subscription of the client, on the stream of the subscription.
        let found = match from_client {
            true => by(Direction::ClientToServer, message.exchange),
            false => by(Direction::ServerToClient, None).filter(|_| !is_shared).or_else(|| {
                let listens = |request: &LinkableRequest| request.method == Method::SubscriptionsListen;
                self.only_match(Direction::ClientToServer, message.exchange, is_shared, id, listens)
            }),
        };
        let (previous, operation) = found?;
        Some(Link { operation, previous, why: Why::Cancel })
    }

    /// The link of a copy to the request that was redirected. The copy replaces that request.
    fn link_copy(&mut self, original: MessageNumber) -> Option<Link> {
        let request = self.requests.remove(original)?;
        if let Some(token) = request.token {
            self.use_token(token);
        }
        Some(Link { operation: request.operation, previous: original, why: Why::Redirect })
    }

    /// The token that a request uses, and the reason of the link.
    fn used_token(&mut self, message: &Message, method: Method, params: &Object<'_>) -> Option<(TokenOrigin, Why)> {
        let kind = method as u8;
        let found = match params.get("requestState") {
            // "clients MUST echo back the exact value" (basic/patterns/mrtr).
            Some(state) => (self.use_token(Token::State(kind, digest_value(state))), Why::RequestState),
            None if params.get("inputResponses").is_some() => {
                (self.use_token(Token::Input(kind, params_digest(params))), Why::InputResponses)
            }
            None => (None, Why::RequestState),
        };
        if let (Some(origin), why) = found {
            return Some((origin, why));
        }
        match method {
            _ if method.is_paged() => {
                let cursor = digest_value(params.get("cursor")?);
                self.use_token(Token::Cursor(kind, cursor)).map(|origin| (origin, Why::Cursor))
            }
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => {
                // The receiver of the request that created the task runs the task.
                let task = digest_value(params.get("taskId")?);
                self.token_origin(Token::Task(message.direction.reversed(), task)).map(|origin| (origin, Why::Task))
            }
            Method::ResourcesUnsubscribe => {
                let uri = digest_value(params.get("uri")?);
                self.use_token(Token::Resource(uri)).map(|origin| (origin, Why::Subscription))
            }
            Method::ToolsCall => {
                let failure = Token::Failure(call_hash(message, params)?);
                let soon = |origin: &TokenOrigin| (0..=RETRY_TIME).contains(&message.time.since(origin.time));
                self.token_origin(failure).filter(soon)?;
                self.use_token(failure).map(|origin| (origin, Why::Retry))
            }
            _ => self.named_token(message, method, params),
        }
    }

    /// The token that a notification names, or a request that is sent in the course of another.
    fn named_token(&self, message: &Message, method: Method, params: &Object<'_>) -> Option<(TokenOrigin, Why)> {
        let named = |name: &str| params.get(name).map(digest_value);
        let meta = params.object("_meta");
        match method {
            Method::TasksStatus | Method::TasksNotification => {
                return Some((self.token_origin(Token::Task(message.direction, named("taskId")?))?, Why::Task));
            }
            Method::ElicitationComplete => {
                return Some((self.token_origin(Token::Elicitation(named("elicitationId")?))?, Why::Elicitation));
            }
            Method::ResourcesUpdated if meta.is_empty() => {
                return Some((self.token_origin(Token::Resource(named("uri")?))?, Why::Subscription));
            }
            _ => {}
        }
        if let Some(id) = meta.get(meta::SUBSCRIPTION) {
            // The subscription id is the JSON-RPC id of the request that opened the stream.
            return Some((self.token_origin(Token::Listen(message.exchange, digest(id)))?, Why::Subscription));
        }
        let task = meta.object(meta::RELATED_TASK).get("taskId").map(digest_value)?;
        let both = [Direction::ClientToServer, Direction::ServerToClient];
        let mut origins = both.into_iter().filter_map(|runner| self.tokens.get(&Token::Task(runner, task)));
        match (origins.next(), origins.next()) {
            (Some(origin), None) if !origin.ambiguous => Some((*origin, Why::Task)),
            _ => None,
        }
    }

    fn link_response(&mut self, message: &Message) -> Option<Link> {
        let number = message.answers?;
        let request = self.requests.remove(number)?;
        if let Some(token) = request.progress {
            if self.answered_progress.len() >= ANSWERED_PROGRESS {
                self.answered_progress.clear();
            }
            self.answered_progress.insert((request.sender, token));
        }
        // A `subscriptions/listen` stream ends with its response. A subscription that was refused
        // brings nothing.
        if let Some(token) = request.token
            && (message.kind == Kind::Error || matches!(token, Token::Listen(..)))
        {
            self.use_token(token);
        }
        for token in tokens_of_response(message, &request) {
            self.store_token(token, request.operation, message);
            if let (Token::Task(..), Some(progress)) = (token, request.progress) {
                self.store_token(Token::Progress(request.sender, progress), request.operation, message);
            }
        }
        let is_one_of_more = request.has_more || request.operation != number;
        is_one_of_more.then_some(Link { operation: request.operation, previous: number, why: Why::Answer })
    }

    fn store_token(&mut self, token: Token, operation: MessageNumber, message: &Message) {
        let origin = TokenOrigin { operation, by: message.number, time: message.time, ambiguous: false };
        let stale =
            |earlier: &TokenOrigin| matches!(token, Token::Failure(_)) && message.time.since(earlier.time) > RETRY_TIME;
        match self.tokens.get_mut(&token) {
            Some(earlier) if !stale(earlier) => return earlier.ambiguous = true,
            Some(earlier) => {
                self.by_age.remove(&(earlier.by, token));
                *earlier = origin;
            }
            None => drop(self.tokens.insert(token, origin)),
        }
        self.by_age.insert((message.number, token));
        if self.by_age.len() > OPEN
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.tokens.remove(&oldest);
        }
    }

    fn token_origin(&self, token: Token) -> Option<TokenOrigin> {
        self.tokens.get(&token).filter(|origin| !origin.ambiguous).copied()
    }

    /// Removes a token and returns the message that gave it.
    fn use_token(&mut self, token: Token) -> Option<TokenOrigin> {
        let origin = self.token_origin(token)?;
        self.tokens.remove(&token);
        self.by_age.remove(&(origin.by, token));
        Some(origin)
    }
}

impl TokenOrigin {
    fn link(&self, why: Why) -> Link {
        Link { operation: self.operation, previous: self.by, why }
    }
}

/// The tokens that a response gives.
fn tokens_of_response(message: &Message, request: &LinkableRequest) -> Vec<Token> {
    let failure = || request.call.map(Token::Failure);
    if message.kind == Kind::Error {
        // URLElicitationRequiredError (2025-11-25 client/elicitation) lists what the user has to do
        // before the call is repeated.
        let error = body(message);
        let required = match error.get("code") {
            Some("-32042") => error.object("data").get("elicitations").map(|listed| array(listed, ELICITATIONS)),
            _ => None,
        };
        let id = |one: &str| Some(Token::Elicitation(digest_value(Object::read(one).get("elicitationId")?)));
        return required.unwrap_or_default().into_iter().filter_map(id).chain(failure()).collect();
    }
    let has_failed = request.method == Method::ToolsCall && content::status(message) == Some(Status::ToolError);
    continuation_token(message, request).or_else(|| failure().filter(|_| has_failed)).into_iter().collect()
}

/// The token with which a later request continues, from a result.
fn continuation_token(message: &Message, request: &LinkableRequest) -> Option<Token> {
    let (kind, result) = (request.method as u8, body(message));
    if request.method.is_paged() {
        // "A missing nextCursor means that there are no more results"; null is no cursor.
        let next = result.get("nextCursor")?;
        return (next != "null").then(|| Token::Cursor(kind, digest_value(next)));
    }
    match result.text("resultType").as_deref() {
        Some("input_required") => match result.get("requestState") {
            Some(state) => Some(Token::State(kind, digest_value(state))),
            None => request.repeatable.map(|params| Token::Input(kind, params)),
        },
        // The members of a task are in the result itself (2026-07-28), or in its member `task`
        // (2025-11-25).
        Some("task") => Some(Token::Task(message.direction, digest_value(result.get("taskId")?))),
        _ => match request.method {
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => None,
            _ => Some(Token::Task(message.direction, digest_value(result.object("task").get("taskId")?))),
        },
    }
}

/// The digest of a text: its own bytes and their number if it is shorter than [`DIGEST`], otherwise
/// the start of its SHA-256 with [`DIGEST`] as the last byte. Nearly all ids are short.
fn digest(text: &str) -> Digest {
    let mut short = Digest::default();
    match text.len() {
        length @ ..DIGEST => {
            short[..length].copy_from_slice(text.as_bytes());
            short[DIGEST - 1] = length as u8;
        }
        _ => {
            short.copy_from_slice(&ring::digest::digest(&SHA256, text.as_bytes()).as_ref()[..DIGEST]);
            short[DIGEST - 1] = DIGEST as u8;
        }
    }
    short
}

/// The digest of the content of a JSON string, whatever its escapes; of any other value as sent.
fn digest_value(json: &str) -> Digest {
    string(json).map_or_else(|| digest(json), |text| digest(&text))
}

/// As [`digest_value`], but `1` and `"1"` differ: ids and tokens are strings or numbers.
fn digest_typed(json: &str) -> Digest {
    string(json).map_or_else(|| digest(json), |text| digest(&format!("\"{text}")))
}

/// A hash of a tool call: the tool and the arguments as sent. Clients that repeat a call send the
/// same text again. It links calls only as likely retries, so 64 bits suffice.
fn call_hash(message: &Message, params: &Object<'_>) -> Option<u64> {
    let mut hasher = FxHasher::default();
    hasher.write(message.tool.as_deref()?.as_bytes());
    hasher.write(params.get("arguments").unwrap_or_default().as_bytes());
    Some(hasher.finish())
}

/// The digest of a request's params without the members that may change when it is sent again.
fn params_digest(params: &Object<'_>) -> Digest {
    let mut members: Vec<(&str, &str)> = params
        .iter()
        .filter(|(name, _)| !matches!(*name, "\"_meta\"" | "\"inputResponses\"" | "\"requestState\""))
        .collect();
    members.sort_unstable();
    let mut text = String::new();
    for (name, value) in members {
        text.extend([name, ":", value, ","]);
    }
    digest(&text)
}

#[cfg(test)]
mod tests;
