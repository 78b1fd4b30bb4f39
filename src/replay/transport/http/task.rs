//! Something to be had of the server: by one request, or by several where it is redirected or its stream of events breaks.

use std::fmt::Write;
use std::time::Instant;

use super::sse_reader::SseReader;
use crate::decode::http::{Head, StartLine};
use crate::http::origin::{Hops, request_target};
use crate::replay::transport::Outgoing;

/// A task, and what came of it so far.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) kind: TaskKind,
    pub(super) hops: Hops,
    /// The session that its request names.
    pub(super) session: Option<String>,
    /// Of the response that is being read.
    pub(super) head: Option<Box<Head>>,
    pub(super) body: Vec<u8>,
    /// The events of all responses.
    pub(super) stream: SseReader,
    /// Times that the stream was taken up again.
    pub(super) resumed: u32,
    /// When the answer to the message was here.
    pub(super) answered: Option<Instant>,
}

/// What is to be had.
#[derive(Debug)]
pub(super) enum TaskKind {
    /// A message is to be taken, and answered where it is a request.
    Message(Outgoing),
    /// The stream of what the server says unasked, with these fields.
    ServerStream(Vec<(String, String)>),
    /// The one stream of HTTP+SSE: its first event names the address to POST to, all others are messages.
    SseStream,
    /// The end of the session.
    EndSession,
}

impl Task {
    /// A task at a URL.
    pub(super) fn new(kind: TaskKind, url: &str) -> Box<Task> {
        Box::new(Task {
            kind,
            hops: Hops::to(url),
            session: None,
            head: None,
            body: Vec::new(),
            stream: SseReader::new(),
            resumed: 0,
            answered: None,
        })
    }

    /// The message that is said.
    pub(super) fn message(&self) -> Option<&Outgoing> {
        match &self.kind {
            TaskKind::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The id of the request that is said.
    pub(super) fn id(&self) -> Option<u64> {
        self.message().and_then(|message| message.id)
    }

    fn method(&self) -> &'static str {
        match &self.kind {
            TaskKind::Message(_) if self.resumed == 0 => "POST",
            TaskKind::Message(_) | TaskKind::ServerStream(_) | TaskKind::SseStream => "GET",
            TaskKind::EndSession => "DELETE",
        }
    }

    pub(super) fn is_get(&self) -> bool {
        self.method() == "GET"
    }

    /// The status of the response; 0 before there is one.
    pub(super) fn status(&self) -> u16 {
        match self.head.as_ref().map(|head| &head.start) {
            Some(StartLine::Response { status, .. }) => *status,
            _ => 0,
        }
    }

    /// Whether the server said that it takes what it was sent.
    pub(super) fn is_taken(&self) -> bool {
        (200..300).contains(&self.status())
    }

    /// A field of the response.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        self.head.as_ref()?.value(name).map(str::to_owned)
    }

    /// Whether the response is a stream of events.
    pub(super) fn is_stream(&self) -> bool {
        let media_type = self.head.as_ref().and_then(|head| head.media_type());
        let has_content = if self.is_get() { self.status() == 200 } else { self.is_taken() };
        has_content && media_type.as_deref() == Some("text/event-stream")
    }

    /// Another response follows.
    pub(super) fn restart(&mut self) {
        self.head = None;
        self.body.clear();
        self.stream.restart();
    }

    /// Its request, with these fields of every request.
    ///
    /// # Errors
    /// A field that cannot be sent.
    pub(super) fn request(&self, host: &str, common: &[(String, String)]) -> Result<Vec<u8>, String> {
        let none = Vec::new();
        let (text, fields) = match &self.kind {
            TaskKind::Message(message) => (message.text.as_str(), &message.fields),
            TaskKind::ServerStream(fields) => ("", fields),
            TaskKind::SseStream | TaskKind::EndSession => ("", &none),
        };
        let given = |name: &str| common.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let own = [
            ("Host", Some(host).filter(|_| !given("Host"))),
            ("User-Agent", Some(concat!("mcptap/", env!("CARGO_PKG_VERSION"))).filter(|_| !given("User-Agent"))),
            ("Accept", self.accept()),
            ("Mcp-Session-Id", self.session.as_deref()),
            ("Last-Event-ID", self.stream.last_id.as_deref().filter(|_| self.is_get())),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given = common.iter().chain(fields).map(|(name, value)| (name.as_str(), value.as_str()));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method(), request_target(&self.hops.at));
        for (name, value) in own.chain(given) {
            // Names and values may come from the recording and from the server: none of them makes a line of its own.
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty()
                || !name.bytes().all(is_token)
                || value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
            {
                return Err(format!("the header field {name:?} cannot be sent with the value {value:?}"));
            }
            // Writing to a string does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if self.method() == "POST" {
            let _ = write!(head, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        } else {
            head.push_str("\r\n");
        }
        Ok(head.into_bytes())
    }

    fn accept(&self) -> Option<&'static str> {
        match self.method() {
            // "The client MUST include an Accept header, listing both application/json and text/event-stream"
            "POST" => Some("application/json, text/event-stream"),
            "GET" => Some("text/event-stream"),
            _ => None,
        }
    }
}
