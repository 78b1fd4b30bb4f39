//! Requests that wait for their answer, with what rules about the answer ask for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::fingerprint::fingerprint_without;
use super::log_level::LogLevel;
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json;
use crate::findings::message_facts::{Evidence, InForce, MessageFacts};
use crate::mcp::capability::{Capabilities, Declarer};
use crate::mcp::meta;
use crate::mcp::method::Method;
use crate::mcp::{Message, MessageNumber};

/// Bytes of a remembered text (a name, a URI, a cursor): real ones are short; the bound keeps many requests small.
const TEXT: usize = 4_096;

/// Open requests, the latest first, among which one is looked for by other things than its number. Real sessions have tens;
/// the bound keeps the cost of a message small where thousands are never answered.
const SEARCHED: usize = 1_024;

/// Notifications of progress for one request within a second that nobody reads.
pub const FLOOD: u32 = 100;

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// Packets of a request that are remembered, to be named if it is never answered.
const PACKETS: usize = 16;

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub number: MessageNumber,
    /// When it was complete.
    pub time: Time,
    /// Who asked.
    pub sender: Direction,
    /// Its JSON-RPC id, as sent.
    pub id: String,
    pub method: Method,
    /// The revision in force for it, which is that of its answer.
    pub in_force: InForce,
    /// The exchange that carried it.
    pub exchange: Option<ExchangeNumber>,
    /// The HTTP status, of 300 and more, by which the server refused it without a word of JSON-RPC, or sent it elsewhere.
    pub refused: Option<u16>,
    /// What was meant as its answer, and cannot be read or has another id.
    pub bad_answer: Option<MessageNumber>,
    /// Progress that was told of it within a second: since when, and how often.
    pub progress_rate: (Time, u32),
    /// When its sender asked to cancel it.
    pub cancelled: Option<Time>,
    /// What it is about: `name` of a tool or prompt, `uri` of a resource, `taskId`.
    pub subject: Option<String>,
    /// `_meta.progressToken`, as JSON text without needless escapes.
    pub progress_token: Option<String>,
    /// The last `progress` that was told of it.
    pub progress: Option<f64>,
    /// The level of log messages that it asks for: `_meta` (2026-07-28 on), or `level` of `logging/setLevel`.
    pub log_level: Option<LogLevel>,
    /// The `cursor` that it asks to go on from, as JSON text.
    pub cursor: Option<String>,
    /// Whether it is to be run as a task (`params.task`, 2025-11-25).
    pub is_task: bool,
    /// The rules that it breaks.
    pub breaks: Vec<&'static str>,
    /// For what a server may ask back for (2026-07-28): its params in short.
    pub params: Option<u64>,
    /// Packets that carried it, the first ones.
    pub packets: Vec<PacketNumber>,
    /// The client's capabilities, where the request itself carries them (2026-07-28).
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
            refused: None,
            bad_answer: None,
            progress_rate: (Time(0), 0),
            cancelled: None,
            subject: subject.as_deref().map(short),
            progress_token: facts.meta().get("progressToken").map(|token| canonical(token).into_owned()),
            progress: None,
            log_level: log_level.as_deref().and_then(LogLevel::named),
            cursor: if facts.method.is_paged() { params.get("cursor").map(short) } else { None },
            is_task: params.get("task").is_some_and(|task| task.starts_with('{')),
            breaks: Vec::new(),
            params: client.as_ref().and_then(|_| params_hash(facts)),
            packets: message.packets.iter().take(PACKETS).copied().collect(),
            client,
        }
    }

    /// Its pace with a notification of progress at `time`.
    pub fn next_progress_rate(&self, time: Time) -> (Time, u32) {
        match self.progress_rate {
            // A flood is one, however long it lasts.
            (since, count @ FLOOD..) => (since, count.saturating_add(1)),
            (since, count @ 1..) if (0..SECOND).contains(&time.since(since)) => (since, count + 1),
            _ => (time, 1),
        }
    }
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}

/// A JSON value as it is compared with another: a string without needless escapes, of bounded length.
pub fn canonical(json: &str) -> Cow<'_, str> {
    let json = &json[..json.floor_char_boundary(TEXT)];
    match json::string(json) {
        Some(Cow::Owned(text)) => Cow::Owned(format!("\"{text}\"")),
        _ => Cow::Borrowed(json),
    }
}

