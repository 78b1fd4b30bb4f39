//! Open requests, with the data that rules about their responses need.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::fingerprint::{content_hash, fingerprint_without};
use super::log_level::LogLevel;
use crate::capture::steps::step;
use crate::capture::{PacketNumber, Time};
use crate::decode::{Direction, ExchangeNumber, json};
use crate::findings::message_facts::{Evidence, InForce, MessageFacts};
use crate::mcp::capability::{Capabilities, Declarer};
use crate::mcp::number_index::NumberIndex;
use crate::mcp::{Message, MessageNumber, Method, meta};

/// Limit of the bytes of a remembered text (a name, a URI, a cursor). Real ones are short. The
/// bound limits the memory for many requests.
const TEXT: usize = 4_096;

/// Limit of requests with the same id or token, or of the same exchange, that are searched for one
/// message, the latest first. In practice one has them.
const SEARCHED: usize = 1_024;

/// Progress notifications of one request within a second that count as a flood.
pub const FLOOD: u32 = 100;

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// Limit of remembered packets of a request. A finding about a missing response names them.
const PACKETS: usize = 16;

/// A request that waits for its response.
#[derive(Clone, Debug, Default)]
pub struct OpenRequest {
    pub number: MessageNumber,
    /// When its last byte was captured.
    pub time: Time,
    /// The side that sent the request.
    pub sender: Direction,
    /// The JSON-RPC id as JSON text.
    pub id: String,
    pub method: Method,
    /// The revision in force for the request and its response.
    pub in_force: InForce,
    /// The exchange that carried it.
    pub exchange: Option<ExchangeNumber>,
    /// The HTTP status of 300 or more with which the server refused or redirected the request,
    /// without a JSON-RPC response.
    pub refused: Option<u16>,
    /// A message that was probably meant as its response, but is unreadable or has another id.
    pub bad_answer: Option<MessageNumber>,
    /// The start of the current second with progress notifications, and their number.
    pub progress_rate: (Time, u32),
    /// When its sender cancelled it.
    pub cancelled: Option<Time>,
    /// The subject: `name` of a tool or prompt, `uri` of a resource, or `taskId`.
    pub subject: Option<String>,
    /// `_meta.progressToken`, as JSON text without needless escapes.
    pub progress_token: Option<String>,
    /// The latest `progress` value.
    pub progress: Option<f64>,
    /// The requested log level: in `_meta` (2026-07-28 on), or `level` of `logging/setLevel`.
    pub log_level: Option<LogLevel>,
    /// The requested `cursor`, as JSON text.
    pub cursor: Option<String>,
    /// Whether it asks for a task (`params.task`, 2025-11-25).
    pub is_task: bool,
    /// The ids of the rules that it breaks.
    pub breaks: Vec<&'static str>,
    /// A hash of the params, if the server may ask for input (2026-07-28).
    pub params: Option<u64>,
    /// The first packets that carried it.
    pub packets: Vec<PacketNumber>,
    /// The client's capabilities, if the request itself has them (2026-07-28).
    pub client: Option<Box<Capabilities>>,
}

impl OpenRequest {
    pub(super) fn of(facts: &MessageFacts<'_>) -> OpenRequest {
        let message = facts.message;
        let params = facts.body();
        let subject = match facts.method {
            Method::ToolsCall | Method::PromptsGet => params.text("name"),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => params.text("uri"),
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => params.text("taskId"),
            _ => None,
        };
        let log_level = match facts.method {
            Method::LoggingSetLevel => params.text("level"),
            _ => facts.meta().text(meta::LOG_LEVEL),
        };
        let client = (facts.in_force.evidence == Evidence::Meta).then(|| {
            let declared = facts.meta().get(meta::CAPABILITIES).unwrap_or_default();
            Box::new(Capabilities::read(Declarer::Client, declared))
        });
        OpenRequest {
            number: message.number,
            time: message.time,
            sender: message.direction,
            id: message.id.as_deref().map(short).unwrap_or_default(),
            method: facts.method,
            in_force: facts.in_force,
            exchange: message.exchange,
            subject: subject.as_deref().map(short),
            progress_token: facts.meta().get("progressToken").map(|token| canonical(token).into_owned()),
            log_level: log_level.as_deref().and_then(LogLevel::named),
            cursor: if facts.method.is_paged() { params.get("cursor").map(short) } else { None },
            is_task: params.get("task").is_some_and(|task| task.starts_with('{')),
            params: client.as_ref().and_then(|_| params_hash(facts)),
            packets: message.packets.iter().take(PACKETS).copied().collect(),
            client,
            ..OpenRequest::default()
        }
    }

