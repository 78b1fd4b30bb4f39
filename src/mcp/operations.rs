//! Operations: several calls that are one thing. A page after a page, a request sent again with what it asked for, a task and what is
//! asked about it, a subscription and what it brings, a call after one that failed.
//!
//! A message that carries something which only an earlier message can have given (a cursor, a state, a task id) is linked to that
//! message. Where two messages gave the same thing and neither was used, none is: a link is proven or it is not made. A retry after a
//! failure is the exception, which no member proves: it is called likely.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};

use super::facts::{self, Status, body};
use super::message::{Message, MessageNumber};
use super::meta;
use super::method::Method;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json::{Object, string};
use crate::decode::jsonrpc::Kind;

/// Requests that wait for their answer, and things given that wait for their use, of one session. Real sessions have tens; the
/// oldest are forgotten, which costs a link.
const OPEN: usize = 256;

/// How long after a failure a call of the same tool counts as a retry: a model or a person has corrected the arguments within minutes.
const RETRY: i64 = 5 * 60 * 1_000_000_000;

/// Why a message belongs to the operation of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It answers a request of the operation.
    Answer,
    /// Its `cursor` is the `nextCursor` of the earlier answer (server/utilities/pagination).
    Cursor,
    /// Its `requestState` is the one that the earlier answer asked to be echoed (2026-07-28 basic/patterns/mrtr).
    RequestState,
    /// It repeats the request that the earlier answer wanted input for, with that input; there was no `requestState`.
    InputResponses,
    /// Its `taskId`, or that of its `_meta`, names the task that the earlier answer created.
    Task,
    /// Its `subscriptionId` or `uri` names what the earlier request subscribed to.
    Subscription,
    /// It calls the tool whose call failed before. Likely, not proven.
    Retry,
    /// It repeats the request to where the server redirected it.
    Redirect,
}

impl Why {
    /// All of them, with the word of the JSON lines.
    pub const NAMES: [(Why, &'static str); 8] = [
        (Why::Answer, "answer"),
        (Why::Cursor, "cursor"),
        (Why::RequestState, "request-state"),
        (Why::InputResponses, "input-responses"),
        (Why::Task, "task"),
        (Why::Subscription, "subscription"),
        (Why::Retry, "retry"),
        (Why::Redirect, "redirect"),
    ];

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(why, _)| *why == self).map_or("", |(_, name)| name)
    }

    /// Whether nothing in the messages proves it.
    pub fn is_likely(self) -> bool {
        self == Why::Retry
    }

    /// What a message with this link does, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Why::Answer => "answers",
            Why::Cursor => "next page",
            Why::RequestState | Why::InputResponses => "with input",
            Why::Task => "task",
            Why::Subscription => "subscription",
            Why::Retry => "likely retry",
            Why::Redirect => "redirected",
        }
    }

    /// The reason in a sentence; `previous` is the earlier message.
    pub fn reason(self, previous: MessageNumber) -> String {
        let MessageNumber(number) = previous;
        match self {
            Why::Answer => format!("it answers message {number}"),
            Why::Cursor => format!("its cursor is the nextCursor of message {number}, and of no other unused one"),
            Why::RequestState => format!("its requestState is the one of message {number}"),
            Why::InputResponses => {
                format!("it repeats the request that message {number} wanted input for, with inputResponses")
            }
            Why::Task => format!("it names the task that message {number} created"),
            Why::Subscription => format!("it names the subscription that message {number} asked for"),
            Why::Redirect => format!("it is message {number} again, sent to where the server redirected that"),
            Why::Retry => {
                format!("likely: the same tool was called soon after message {number} said that it had failed")
            }
        }
    }
}

/// What ties a message to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The operation: the number of its first request.
    pub operation: MessageNumber,
    /// The earlier message: the answer that gave what this one uses, the request that subscribed; for an answer its request.
    pub previous: MessageNumber,
    /// Why.
    pub why: Why,
}

/// A text by its hash: cursors and states may have megabytes.
type Digest = [u8; 16];

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
    by_age: BTreeMap<MessageNumber, Token>,
}

