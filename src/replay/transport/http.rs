//! A transport to a server at a URL: Streamable HTTP (2025-03-26 and later) or HTTP+SSE
//! (2024-11-05).
//!
//! ```text
//!  message ─► Task ─► queue ─► ConnectionPool ─► MessageReader ─► outcome of the task ─► Arrival
//!              ▲               (sockets)         (HTTP)              │
//!              └──────────── redirected, or stream resumed ──────────┘
//! ```
//!
//! Each message is a POST of its own. Messages in parallel use different connections.

mod pool;
mod sse_reader;
mod taped_connection;
mod task;

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::pool::{ConnectionNumber, ConnectionPool, PoolEvent};
use self::sse_reader::StreamEvent;
use self::task::{Task, TaskKind};
use super::{Arrival, Failure, FailureKind, Outgoing, STOP_CHECK, Transport};
use crate::decode::jsonrpc::{Envelope, JsonRpcText, Kind};
use crate::http::connect::{ConnectOptions, Connector};
use crate::http::message_reader::Part;
use crate::http::origin::{Hops, Origin, resolve};
use crate::replay::messages;
use crate::replay::translate::{Era, headers};
use crate::source::tape::Tape;

/// The most resumptions of a broken stream for one response.
const RESUMPTIONS: u32 = 8;

/// The pause before a broken stream is resumed if the server names none, and the longest
/// pause. WHATWG HTML section 9.2 suggests "probably in the region of a few seconds"; a
/// replay should be faster.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// Time to send the last messages and to end the session.
const GRACE: Duration = Duration::from_secs(10);

/// The longest body of a response, in bytes.
const BODY: usize = 128 << 20;

/// The most characters of an error body that are quoted.
const QUOTED: usize = 200;

/// The failure of a request whose stream broke and cannot be resumed.
const BROKEN: &str = "the stream ended before the response arrived";

/// The variant of the HTTP transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Streamable HTTP: each message is a POST, and the response contains the answer.
    Streamable,
    /// HTTP+SSE: a GET opens the event stream, which announces the address for POSTs.
    Sse,
}

/// A server at a URL.
#[derive(Debug)]
pub struct Http {
    mode: Mode,
    /// Records the traffic.
    tape: Tape,
    /// Fields of every request.
    fields: Vec<(String, String)>,
    host: String,
    /// The URL for POSTs. With HTTP+SSE the stream announces it.
    target: String,
    session: Option<String>,
    /// The revision that the handshake agreed on.
    revision: Option<String>,
    /// A POST was accepted, so a later status 404 means a lost session, not a wrong URL.
    post_accepted: bool,
    pool: ConnectionPool,
    /// Tasks that wait for a connection, in order.
    queued: VecDeque<Box<Task>>,
    /// Tasks whose stream broke, with the time for resuming it.
    resumptions: Vec<(Instant, Box<Task>)>,
    /// The URL that the HTTP+SSE stream announced, or the failure to open it.
    announced: Option<Result<String, Failure>>,
    arrived: VecDeque<Arrival>,
    /// The longest time for which a wait does not return.
    sleep: Duration,
}