    /// The progress rate after one more notification at `time`.
    pub fn next_progress_rate(&self, time: Time) -> (Time, u32) {
        match self.progress_rate {
            // A flood remains one flood, however long it lasts.
            (since, count @ FLOOD..) => (since, count.saturating_add(1)),
            (since, count @ 1..) if (0..SECOND).contains(&time.since(since)) => (since, count + 1),
            _ => (time, 1),
        }
    }
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}

/// A JSON value in a form that can be compared: a string without unnecessary escapes,
/// of bounded length.
pub fn canonical(json: &str) -> Cow<'_, str> {
    let json = &json[..json.floor_char_boundary(TEXT)];
    match json::string(json) {
        Some(Cow::Owned(text)) => Cow::Owned(format!("\"{text}\"")),
        _ => Cow::Borrowed(json),
    }
}

/// Members of `params` that a retry may change.
pub(super) const RETRY_MEMBERS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// A hash of the params of a request for which a server may ask for input.
fn params_hash(facts: &MessageFacts<'_>) -> Option<u64> {
    let may_be = matches!(facts.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
    facts.body_text().filter(|_| may_be).and_then(|_| fingerprint_without(facts.body(), &RETRY_MEMBERS))
}

/// A name by which messages refer to open requests. Texts are hashed, so every match has to be
/// compared as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RequestName {
    /// The sender, and a hash of the id without its quotes.
    Id(Direction, u64),
    /// The sender, and a hash of the progress token.
    Token(Direction, u64),
    /// The exchange that carried the request.
    Exchange(ExchangeNumber),
}

impl RequestName {
    fn id(sender: Direction, id: &str) -> RequestName {
        RequestName::Id(sender, content_hash(bare(id)))
    }

    fn all_of(request: &OpenRequest) -> impl Iterator<Item = RequestName> {
        let token = request.progress_token.as_deref();
        let token = token.map(|token| RequestName::Token(request.sender, content_hash(token)));
        let exchange = request.exchange.map(RequestName::Exchange);
        [Some(RequestName::id(request.sender, &request.id)), token, exchange].into_iter().flatten()
    }
}

/// An id without the quotes of a string: some peers answer `"1"` with `1`.
fn bare(id: &str) -> Cow<'_, str> {
    json::string(id).unwrap_or(Cow::Borrowed(id))
}

/// The open requests of a session, by message number.
///
/// A message costs the same however many requests are open: all questions that it asks go
/// through `by_name`.
#[derive(Debug, Default)]
pub struct OpenRequests {
    /// Boxed: a node of the tree has room for eleven values, and most sessions have
    /// one open request.
    open: BTreeMap<MessageNumber, Box<OpenRequest>>,
    by_name: NumberIndex<RequestName>,
    /// The number of open requests of each side.
    of_side: [usize; 2],
    limit: usize,
}

impl OpenRequests {
    /// An empty collection. Beyond `limit` the oldest request is evicted.
    pub(super) fn new(limit: usize) -> OpenRequests {
        OpenRequests { limit: limit.max(1), ..OpenRequests::default() }
    }

    pub fn get(&self, number: MessageNumber) -> Option<&OpenRequest> {
        self.open.get(&number).map(Box::as_ref)
    }

