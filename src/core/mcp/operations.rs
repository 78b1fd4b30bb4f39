//! Operations: several messages that are one thing. A page after a page, a request sent again with what it asked for, a task and what is
//! asked about it, a subscription and what it brings, a call with its progress and its cancellation, a call after one that failed.
//!
//! A message that carries something which only an earlier message can have given (a cursor, a state, a token) is linked to that
//! message. Where two messages gave the same thing and neither was used, none is: a link is proven or it is not made. A retry after a
//! failure is the exception, which no member proves: it is called likely.

use std::collections::{BTreeMap, BTreeSet};

use ring::digest::SHA256;

use super::facts::{self, Status, body};
use super::link::{Link, Why};
use super::message::Message;
use super::meta;
use super::method::Method;
use super::numbers::MessageNumber;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json::{Object, array, string};
use crate::decode::jsonrpc::Kind;

/// Requests that wait for their answer, and things given that wait for their use, of one session. Real sessions have tens; the
/// oldest are forgotten, which costs a link.
const OPEN: usize = 256;

/// Progress tokens of answered requests, of one session: to tell progress that comes late from progress that comes before its request.
const PROGRESSED: usize = 1_024;

/// Elicitations that one error may require: a person goes through all of them.
const REQUIRED: usize = 16;

/// How long after a failure a call of the same tool counts as a retry: a model or a person has corrected the arguments within minutes.
const RETRY: i64 = 5 * 60 * 1_000_000_000;

/// A text by its hash: cursors and states may have megabytes.
type Digest = [u8; DIGEST];

/// Bytes of a digest.
const DIGEST: usize = 16;

/// Something that one message gives and a later one uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    /// `nextCursor` of a list.
    Cursor(u8, Digest),
    /// `requestState` of an answer that requires input to this method.
    State(u8, Digest),
    /// The request that requires input, without a state: its method and params.
    Input(u8, Digest),
    /// A task, by who keeps it.
    Task(Direction, Digest),
    /// `subscriptions/listen`, by its exchange and id.
    Listen(Option<ExchangeNumber>, Digest),
    /// `resources/subscribe`, by the URI.
    Resource(Digest),
    /// A call that failed, by the tool.
    Failure(Digest),
    /// An elicitation by URL, by its id.
    Elicitation(Digest),
    /// The progress token of a request that became a task, by who gave it.
    Progress(Direction, Digest),
}

/// Who gave a token.
#[derive(Clone, Copy, Debug)]
struct Given {
    operation: MessageNumber,
    by: MessageNumber,
    time: Time,
    /// Others gave the same, and none was used: it proves nothing.
    ambiguous: bool,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Asked {
    method: Method,
    operation: MessageNumber,
    sender: Direction,
    exchange: Option<ExchangeNumber>,
    id: Digest,
    /// `_meta.progressToken`.
    progress: Option<Digest>,
    /// Whether another message went on with it already.
    has_more: bool,
    /// What it would be known by if it were sent again with input.
    again: Option<Digest>,
    /// What it gave, to be taken back when it fails or ends.
    token: Option<Token>,
}

/// The operations of one session.
#[derive(Debug, Default)]
pub struct Operations {
    asked: BTreeMap<MessageNumber, Asked>,
    given: BTreeMap<Token, Given>,
    /// Tokens by the message that gave them first.
    by_age: BTreeSet<(MessageNumber, Token)>,
    /// Progress tokens of requests that were answered, with who gave them.
    progressed: BTreeSet<(Direction, Digest)>,
}

impl Operations {
    /// What ties a message to an earlier one of the session; `None` where nothing does, or two messages might. Messages are shown in
    /// order, each once, paired already. `is_shared`: several clients may use the session, who know nothing of each other's ids.
    pub fn link(&mut self, message: &Message, is_shared: bool) -> Option<Link> {
        // What is delivered again gives and uses nothing new.
        if message.redelivered {
            return None;
        }
        let link = match message.kind {
            Kind::Request => self.request(message),
            Kind::Notification => {
                let params = body(message);
                let method = Method::named(message.method.as_deref()?);
                match method {
                    Method::Progress => self.progress(message, &params, is_shared),
                    Method::Cancelled => self.cancelled(message, &params, is_shared),
                    _ => self.noticed(message, method, &params).map(|(given, why)| given.link(why)),
                }
            }
            Kind::Response | Kind::Error => self.answer(message),
            Kind::Invalid => None,
        };
        if let Some(first) = link.and_then(|link| self.asked.get_mut(&link.operation)) {
            first.has_more = true;
        }
        link
    }

