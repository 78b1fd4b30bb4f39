//! A server at a URL: Streamable HTTP (2025-03-26 and later), or HTTP+SSE (2024-11-05).
//!
//! Each message is a POST of its own; workers wait for the answers, so that what ran in parallel runs in parallel.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use ureq::http::Response;
use ureq::{Agent, Body, Error};

use super::agent::{agent, failure};
use super::origin::{Reached, Redirected, redirected, resolve};
use super::posts::Posts;
use super::stream::Stream;
use super::{Arrival, Failure, FailureKind, Next, Outgoing, Transport};
use crate::capture::Limits;
use crate::decode::jsonrpc::{self, Kind, Parsed};
use crate::source::tape::Tape;

pub use super::agent::Options;

/// Times that a broken stream is taken up again for one answer.
const RESUMPTIONS: u32 = 8;

/// How long to wait before a broken stream is taken up again, where the server does not say (WHATWG HTML section 9.2: "probably in the
/// region of a few seconds"; a replay is in more of a hurry), and at most.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(10);

/// Bytes of an answer's body.
const BODY: u64 = 128 << 20;

/// Bytes of the body of a refusal that are quoted.
const QUOTED: usize = 200;

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
    shared: Arc<Shared>,
    posts: Arc<Posts>,
    arrivals: Receiver<Arrival>,
}

#[derive(Debug)]
struct Shared {
    agent: Agent,
    mode: Mode,
    /// What goes over the wire is noted here.
    tape: Tape,
    /// Where to POST: for HTTP+SSE what the stream announced.
    target: Mutex<String>,
    fields: Vec<(String, String)>,
    session: Mutex<Option<String>>,
    arrived: Sender<Arrival>,
    over: AtomicBool,
    /// A POST was taken once: a 404 is about the session from now on, not about the address.
    taken: AtomicBool,
}

impl Http {
    /// Connects: for HTTP+SSE opens the stream and waits for the address; Streamable HTTP has nothing to open. What an [attempt](Tape::attempt) holds is
    /// kept once the server takes a POST.
    ///
    /// # Errors
    /// The options cannot be used, or the stream cannot be opened.
    pub fn open(url: &str, mode: Mode, options: &Options, tape: Tape) -> Result<Http> {
        let agent = agent(options, tape.clone())?;
        let (arrived, arrivals) = unbounded();
        let shared = Arc::new(Shared {
            agent,
            mode,
            tape,
            target: Mutex::new(url.to_owned()),
            fields: options.fields.clone(),
            session: Mutex::default(),
            arrived,
            over: AtomicBool::new(false),
            taken: AtomicBool::new(false),
        });
        if mode == Mode::Sse {
            let (announce, announced) = bounded(1);
            let (stream, url) = (Arc::clone(&shared), url.to_owned());
            spawn("events", move || stream.legacy_stream(&url, &announce))?;
            let target = announced.recv_timeout(options.timeout);
            match target
                .unwrap_or_else(|_| Err(Failure::new(FailureKind::Server, "the stream announced no address in time")))
            {
                Ok(target) => *lock(&shared.target) = target,
                Err(failure) => {
                    shared.agent.clone().shutdown();
                    bail!("{failure}");
                }
            }
        }
        let poster = Arc::clone(&shared);
        let posts = Posts::new(move |message| poster.post(message));
        Ok(Http { shared, posts, arrivals })
    }
}

impl Transport for Http {
    fn send(&mut self, message: Outgoing) {
        self.posts.send(message);
    }

    fn next(&mut self, until: Instant, stop: &Receiver<()>) -> Next {
        select! {
            // The sending end is ours, too: it cannot be gone.
            recv(self.arrivals) -> arrival => arrival.map_or(Next::Stopped, Next::Arrived),
            recv(stop) -> _ => Next::Stopped,
            default(until.saturating_duration_since(Instant::now())) => Next::Late,
        }
    }

    fn opened(&mut self, revision: &str) {
        // 2025-11-25 basic/transports "Listening for Messages from the Server"; 2026-07-28 has no such stream.
        if self.shared.mode == Mode::Streamable && crate::replay::translate::Era::of(revision) == Default::default() {
            let (shared, revision) = (Arc::clone(&self.shared), revision.to_owned());
            let _ = spawn("events", move || shared.listen(&revision));
        }
    }

    fn forget_session(&mut self) {
        *lock(&self.shared.session) = None;
    }