impl Operations {
    /// What ties a message to an earlier one of the session; `None` where nothing does, or two messages might. Messages are shown in
    /// order, each once, paired already.
    pub fn link(&mut self, message: &Message) -> Option<Link> {
        // What is delivered again gives and uses nothing new.
        if message.redelivered {
            return None;
        }
        match message.kind {
            Kind::Request => self.request(message),
            Kind::Notification => {
                let params = body(message);
                let method = Method::named(message.method.as_deref()?);
                let (given, why) = self.noticed(message, method, &params)?;
                Some(given.link(why))
            }
            Kind::Response | Kind::Error => self.answer(message),
            Kind::Invalid => None,
        }
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
            _ => None,
        };
        if let Some(token) = token {
            self.give(token, operation, message);
        }
        // Only requests of the stateless era can be told to come again.
        let is_stateless = params.object("_meta").get(meta::VERSION).is_some();
        let again = is_stateless.then(|| again(&params));
        if self.asked.len() >= OPEN {
            self.asked.pop_first();
        }
        self.asked.insert(message.number, Asked { method, operation, again, token });
        link
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
            _ if is_list(method) => {
                let cursor = hash_value(params.get("cursor")?);
                self.take(Token::Cursor(kind, cursor)).map(|given| (given, Why::Cursor))
            }
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => {
                // Whoever was asked to do it keeps the task.
                let keeper = match message.direction {
                    Direction::ClientToServer => Direction::ServerToClient,
                    Direction::ServerToClient => Direction::ClientToServer,
                };
                let task = hash_value(params.get("taskId")?);
                self.get(Token::Task(keeper, task)).map(|given| (given, Why::Task))
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
        // A stream of changes ends with its answer; a subscription that was refused brings nothing.
        if let Some(token) = asked.token
            && (message.kind == Kind::Error || matches!(token, Token::Listen(..)))
        {
            self.take(token);
        }
        if let Some(token) = gives(message, &asked) {
            self.give(token, asked.operation, message);
        }
        (asked.operation != number).then_some(Link { operation: asked.operation, previous: number, why: Why::Answer })
    }

    fn give(&mut self, token: Token, operation: MessageNumber, message: &Message) {
        let given = Given { operation, by: message.number, time: message.time, ambiguous: false };
        let stale = |known: &Given| matches!(token, Token::Failure(_)) && message.time.since(known.time) > RETRY;
        match self.given.get_mut(&token) {
            Some(known) if !stale(known) => return known.ambiguous = true,
            Some(known) => {
                self.by_age.remove(&known.by);
                *known = given;
            }
            None => drop(self.given.insert(token, given)),
        }
        self.by_age.insert(message.number, token);
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
        self.by_age.remove(&given.by);
        Some(given)
    }
}

impl Given {
    fn link(&self, why: Why) -> Link {
        Link { operation: self.operation, previous: self.by, why }
    }
}

/// What an answer gives.
fn gives(message: &Message, asked: &Asked) -> Option<Token> {
    let kind = asked.method as u8;
    let failed = || Some(Token::Failure(hash(message.tool.as_deref()?)));
    if message.kind == Kind::Error {
        return failed();
    }
    let result = body(message);
    if is_list(asked.method) {
        // "A missing nextCursor means that there are no more results"; null is no cursor.
        let next = result.get("nextCursor")?;
        return (next != "null").then(|| Token::Cursor(kind, hash_value(next)));
    }
    let is_task_method =
        matches!(asked.method, Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate);
    match result.text("resultType").as_deref() {
        Some("input_required") => {
            return match result.get("requestState") {
                Some(state) => Some(Token::State(kind, hash_value(state))),
                None => asked.again.map(|again| Token::Input(kind, again)),
            };
        }
        // 2026-07-28 has the task's members in the result itself, 2025-11-25 in `task`.
        Some("task") => return Some(Token::Task(message.direction, hash_value(result.get("taskId")?))),
        _ if is_task_method => {}
        _ => {
            if let Some(task) = result.object("task").get("taskId") {
                return Some(Token::Task(message.direction, hash_value(task)));
            }
        }
    }
    if asked.method == Method::ToolsCall && facts::status(message) == Some(Status::ToolError) { failed() } else { None }
}

fn is_list(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::TasksList
    )
}

fn hash(text: &str) -> Digest {
    let mut short = Digest::default();
    short.copy_from_slice(&digest(&SHA256, text.as_bytes()).as_ref()[..16]);
    short
}

/// The hash of what a JSON string says, however it is escaped; of any other value as it was sent.
fn hash_value(json: &str) -> Digest {
    string(json).map_or_else(|| hash(json), |said| hash(&said))
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