    fn request(&mut self, message: &Message) -> Option<Link> {
        let method = Method::named(message.method.as_deref().unwrap_or_default());
        let params = body(message);
        let link = match message.copies.and_then(|original| self.redirected(original)) {
            Some(link) => Some(link),
            None => self.continues(message, method, &params).map(|(given, why)| given.link(why)),
        };
        let operation = link.map_or(message.number, |link| link.operation);
        let token = match method {
            Method::SubscriptionsListen => message.id.as_deref().map(|id| Token::Listen(message.exchange, hash(id))),
            Method::ResourcesSubscribe => params.get("uri").map(|uri| Token::Resource(hash_value(uri))),
            Method::ElicitationCreate => params.get("elicitationId").map(|id| Token::Elicitation(hash_value(id))),
            _ => None,
        };
        if let Some(token) = token {
            self.give(token, operation, message);
        }
        // Only requests of the stateless era can be told to come again.
        let meta = params.object("_meta");
        let again = meta.get(meta::VERSION).is_some().then(|| again(&params));
        if self.asked.len() >= OPEN {
            self.asked.pop_first();
        }
        let asked = Asked {
            method,
            operation,
            sender: message.direction,
            exchange: message.exchange,
            id: message.id.as_deref().map(hash_typed).unwrap_or_default(),
            progress: meta.get("progressToken").map(hash_typed),
            has_more: false,
            again,
            token,
        };
        self.asked.insert(message.number, asked);
        link
    }

    /// The only open request of this side that fits; of several the only one that the same exchange carried. Where several clients
    /// share a session, that alone tells whose it is.
    fn only(
        &self,
        sender: Direction,
        exchange: Option<ExchangeNumber>,
        is_shared: bool,
        fits: impl Fn(&Asked) -> bool,
    ) -> Option<(MessageNumber, MessageNumber)> {
        let only = |here: bool| {
            let is_it = |asked: &Asked| asked.sender == sender && fits(asked) && (!here || asked.exchange == exchange);
            let mut fitting = self.asked.iter().filter(|(_, asked)| is_it(asked));
            let (number, asked) = fitting.next()?;
            fitting.next().is_none().then_some((*number, asked.operation))
        };
        let here = exchange.and_then(|_| only(true));
        here.or_else(|| only(false).filter(|_| exchange.is_none() || !is_shared))
    }

    /// The request whose progress a notification tells.
    fn progress(&self, message: &Message, params: &Object<'_>, is_shared: bool) -> Option<Link> {
        let token = hash_typed(params.get("progressToken")?);
        let asker = message.direction.reversed();
        let fits = |asked: &Asked| asked.progress == Some(token);
        if let Some((previous, operation)) = self.only(asker, message.exchange, is_shared, fits) {
            return Some(Link { operation, previous, why: Why::Progress });
        }
        // "the progressToken provided in the original request remains valid … until the task reaches a terminal status" (2025-11-25).
        let is_open = self.asked.values().any(|asked| asked.sender == asker && fits(asked));
        let given = self.get(Token::Progress(asker, token)).filter(|_| !is_open)?;
        Some(given.link(Why::Progress))
    }

    /// Whether a request of this side gave a progress token, as far as that is remembered.
    pub fn knows_progress(&self, asker: Direction, token: &str) -> bool {
        let token = hash_typed(token);
        let gave = |asked: &Asked| asked.sender == asker && asked.progress == Some(token);
        self.progressed.contains(&(asker, token)) || self.asked.len() >= OPEN || self.asked.values().any(gave)
    }

    /// The request that a notification cancels.
    fn cancelled(&self, message: &Message, params: &Object<'_>, is_shared: bool) -> Option<Link> {
        let id = hash_typed(params.get("requestId")?);
        let from_client = message.direction == Direction::ClientToServer;
        let by = |sender, exchange| self.only(sender, exchange, is_shared, |asked| asked.id == id);
        // Over HTTP a cancellation comes in an exchange of its own. From 2026-07-28 on servers end what a client asked for, on its stream.
        let found = match from_client {
            true => by(Direction::ClientToServer, message.exchange),
            false => by(Direction::ServerToClient, None).filter(|_| !is_shared).or_else(|| {
                let listens = |asked: &Asked| asked.id == id && asked.method == Method::SubscriptionsListen;
                self.only(Direction::ClientToServer, message.exchange, is_shared, listens)
            }),
        };
        let (previous, operation) = found?;
        Some(Link { operation, previous, why: Why::Cancel })
    }

