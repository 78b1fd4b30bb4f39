//! The one thread that decides what is said, for all clients.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, at, never, select};
use ring::rand::{SecureRandom, SystemRandom};

use crate::decode::json::{is, member};
use crate::mock::era::is_modern;
use crate::mock::ledger::Ledger;
use crate::mock::session::{Post, Said, Session, Stage};
use crate::replay::messages::METHOD_NOT_FOUND;
use crate::replay::translate::Era;
use crate::view::safe;

/// Clients at once; the one that was silent longest is forgotten, and its next message answered with 404, as the specification has it.
const CLIENTS: usize = 1_024;

/// Messages held for a client that has no stream open for them. Beyond it the oldest are dropped.
const HELD: usize = 1_024;

/// What connections ask.
#[derive(Debug)]
pub(super) enum Event {
    /// A text was posted.
    Post {
        /// The session that it names.
        session: Option<String>,
        text: Vec<u8>,
        reply: Sender<Reply>,
    },
    /// A stream is wanted for what answers nothing.
    Listen {
        /// The session that it names; `None`: HTTP+SSE, where the stream opens the session.
        session: Option<String>,
        /// The id of the last event that was read, where a stream that broke is taken up again.
        last: Option<String>,
        reply: Sender<Reply>,
    },
    /// A session is over.
    Delete { session: Option<String>, reply: Sender<Reply> },
}

/// What they are told.
#[derive(Debug)]
pub(super) enum Reply {
    /// No: with this status, and why.
    Refused(u16, &'static str),
    /// Taken; nothing is answered.
    Accepted,
    /// Messages follow, until the end. Here is the session's id, where it has just got one.
    Begin(Option<String>),
    /// A message, the status that it would have alone, whether it was an event of a stream, and the id that it has as one.
    Message { text: String, status: u16, is_event: bool, id: Option<String> },
    /// Nothing more comes.
    End,
}

/// Events kept of a client, so that a stream that broke can be taken up again. Beyond it the oldest are forgotten.
const KEPT: usize = 1_024;

/// The session of those who need none.
const NONE: &str = "";

/// An event of a stream: of the answer to a POST, or of that which answers nothing.
#[derive(Debug)]
struct Told {
    stream: Option<Post>,
    number: u64,
    text: String,
}

impl Told {
    /// "Event IDs … SHOULD encode sufficient information to identify the originating stream" (2025-11-25 basic/transports, "Resumability and Redelivery").
    fn id(&self) -> String {
        let stream = self.stream.map_or_else(|| "open".to_owned(), |post| post.to_string());
        format!("{stream}-{}", self.number)
    }

    fn reply(&self) -> Reply {
        Reply::Message { text: self.text.clone(), status: 200, is_event: true, id: Some(self.id()) }
    }
}

/// The stream and the number that an id of an event names.
fn read_id(id: &str) -> Option<(Option<Post>, u64)> {
    let (stream, number) = id.split_once('-')?;
    let stream = if stream == "open" { None } else { Some(stream.parse().ok()?) };
    Some((stream, number.parse().ok()?))
}

struct Client {
    session: Session,
    posts: HashMap<Post, Sender<Reply>>,
    /// The stream for what answers nothing; of HTTP+SSE for everything.
    stream: Option<Sender<Reply>>,
    is_legacy: bool,
    /// Whether its streams can be taken up again: those of a session over Streamable HTTP.
    is_resumable: bool,
    told: VecDeque<Told>,
    next_event: u64,
    held: VecDeque<String>,
    heard: u64,
    /// Texts of this client that were no messages: they are answered with 400.
    invalid: Option<Post>,
}

/// All clients.
pub(super) struct Hub<'a> {
    stage: &'a Stage,
    started: Instant,
    ledger: Ledger,
    clients: HashMap<String, Client>,
    next: u64,
    random: SystemRandom,
}