impl Http {
    /// Opens the transport. With HTTP+SSE it waits for the announced address; Streamable HTTP has
    /// nothing to open. Traffic in an [attempt](Tape::attempt) is recorded only after the server
    /// has accepted a POST.
    pub fn open(url: &str, mode: Mode, options: &ConnectOptions, tape: Tape) -> Result<Http> {
        let origin = Origin::of(url).with_context(|| format!("{url} is not an HTTP URL"))?;
        let fields = options.request_fields(origin.user.as_deref());
        let mut http = Http {
            mode,
            fields,
            host: origin.authority.clone(),
            target: url.to_owned(),
            session: None,
            revision: None,
            post_accepted: false,
            pool: ConnectionPool::new(Connector::new(origin, options)?, tape.clone())?,
            tape,
            queued: VecDeque::new(),
            resumptions: Vec::new(),
            announced: None,
            arrived: VecDeque::new(),
            sleep: STOP_CHECK,
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

    /// Makes waits return after this time at the latest, for a caller that is woken by
    /// [`Http::waker`].
    pub fn sleep_at_most(&mut self, time: Duration) {
        self.sleep = time;
    }

    /// A socket to which another thread writes a byte to end a wait.
    pub fn waker(&self) -> Arc<UnixStream> {
        self.pool.waker()
    }

    /// Queues a task and starts it if a connection is free.
    fn start(&mut self, kind: TaskKind) {
        self.queued.push_back(Task::new(kind, &self.target));
        self.send_waiting();
    }

    /// Sends and receives, at most until a moment, and processes what arrived.
    fn exchange(&mut self, until: Instant) {
        let now = Instant::now();
        let due = self.resumptions.extract_if(.., |(at, _)| *at <= now);
        self.queued.extend(due.map(|(_, task)| task));
        self.send_waiting();
        let ends = if self.queued.is_empty() { None } else { self.pool.ending().min() };
        let next = self.resumptions.iter().map(|(at, _)| *at).chain(ends).chain([until, now + self.sleep]).min();
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

    /// Gives queued tasks to free connections, in order.
    fn send_waiting(&mut self) {
        // HTTP does not order requests on different connections. A message that later ones rely on
        // has to be accepted before any other is sent.
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
                if task.is_accepted() && task.message().is_some() {
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
                    self.finish(connection, Err(format!("it is longer than {BODY} bytes")));
                }
            }
            // Anomalies become findings when the recording is decoded.
            Part::Anomaly(_) => {}
            Part::End(end) => self.finish(connection, end),
        }
    }

    fn take_event(&mut self, connection: ConnectionNumber, event: StreamEvent, at: Instant) {
        let Some(task) = self.pool.task(connection) else { return };
        let StreamEvent { kind, data } = event;
        if matches!(task.kind, TaskKind::SseStream) && kind.as_deref() == Some("endpoint") {
            let endpoint = String::from_utf8_lossy(&data);
            // The address is relative to the URL of the stream.
            self.announced = Some(resolve(&task.hops.at, endpoint.trim()).ok_or_else(|| {
                let why = format!("the stream announced an address at another origin: {:?}", endpoint.trim());
                Failure::new(FailureKind::Server, why)
            }));
        } else if !data.trim_ascii().is_empty() {
            task.answered = task.answered.or_else(|| answers(&data, task.written_id()).then_some(at));
            self.arrived.push_back(Arrival::Text(data, at));
        }
    }

    /// Processes the end of a response: complete, or broken for this reason.
    fn finish(&mut self, connection: ConnectionNumber, end: Result<(), String>) {
        let Some(mut task) = self.pool.end(connection) else { return };
        if task.head.is_none() {
            // If the server answered before, one broken connection does not mean that it is gone.
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
            TaskKind::Message(message) if task.is_accepted() => self.answered(message, status, task.body, end),
            TaskKind::Message(_) => self.refused(&task),
            TaskKind::ServerStream(_) if task.is_stream() => self.resume_later(task),
            TaskKind::SseStream if task.is_stream() => {
                let why = "the server closed the event stream";
                self.announced = Some(Err(Failure::new(FailureKind::Server, why)));
                self.arrived.push_back(Arrival::Closed(Failure::new(FailureKind::Server, why)));
            }
            TaskKind::SseStream => {
                let why = format!("{} does not return an event stream", self.target);
                self.announced = Some(Err(Failure::new(FailureKind::Server, why)));
            }
            TaskKind::ServerStream(_) | TaskKind::EndSession(_) => {}
        }
    }

    fn fail(&mut self, id: Option<u64>, kind: FailureKind, why: impl Into<String>) {
        self.arrived.push_back(Arrival::Failed(id, Failure::new(kind, why)));
    }

    /// Fails a task that got no response.
    fn unreached(&mut self, task: Task, kind: FailureKind, why: &str) {
        let why = format!("cannot reach {}: {why}", self.target);
        match task.kind {
            TaskKind::Message(message) if task.resumed > 0 => self.fail(message.id, FailureKind::Message, BROKEN),
            TaskKind::Message(message) => self.fail(message.id, kind, why),
            TaskKind::SseStream => self.announced = Some(Err(Failure::new(kind, why))),
            TaskKind::ServerStream(_) | TaskKind::EndSession(_) => {}
        }
    }

    /// Processes a successful response to a message that is not an event stream.
    fn answered(&mut self, message: &Outgoing, status: u16, body: Vec<u8>, end: Result<(), String>) {
        match end {
            Err(why) => self.fail(message.id, FailureKind::Message, format!("the response is incomplete: {why}")),
            // With HTTP+SSE the answer is an event. Notifications and responses get no answer at
            // all.
            Ok(()) if self.mode == Mode::Sse || message.id.is_none() => {}
            Ok(()) if body.trim_ascii().is_empty() => {
                self.fail(message.id, FailureKind::Message, format!("HTTP {status} with an empty body"));
            }
            Ok(()) => self.arrived.push_back(Arrival::Text(body, Instant::now())),
        }
    }

    /// Processes an error status. If the body contains a JSON-RPC error, that is the answer.
    fn refused(&mut self, task: &Task) {
        let (status, body, id) = (task.status(), &task.body, task.id());
        let in_session = task.session.is_some();
        let session_gone = status == 404 && in_session;
        if !session_gone && id.is_some() && answers(body, task.written_id()) {
            return self.arrived.push_back(Arrival::Text(body.clone(), Instant::now()));
        }
        // "The HTTP response body MAY comprise a JSON-RPC error response that has no id". It can
        // only belong to the posted message. A URL of another transport would not answer with
        // JSON-RPC.
        if let (400 | 403 | 404 | 406..=499, Some(id), Some(error), false) =
            (status, task.written_id(), error_without_id(body), session_gone)
        {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            return self.arrived.push_back(Arrival::Text(answer.into_bytes(), Instant::now()));
        }
        let words = String::from_utf8_lossy(body);
        // An HTML page is quoted on one line.
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = words.chars().take(QUOTED).collect();
        let quoted = if quote.is_empty() { String::new() } else { format!(": {quote}") };
        let (kind, why) = match status {
            401 => {
                let challenge = task.field("www-authenticate").map(|challenge| format!(" ({challenge})"));
                let challenge = challenge.unwrap_or_default();
                let help = "use --bearer-env VAR or --header to send it";
                (FailureKind::Server, format!("HTTP 401: the server requires authorization{challenge}; {help}"))
            }
            // "When a client receives HTTP 404 in response to a request containing an
            // Mcp-Session-Id, it MUST start a new session"
            404 if in_session => {
                (FailureKind::Session, format!("HTTP 404: the server no longer has the session{quoted}"))
            }
            404 | 405 if !self.post_accepted => (FailureKind::Transport, format!("HTTP {status}{quoted}")),
            _ => (FailureKind::Message, format!("HTTP {status}{quoted}")),
        };
        self.fail(id, kind, why);
    }

    /// Processes the end of an event stream, or a failed attempt to resume it. The stream is
    /// resumed if the answer is still missing.
    fn stream_ended(&mut self, mut task: Box<Task>) {
        let (Some(id), None) = (task.id(), task.answered) else { return };
        // "If the server … has not yet sent the response, the client … resumes via HTTP GET with
        // Last-Event-ID."
        if task.is_stream() && task.stream.last_id.is_some() && task.resumed < RESUMPTIONS {
            task.resumed += 1;
            self.resume_later(task);
        } else {
            self.fail(Some(id), FailureKind::Message, BROKEN);
        }
    }

    /// Schedules resuming a stream after the pause that the server asked for, within bounds.
    fn resume_later(&mut self, mut task: Box<Task>) {
        let pause = task.stream.retry.unwrap_or(RETRY).min(RETRY_MOST);
        task.restart();
        task.hops = Hops::to(&self.target);
        self.resumptions.push((Instant::now() + pause, task));
    }

    /// Sends and receives until `done` returns true, at most until a moment.
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
        // 2025-11-25 basic/transports "Listening for Messages from the Server"; 2026-07-28 has no
        // such stream.
        if self.mode == Mode::Streamable && Era::of(revision) == Era::Legacy {
            self.revision = Some(revision.to_owned());
            self.start(TaskKind::ServerStream(headers(Some(revision), "", None)));
        }
    }

