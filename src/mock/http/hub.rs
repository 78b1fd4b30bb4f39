//! The thread that decides what the mock server sends to its clients.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, at, never, select};

use crate::decode::json::{member, string_equals};
use crate::http::token;
use crate::mock::era::is_modern;
use crate::mock::ledger::Ledger;
use crate::mock::session::{Post, RecordedServer, Session, SessionOutput};
use crate::replay::messages::METHOD_NOT_FOUND;
use crate::replay::translate::Era;
use crate::view::secrets;

/// The most clients at once. Beyond it, the one that was silent longest is discarded. Its next
/// message gets status 404, as the specification asks.
const MAX_CLIENTS: usize = 1_024;

/// The most messages that are buffered for a client without an open stream. Beyond it, the
/// oldest are discarded.
const MAX_BUFFERED: usize = 1_024;

/// A request of a connection to the hub.
#[derive(Debug)]
pub(super) enum HubRequest {
    /// A client posted a text.
    Post {
        /// The session id in the request.
        session: Option<String>,
        text: Vec<u8>,
        reply: Sender<HubReply>,
    },
    /// A client opened an event stream with GET.
    Listen {
        /// The session id in the request. `None` for HTTP+SSE, where the stream begins the session.
        session: Option<String>,
        /// The id of the last event that the client read, if it resumes a stream.
        last: Option<String>,
        reply: Sender<HubReply>,
    },
    /// A client ended its session.
    Delete { session: Option<String>, reply: Sender<HubReply> },
}

/// A reply of the hub to a connection.
#[derive(Debug)]
pub(super) enum HubReply {
    /// The request is refused, with this status and reason.
    Refused(u16, &'static str),
    /// The text is accepted and gets no response.
    Accepted,
    /// Messages follow until [`HubReply::End`]. The id is given if the session has just begun.
    Begin(Option<String>),
    /// A message. `status` is the status of a response that contains only this message. `is_event`
    /// states whether it was an event of a stream in the recording. `id` is its event id. With
    /// `cut` only so many bytes of it are sent, and the connection is closed.
    Message { text: String, status: u16, is_event: bool, id: Option<String>, cut: Option<usize> },
    /// No more messages follow.
    End,
}

/// The most events that are retained per client for resuming a stream. Beyond it, the
/// oldest are discarded.
const RETAINED_EVENTS: usize = 1_024;

/// The key of the client that needs no session.
const NO_SESSION: &str = "";

/// An event that was sent, on the stream of a POST or (`None`) on the stream of a GET.
#[derive(Debug)]
struct SentEvent {
    stream: Option<Post>,
    number: u64,
    text: String,
}

impl SentEvent {
    /// "Event IDs … SHOULD encode sufficient information to identify the originating stream"
    /// (2025-11-25 basic/transports, "Resumability and Redelivery").
    fn id(&self) -> String {
        let stream = self.stream.map_or_else(|| "open".to_owned(), |post| post.to_string());
        format!("{stream}-{}", self.number)
    }

    fn reply(&self) -> HubReply {
        HubReply::Message { text: self.text.clone(), status: 200, is_event: true, id: Some(self.id()), cut: None }
    }
}

/// The stream and the number in an event id.
fn read_id(id: &str) -> Option<(Option<Post>, u64)> {
    let (stream, number) = id.split_once('-')?;
    let stream = if stream == "open" { None } else { Some(stream.parse().ok()?) };
    Some((stream, number.parse().ok()?))
}

#[derive(Default)]
struct ConnectedClient {
    session: Session,
    posts: HashMap<Post, Sender<HubReply>>,
    /// The stream of a GET. With HTTP+SSE it carries all messages, otherwise those that
    /// answer no request.
    stream: Option<Sender<HubReply>>,
    is_legacy: bool,
    /// Whether its streams can be resumed. True for sessions over Streamable HTTP.
    is_resumable: bool,
    sent_events: VecDeque<SentEvent>,
    next_event: u64,
    buffered: VecDeque<String>,
    last_active: u64,
    /// The last text of this client, if it was not a message. It gets status 400.
    invalid: Option<Post>,
}

/// The state of all clients.
pub(super) struct Hub<'a> {
    server: &'a RecordedServer,
    started: Instant,
    ledger: Ledger,
    clients: HashMap<String, ConnectedClient>,
    next: u64,
}