impl<'a> Hub<'a> {
    pub(super) fn new(stage: &'a Stage) -> Hub<'a> {
        Hub {
            stage,
            started: Instant::now(),
            ledger: Ledger::default(),
            clients: HashMap::new(),
            next: 0,
            random: SystemRandom::new(),
        }
    }

    /// Until it is to stop.
    pub(super) fn run(mut self, events: &Receiver<Event>, stop: &Receiver<()>) -> Ledger {
        loop {
            let due = self.clients.values().filter_map(|client| client.session.next(self.stage)).min();
            let wake = due.map_or_else(never, |due| at(self.started + due));
            select! {
                recv(events) -> event => match event {
                    Ok(event) => self.event(event),
                    Err(_) => return self.ledger,
                },
                recv(wake) -> _ => {}
                recv(stop) -> _ => return self.ledger,
            }
            let (stage, now) = (self.stage, self.started.elapsed());
            self.clients.values_mut().for_each(|client| client.speak(stage, now));
        }
    }

    fn event(&mut self, event: Event) {
        let (reply, told) = match event {
            Event::Post { session, text, reply } => match self.post(session, &text, &reply) {
                Ok(()) => return,
                Err(told) => (reply, told),
            },
            Event::Listen { session, last, reply } => match self.listen(session, last.as_deref(), &reply) {
                Ok(()) => return,
                Err(told) => (reply, told),
            },
            Event::Delete { session, reply } => {
                let known = session.and_then(|session| self.clients.remove(&session));
                (reply, if known.is_some() { Reply::Accepted } else { UNKNOWN })
            }
        };
        // A connection that is gone needs no answer.
        let _ = reply.send(told);
    }

    fn post(&mut self, session: Option<String>, text: &[u8], reply: &Sender<Reply>) -> Result<(), Reply> {
        let text_member = |name| std::str::from_utf8(text).ok().and_then(|text| member(text, name));
        let params = text_member("params");
        let id = match session {
            Some(id) if self.clients.contains_key(&id) => id,
            Some(_) if !self.needs_session() => NONE.to_owned(),
            // "The server MAY terminate the session at any time, after which it MUST respond to requests containing that session ID with
            // HTTP 404 Not Found" (basic/transports, "Session Management")
            Some(_) => return Err(UNKNOWN),
            None => match text_member("method") {
                Some(method) if is(method, "initialize") => self.new_id()?,
                // How a client of both eras finds out what a server speaks.
                Some(method) if is(method, "server/discover") => NONE.to_owned(),
                // 2026-07-28 knows no sessions.
                Some(_) if is_modern(params) => NONE.to_owned(),
                // "Servers that require a session ID SHOULD respond to requests without an Mcp-Session-Id header (other than
                // initialization) with HTTP 400 Bad Request"
                _ if self.needs_session() => return Err(Reply::Refused(400, "Mcp-Session-Id is missing")),
                _ => NONE.to_owned(),
            },
        };
        let (stage, now, post) = (self.stage, self.started.elapsed(), self.next);
        self.next += 1;
        let client = self.clients.entry(id.clone()).or_insert_with(|| Client::new(stage, now, false));
        client.is_resumable = id != NONE;
        client.heard = post;
        if !client.is_legacy {
            client.posts.insert(post, reply.clone());
        }
        let heard = client.session.hear(stage, &mut self.ledger, text, post, now);
        client.invalid = Some(post).filter(|_| heard.is_invalid);
        let told = if client.is_legacy || heard.requests == 0 {
            client.posts.remove(&post);
            Reply::Accepted
        } else {
            Reply::Begin(heard.opens.then_some(id))
        };
        let _ = reply.send(told);
        self.forget_silent();
        Ok(())
    }

    fn listen(&mut self, session: Option<String>, last: Option<&str>, reply: &Sender<Reply>) -> Result<(), Reply> {
        let (stage, now) = (self.stage, self.started.elapsed());
        let is_legacy = session.is_none();
        let id = session.map_or_else(|| self.new_id(), Ok)?;
        if is_legacy {
            self.clients.insert(id.clone(), Client::new(stage, now, true));
        }
        let client = self.clients.get_mut(&id).ok_or(UNKNOWN)?;
        client.heard = self.next;
        let _ = reply.send(Reply::Begin(Some(id)));
        client.take_up(last.and_then(read_id), reply);
        self.forget_silent();
        Ok(())
    }

    /// Whether a request has to name its session: where the recording has a handshake.
    fn needs_session(&self) -> bool {
        self.stage.script().era() == Era::Legacy && self.stage.script().has("initialize")
    }

    /// "The session ID SHOULD be globally unique and cryptographically secure"
    fn new_id(&self) -> Result<String, Reply> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| Reply::Refused(500, "the system has no random numbers"))?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn forget_silent(&mut self) {
        if self.clients.len() > CLIENTS {
            let silent = self.clients.iter().min_by_key(|(_, client)| client.heard).map(|(id, _)| id.clone());
            silent.iter().for_each(|id| drop(self.clients.remove(id)));
        }
    }
}

const UNKNOWN: Reply = Reply::Refused(404, "no such session");

