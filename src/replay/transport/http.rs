//! A server at a URL: Streamable HTTP (2025-03-26 and later), or HTTP+SSE (2024-11-05).
//!
//! ```text
//!  message ─► Task ─► waiting ─► Lines ─► Reading ─► what it means ─► Arrival
//!              ▲                 (sockets)  (HTTP)        │
//!              └────── redirected, taken up again ────────┘
//! ```
//!
//! Each message is a POST of its own; what ran in parallel has connections of its own.

mod pool;
mod sse_reader;
mod taped_connection;
mod task;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::pool::{ConnectionNumber, ConnectionPool, PoolEvent};
use self::sse_reader::StreamEvent;
use self::task::{Task, TaskKind};
use super::{Arrival, Failure, FailureKind, Outgoing, STOP_CHECK, Transport};
use crate::decode::jsonrpc::{Envelope, Kind, Parsed};
use crate::http::connect::{ConnectOptions, Connector};
use crate::http::message_reader::Part;
use crate::http::origin::{Hops, Origin, resolve};
use crate::replay::messages;
use crate::replay::translate::{Era, headers};
use crate::source::tape::Tape;

/// Times that a broken stream is taken up again for one answer.
const RESUMPTIONS: u32 = 8;

/// How long to wait before a broken stream is taken up again, where the server does not say (WHATWG HTML section 9.2: "probably in the
/// region of a few seconds"; a replay is in more of a hurry), and at most.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// How long the server may take to take what was said last, and to end the session.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes of an answer's body.
const BODY: usize = 128 << 20;

/// Bytes of the body of a refusal that are quoted.
const QUOTED: usize = 200;

/// What is said where an answer is missing whose stream cannot be taken up again.
const BROKEN: &str = "the stream ended before the answer came";

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// POST, with the answer in its response.
    Streamable,
    /// GET for a stream of events, which names the address to POST to.
    Sse,
}

/// A server at a URL.
#[derive(Debug)]
pub struct Http {
    mode: Mode,
    /// What goes over the wire is noted here.
    tape: Tape,
    /// Fields of every request.
    fields: Vec<(String, String)>,
    host: String,
    /// Where to POST: for HTTP+SSE what the stream announced.
    target: String,
    session: Option<String>,
    /// A POST was taken once: a 404 is about the session from now on, not about the address.
    post_accepted: bool,
    pool: ConnectionPool,
    /// What waits for a connection, in order.
    queued: VecDeque<Box<Task>>,
    /// Streams that broke, and when they are taken up again.
    resumptions: Vec<(Instant, Box<Task>)>,
    /// What the stream of HTTP+SSE announced.
    announced: Option<Result<String, Failure>>,
    arrived: VecDeque<Arrival>,
}

impl Http {
    /// Connects: for HTTP+SSE opens the stream and waits for the address; Streamable HTTP has nothing to open. What an [attempt](Tape::attempt) holds is
    /// kept once the server takes a POST.
    ///
    /// # Errors
    /// The options cannot be used, or the stream cannot be opened.
    pub fn open(url: &str, mode: Mode, options: &ConnectOptions, tape: Tape) -> Result<Http> {
        let origin = Origin::of(url).with_context(|| format!("{url} is no URL of HTTP"))?;
        let fields = fields(options, origin.user.as_deref());
        let mut http = Http {
            mode,
            fields,
            host: origin.authority.clone(),
            target: url.to_owned(),
            session: None,
            post_accepted: false,
            pool: ConnectionPool::new(Connector::new(origin, options)?, tape.clone())?,
            tape,
            queued: VecDeque::new(),
            resumptions: Vec::new(),
            announced: None,
            arrived: VecDeque::new(),
        };
        if mode == Mode::Sse {
            http.start(TaskKind::SseStream);
            let until = Instant::now() + options.timeout;
            http.exchange_until(until, |http| http.announced.is_some());
            match http.announced.take() {
                Some(Ok(target)) => http.target = target,
                Some(Err(failure)) => bail!("{failure}"),
                None => bail!("the stream announced no address in time"),
            }
        }
        Ok(http)
    }

    /// Begins a task, as soon as there is a connection for it.
    fn start(&mut self, kind: TaskKind) {
        self.queued.push_back(Task::new(kind, &self.target));
        self.send_waiting();
    }

