//! One connection: requests in, responses out.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use serde_json::json;

use super::guard::Guard;
use super::hub::{Event, Reply};
use super::request::{Failure, Reader, Request};
use crate::listen;
use crate::mock::handshake::INVALID_REQUEST;

/// How long a connection may lie idle.
const IDLE: Duration = Duration::from_secs(120);

/// How long a request may take to come, once it has begun.
const WHOLE: Duration = Duration::from_secs(30);

/// How long a client may take to read what it is sent.
const UNREAD: Duration = Duration::from_secs(30);

/// How often a stream on which nothing is said shows that it is alive, and learns whether its reader is (WHATWG HTML section 9.2.7: "a comment
/// line … every 15 seconds or so").
const SILENCE: Duration = Duration::from_secs(15);

/// Events on their way to the reader of a stream that is open for long. One that is so far behind does not read.
const BEHIND: usize = 4_096;

/// The methods that are known.
const METHODS: &str = "GET, POST, DELETE";

/// A connection with a deadline for each request.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    /// When the request that is being read has to be there.
    until: Option<Instant>,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match self.until {
            None => IDLE,
            Some(until) => until.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?,
        };
        // A timeout of nothing means none at all.
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let count = self.stream.read(buffer)?;
        self.until.get_or_insert_with(|| Instant::now() + WHOLE);
        Ok(count)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Serves a connection until it ends.
pub(super) fn serve(stream: TcpStream, events: &Sender<Event>, guard: &Guard) {
    // Answers are written whole: waiting for more of them helps nobody.
    let _ = stream.set_nodelay(true);
    let _ = stream.set_write_timeout(Some(UNREAD));
    let mut reader = Reader::new(Timed { stream, until: None });
    loop {
        let until = reader.has_more().then(|| Instant::now() + WHOLE);
        reader.stream.until = until;
        match reader.next() {
            Ok(request) => {
                let mut answering = Answering { out: &mut reader.stream, request: &request, page: None };
                let keeps = request.keeps_alive();
                if answering.answer(events, guard).is_err() || !keeps {
                    return;
                }
            }
            Err(Failure::Refused(status, why)) => {
                let body = format!("{why}\n");
                let head = head(status, &[("Content-Type", "text/plain"), ("Connection", "close")], Some(body.len()));
                if reader.stream.write_all(format!("{head}{body}").as_bytes()).is_ok() {
                    listen::drain(&reader.stream.stream);
                }
                return;
            }
            Err(Failure::Gone) => return,
        }
    }
}

/// The head of a response; without a length the body is chunks, or lasts until the end of the connection.
fn head(status: u16, fields: &[(&str, &str)], length: Option<usize>) -> String {
    let reason = match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    };
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status} {reason}\r\n{fields}{length}\r\n")
}

/// A request that is being answered.
struct Answering<'a> {
    out: &'a mut Timed,
    request: &'a Request,
    /// The origin of the page that asks, once it is known that it may.
    page: Option<&'a str>,
}

impl<'a> Answering<'a> {
    fn answer(&mut self, events: &Sender<Event>, guard: &Guard) -> io::Result<()> {
        let host = self.request.field("host").unwrap_or_default();
        // RFC 9110 section 15.5.20: 421 "indicates that the request was directed at a server that is unable or unwilling to produce an
        // authoritative response for the target URI".
        if !guard.allows_host(host) && self.request.is_1_1 {
            return self.refuse(421, "this server does not go by that name: --allow-host NAME lets it");
        }
        match self.request.field("origin") {
            Some(origin) if guard.allows_origin(origin, host) => self.page = Some(origin),
            // "If the Origin header is present and invalid, servers MUST respond with HTTP 403 Forbidden"
            Some(_) => return self.refuse(403, "pages of this origin may not ask"),
            None => {}
        }
        if self.request.method == "OPTIONS" && self.page.is_some() {
            return self.respond(204, &[], "");
        }
        let revision = self.request.field("mcp-protocol-version");
        if revision.is_some_and(|revision| !guard.allows_revision(revision)) {
            return self.refuse(400, "no such MCP-Protocol-Version");
        }
        let (path, query) = place(&self.request.target);
        let session = self.request.field("mcp-session-id").map(str::to_owned);
        match (self.request.method.as_str(), path) {
            (_, path) if path.starts_with("/.well-known/") => self.refuse(404, "nothing is here"),
            ("POST", "/sse") => self.refuse(405, "GET opens the stream of HTTP+SSE"),
            ("POST", "/messages") => {
                let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="));
                match id {
                    Some(id) => self.post(events, Some(id.to_owned())),
                    None => self.refuse(400, "sessionId is missing"),
                }
            }
            ("POST", _) => self.post(events, session),
            ("GET", "/sse") => self.listen(events, None, None),
            // "The server MUST either return Content-Type: text/event-stream …, or else return HTTP 405 Method Not Allowed"
            ("GET", _) if session.is_none() => {
                self.refuse(405, "a stream belongs to a session: Mcp-Session-Id is missing")
            }
            ("GET", _) => self.listen(events, session, self.request.field("last-event-id").map(str::to_owned)),
            ("DELETE", _) => {
                let (reply, told) = bounded(1);
                let _ = events.send(Event::Delete { session, reply });
                match told.recv() {
                    Ok(Reply::Refused(status, why)) => self.refuse(status, why),
                    _ => self.respond(200, &[], ""),
                }
            }
            _ => self.refuse(405, "POST, GET and DELETE are known here"),
        }
    }