impl<'a> Hub<'a> {
    pub(super) fn new(server: &'a RecordedServer) -> Hub<'a> {
        Hub { server, started: Instant::now(), ledger: Ledger::default(), clients: HashMap::new(), next: 0 }
    }

    /// Runs until `stop` receives.
    pub(super) fn run(mut self, requests: &Receiver<HubRequest>, stop: &Receiver<()>) -> Ledger {
        loop {
            let due = self.clients.values().filter_map(|client| client.session.next_due(self.server)).min();
            let wake = due.map_or_else(never, |due| at(self.started + due));
            select! {
                recv(requests) -> request => match request {
                    Ok(request) => self.handle(request),
                    Err(_) => return self.ledger,
                },
                recv(wake) -> _ => {}
                recv(stop) -> _ => return self.ledger,
            }
            let (server, now) = (self.server, self.started.elapsed());
            self.clients.values_mut().for_each(|client| client.send_due(server, now));
        }
    }

    fn handle(&mut self, request: HubRequest) {
        let (reply, answer) = match request {
            HubRequest::Post { session, text, reply } => match self.post(session, &text, &reply) {
                Ok(()) => return,
                Err(answer) => (reply, answer),
            },
            HubRequest::Listen { session, last, reply } => match self.listen(session, last.as_deref(), &reply) {
                Ok(()) => return,
                Err(answer) => (reply, answer),
            },
            HubRequest::Delete { session, reply } => {
                let known = session.and_then(|session| self.clients.remove(&session));
                (reply, if known.is_some() { HubReply::Accepted } else { UNKNOWN_SESSION })
            }
        };
        // The connection may be gone, which is no error.
        let _ = reply.send(answer);
    }

    fn post(&mut self, session: Option<String>, text: &[u8], reply: &Sender<HubReply>) -> Result<(), HubReply> {
        let text_member = |name| std::str::from_utf8(text).ok().and_then(|text| member(text, name));
        let params = text_member("params");
        let id = match session {
            Some(id) if self.clients.contains_key(&id) => id,
            Some(_) if !self.needs_session() => NO_SESSION.to_owned(),
            // "The server MAY terminate the session at any time, after which it MUST respond to
            // requests containing that session ID with HTTP 404 Not Found" (basic/transports,
            // "Session Management")
            Some(_) => return Err(UNKNOWN_SESSION),
            None => match text_member("method") {
                Some(method) if string_equals(method, "initialize") => self.new_id()?,
                // Clients of both eras begin with this request to detect the server's revision.
                Some(method) if string_equals(method, "server/discover") => NO_SESSION.to_owned(),
                // 2026-07-28 has no sessions.
                Some(_) if is_modern(params) => NO_SESSION.to_owned(),
                // "Servers that require a session ID SHOULD respond to requests without an
                // Mcp-Session-Id header (other than initialization) with HTTP 400 Bad Request"
                _ if self.needs_session() => return Err(HubReply::Refused(400, "Mcp-Session-Id is missing")),
                _ => NO_SESSION.to_owned(),
            },
        };
        let (server, now, post) = (self.server, self.started.elapsed(), self.next);
        self.next += 1;
        let client = self.clients.entry(id.clone()).or_insert_with(|| ConnectedClient::new(server, now, false));
        client.is_resumable = id != NO_SESSION;
        client.last_active = post;
        if !client.is_legacy {
            client.posts.insert(post, reply.clone());
        }
        let input = client.session.receive(server, &mut self.ledger, text, post, now);
        client.invalid = Some(post).filter(|_| input.is_invalid);
        let answer = if client.is_legacy || input.requests == 0 {
            client.posts.remove(&post);
            HubReply::Accepted
        } else {
            HubReply::Begin(input.opens.then_some(id))
        };
        let _ = reply.send(answer);
        self.discard_silent();
        Ok(())
    }

    fn listen(
        &mut self,
        session: Option<String>,
        last: Option<&str>,
        reply: &Sender<HubReply>,
    ) -> Result<(), HubReply> {
        let (server, now) = (self.server, self.started.elapsed());
        let is_legacy = session.is_none();
        let id = session.map_or_else(|| self.new_id(), Ok)?;
        if is_legacy {
            self.clients.insert(id.clone(), ConnectedClient::new(server, now, true));
        }
        let client = self.clients.get_mut(&id).ok_or(UNKNOWN_SESSION)?;
        client.last_active = self.next;
        let _ = reply.send(HubReply::Begin(Some(id)));
        client.resume(last.and_then(read_id), reply);
        self.discard_silent();
        Ok(())
    }

    /// Whether requests have to name a session. True if the recording has a handshake.
    fn needs_session(&self) -> bool {
        self.server.script().era() == Era::Legacy && self.server.script().has("initialize")
    }

    /// "The session ID SHOULD be globally unique and cryptographically secure"
    fn new_id(&self) -> Result<String, HubReply> {
        token::random().map_err(|_| HubReply::Refused(500, "the system has no random numbers"))
    }

    fn discard_silent(&mut self) {
        if self.clients.len() > MAX_CLIENTS {
            let silent = self.clients.iter().min_by_key(|(_, client)| client.last_active).map(|(id, _)| id.clone());
            silent.iter().for_each(|id| drop(self.clients.remove(id)));
        }
    }
}

const UNKNOWN_SESSION: HubReply = HubReply::Refused(404, "no such session");

impl ConnectedClient {
    fn new(server: &RecordedServer, now: Duration, is_legacy: bool) -> ConnectedClient {
        ConnectedClient { session: Session::new(server, now), is_legacy, ..ConnectedClient::default() }
    }