impl Client {
    fn new(stage: &Stage, now: Duration, is_legacy: bool) -> Client {
        Client {
            session: Session::new(stage, now),
            posts: HashMap::new(),
            stream: None,
            is_legacy,
            is_resumable: false,
            told: VecDeque::new(),
            next_event: 0,
            held: VecDeque::new(),
            heard: 0,
            invalid: None,
        }
    }

    /// Hands on what is to be said now.
    fn speak(&mut self, stage: &Stage, now: Duration) {
        for said in self.session.say(stage, now) {
            self.hand_on(stage, said);
        }
        for note in self.session.notes.drain(..) {
            eprintln!("mcptap: {}", safe::visible(&note));
        }
    }

    fn hand_on(&mut self, stage: &Stage, Said { post, text, is_event, code }: Said) {
        let own = post.filter(|post| self.posts.contains_key(post));
        // What belongs to no request goes with one that is open, where there is no other stream: a question that is never heard holds everything up.
        let own = own.or_else(|| self.posts.keys().min().copied().filter(|_| post.is_none() && self.stream.is_none()));
        match (own, text) {
            (Some(post), Some(text)) => {
                let status = self.status(stage, post, code);
                let id = self.note(Some(post), &text);
                self.tell(post, Reply::Message { text, status, is_event, id });
            }
            (Some(own), None) => {
                self.tell(own, Reply::End);
                self.posts.remove(&own);
            }
            (None, Some(text)) if post.is_none() || self.is_legacy => self.broadcast(text),
            // Whoever waited for it is gone, or it needs no answer.
            (None, _) => {}
        }
    }

    fn tell(&mut self, post: Post, reply: Reply) {
        let is_gone = self.posts.get(&post).is_some_and(|own| own.send(reply).is_err());
        // Whoever may come back for it is waited for.
        if is_gone && !self.is_resumable {
            self.posts.remove(&post);
            self.session.leave(post);
        }
    }

    /// Keeps an event, and says which id it has.
    fn note(&mut self, stream: Option<Post>, text: &str) -> Option<String> {
        if !self.is_resumable {
            return None;
        }
        self.next_event += 1;
        let told = Told { stream, number: self.next_event, text: text.to_owned() };
        let id = told.id();
        if self.told.len() >= KEPT {
            self.told.pop_front();
        }
        self.told.push_back(told);
        Some(id)
    }

    /// A client opens a stream: one that broke, behind the event that it read last, or a new one for what answers nothing.
    fn take_up(&mut self, last: Option<(Option<Post>, u64)>, reply: &Sender<Reply>) {
        let stream = last.and_then(|(stream, _)| stream);
        if let Some((_, last)) = last {
            // "the server MUST NOT replay messages that would have been delivered on a different stream"
            let missed = self.told.iter().filter(|told| told.stream == stream && told.number > last);
            missed.for_each(|told| drop(reply.try_send(told.reply())));
        }
        match stream {
            Some(post) => match self.posts.get_mut(&post) {
                Some(own) => *own = reply.clone(),
                None => drop(reply.try_send(Reply::End)),
            },
            // A client that opens another one has lost the first, or will read both.
            None => {
                self.stream = Some(reply.clone());
                std::mem::take(&mut self.held).into_iter().for_each(|text| self.broadcast(text));
            }
        }
    }

    /// Says it on the stream, or holds it until there is one.
    fn broadcast(&mut self, text: String) {
        let id = self.stream.is_some().then(|| self.note(None, &text)).flatten();
        let reply = Reply::Message { text: text.clone(), status: 200, is_event: true, id };
        let text = match self.stream.as_ref().map(|stream| stream.try_send(reply)) {
            Some(Ok(())) => return,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => {
                // Nobody reads it: a new one may come.
                self.stream = None;
                text
            }
            None => text,
        };
        if self.held.len() >= HELD {
            self.held.pop_front();
        }
        self.held.push_back(text);
    }

    /// The status of a response with this answer alone. In 2026-07-28 it says what the error says (basic/transports/streamable-http).
    fn status(&self, stage: &Stage, post: Post, code: Option<i64>) -> u16 {
        match code {
            // "If the server cannot accept the input, it MUST return an HTTP error status code (e.g., 400 Bad Request)"
            Some(_) if self.invalid == Some(post) => 400,
            Some(METHOD_NOT_FOUND) if self.session.era(stage) == Era::Modern => 404,
            Some(-32022..=-32020) if self.session.era(stage) == Era::Modern => 400,
            _ => 200,
        }
    }
}