    fn close(self: Box<Self>) -> Option<String> {
        let shared = &self.shared;
        // "Clients that no longer need a particular session … SHOULD send an HTTP DELETE"
        if let Some(session) = lock(&shared.session).take() {
            let url = lock(&shared.target).clone();
            let fields = || shared.fields.iter().map(|(name, value)| (&**name, &**value));
            // Whether it is taken or not, the session is over for us.
            let _ = redirected(&url, false, |url| {
                let request = shared.agent.delete(url).config().timeout_global(Some(RETRY_MOST)).build();
                let fields = fields().chain([("Mcp-Session-Id", &*session)]);
                fields.fold(request, |request, (name, value)| request.header(name, value)).call()
            });
        }
        shared.over.store(true, Ordering::Relaxed);
        shared.agent.clone().shutdown();
        // Workers end when nothing can come any more.
        self.posts.end();
        None
    }
}

impl Shared {
    fn arrive(&self, arrival: Arrival) {
        if !self.over.load(Ordering::Relaxed) {
            let _ = self.arrived.send(arrival);
        }
    }

    fn fail(&self, id: Option<u64>, failure: Failure) {
        self.arrive(Arrival::Failed(id, failure));
    }

    /// Sends one message and reads what comes back.
    fn post(&self, message: &Outgoing) {
        let target = lock(&self.target).clone();
        let session = lock(&self.session).clone();
        let send = |target: &str| {
            let mut request = self.agent.post(target).header("Content-Type", "application/json");
            // "The client MUST include an Accept header, listing both application/json and text/event-stream"
            request = request.header("Accept", "application/json, text/event-stream");
            for (name, value) in self.fields.iter().chain(&message.fields) {
                request = request.header(name, value);
            }
            if let Some(session) = &session {
                request = request.header("Mcp-Session-Id", session);
            }
            request.send(&message.text)
        };
        match redirected(&target, false, send) {
            Ok(Reached { response, settled, .. }) => {
                self.settle(&target, settled);
                self.answered(message, session, response);
            }
            Err(Redirected::Refused(why)) => self.fail(message.id, Failure::new(FailureKind::Message, why)),
            Err(Redirected::Failed(error)) => {
                let mut failure = failure(&error, &target);
                // A connection that broke says nothing of the next one, where there was a server before.
                let broke = matches!(&error, Error::Io(io) if io.kind() != std::io::ErrorKind::ConnectionRefused);
                if broke && self.taken.load(Ordering::Relaxed) {
                    failure.kind = FailureKind::Message;
                }
                self.fail(message.id, failure);
            }
        }
    }

    fn answered(&self, message: &Outgoing, session: Option<String>, response: Response<Body>) {
        let status = response.status().as_u16();
        let field = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let media_type = field("content-type").unwrap_or_default().to_ascii_lowercase();
        if let Some(session) = field("mcp-session-id").filter(|_| self.mode == Mode::Streamable) {
            *lock(&self.session) = Some(session);
        }
        if !(200..300).contains(&status) {
            let challenge = field("www-authenticate");
            return self.refused(message, session.is_some(), status, challenge, response);
        }
        self.taken.store(true, Ordering::Relaxed);
        self.tape.keep();
        if media_type.starts_with("text/event-stream") {
            let mut body = response.into_body().into_reader();
            return self.stream(message, &mut body);
        }
        match response.into_body().with_config().limit(BODY).read_to_vec() {
            // Of HTTP+SSE the answer comes as an event; a notification or an answer has none.
            Ok(_) if self.mode == Mode::Sse || message.id.is_none() => {}
            Ok(body) if body.trim_ascii().is_empty() => {
                self.fail(message.id, Failure::new(FailureKind::Message, format!("HTTP {status} without an answer")));
            }
            Ok(body) => self.arrive(Arrival::Text(body, Instant::now())),
            Err(error) => {
                let why = format!("the answer broke off: {error}");
                self.fail(message.id, Failure::new(FailureKind::Message, why));
            }
        }
    }