    /// A copy takes the place of the request that was redirected.
    fn redirected(&mut self, original: MessageNumber) -> Option<Link> {
        let asked = self.asked.remove(&original)?;
        if let Some(token) = asked.token {
            self.take(token);
        }
        Some(Link { operation: asked.operation, previous: original, why: Why::Redirect })
    }

    /// What a request uses.
    fn continues(&mut self, message: &Message, method: Method, params: &Object<'_>) -> Option<(Given, Why)> {
        let kind = method as u8;
        let found = match params.get("requestState") {
            // "clients MUST echo back the exact value" (basic/patterns/mrtr).
            Some(state) => (self.take(Token::State(kind, hash_value(state))), Why::RequestState),
            None if params.get("inputResponses").is_some() => {
                (self.take(Token::Input(kind, again(params))), Why::InputResponses)
            }
            None => (None, Why::RequestState),
        };
        if let (Some(given), why) = found {
            return Some((given, why));
        }
        match method {
            _ if method.is_paged() => {
                let cursor = hash_value(params.get("cursor")?);
                self.take(Token::Cursor(kind, cursor)).map(|given| (given, Why::Cursor))
            }
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => {
                // Whoever was asked to do it keeps the task.
                let task = hash_value(params.get("taskId")?);
                self.get(Token::Task(message.direction.reversed(), task)).map(|given| (given, Why::Task))
            }
            Method::ResourcesUnsubscribe => {
                let uri = hash_value(params.get("uri")?);
                self.take(Token::Resource(uri)).map(|given| (given, Why::Subscription))
            }
            Method::ToolsCall => {
                let failure = Token::Failure(hash(message.tool.as_deref()?));
                let soon = |given: &Given| (0..=RETRY).contains(&message.time.since(given.time));
                self.get(failure).filter(soon)?;
                self.take(failure).map(|given| (given, Why::Retry))
            }
            _ => self.noticed(message, method, params),
        }
    }

    /// What a notification, or a request that is sent in the course of another, names.
    fn noticed(&self, message: &Message, method: Method, params: &Object<'_>) -> Option<(Given, Why)> {
        let named = |name: &str| params.get(name).map(hash_value);
        let meta = params.object("_meta");
        match method {
            Method::TasksStatus | Method::TasksNotification => {
                return Some((self.get(Token::Task(message.direction, named("taskId")?))?, Why::Task));
            }
            Method::ElicitationComplete => {
                return Some((self.get(Token::Elicitation(named("elicitationId")?))?, Why::Elicitation));
            }
            Method::ResourcesUpdated if meta.is_empty() => {
                return Some((self.get(Token::Resource(named("uri")?))?, Why::Subscription));
            }
            _ => {}
        }
        if let Some(id) = meta.get(meta::SUBSCRIPTION) {
            // "subscriptionId": the JSON-RPC id of the request that opened the stream, on whose stream it comes.
            return Some((self.get(Token::Listen(message.exchange, hash(id)))?, Why::Subscription));
        }
        let task = meta.object(meta::RELATED_TASK).get("taskId").map(hash_value)?;
        let both = [Direction::ClientToServer, Direction::ServerToClient];
        let mut kept = both.into_iter().filter_map(|keeper| self.given.get(&Token::Task(keeper, task)));
        match (kept.next(), kept.next()) {
            (Some(given), None) if !given.ambiguous => Some((*given, Why::Task)),
            _ => None,
        }
    }

    fn answer(&mut self, message: &Message) -> Option<Link> {
        let number = message.answers?;
        let asked = self.asked.remove(&number)?;
        if let Some(token) = asked.progress {
            if self.progressed.len() >= PROGRESSED {
                self.progressed.clear();
            }
            self.progressed.insert((asked.sender, token));
        }
        // A stream of changes ends with its answer; a subscription that was refused brings nothing.
        if let Some(token) = asked.token
            && (message.kind == Kind::Error || matches!(token, Token::Listen(..)))
        {
            self.take(token);
        }
        for token in gives(message, &asked) {
            self.give(token, asked.operation, message);
            if let (Token::Task(..), Some(progress)) = (token, asked.progress) {
                self.give(Token::Progress(asked.sender, progress), asked.operation, message);
            }
        }
        let is_one_of_more = asked.has_more || asked.operation != number;
        is_one_of_more.then_some(Link { operation: asked.operation, previous: number, why: Why::Answer })
    }

