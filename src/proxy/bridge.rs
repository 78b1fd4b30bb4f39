//! A bridge from STDIO to a server at a URL: the client runs it as if it were the server.
//!
//! ```text
//!   client ── stdin ──► messages ─► POST ────────────────────────► server
//!   client ◄─ stdout ── messages ◄─ responses, streams of events ◄─ server
//! ```
//!
//! The transport of replays carries the messages. It knows sessions, redirects, resumption and
//! both HTTP transports. Texts pass as the client wrote them. The bridge adds the header fields
//! that HTTP needs. If the server forgets the session, the bridge repeats the client's handshake.
//! A request whose response failed gets an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, bounded};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::decode::json::{member, string};
use crate::decode::jsonrpc::{Envelope, JsonRpcText, Kind};
use crate::http::connect::ConnectOptions;
use crate::mcp::meta;
use crate::replay::messages::{self, PARSE_ERROR};
use crate::replay::translate::headers;
use crate::replay::transport::http::{Http, Mode};
use crate::replay::transport::{Arrival, Failure, FailureKind, Outgoing, Transport};
use crate::source::tape::Tape;
use crate::view::secrets;

/// The most lines of the client that wait to be sent. A client that sends more waits itself.
const WAITING: usize = 64;

/// Bytes of requests without a response from which on no more lines are taken.
const OPEN_BYTES: usize = 64 << 20;

/// The most bytes of a line. It is the limit of replays for a body.
const LINE: u64 = 128 << 20;

/// The time for which requests are still answered after the client closed its side.
const GRACE: Duration = Duration::from_secs(10);

/// The longest sleep. What happens before it wakes the bridge.
const SLEEP: Duration = Duration::from_secs(60);

/// The code of errors that the bridge makes. JSON-RPC 2.0 section 5.1 reserves it for
/// "implementation-defined server-errors".
const FAILED: i64 = -32000;

/// The id of a repeated handshake.
const REOPENING: &str = "\"mcptap-session\"";

/// Why the bridge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closed its side. Its last requests are still answered.
    Left,
    /// A signal arrived.
    Stopped,
}

/// What the client sends, and the end.
struct FromClient {
    lines: Receiver<Vec<u8>>,
    end: Receiver<End>,
}

/// Wakes the thread that waits for the server. The transport may be exchanged for another.
type Waker = Arc<Mutex<Arc<UnixStream>>>;

/// Serves the client on standard input and output. A readable `stop` ends that, and so does the
/// client when it closes its side.
pub fn bridge(url: &str, options: &ConnectOptions, tape: Tape, stop: &OwnedFd) -> Result<()> {
    let mut http = Box::new(Http::open(url, Mode::Streamable, options, tape.clone())?);
    http.sleep_at_most(SLEEP);
    let waker = Arc::new(Mutex::new(http.waker()));
    let client = listen(&waker, stop.try_clone().context("cannot duplicate a file descriptor")?)?;
    let mut bridge = Bridge {
        url,
        options,
        tape,
        http,
        waker,
        mode: Mode::Streamable,
        pending: BTreeMap::new(),
        next: 1,
        revision: None,
        handshake: None,
        reopening: None,
        held: Vec::new(),
        repeated: BTreeSet::new(),
    };
    bridge.run(&client);
    bridge.http.close();
    Ok(())
}