    /// Waits for the server, until a moment at most, and takes what it says.
    fn exchange(&mut self, until: Instant) {
        let now = Instant::now();
        let due = self.resumptions.extract_if(.., |(at, _)| *at <= now);
        self.queued.extend(due.map(|(_, task)| task));
        self.send_waiting();
        let ends = if self.queued.is_empty() { None } else { self.pool.may_be_free() };
        let next = self.resumptions.iter().map(|(at, _)| *at).chain(ends).chain([until, now + STOP_CHECK]).min();
        for event in self.pool.wait(next.unwrap_or(now).saturating_duration_since(now)) {
            match event {
                PoolEvent::Part(connection, part, at) => self.take_part(connection, part, at),
                PoolEvent::Unreachable(why) => {
                    if let Some(task) = self.queued.pop_front() {
                        self.unreached(*task, FailureKind::Server, &why);
                    }
                }
            }
        }
    }

    /// Gives what waits to connections that are free, in order.
    fn send_waiting(&mut self) {
        // HTTP keeps no order between two requests: what others may rely on has to be taken before anything else is sent.
        while !self.queued.is_empty() && !self.pool.tasks().any(is_ordered) {
            let Some(connection) = self.pool.free() else {
                let first = self.queued.iter().position(|task| is_ordered(task));
                return self.pool.connect_for(first.map_or(self.queued.len(), |at| at + 1));
            };
            let Some(mut task) = self.queued.pop_front() else { return };
            task.session.clone_from(&self.session);
            match task.request(&self.host, &self.fields) {
                Ok(request) => self.pool.begin(connection, task, &request),
                Err(why) => self.unreached(*task, FailureKind::Message, &why),
            }
        }
    }

    fn take_part(&mut self, connection: ConnectionNumber, part: Part, at: Instant) {
        let Some(task) = self.pool.task(connection) else { return };
        match part {
            Part::Head(head) => {
                task.head = Some(head);
                if task.is_taken() && task.message().is_some() {
                    self.post_accepted = true;
                    self.tape.keep();
                }
                if self.mode == Mode::Streamable
                    && let Some(session) = task.field("mcp-session-id").filter(|_| task.message().is_some())
                {
                    self.session = Some(session);
                }
            }
            Part::Content(bytes) if task.is_stream() => {
                for event in task.stream.push(&bytes) {
                    self.take_event(connection, event, at);
                }
            }
            Part::Content(bytes) => {
                task.body.extend_from_slice(&bytes);
                if task.body.len() > BODY {
                    self.finish(connection, Err(format!("it has more than {BODY} bytes")));
                }
            }
            // What is odd is for the findings: it is decoded again from the tape.
            Part::Anomaly(_) => {}
            Part::End(end) => self.finish(connection, end),
        }
    }

    fn take_event(&mut self, connection: ConnectionNumber, event: StreamEvent, at: Instant) {
        let Some(task) = self.pool.task(connection) else { return };
        let StreamEvent { kind, data } = event;
        if matches!(task.kind, TaskKind::SseStream) && kind.as_deref() == Some("endpoint") {
            let endpoint = String::from_utf8_lossy(&data);
            // It is relative to where the stream is.
            self.announced = Some(resolve(&task.hops.at, endpoint.trim()).ok_or_else(|| {
                let said = format!("the stream announced an address at another origin: {:?}", endpoint.trim());
                Failure::new(FailureKind::Server, said)
            }));
        } else if !data.trim_ascii().is_empty() {
            task.answered = task.answered.or_else(|| answers(&data, task.id()).then_some(at));
            self.arrived.push_back(Arrival::Text(data, at));
        }
    }