    /// A status that is no success. A body that is a message says it better.
    fn refused(
        &self,
        message: &Outgoing,
        in_session: bool,
        status: u16,
        challenge: Option<String>,
        response: Response<Body>,
    ) {
        let body = response.into_body().with_config().limit(BODY).read_to_vec().unwrap_or_default();
        let gone = status == 404 && in_session;
        if !gone && message.id.is_some() && answers(&body, message.id) {
            return self.arrive(Arrival::Text(body, Instant::now()));
        }
        // "The HTTP response body MAY comprise a JSON-RPC error response that has no id": it can only be about what was posted.
        // An address that speaks another transport says nothing of JSON-RPC.
        if let (400 | 403 | 404 | 406..=499, Some(id), Some(error), false) =
            (status, message.id, error_without_id(&body), gone)
        {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            return self.arrive(Arrival::Text(answer.into_bytes(), Instant::now()));
        }
        let words = String::from_utf8_lossy(&body);
        // A page of HTML is told in one line, too.
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = words.chars().take(QUOTED).collect();
        let said = if quote.is_empty() { String::new() } else { format!(": {quote}") };
        let (kind, why) = match status {
            401 => {
                let challenge = challenge.map(|challenge| format!(" ({challenge})")).unwrap_or_default();
                (
                    FailureKind::Server,
                    format!(
                        "HTTP 401: the server wants authorization{challenge}: --bearer-env VAR or --header supplies it"
                    ),
                )
            }
            // "When a client receives HTTP 404 in response to a request containing an Mcp-Session-Id, it MUST start a new session"
            404 if in_session => {
                (FailureKind::Session, format!("HTTP 404: the server does not know the session any more{said}"))
            }
            404 | 405 if !self.taken.load(Ordering::Relaxed) => {
                (FailureKind::Transport, format!("HTTP {status}{said}"))
            }
            _ => (FailureKind::Message, format!("HTTP {status}{said}")),
        };
        self.fail(message.id, Failure::new(kind, why));
    }

    /// The answer as a stream of events; taken up again where it breaks off before the answer.
    fn stream(&self, message: &Outgoing, body: &mut dyn Read) {
        let mut stream = Stream::new();
        let mut answered = false;
        let mut take = |data: Option<Vec<u8>>| {
            if let Some(data) = data.filter(|data| !data.trim_ascii().is_empty()) {
                answered |= answers(&data, message.id);
                self.arrive(Arrival::Text(data, Instant::now()));
            }
            answered
        };
        let mut done = false;
        stream.read(body, &mut |event| {
            done = take(event.data);
            true
        });
        for _ in 0..RESUMPTIONS {
            // "If the server … has not yet sent the response, the client … resumes via HTTP GET with Last-Event-ID."
            let Some(last) = stream.last_id.clone().filter(|_| !done && message.id.is_some()) else { break };
            self.wait(stream.retry.unwrap_or(RETRY));
            let Ok(Some((response, _))) = self.get(message, Some(&last)) else { break };
            stream.read(&mut response.into_body().into_reader(), &mut |event| {
                done = take(event.data);
                true
            });
        }
        if !done && message.id.is_some() {
            self.fail(message.id, Failure::new(FailureKind::Message, "the stream ended before the answer came"));
        }
    }

    /// What goes to `target` goes to another place from now on.
    fn settle(&self, target: &str, settled: String) {
        if settled != target {
            *lock(&self.target) = settled;
        }
    }

    /// Opens a stream of events, and says where it is; `None` where the server has none.
    fn get(&self, like: &Outgoing, last: Option<&str>) -> Result<Option<(Response<Body>, String)>, Failure> {
        let target = lock(&self.target).clone();
        let session = lock(&self.session).clone();
        let session = session.as_deref().map(|session| ("Mcp-Session-Id", session));
        let last = last.map(|last| ("Last-Event-ID", last));
        let send = |target: &str| {
            let fields = self.fields.iter().chain(&like.fields).map(|(name, value)| (&**name, &**value));
            let mut request = self.agent.get(target).header("Accept", "text/event-stream");
            for (name, value) in fields.chain(session).chain(last) {
                request = request.header(name, value);
            }
            request.call()
        };
        let Reached { response, at, settled } = redirected(&target, true, send).map_err(|error| match error {
            Redirected::Failed(error) => failure(&error, &target),
            Redirected::Refused(why) => Failure::new(FailureKind::Server, format!("cannot reach {target}: {why}")),
        })?;
        self.settle(&target, settled);
        let is_stream = response
            .headers()
            .get("content-type")
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        Ok((response.status() == 200 && is_stream).then_some((response, at)))
    }

