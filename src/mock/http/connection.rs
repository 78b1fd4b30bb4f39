//! One connection of a client: requests in, responses out.

use std::io::{self, Write};
use std::mem;
use std::net::TcpStream;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use serde_json::json;

use super::guard::Guard;
use super::hub::{HubReply, HubRequest};
use crate::decode::uri;
use crate::http::connection;
use crate::http::listen::is_own_name;
use crate::http::requests::Request;
use crate::http::response::head;
use crate::http::slots::Slot;
use crate::replay::messages::INVALID_REQUEST;

/// Time without events after which a stream gets a comment. It keeps proxies from closing the
/// stream, and shows whether the client is still there (WHATWG HTML section 9.2.7: "a comment line
/// … every 15 seconds or so").
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The most events that wait for the reader of a long stream. A client that is so far behind
/// has stopped reading.
const MAX_UNREAD: usize = 4_096;

/// The methods that this server supports.
const METHODS: &str = "GET, POST, DELETE";

/// Serves a connection until it ends.
pub(super) fn serve(slot: &Slot, hub: &Sender<HubRequest>, guard: &Guard) {
    connection::serve(slot, "", session_names, |request| {
        let mut response = ResponseWriter { slot, out: slot.stream(), request, page: None, is_open: false };
        response.answer(hub, guard)
    });
}

/// The names of sessions in a request, one for each transport.
fn session_names(request: &Request) -> Vec<&str> {
    let (_, query) = request.target().split_once('?').unwrap_or_default();
    request.field("mcp-session-id").into_iter().chain(legacy_session(query)).collect()
}

/// The session in the address that an HTTP+SSE stream announced.
fn legacy_session(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

/// A request and the response that is being written.
struct ResponseWriter<'a> {
    slot: &'a Slot,
    out: &'a TcpStream,
    request: &'a Request,
    /// The origin of the web page that sent the request, if that origin is allowed.
    page: Option<&'a str>,
    /// The response is an event stream whose head is written.
    is_open: bool,
}