    /// All open requests, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &OpenRequest> + Clone {
        self.open.values().inspect(|_| step()).map(Box::as_ref)
    }

    /// The numbers of the requests that may have this name, the latest first.
    fn numbers(&self, name: RequestName) -> impl Iterator<Item = MessageNumber> + Clone {
        self.by_name.of(&name).rev().take(SEARCHED).inspect(|_| step())
    }

    /// The requests that may have this name, the latest first.
    fn named(&self, name: RequestName) -> impl Iterator<Item = &OpenRequest> + Clone {
        self.numbers(name).filter_map(|number| self.get(number))
    }

    /// The open requests of this sender with this id, the latest first.
    pub fn each_with_id(&self, sender: Direction, id: &str) -> impl Iterator<Item = &OpenRequest> {
        self.named(RequestName::id(sender, id)).filter(move |request| request.id == id)
    }

    /// The latest open request of this sender with this id.
    pub fn with_id(&self, sender: Direction, id: &str) -> Option<&OpenRequest> {
        self.each_with_id(sender, id).next()
    }

    /// The open request for which an unpaired response was probably meant. It has the same id with
    /// another type, or it is the only open request of the response's exchange.
    pub fn intended_request(&self, answer: &Message) -> Option<&OpenRequest> {
        let id = answer.id.as_deref().filter(|_| answer.answers.is_none() && !answer.is_repeated())?;
        let sender = answer.direction.reversed();
        let mut alike = self.named(RequestName::id(sender, id)).filter(|request| bare(&request.id) == bare(id));
        alike.next().or_else(|| self.only_in(answer.exchange, sender))
    }

    /// The open request of this sender in an exchange, if it is the only one.
    fn only_in(&self, exchange: Option<ExchangeNumber>, sender: Direction) -> Option<&OpenRequest> {
        let here = exchange.map(|exchange| self.named(RequestName::Exchange(exchange)));
        let mut here = here.into_iter().flatten().filter(|request| request.sender == sender);
        let only = here.next()?;
        here.next().is_none().then_some(only)
    }

    /// The open requests of this sender with this progress token, the latest first.
    pub fn with_token(&self, sender: Direction, token: &str) -> impl Iterator<Item = &OpenRequest> {
        let named = self.named(RequestName::Token(sender, content_hash(token)));
        named.filter(move |request| request.progress_token.as_deref() == Some(token))
    }

    /// The open request of this sender that a progress notification is about. If several have its
    /// token, the one of the same exchange. `None` if that does not decide either.
    pub fn progress_target(
        &self,
        sender: Direction,
        token: &str,
        exchange: Option<ExchangeNumber>,
    ) -> Option<&OpenRequest> {
        let mut fitting = self.with_token(sender, token);
        let first = fitting.next()?;
        if fitting.next().is_none() {
            return Some(first);
        }
        self.with_token(sender, token).find(|request| exchange.is_some() && request.exchange == exchange)
    }

    pub(super) fn insert(&mut self, request: OpenRequest) {
        if self.open.len() >= self.limit
            && let Some((oldest, _)) = self.open.first_key_value()
        {
            self.remove(*oldest);
        }
        let number = request.number;
        RequestName::all_of(&request).for_each(|name| self.by_name.insert(name, number));
        self.of_side[request.sender as usize] += 1;
        self.open.insert(number, Box::new(request));
    }

    pub(super) fn remove(&mut self, number: MessageNumber) -> Option<OpenRequest> {
        let request = self.open.remove(&number)?;
        for name in RequestName::all_of(&request) {
            self.by_name.remove(&name, number);
        }
        self.of_side[request.sender as usize] -= 1;
        Some(*request)
    }

    /// Calls `change` with each open request that an exchange carried.
    pub(super) fn change_in(&mut self, exchange: ExchangeNumber, mut change: impl FnMut(&mut OpenRequest)) {
        for number in self.numbers(RequestName::Exchange(exchange)).collect::<Vec<_>>() {
            self.open.get_mut(&number).into_iter().for_each(|request| change(request));
        }
    }

    pub(super) fn record_progress(&mut self, number: MessageNumber, progress: f64, time: Time) {
        if let Some(request) = self.open.get_mut(&number) {
            request.progress = Some(progress);
            request.progress_rate = request.next_progress_rate(time);
        }
    }

    /// Records that a response with another id was probably meant for this request.
    pub(super) fn record_bad_answer(&mut self, number: MessageNumber, answer: MessageNumber) {
        if let Some(request) = self.open.get_mut(&number) {
            request.bad_answer.get_or_insert(answer);
        }
    }

    /// Records an unreadable text. It was probably the response to an open request if it contains
    /// that request's id, or if that request is the only one of its exchange.
    pub(super) fn record_unreadable(&mut self, message: &Message) {
        let sender = message.direction.reversed();
        // A server that floods its stdout with anything has mostly nothing to answer.
        if self.of_side[sender as usize] == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&message.raw);
        let ids = text.split("\"id\"").skip(1).take(SEARCHED).filter_map(|rest| {
            let value = rest.trim_start().strip_prefix(':')?.trim_start();
            let end = match value.strip_prefix('"') {
                Some(inside) => inside.find('"')? + 2,
                None => value.find(|next: char| !next.is_ascii_digit() && next != '-').unwrap_or(value.len()),
            };
            Some(&value[..end])
        });
        let ids: BTreeSet<&str> = ids.collect();
        let meant =
            ids.into_iter().flat_map(|id| self.each_with_id(sender, id)).chain(self.only_in(message.exchange, sender));
        let meant: Vec<MessageNumber> = meant.map(|request| request.number).collect();
        meant.into_iter().for_each(|request| self.record_bad_answer(request, message.number));
    }

    pub(super) fn cancel(&mut self, sender: Direction, id: &str, time: Time) {
        let number = self.with_id(sender, id).map(|request| request.number);
        if let Some(request) = number.and_then(|number| self.open.get_mut(&number)) {
            request.cancelled.get_or_insert(time);
        }
    }
}