    /// The stream for what the server says unasked, for as long as it gives one.
    fn listen(&self, revision: &str) {
        let fields = crate::replay::translate::headers(Some(revision), "", None);
        let like = Outgoing { fields, ..Outgoing::default() };
        let mut stream = Stream::new();
        while !self.over.load(Ordering::Relaxed) {
            let Ok(Some((response, _))) = self.get(&like, stream.last_id.clone().as_deref()) else { return };
            stream.read(&mut response.into_body().into_reader(), &mut |event| {
                event.data.into_iter().for_each(|data| self.arrive(Arrival::Text(data, Instant::now())));
                true
            });
            self.wait(stream.retry.unwrap_or(RETRY));
        }
    }

    /// The one stream of HTTP+SSE: its first event names the address, all others are messages.
    fn legacy_stream(&self, url: &str, announce: &Sender<Result<String, Failure>>) {
        let refuse = |failure| drop(announce.send(Err(failure)));
        // The endpoint is relative to where the stream is.
        let (response, url) = match self.get(&Outgoing::default(), None) {
            Ok(Some(found)) => found,
            Ok(None) => return refuse(Failure::new(FailureKind::Server, format!("{url} gives no stream of events"))),
            Err(failure) => return refuse(failure),
        };
        Stream::new().read(&mut response.into_body().into_reader(), &mut |event| {
            match (event.kind.as_deref(), event.data) {
                (Some("endpoint"), Some(data)) => {
                    let endpoint = String::from_utf8_lossy(&data);
                    let target = resolve(&url, endpoint.trim()).ok_or_else(|| {
                        let said = format!("the stream announced an address at another origin: {:?}", endpoint.trim());
                        Failure::new(FailureKind::Server, said)
                    });
                    drop(announce.try_send(target));
                }
                (_, Some(data)) => self.arrive(Arrival::Text(data, Instant::now())),
                (_, None) => {}
            }
            true
        });
        self.arrive(Arrival::Over(Failure::new(FailureKind::Server, "the server closed the stream of events")));
    }

    /// Waits as long as the server asks for, within bounds.
    fn wait(&self, time: Duration) {
        let until = Instant::now() + time.min(RETRY_MOST);
        while Instant::now() < until && !self.over.load(Ordering::Relaxed) {
            thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
        }
    }
}

/// Whether a text is, or holds, an answer to this request.
fn answers(text: &[u8], id: Option<u64>) -> bool {
    let limits = Limits::default();
    let Some(id) = id.map(|id| id.to_string()) else { return false };
    let is_answer = |text: &[u8], envelope: &jsonrpc::Envelope| {
        let answers = matches!(envelope.kind, Some(Kind::Response | Kind::Error));
        answers && envelope.id.clone().and_then(|range| text.get(range)) == Some(id.as_bytes())
    };
    match jsonrpc::parse(text, limits.json_depth, limits.batch) {
        Parsed::Single(envelope) => is_answer(text, &envelope),
        Parsed::Batch(members) => members.iter().any(|(range, member)| {
            member.as_ref().is_ok_and(|envelope| is_answer(text.get(range.clone()).unwrap_or_default(), envelope))
        }),
        Parsed::Invalid(_) => false,
    }
}

/// The error of a message that names no request.
fn error_without_id(text: &[u8]) -> Option<&str> {
    let limits = Limits::default();
    let Parsed::Single(envelope) = jsonrpc::parse(text, limits.json_depth, limits.batch) else { return None };
    let part = |range: Option<std::ops::Range<usize>>| std::str::from_utf8(text.get(range?)?).ok();
    let names_one = part(envelope.id.clone()).is_some_and(|id| id != "null");
    part(envelope.error).filter(|_| !names_one)
}

pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).context("cannot start a thread")
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_no_request_is_that_of_the_post() {
        let of = |text: &'static str| error_without_id(text.as_bytes());
        assert_eq!(of(r#"{"jsonrpc":"2.0","error":{"code":1},"id":null}"#), Some(r#"{"code":1}"#));
        assert_eq!(of(r#"{"error":{"code":1}}"#), Some(r#"{"code":1}"#));
        assert_eq!(of(r#"{"error":{"code":1},"id":3}"#), None);
        assert_eq!(of(r#"{"id":null,"result":{}}"#), None);
        assert_eq!(of("Bad Request"), None);
    }

    #[test]
    fn an_answer_is_known_by_its_id() {
        assert!(answers(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some(7)));
        assert!(answers(br#"[{"jsonrpc":"2.0","id":7,"error":{}}]"#, Some(7)));
        assert!(!answers(br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#, Some(7)), "a request of the server");
        assert!(!answers(br#"{"jsonrpc":"2.0","id":"7","result":{}}"#, Some(7)));
    }
}