/// Reads the client's lines on a thread, and waits for `stop` on another.
fn listen(waker: &Waker, stop: OwnedFd) -> Result<FromClient> {
    let (send, lines) = bounded(WAITING);
    let (send_end, end) = bounded(2);
    let wake = |waker: &Waker| {
        let waker = waker.lock().unwrap_or_else(PoisonError::into_inner);
        // A full socket wakes as well.
        let _ = (&**waker).write(&[0]);
    };
    let (stop_sender, stop_waker) = (send_end.clone(), Arc::clone(waker));
    let wait = move || {
        let mut watched = [PollFd::new(&stop, PollFlags::IN)];
        while poll(&mut watched, None).is_err() {}
        let _ = stop_sender.send(End::Stopped);
        wake(&stop_waker);
    };
    let waker = Arc::clone(waker);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match io::Read::take(&mut input, LINE).read_until(b'\n', &mut line) {
                Ok(1..) if send.send(line).is_ok() => wake(&waker),
                _ => break,
            }
        }
        let _ = send_end.send(End::Left);
        wake(&waker);
    };
    for (name, run) in [("stop", Box::new(wait) as Box<dyn FnOnce() + Send>), ("stdin", Box::new(read))] {
        thread::Builder::new().name(name.to_owned()).spawn(run).context("cannot start a thread")?;
    }
    Ok(FromClient { lines, end })
}

/// A request that waits for its response.
struct Unanswered {
    /// Its id as the client wrote it.
    id: String,
    text: String,
}

struct Bridge<'o> {
    url: &'o str,
    options: &'o ConnectOptions,
    tape: Tape,
    http: Box<Http>,
    waker: Waker,
    mode: Mode,
    /// Requests by the number that the transport knows them by.
    pending: BTreeMap<u64, Unanswered>,
    next: u64,
    /// The revision that the handshake agreed on.
    revision: Option<String>,
    /// The client's `initialize`.
    handshake: Option<String>,
    /// The number of a repeated handshake. Until it is answered, messages are held.
    reopening: Option<u64>,
    held: Vec<String>,
    /// Ids of requests that were sent again in a new session. A second refusal is their own.
    repeated: BTreeSet<String>,
}