/// Members of `params` that are not part of what is asked.
pub(super) const APART: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// The params of a request that may be asked back, in short.
fn params_hash(facts: &MessageFacts<'_>) -> Option<u64> {
    let may_be = matches!(facts.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
    facts.body_text().filter(|_| may_be).and_then(|_| fingerprint_without(facts.body(), &APART))
}

/// They, in order.
#[derive(Debug)]
pub struct OpenRequests {
    /// Boxed, since a node of the tree has room for eleven and most sessions have one open.
    open: BTreeMap<MessageNumber, Box<OpenRequest>>,
    limit: usize,
}

impl OpenRequests {
    /// None; beyond `limit` the oldest is forgotten.
    pub(super) fn new(limit: usize) -> OpenRequests {
        OpenRequests { open: BTreeMap::new(), limit: limit.max(1) }
    }

    pub fn get(&self, number: MessageNumber) -> Option<&OpenRequest> {
        self.open.get(&number).map(Box::as_ref)
    }

    /// All that are open, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &OpenRequest> + Clone {
        self.open.values().map(Box::as_ref)
    }

    /// The open requests of this side with this id, the latest first.
    pub fn each_with_id(&self, sender: Direction, id: &str) -> impl Iterator<Item = &OpenRequest> {
        self.iter().rev().take(SEARCHED).filter(move |request| request.sender == sender && request.id == id)
    }

    /// The latest of them.
    pub fn with_id(&self, sender: Direction, id: &str) -> Option<&OpenRequest> {
        self.each_with_id(sender, id).next()
    }

    /// The open request that an answer which matches none was meant for: it has the same id but for its type, or is the only one of the
    /// answer's exchange.
    pub fn intended_request(&self, answer: &Message) -> Option<&OpenRequest> {
        let id = answer.id.as_deref().filter(|_| answer.answers.is_none() && !answer.is_repeated());
        let bare = |id: &str| json::string(id).map_or_else(|| id.to_owned(), |text| text.into_owned());
        let wanted = bare(id?);
        let mut open = self.iter().rev().take(SEARCHED).filter(|request| request.sender == answer.direction.reversed());
        open.clone().find(|request| bare(&request.id) == wanted).or_else(|| {
            let here = open.find(|request| request.exchange.is_some() && request.exchange == answer.exchange)?;
            open.all(|request| request.exchange != answer.exchange).then_some(here)
        })
    }

    /// The open requests of this side with this progress token, the latest first.
    pub fn with_token(&self, sender: Direction, token: &str) -> impl Iterator<Item = &OpenRequest> {
        let latest = self.iter().rev().take(SEARCHED);
        latest.filter(move |request| request.sender == sender && request.progress_token.as_deref() == Some(token))
    }

    /// The open request of this side that a progress notification is about: where several have its token, the one that the
    /// same exchange carried; none where that does not tell either.
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
        if self.open.len() >= self.limit {
            self.open.pop_first();
        }
        self.open.insert(request.number, Box::new(request));
    }

    /// The open requests that an exchange carried.
    pub(super) fn of_exchange(&mut self, exchange: ExchangeNumber) -> impl Iterator<Item = &mut OpenRequest> {
        // They are among the last: an exchange lasts as long as its requests.
        let latest = self.open.values_mut().map(Box::as_mut).rev().take(SEARCHED);
        latest.filter(move |request| request.exchange == Some(exchange))
    }

    pub(super) fn remove(&mut self, number: MessageNumber) -> Option<OpenRequest> {
        self.open.remove(&number).map(|request| *request)
    }

    pub(super) fn record_progress(&mut self, number: MessageNumber, progress: f64, time: Time) {
        if let Some(request) = self.open.get_mut(&number) {
            request.progress = Some(progress);
            request.progress_rate = request.next_progress_rate(time);
        }
    }

    /// An answer with another id than this request's was meant for it.
    pub(super) fn record_bad_answer(&mut self, number: MessageNumber, answer: MessageNumber) {
        if let Some(request) = self.open.get_mut(&number) {
            request.bad_answer.get_or_insert(answer);
        }
    }

    /// A text of the other side is no message: if it names the id of an open request, or came in the response to the only one,
    /// it was the answer to that.
    pub(super) fn record_unreadable(&mut self, message: &Message) {
        let sender = message.direction.reversed();
        let text = String::from_utf8_lossy(&message.raw);
        let ids = text.split("\"id\"").skip(1).take(SEARCHED).filter_map(|rest| {
            let value = rest.trim_start().strip_prefix(':')?.trim_start();
            let end = match value.strip_prefix('"') {
                Some(inside) => inside.find('"')? + 2,
                None => value.find(|next: char| !next.is_ascii_digit() && next != '-').unwrap_or(value.len()),
            };
            Some(&value[..end])
        });
        let ids: Vec<&str> = ids.collect();
        let here = |request: &OpenRequest| request.exchange == message.exchange && message.exchange.is_some();
        let only = self.iter().filter(|request| request.sender == sender && here(request)).count() == 1;
        for request in self.open.values_mut().rev().take(SEARCHED).filter(|request| request.sender == sender) {
            if ids.contains(&request.id.as_str()) || only && here(request) {
                request.bad_answer.get_or_insert(message.number);
            }
        }
    }

    pub(super) fn cancel(&mut self, sender: Direction, id: &str, time: Time) {
        if let Some(request) =
            self.open.values_mut().rev().take(SEARCHED).find(|request| request.sender == sender && request.id == id)
        {
            request.cancelled.get_or_insert(time);
        }
    }
}

#[cfg(test)]
impl OpenRequest {
    /// A request of the client of which nothing but the method is known.
    pub(super) fn blank(method: Method) -> OpenRequest {
        OpenRequest {
            number: MessageNumber(0),
            time: Time::default(),
            sender: Direction::ClientToServer,
            id: String::new(),
            method,
            in_force: InForce::UNKNOWN,
            exchange: None,
            refused: None,
            bad_answer: None,
            progress_rate: (Time(0), 0),
            cancelled: None,
            subject: None,
            progress_token: None,
            progress: None,
            log_level: None,
            cursor: None,
            is_task: false,
            breaks: Vec::new(),
            params: None,
            packets: Vec::new(),
            client: None,
        }
    }
}