    /// A response is over: whole, or for this reason not.
    fn finish(&mut self, connection: ConnectionNumber, end: Result<(), String>) {
        let Some(mut task) = self.pool.end(connection) else { return };
        if task.head.is_none() {
            // A connection that broke says nothing of the next one, where there was a server before.
            let kind = if self.post_accepted { FailureKind::Message } else { FailureKind::Server };
            return self.unreached(*task, kind, &end.err().unwrap_or_default());
        }
        let status = task.status();
        if let (301..=303 | 307 | 308, Some(location)) = (status, task.field("location")) {
            let is_get = task.is_get();
            return match task.hops.follow(status, &location, is_get) {
                Ok(()) => {
                    task.restart();
                    self.queued.push_front(task);
                }
                Err(why) if task.message().is_some() => self.fail(task.id(), FailureKind::Message, why),
                Err(why) => self.unreached(*task, FailureKind::Server, &why),
            };
        }
        if let Some(settled) = &task.hops.settled {
            self.target.clone_from(settled);
        }
        match &task.kind {
            TaskKind::Message(_) if task.is_stream() || task.resumed > 0 => self.stream_ended(task),
            TaskKind::Message(message) if task.is_taken() => self.answered(message, status, task.body, end),
            TaskKind::Message(_) => self.refused(&task),
            TaskKind::ServerStream(_) if task.is_stream() => self.resume_later(task),
            TaskKind::SseStream if task.is_stream() => {
                let why = "the server closed the stream of events";
                self.announced = Some(Err(Failure::new(FailureKind::Server, why)));
                self.arrived.push_back(Arrival::Closed(Failure::new(FailureKind::Server, why)));
            }
            TaskKind::SseStream => {
                let why = format!("{} gives no stream of events", self.target);
                self.announced = Some(Err(Failure::new(FailureKind::Server, why)));
            }
            TaskKind::ServerStream(_) | TaskKind::EndSession => {}
        }
    }

    fn fail(&mut self, id: Option<u64>, kind: FailureKind, why: impl Into<String>) {
        self.arrived.push_back(Arrival::Failed(id, Failure::new(kind, why)));
    }

    /// There was no response.
    fn unreached(&mut self, task: Task, kind: FailureKind, why: &str) {
        let why = format!("cannot reach {}: {why}", self.target);
        match task.kind {
            TaskKind::Message(message) if task.resumed > 0 => self.fail(message.id, FailureKind::Message, BROKEN),
            TaskKind::Message(message) => self.fail(message.id, kind, why),
            TaskKind::SseStream => self.announced = Some(Err(Failure::new(kind, why))),
            TaskKind::ServerStream(_) | TaskKind::EndSession => {}
        }
    }

    /// A message was taken, and this came in return.
    fn answered(&mut self, message: &Outgoing, status: u16, body: Vec<u8>, end: Result<(), String>) {
        match end {
            Err(why) => self.fail(message.id, FailureKind::Message, format!("the answer broke off: {why}")),
            // Of HTTP+SSE the answer comes as an event; a notification or an answer has none.
            Ok(()) if self.mode == Mode::Sse || message.id.is_none() => {}
            Ok(()) if body.trim_ascii().is_empty() => {
                self.fail(message.id, FailureKind::Message, format!("HTTP {status} without an answer"));
            }
            Ok(()) => self.arrived.push_back(Arrival::Text(body, Instant::now())),
        }
    }

    /// A status that is no success. A body that is a message says it better.
    fn refused(&mut self, task: &Task) {
        let (status, body, id) = (task.status(), &task.body, task.id());
        let in_session = task.session.is_some();
        let session_gone = status == 404 && in_session;
        if !session_gone && id.is_some() && answers(body, id) {
            return self.arrived.push_back(Arrival::Text(body.clone(), Instant::now()));
        }
        // "The HTTP response body MAY comprise a JSON-RPC error response that has no id": it can only be about what was posted.
        // An address that speaks another transport says nothing of JSON-RPC.
        if let (400 | 403 | 404 | 406..=499, Some(id), Some(error), false) =
            (status, id, error_without_id(body), session_gone)
        {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            return self.arrived.push_back(Arrival::Text(answer.into_bytes(), Instant::now()));
        }
        let words = String::from_utf8_lossy(body);
        // A page of HTML is told in one line, too.
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = words.chars().take(QUOTED).collect();
        let said = if quote.is_empty() { String::new() } else { format!(": {quote}") };
        let (kind, why) = match status {
            401 => {
                let challenge = task.field("www-authenticate").map(|challenge| format!(" ({challenge})"));
                let challenge = challenge.unwrap_or_default();
                let help = "--bearer-env VAR or --header supplies it";
                (FailureKind::Server, format!("HTTP 401: the server wants authorization{challenge}: {help}"))
            }
            // "When a client receives HTTP 404 in response to a request containing an Mcp-Session-Id, it MUST start a new session"
            404 if in_session => {
                (FailureKind::Session, format!("HTTP 404: the server does not know the session any more{said}"))
            }
            404 | 405 if !self.post_accepted => (FailureKind::Transport, format!("HTTP {status}{said}")),
            _ => (FailureKind::Message, format!("HTTP {status}{said}")),
        };
        self.fail(id, kind, why);
    }