    fn forget_session(&mut self) {
        self.session = None;
    }

    fn close(mut self: Box<Self>) -> Option<String> {
        let until = Instant::now() + GRACE;
        // Notifications and responses are still sent.
        let is_unaccepted =
            |task: &Task| task.message().is_some_and(|message| message.id.is_none()) && !task.is_accepted();
        self.queued.retain(|task| is_unaccepted(task));
        self.exchange_until(until, |http| http.queued.is_empty() && !http.pool.tasks().any(is_unaccepted));
        // "Clients that no longer need a particular session … SHOULD send an HTTP DELETE"
        if self.session.is_some() {
            self.start(TaskKind::EndSession(headers(self.revision.as_deref(), "", None)));
            let ends_session = |task: &Task| matches!(task.kind, TaskKind::EndSession(_));
            // The session is over for this client, even if the server does not accept it.
            self.exchange_until(until, |http| http.queued.is_empty() && !http.pool.tasks().any(ends_session));
        }
        None
    }
}

/// Whether later messages may rely on this one, and it is not accepted yet.
fn is_ordered(task: &Task) -> bool {
    task.message().is_some_and(|message| message.in_order) && !task.is_accepted()
}

/// Whether a text is, or contains, the response to this request.
fn answers(text: &[u8], id: Option<String>) -> bool {
    let Some(id) = id else { return false };
    let is_answer = |text: &[u8], envelope: &Envelope| {
        let answers = matches!(envelope.kind, Some(Kind::Response | Kind::Error));
        answers && envelope.id.clone().and_then(|range| text.get(range)) == Some(id.as_bytes())
    };
    match messages::parse(text) {
        JsonRpcText::Single(envelope) => is_answer(text, &envelope),
        JsonRpcText::Batch(members) => members.iter().any(|(range, member)| {
            member.as_ref().is_ok_and(|envelope| is_answer(text.get(range.clone()).unwrap_or_default(), envelope))
        }),
        JsonRpcText::Invalid(_) => false,
    }
}

/// The error in a message without a request id.
fn error_without_id(text: &[u8]) -> Option<&str> {
    let JsonRpcText::Single(envelope) = messages::parse(text) else { return None };
    let names_one = messages::slice(text, &envelope.id).is_some_and(|id| id != "null");
    messages::slice(text, &envelope.error).filter(|_| !names_one)
}

#[cfg(test)]
mod tests;