impl Bridge<'_> {
    fn run(&mut self, client: &FromClient) {
        let mut ends: Option<Instant> = None;
        loop {
            match client.end.try_recv() {
                Ok(End::Stopped) => return,
                Ok(End::Left) => ends = Some(Instant::now() + GRACE),
                Err(_) => {}
            }
            let mut open = self.open_bytes();
            while open < OPEN_BYTES
                && let Ok(line) = client.lines.try_recv()
            {
                open += line.len();
                self.take_line(&line);
            }
            // All lines of a client that left are in the channel, or were taken.
            let is_idle = self.pending.is_empty() && client.lines.is_empty();
            if ends.is_some_and(|until| is_idle || Instant::now() >= until) {
                return;
            }
            while let Some(arrival) = self.http.arrived() {
                if self.take_arrival(arrival).is_err() {
                    // The client is gone.
                    return;
                }
            }
            let can_take = !client.lines.is_empty() && self.open_bytes() < OPEN_BYTES;
            if client.end.is_empty() && !can_take && ends.is_none_or(|_| !self.pending.is_empty()) {
                self.http.wait(ends.unwrap_or_else(|| Instant::now() + SLEEP));
            }
        }
    }

    /// Bytes of the requests without a response.
    fn open_bytes(&self) -> usize {
        let pending = self.pending.values().map(|request| request.text.len());
        pending.chain(self.held.iter().map(String::len)).sum()
    }

    fn take_line(&mut self, line: &[u8]) {
        let Some(text) = std::str::from_utf8(line).ok().map(str::trim) else {
            return self.answer_unreadable();
        };
        if text.is_empty() {
            return;
        }
        match messages::parse(text.as_bytes()) {
            JsonRpcText::Single(envelope) => self.send(text, &envelope),
            // A server may answer the members one by one.
            JsonRpcText::Batch(members) => {
                for (range, envelope) in members {
                    match (text.get(range), envelope) {
                        (Some(text), Ok(envelope)) => self.send(text, &envelope),
                        _ => self.answer_unreadable(),
                    }
                }
            }
            JsonRpcText::Invalid(_) => self.answer_unreadable(),
        }
    }

    fn answer_unreadable(&self) {
        let error =
            format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{PARSE_ERROR},"message":"not JSON-RPC"}}}}"#);
        // Whether the client still reads shows at the next arrival.
        let _ = print(error);
    }

    fn send(&mut self, text: &str, envelope: &Envelope) {
        if self.reopening.is_some() {
            return self.held.push(text.to_owned());
        }
        let id = messages::slice(text.as_bytes(), &envelope.id);
        let method = envelope.method_name.as_deref().unwrap_or_default();
        let params = messages::slice(text.as_bytes(), &envelope.params);
        let stated = params.and_then(|params| string(member(member(params, "_meta")?, meta::VERSION)?));
        let revision = stated.as_deref().or(self.revision.as_deref());
        // Before the handshake is answered, no revision is agreed on.
        let revision = revision.filter(|_| method != "initialize");
        let mut message =
            Outgoing { text: text.to_owned(), fields: headers(revision, method, params), ..Outgoing::default() };
        match (envelope.kind, id) {
            (Some(Kind::Request), Some(id)) => {
                message.id = Some(self.next);
                message.written_id = Some(id.to_owned());
                self.pending.insert(self.next, Unanswered { id: id.to_owned(), text: text.to_owned() });
                self.next += 1;
                if method == "initialize" {
                    self.handshake = Some(text.to_owned());
                }
            }
            (Some(Kind::Notification), _) => message.in_order = true,
            _ => {}
        }
        self.http.send(message);
        if method == "notifications/initialized" {
            self.http.opened(&self.revision.clone().unwrap_or_default());
        }
    }

    fn take_arrival(&mut self, arrival: Arrival) -> io::Result<()> {
        match arrival {
            Arrival::Text(text, _) => self.take_text(&text),
            Arrival::Failed(Some(number), failure) => self.take_failure(number, &failure),
            Arrival::Failed(None, failure) => {
                note(&failure.why);
                Ok(())
            }
            Arrival::Closed(failure) => {
                note(&failure.why);
                let open: Vec<u64> = self.pending.keys().copied().collect();
                open.into_iter().try_for_each(|number| self.fail(number, &failure.why))
            }
        }
    }

    fn take_text(&mut self, text: &[u8]) -> io::Result<()> {
        let answered = match messages::parse(text) {
            JsonRpcText::Single(envelope) => vec![(0..text.len(), Ok(envelope))],
            JsonRpcText::Batch(members) => members,
            // "The server MUST NOT write anything to its stdout that is not a valid MCP message."
            JsonRpcText::Invalid(_) => {
                note("the server sent a text that is no message");
                return Ok(());
            }
        };
        let mut is_own = false;
        for (range, envelope) in answered {
            let Ok(envelope) = envelope else { continue };
            let text = text.get(range).unwrap_or_default();
            if !matches!(envelope.kind, Some(Kind::Response | Kind::Error)) {
                continue;
            }
            let Some(id) = messages::slice(text, &envelope.id) else { continue };
            let Some(number) = self.pending.iter().find(|(_, request)| request.id == id).map(|(number, _)| *number)
            else {
                continue;
            };
            let request = self.pending.remove(&number);
            if let Some(request) = &request {
                self.repeated.remove(&request.id);
            }
            if self.reopening == Some(number) {
                is_own = true;
                self.reopened();
            } else if request.is_some_and(|request| Some(request.text) == self.handshake) {
                let result =
                    messages::slice(text, &envelope.result).and_then(|result| member(result, "protocolVersion"));
                self.revision = result.and_then(string).map(|revision| revision.into_owned());
            }
        }
        if is_own { Ok(()) } else { print(String::from_utf8_lossy(text).into_owned()) }
    }

    fn take_failure(&mut self, number: u64, failure: &Failure) -> io::Result<()> {
        match failure.kind {
            FailureKind::Transport if self.mode == Mode::Streamable => self.use_old_transport(number, failure),
            FailureKind::Session if self.reopening.is_none() && self.is_first_refusal(number) => {
                if self.reopen(number) { Ok(()) } else { self.fail(number, &failure.why) }
            }
            // Requests that were sent before the server forgot the session.
            FailureKind::Session if self.reopening.is_some_and(|own| own != number) => {
                self.held.extend(self.pending.remove(&number).map(|request| request.text));
                Ok(())
            }
            _ => {
                note(&failure.why);
                if self.reopening == Some(number) {
                    self.reopening = None;
                    self.pending.remove(&number);
                    let held = std::mem::take(&mut self.held);
                    return held.iter().try_for_each(|text| self.fail_text(text, &failure.why));
                }
                self.fail(number, &failure.why)
            }
        }
    }

    /// Opens HTTP+SSE. "If it fails with … 404 Not Found, or 405 Method Not Allowed … issue a GET
    /// request to the server URL" (2025-11-25 basic/transports, "Backwards Compatibility").
    fn use_old_transport(&mut self, number: u64, failure: &Failure) -> io::Result<()> {
        match Http::open(self.url, Mode::Sse, self.options, self.tape.clone()) {
            Ok(mut http) => {
                http.sleep_at_most(SLEEP);
                *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = http.waker();
                (self.http, self.mode) = (Box::new(http), Mode::Sse);
                let requests = std::mem::take(&mut self.pending);
                requests.values().for_each(|request| self.take_line(request.text.as_bytes()));
                Ok(())
            }
            Err(error) => {
                note(&format!("{}; as HTTP+SSE: {error:#}", failure.why));
                self.fail(number, &failure.why)
            }
        }
    }

    /// Whether a session can be opened again for a request, which is so once.
    fn is_first_refusal(&mut self, number: u64) -> bool {
        let Some(request) = self.pending.get(&number).filter(|_| self.handshake.is_some()) else { return false };
        self.repeated.insert(request.id.clone())
    }

    /// Repeats the handshake, and then the request of this number. False if there is no handshake.
    fn reopen(&mut self, number: u64) -> bool {
        let handshake = self.handshake.as_deref().unwrap_or("{}");
        let Ok(Value::Object(mut members)) = serde_json::from_str(handshake) else { return false };
        note("the server no longer has the session; a new one is opened");
        self.held.extend(self.pending.remove(&number).map(|request| request.text));
        self.http.forget_session();
        members.insert("id".to_owned(), Value::from(REOPENING.trim_matches('"')));
        let text = Value::Object(members).to_string();
        let own = self.next;
        self.next += 1;
        self.reopening = Some(own);
        self.pending.insert(own, Unanswered { id: REOPENING.to_owned(), text: text.clone() });
        let written_id = Some(REOPENING.to_owned());
        self.http.send(Outgoing { text, id: Some(own), written_id, ..Outgoing::default() });
        true
    }

    /// The repeated handshake was answered.
    fn reopened(&mut self) {
        self.reopening = None;
        let held = std::mem::take(&mut self.held);
        self.take_line(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        held.iter().for_each(|text| self.take_line(text.as_bytes()));
    }

    fn fail(&mut self, number: u64, why: &str) -> io::Result<()> {
        let Some(request) = self.pending.remove(&number) else { return Ok(()) };
        self.repeated.remove(&request.id);
        print(error(&request.id, why))
    }

    fn fail_text(&self, text: &str, why: &str) -> io::Result<()> {
        let JsonRpcText::Single(envelope) = messages::parse(text.as_bytes()) else { return Ok(()) };
        let id = messages::slice(text.as_bytes(), &envelope.id).filter(|_| envelope.kind == Some(Kind::Request));
        id.map_or(Ok(()), |id| print(error(id, why)))
    }
}

/// An error in place of a response.
fn error(id: &str, why: &str) -> String {
    let message = Value::from(format!("mcptap: {}", secrets::shown(why)));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{FAILED},"message":{message}}}}}"#)
}

/// Writes a message to the client.
fn print(text: String) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&messages::line(text))?;
    out.flush()
}

fn note(why: &str) {
    eprintln!("mcptap: {}", secrets::shown(why));
}