    /// The stream of a message is over, or the response that was to go on with it is none: it is taken up again where the answer is missing.
    fn stream_ended(&mut self, mut task: Box<Task>) {
        let (Some(id), None) = (task.id(), task.answered) else { return };
        // "If the server … has not yet sent the response, the client … resumes via HTTP GET with Last-Event-ID."
        if task.is_stream() && task.stream.last_id.is_some() && task.resumed < RESUMPTIONS {
            task.resumed += 1;
            self.resume_later(task);
        } else {
            self.fail(Some(id), FailureKind::Message, BROKEN);
        }
    }

    /// Takes a stream up again when the server wants that, within bounds.
    fn resume_later(&mut self, mut task: Box<Task>) {
        let pause = task.stream.retry.unwrap_or(RETRY).min(RETRY_MOST);
        task.restart();
        task.hops = Hops::to(&self.target);
        self.resumptions.push((Instant::now() + pause, task));
    }

    /// Says and hears what is left, until `done` or a moment.
    fn exchange_until(&mut self, until: Instant, done: impl Fn(&Http) -> bool) {
        while !done(self) && Instant::now() < until {
            self.exchange(until);
        }
    }
}

impl Transport for Http {
    fn send(&mut self, message: Outgoing) {
        self.start(TaskKind::Message(message));
    }

    fn arrived(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    fn wait(&mut self, until: Instant) {
        self.exchange(until);
    }

    fn opened(&mut self, revision: &str) {
        // 2025-11-25 basic/transports "Listening for Messages from the Server"; 2026-07-28 has no such stream.
        if self.mode == Mode::Streamable && Era::of(revision) == Era::Legacy {
            self.start(TaskKind::ServerStream(headers(Some(revision), "", None)));
        }
    }

    fn forget_session(&mut self) {
        self.session = None;
    }

    fn close(mut self: Box<Self>) -> Option<String> {
        let until = Instant::now() + GRACE;
        // What nobody is to answer is said nevertheless.
        let is_notification =
            |task: &Task| task.message().is_some_and(|message| message.id.is_none()) && !task.is_taken();
        self.queued.retain(|task| is_notification(task));
        self.exchange_until(until, |http| http.queued.is_empty() && !http.pool.tasks().any(is_notification));
        // "Clients that no longer need a particular session … SHOULD send an HTTP DELETE"
        if self.session.is_some() {
            self.start(TaskKind::EndSession);
            let is_farewell = |task: &Task| matches!(task.kind, TaskKind::EndSession);
            // Whether it is taken or not, the session is over for us.
            self.exchange_until(until, |http| http.queued.is_empty() && !http.pool.tasks().any(is_farewell));
        }
        None
    }
}

/// Whether what is sent behind a task may rely on it, and it is not taken yet.
fn is_ordered(task: &Task) -> bool {
    task.message().is_some_and(|message| message.in_order) && !task.is_taken()
}

/// Fields of every request. A name and a password in the URL are shown as RFC 7617 has it, unless other credentials are.
fn fields(options: &ConnectOptions, user: Option<&str>) -> Vec<(String, String)> {
    use base64::Engine;
    let mut fields = options.fields.clone();
    let has_other = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Authorization"));
    if let Some(user) = user.filter(|_| !has_other) {
        let user = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
        fields.push(("Authorization".to_owned(), basic));
    }
    fields
}

/// Whether a text is, or holds, an answer to this request.
fn answers(text: &[u8], id: Option<u64>) -> bool {
    let Some(id) = id.map(|id| id.to_string()) else { return false };
    let is_answer = |text: &[u8], envelope: &Envelope| {
        let answers = matches!(envelope.kind, Some(Kind::Response | Kind::Error));
        answers && envelope.id.clone().and_then(|range| text.get(range)) == Some(id.as_bytes())
    };
    match messages::parse(text) {
        Parsed::Single(envelope) => is_answer(text, &envelope),
        Parsed::Batch(members) => members.iter().any(|(range, member)| {
            member.as_ref().is_ok_and(|envelope| is_answer(text.get(range.clone()).unwrap_or_default(), envelope))
        }),
        Parsed::Invalid(_) => false,
    }
}

/// The error of a message that names no request.
fn error_without_id(text: &[u8]) -> Option<&str> {
    let Parsed::Single(envelope) = messages::parse(text) else { return None };
    let names_one = messages::slice(text, &envelope.id).is_some_and(|id| id != "null");
    messages::slice(text, &envelope.error).filter(|_| !names_one)
}

#[cfg(test)]
mod tests;