    fn give(&mut self, token: Token, operation: MessageNumber, message: &Message) {
        let given = Given { operation, by: message.number, time: message.time, ambiguous: false };
        let stale = |known: &Given| matches!(token, Token::Failure(_)) && message.time.since(known.time) > RETRY;
        match self.given.get_mut(&token) {
            Some(known) if !stale(known) => return known.ambiguous = true,
            Some(known) => {
                self.by_age.remove(&(known.by, token));
                *known = given;
            }
            None => drop(self.given.insert(token, given)),
        }
        self.by_age.insert((message.number, token));
        if self.by_age.len() > OPEN
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.given.remove(&oldest);
        }
    }

    fn get(&self, token: Token) -> Option<Given> {
        self.given.get(&token).filter(|given| !given.ambiguous).copied()
    }

    /// The same, once.
    fn take(&mut self, token: Token) -> Option<Given> {
        let given = self.get(token)?;
        self.given.remove(&token);
        self.by_age.remove(&(given.by, token));
        Some(given)
    }
}

impl Given {
    fn link(&self, why: Why) -> Link {
        Link { operation: self.operation, previous: self.by, why }
    }
}

/// What an answer gives.
fn gives(message: &Message, asked: &Asked) -> Vec<Token> {
    let failure = || message.tool.as_deref().map(|tool| Token::Failure(hash(tool)));
    if message.kind == Kind::Error {
        // URLElicitationRequiredError (2025-11-25 client/elicitation): what has to be done before the call comes again.
        let error = body(message);
        let required = match error.get("code") {
            Some("-32042") => error.object("data").get("elicitations").map(|listed| array(listed, REQUIRED)),
            _ => None,
        };
        let id = |one: &str| Some(Token::Elicitation(hash_value(Object::read(one).get("elicitationId")?)));
        return required.unwrap_or_default().into_iter().filter_map(id).chain(failure()).collect();
    }
    let has_failed = asked.method == Method::ToolsCall && facts::status(message) == Some(Status::ToolError);
    continued(message, asked).or_else(|| failure().filter(|_| has_failed)).into_iter().collect()
}

/// What a result says that the call goes on with.
fn continued(message: &Message, asked: &Asked) -> Option<Token> {
    let (kind, result) = (asked.method as u8, body(message));
    if asked.method.is_paged() {
        // "A missing nextCursor means that there are no more results"; null is no cursor.
        let next = result.get("nextCursor")?;
        return (next != "null").then(|| Token::Cursor(kind, hash_value(next)));
    }
    match result.text("resultType").as_deref() {
        Some("input_required") => match result.get("requestState") {
            Some(state) => Some(Token::State(kind, hash_value(state))),
            None => asked.again.map(|again| Token::Input(kind, again)),
        },
        // 2026-07-28 has the task's members in the result itself, 2025-11-25 in `task`.
        Some("task") => Some(Token::Task(message.direction, hash_value(result.get("taskId")?))),
        _ => match asked.method {
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => None,
            _ => Some(Token::Task(message.direction, hash_value(result.object("task").get("taskId")?))),
        },
    }
}

/// Of a short text, as nearly all ids are, its own bytes; the last byte is its length, or [`DIGEST`] for one that is hashed.
fn hash(text: &str) -> Digest {
    let mut digest = Digest::default();
    match text.len() {
        length @ ..DIGEST => {
            digest[..length].copy_from_slice(text.as_bytes());
            digest[DIGEST - 1] = length as u8;
        }
        _ => {
            digest.copy_from_slice(&ring::digest::digest(&SHA256, text.as_bytes()).as_ref()[..DIGEST]);
            digest[DIGEST - 1] = DIGEST as u8;
        }
    }
    digest
}

/// The hash of what a JSON string says, however it is escaped; of any other value as it was sent.
fn hash_value(json: &str) -> Digest {
    string(json).map_or_else(|| hash(json), |said| hash(&said))
}

/// The same for values whose type counts: ids and tokens are strings or numbers, and `1` is not `"1"`.
fn hash_typed(json: &str) -> Digest {
    string(json).map_or_else(|| hash(json), |said| hash(&format!("\"{said}")))
}

/// The hash of a request's params but for what may change when it comes again.
fn again(params: &Object<'_>) -> Digest {
    let mut kept: Vec<(&str, &str)> = params
        .iter()
        .filter(|(name, _)| !matches!(*name, "\"_meta\"" | "\"inputResponses\"" | "\"requestState\""))
        .collect();
    kept.sort_unstable();
    let mut text = String::new();
    for (name, value) in kept {
        text.extend([name, ":", value, ","]);
    }
    hash(&text)
}

#[cfg(test)]
mod tests;