    fn accepts(&self, kind: &str) -> bool {
        let family = kind.split('/').next().unwrap_or_default();
        self.request.field("accept").is_none_or(|accept| {
            let ranges = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
            ranges.into_iter().any(|range| {
                range == "*/*" || range.eq_ignore_ascii_case(kind) || range.strip_suffix("/*") == Some(family)
            })
        })
    }

    fn post(&mut self, events: &Sender<Event>, session: Option<String>) -> io::Result<()> {
        let kind = self.request.field("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
        // A page may send text/plain to any origin without being asked first; application/json it may not.
        if !kind.eq_ignore_ascii_case("application/json") {
            return self.refuse(415, "Content-Type has to be application/json");
        }
        let (json, stream) = (self.accepts("application/json"), self.accepts("text/event-stream"));
        if !json && !stream {
            return self.refuse(406, "Accept has to list application/json and text/event-stream");
        }
        // One client waits for it, and no more comes than one recorded turn has.
        let (reply, told) = unbounded();
        let _ = events.send(Event::Post { session, text: self.request.body.clone(), reply });
        match told.recv() {
            Ok(Reply::Begin(session)) => self.messages(&told, session.as_deref(), json, stream),
            Ok(Reply::Refused(status, why)) => self.refuse(status, why),
            Ok(Reply::Accepted) => self.respond(202, &[], ""),
            Ok(Reply::Message { .. } | Reply::End) | Err(_) => self.refuse(503, "the server is ending"),
        }
    }

    /// What answers a POST: one JSON text, or a stream where it was one in the recording or more than one message is to be told.
    fn messages(&mut self, told: &Receiver<Reply>, session: Option<&str>, json: bool, stream: bool) -> io::Result<()> {
        let session: Vec<(&str, &str)> = session.map(|id| ("Mcp-Session-Id", id)).into_iter().collect();
        let (mut held, mut events): (Option<(String, u16, _)>, _) = (None, Events { is_open: false });
        loop {
            match told.recv_timeout(SILENCE) {
                Ok(Reply::Message { text, status, is_event, id }) => {
                    if stream && (events.is_open || !json || is_event && status == 200 || held.is_some()) {
                        events.open(self, &session)?;
                        if let Some((held, _, id)) = held.take() {
                            events.say(self, &held, id)?;
                        }
                        events.say(self, &text, id)?;
                    } else {
                        // Without a stream what comes before the answer cannot be told.
                        held = Some((text, status, id));
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    return match held.take() {
                        Some((text, status, _)) if !events.is_open => {
                            let fields = [&[("Content-Type", "application/json")][..], &session].concat();
                            self.respond(status, &fields, &text)
                        }
                        _ if stream => {
                            events.open(self, &session)?;
                            events.close(self)
                        }
                        _ => self.respond(202, &session, ""),
                    };
                }
                Err(RecvTimeoutError::Timeout) if stream => {
                    events.open(self, &session)?;
                    events.breathe(self)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// A stream for what answers nothing; of HTTP+SSE for everything.
    fn listen(&mut self, hub: &Sender<Event>, session: Option<String>, last: Option<String>) -> io::Result<()> {
        if !self.accepts("text/event-stream") {
            return self.refuse(406, "Accept has to list text/event-stream");
        }
        let is_legacy = session.is_none();
        let (reply, told) = bounded(BEHIND);
        let _ = hub.send(Event::Listen { session, last, reply });
        let id = match told.recv() {
            Ok(Reply::Begin(Some(id))) => id,
            Ok(Reply::Refused(status, why)) => return self.refuse(status, why),
            _ => return self.refuse(503, "the server is ending"),
        };
        let mut events = Events { is_open: false };
        events.open(self, &[])?;
        if is_legacy {
            // "the server MUST send an endpoint event containing a URI for the client to use for sending messages" (2024-11-05)
            events.write(self, &format!("event: endpoint\ndata: /messages?sessionId={id}\n\n"))?;
        }
        loop {
            match told.recv_timeout(SILENCE) {
                Ok(Reply::Message { text, id, .. }) => events.say(self, &text, id)?,
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return events.close(self),
                Err(RecvTimeoutError::Timeout) => events.breathe(self)?,
            }
        }
    }

    /// What lets a page read the response that was not loaded from here (WHATWG Fetch section 3.3, "CORS protocol"): the Inspector is one. Only origins that
    /// passed the check of `Origin` get it.
    fn shared(&self) -> Vec<(&'a str, &'a str)> {
        let Some(page) = self.page else { return Vec::new() };
        let mut fields = vec![("Access-Control-Allow-Origin", page), ("Vary", "Origin")];
        if self.request.method == "OPTIONS" {
            // What it will send: `*` would not stand for `Authorization`.
            let wanted = self.request.field("access-control-request-headers");
            fields.extend(wanted.map(|wanted| ("Access-Control-Allow-Headers", wanted)));
            fields.push(("Access-Control-Allow-Methods", METHODS));
        } else {
            fields.push(("Access-Control-Expose-Headers", "Mcp-Session-Id"));
        }
        fields
    }

    fn refuse(&mut self, status: u16, why: &str) -> io::Result<()> {
        // "The HTTP response body MAY comprise a JSON-RPC error response that has no id"
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": INVALID_REQUEST, "message": why}});
        self.respond(status, &[("Content-Type", "application/json")], &error.to_string())
    }

    fn respond(&mut self, status: u16, fields: &[(&str, &str)], body: &str) -> io::Result<()> {
        let mut fields = fields.to_vec();
        if !self.request.keeps_alive() {
            fields.push(("Connection", "close"));
        }
        if status == 405 {
            fields.push(("Allow", METHODS));
        }
        fields.extend(self.shared());
        // RFC 9110 section 8.6: no Content-Length "in any response with a status code of … 204 (No Content)".
        let mut response = head(status, &fields, Some(body.len()).filter(|_| status != 204));
        // RFC 9110 section 9.3.2: "The HEAD method is identical to GET except that the server MUST NOT send content in the response."
        if self.request.method != "HEAD" {
            response.push_str(body);
        }
        self.out.write_all(response.as_bytes())
    }
}

/// Path and query of a request target, also of one in absolute form (RFC 9112 section 3.2.2: "a server MUST accept the absolute-form").
fn place(target: &str) -> (&str, &str) {
    let local = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    local.split_once('?').unwrap_or((local, ""))
}

/// The stream of events of a response.
struct Events {
    is_open: bool,
}

impl Events {
    fn open(&mut self, answering: &mut Answering<'_>, session: &[(&str, &str)]) -> io::Result<()> {
        if self.is_open {
            return Ok(());
        }
        self.is_open = true;
        let framing = match answering.request.is_1_1 {
            true if answering.request.keeps_alive() => &[("Transfer-Encoding", "chunked")][..],
            true => &[("Transfer-Encoding", "chunked"), ("Connection", "close")],
            false => &[("Connection", "close")],
        };
        let kind = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")];
        let fields = [&kind[..], framing, session, &answering.shared()].concat();
        answering.out.write_all(head(200, &fields, None).as_bytes())
    }

    /// A message as an event: a data line for each of its lines.
    fn say(&mut self, answering: &mut Answering<'_>, text: &str, id: Option<String>) -> io::Result<()> {
        // WHATWG HTML section 9.2.6: a line ends with CR LF, LF or CR. Between members of a message they mean nothing.
        let data: String = text.split(['\r', '\n']).map(|line| format!("data: {line}\n")).collect();
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.write(answering, &format!("event: message\n{id}{data}\n"))
    }

    fn breathe(&mut self, answering: &mut Answering<'_>) -> io::Result<()> {
        self.write(answering, ": still here\n\n")
    }

    fn write(&mut self, answering: &mut Answering<'_>, text: &str) -> io::Result<()> {
        let piece = match answering.request.is_1_1 {
            true => format!("{:x}\r\n{text}\r\n", text.len()),
            false => text.to_owned(),
        };
        answering.out.write_all(piece.as_bytes())
    }

    fn close(&mut self, answering: &mut Answering<'_>) -> io::Result<()> {
        match answering.request.is_1_1 {
            true => answering.out.write_all(b"0\r\n\r\n"),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}