impl<'a> ResponseWriter<'a> {
    fn answer(&mut self, hub: &Sender<HubRequest>, guard: &Guard) -> io::Result<()> {
        let host = self.request.field("host").unwrap_or_default();
        // RFC 9110 section 15.5.20: 421 "indicates that the request was directed at a server that
        // is unable or unwilling to produce an authoritative response for the target URI".
        if !is_own_name(host, &guard.names) && self.request.is_1_1() {
            return self.refuse(
                421,
                "the Host field does not name this server; start it with --allow-host NAME to allow the name",
            );
        }
        match self.request.field("origin") {
            Some(origin) if guard.allows_origin(origin, host) => self.page = Some(origin),
            // "If the Origin header is present and invalid, servers MUST respond with HTTP 403
            // Forbidden"
            Some(_) => return self.refuse(403, "web pages of this origin are not allowed"),
            None => {}
        }
        if self.request.method() == "OPTIONS" && self.page.is_some() {
            return self.respond(204, &[], "");
        }
        let revision = self.request.field("mcp-protocol-version");
        if revision.is_some_and(|revision| !guard.allows_revision(revision)) {
            return self.refuse(400, "unknown MCP-Protocol-Version");
        }
        // "a server MUST accept the absolute-form" (RFC 9112 section 3.2.2)
        let target = uri::origin_form(self.request.target());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let session = self.request.field("mcp-session-id").map(str::to_owned);
        match (self.request.method(), path) {
            (_, path) if path.starts_with("/.well-known/") => self.refuse(404, "not found"),
            ("POST", "/sse") => self.refuse(405, "use GET to open the HTTP+SSE stream"),
            ("POST", "/messages") => match legacy_session(query) {
                Some(id) => self.post(hub, Some(id.to_owned())),
                None => self.refuse(400, "sessionId is missing"),
            },
            ("POST", _) => self.post(hub, session),
            ("GET", "/sse") => self.listen(hub, None, None),
            // "The server MUST either return Content-Type: text/event-stream …, or else return HTTP
            // 405 Method Not Allowed"
            ("GET", _) if session.is_none() => {
                self.refuse(405, "Mcp-Session-Id is missing: a stream belongs to a session")
            }
            ("GET", _) => self.listen(hub, session, self.request.field("last-event-id").map(str::to_owned)),
            ("DELETE", _) => {
                let (reply, replies) = bounded(1);
                session.iter().for_each(|session| self.slot.session_ends(session));
                let _ = hub.send(HubRequest::Delete { session, reply });
                match replies.recv() {
                    Ok(HubReply::Refused(status, why)) => self.refuse(status, why),
                    _ => self.respond(200, &[], ""),
                }
            }
            _ => self.refuse(405, "only POST, GET and DELETE are supported"),
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

    fn post(&mut self, hub: &Sender<HubRequest>, session: Option<String>) -> io::Result<()> {
        let kind = self.request.field("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
        // A web page may send text/plain to any origin without a CORS preflight, but not
        // application/json.
        if !kind.eq_ignore_ascii_case("application/json") {
            return self.refuse(415, "Content-Type must be application/json");
        }
        let (json, stream) = (self.accepts("application/json"), self.accepts("text/event-stream"));
        if !json && !stream {
            return self.refuse(406, "Accept must list application/json and text/event-stream");
        }
        // Unbounded, because a turn of the recording has only so many messages and a client waits
        // for them.
        let (reply, replies) = unbounded();
        let _ = hub.send(HubRequest::Post { session, text: self.request.body.clone(), reply });
        match replies.recv() {
            Ok(HubReply::Begin(session)) => self.messages(&replies, session.as_deref(), json, stream),
            Ok(HubReply::Refused(status, why)) => self.refuse(status, why),
            Ok(HubReply::Accepted) => self.respond(202, &[], ""),
            Ok(HubReply::Message { .. } | HubReply::End) | Err(_) => self.refuse(503, "the server is shutting down"),
        }
    }

    /// Writes the response to a POST. It is one JSON text, unless the recorded response was an
    /// event stream or there is more than one message.
    fn messages(
        &mut self,
        replies: &Receiver<HubReply>,
        session: Option<&str>,
        json: bool,
        stream: bool,
    ) -> io::Result<()> {
        session.iter().for_each(|session| self.slot.session_begins(session));
        let session: Vec<(&str, &str)> = session.map(|id| ("Mcp-Session-Id", id)).into_iter().collect();
        let mut buffered: Option<(String, u16, _, _)> = None;
        loop {
            match self.next(replies)? {
                Some(HubReply::Message { text, status, is_event, id, cut }) => {
                    if stream && (self.is_open || !json || is_event && status == 200 || buffered.is_some()) {
                        self.open(&session)?;
                        if let Some((buffered, _, id, cut)) = buffered.take() {
                            self.write_event(&buffered, id, cut)?;
                        }
                        self.write_event(&text, id, cut)?;
                    } else {
                        // Without a stream, messages before the response cannot be sent.
                        buffered = Some((text, status, id, cut));
                    }
                }
                Some(_) => {
                    return match buffered.take() {
                        Some((text, status, _, cut)) if !self.is_open => {
                            let fields = [&[("Content-Type", "application/json")][..], &session].concat();
                            self.respond_cut(status, &fields, &text, cut)
                        }
                        _ if stream => {
                            self.open(&session)?;
                            self.close()
                        }
                        _ => self.respond(202, &session, ""),
                    };
                }
                None if stream => {
                    self.open(&session)?;
                    self.keep_alive()?;
                }
                None => {}
            }
        }
    }

    /// Writes the event stream of a GET. With Streamable HTTP it carries messages that answer no
    /// request, with HTTP+SSE all messages.
    fn listen(&mut self, hub: &Sender<HubRequest>, session: Option<String>, last: Option<String>) -> io::Result<()> {
        if !self.accepts("text/event-stream") {
            return self.refuse(406, "Accept must list text/event-stream");
        }
        let is_legacy = session.is_none();
        let (reply, replies) = bounded(MAX_UNREAD);
        let _ = hub.send(HubRequest::Listen { session, last, reply });
        let id = match replies.recv() {
            Ok(HubReply::Begin(Some(id))) => id,
            Ok(HubReply::Refused(status, why)) => return self.refuse(status, why),
            _ => return self.refuse(503, "the server is shutting down"),
        };
        self.slot.session_begins(&id);
        self.open(&[])?;
        if is_legacy {
            // "the server MUST send an endpoint event containing a URI for the client to use for
            // sending messages" (2024-11-05)
            self.write(&format!("event: endpoint\ndata: /messages?sessionId={id}\n\n"))?;
        }
        loop {
            match self.next(&replies)? {
                Some(HubReply::Message { text, id, cut, .. }) => self.write_event(&text, id, cut)?,
                Some(_) => return self.close(),
                None => self.keep_alive()?,
            }
        }
    }

    /// Waits for the next reply of the hub. `None` means that none came for a while.
    ///
    /// # Errors
    /// Nobody waits for the response any more.
    fn next(&self, replies: &Receiver<HubReply>) -> io::Result<Option<HubReply>> {
        let gone = || Err(io::ErrorKind::ConnectionAborted.into());
        select! {
            recv(replies) -> reply => Ok(Some(reply.unwrap_or(HubReply::End))),
            recv(self.slot.revoked()) -> _ => gone(),
            default(KEEP_ALIVE) => if self.slot.has_left() { gone() } else { Ok(None) },
        }
    }

    /// Header fields that let a web page of another origin read the response (WHATWG Fetch section
    /// 3.3, "CORS protocol"), as the Inspector needs. Only origins that passed the check get them.
    fn shared(&self) -> Vec<(&'a str, &'a str)> {
        let Some(page) = self.page else { return Vec::new() };
        let mut fields = vec![("Access-Control-Allow-Origin", page), ("Vary", "Origin")];
        if self.request.method() == "OPTIONS" {
            // The fields that the page wants to send. The wildcard `*` would not include
            // `Authorization`.
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
        self.respond_cut(status, fields, body, None)
    }

    /// Writes a response, or with `cut` only so many bytes of its body.
    ///
    /// # Errors
    /// It was cut, so the connection has to be closed.
    fn respond_cut(&mut self, status: u16, fields: &[(&str, &str)], body: &str, cut: Option<usize>) -> io::Result<()> {
        let mut fields = fields.to_vec();
        if !self.request.keeps_alive() {
            fields.push(("Connection", "close"));
        }
        if status == 405 {
            fields.push(("Allow", METHODS));
        }
        fields.extend(self.shared());
        // RFC 9110 section 8.6: no Content-Length "in any response with a status code of … 204 (No
        // Content)".
        let mut response = head(status, &fields, Some(body.len()).filter(|_| status != 204));
        let head = response.len();
        // RFC 9110 section 9.3.2: "The HEAD method is identical to GET except that the server MUST
        // NOT send content in the response."
        if self.request.method() != "HEAD" {
            response.push_str(body);
        }
        self.write_cut(&response, head, cut)
    }

    /// Writes a text. With `cut` only so many bytes are written beyond the first `head` bytes.
    ///
    /// # Errors
    /// The text was cut, so the connection has to be closed.
    fn write_cut(&mut self, text: &str, head: usize, cut: Option<usize>) -> io::Result<()> {
        let Some(cut) = cut else { return self.out.write_all(text.as_bytes()) };
        self.out.write_all(&text.as_bytes()[..text.len().min(head.saturating_add(cut))])?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Writes the head of an event stream, unless that is done.
    fn open(&mut self, session: &[(&str, &str)]) -> io::Result<()> {
        if mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        let kind = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")];
        let is_chunked = self.request.is_1_1();
        let chunked = is_chunked.then_some(("Transfer-Encoding", "chunked"));
        let close = (!is_chunked || !self.request.keeps_alive()).then_some(("Connection", "close"));
        let framing: Vec<_> = chunked.into_iter().chain(close).collect();
        let fields = [&kind[..], &framing, session, &self.shared()].concat();
        self.out.write_all(head(200, &fields, None).as_bytes())
    }

    /// Writes a message as an event, with one `data` line for each piece between CR and LF. An
    /// empty piece does no harm.
    fn write_event(&mut self, text: &str, id: Option<String>, cut: Option<usize>) -> io::Result<()> {
        // A line ends with CR LF, LF or CR (WHATWG HTML section 9.2.6). Between the members of a
        // message line ends have no meaning.
        let data: String = text.split(['\r', '\n']).map(|line| format!("data: {line}\n")).collect();
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        let piece = self.piece(&format!("event: message\n{id}{data}\n"));
        let head = piece.find("data: ").map_or(0, |at| at + "data: ".len());
        self.write_cut(&piece, head, cut)
    }

    fn keep_alive(&mut self) -> io::Result<()> {
        self.write(": still here\n\n")
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let piece = self.piece(text);
        self.out.write_all(piece.as_bytes())
    }

    /// A text of a stream as it is framed: a chunk, or for HTTP/1.0 the text itself.
    fn piece(&self, text: &str) -> String {
        match self.request.is_1_1() {
            true => format!("{:x}\r\n{text}\r\n", text.len()),
            false => text.to_owned(),
        }
    }

    /// Ends the event stream.
    fn close(&mut self) -> io::Result<()> {
        match self.request.is_1_1() {
            true => self.out.write_all(b"0\r\n\r\n"),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}