    /// Sends what is due now.
    fn send_due(&mut self, server: &RecordedServer, now: Duration) {
        for output in self.session.due_output(server, now) {
            self.route_output(server, output);
        }
        for note in self.session.notes.drain(..) {
            eprintln!("mcptap: {}", secrets::shown(&note));
        }
    }

    fn route_output(&mut self, server: &RecordedServer, output: SessionOutput) {
        let SessionOutput { post, text, is_event, code, cut } = output;
        let target = post.filter(|post| self.posts.contains_key(post));
        // Without a stream of a GET, other messages go with the oldest open request. Otherwise a
        // request of the server would never arrive, and the client would wait forever.
        let target =
            target.or_else(|| self.posts.keys().min().copied().filter(|_| post.is_none() && self.stream.is_none()));
        match (target, text) {
            (Some(post), Some(text)) => {
                let status = self.status(server, post, code);
                let id = self.retain(Some(post), &text);
                self.send_to_post(post, HubReply::Message { text, status, is_event, id, cut });
            }
            (Some(target), None) => {
                self.send_to_post(target, HubReply::End);
                self.posts.remove(&target);
            }
            (None, Some(text)) if post.is_none() || self.is_legacy => self.broadcast(text, cut),
            // The client that waited for it is gone, or it needs no response.
            (None, _) => {}
        }
    }

    fn send_to_post(&mut self, post: Post, reply: HubReply) {
        let is_gone = self.posts.get(&post).is_some_and(|target| target.send(reply).is_err());
        // The client of a resumable stream may come back for its response.
        if is_gone && !self.is_resumable {
            self.posts.remove(&post);
            self.session.abandon(post);
        }
    }

    /// Retains an event for resuming. Returns its id.
    fn retain(&mut self, stream: Option<Post>, text: &str) -> Option<String> {
        if !self.is_resumable {
            return None;
        }
        self.next_event += 1;
        let event = SentEvent { stream, number: self.next_event, text: text.to_owned() };
        let id = event.id();
        if self.sent_events.len() >= RETAINED_EVENTS {
            self.sent_events.pop_front();
        }
        self.sent_events.push_back(event);
        Some(id)
    }

    /// Attaches a stream that a client opened. `last` names the stream and the last event that the
    /// client read, if it resumes one.
    fn resume(&mut self, last: Option<(Option<Post>, u64)>, reply: &Sender<HubReply>) {
        let stream = last.and_then(|(stream, _)| stream);
        if let Some((_, last)) = last {
            // "the server MUST NOT replay messages that would have been delivered on a different
            // stream"
            let missed = self.sent_events.iter().filter(|event| event.stream == stream && event.number > last);
            missed.for_each(|event| drop(reply.try_send(event.reply())));
        }
        match stream {
            Some(post) => match self.posts.get_mut(&post) {
                Some(target) => *target = reply.clone(),
                None => drop(reply.try_send(HubReply::End)),
            },
            // A second stream replaces the first, which the client has probably lost.
            None => {
                self.stream = Some(reply.clone());
                std::mem::take(&mut self.buffered).into_iter().for_each(|text| self.broadcast(text, None));
            }
        }
    }

    /// Sends a message on the stream of the GET, or buffers it until there is one.
    fn broadcast(&mut self, text: String, cut: Option<usize>) {
        let id = self.stream.is_some().then(|| self.retain(None, &text)).flatten();
        let reply = HubReply::Message { text: text.clone(), status: 200, is_event: true, id, cut };
        let text = match self.stream.as_ref().map(|stream| stream.try_send(reply)) {
            Some(Ok(())) => return,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                // The client does not read it. It may open a new one.
                self.stream = None;
                text
            }
            None => text,
        };
        if self.buffered.len() >= MAX_BUFFERED {
            self.buffered.pop_front();
        }
        self.buffered.push_back(text);
    }

    /// The HTTP status of a response that contains only this message. In 2026-07-28 it depends on
    /// the error code (basic/transports/streamable-http).
    fn status(&self, server: &RecordedServer, post: Post, code: Option<i64>) -> u16 {
        match code {
            // "If the server cannot accept the input, it MUST return an HTTP error status code
            // (e.g., 400 Bad Request)"
            Some(_) if self.invalid == Some(post) => 400,
            Some(METHOD_NOT_FOUND) if self.session.era(server) == Era::Modern => 404,
            Some(-32022..=-32020) if self.session.era(server) == Era::Modern => 400,
            _ => 200,
        }
    }
}
