//! A task for the server. It needs one request, or several if it is redirected or its event stream
//! breaks.

use std::fmt::Write;
use std::time::Instant;

use super::sse_reader::SseReader;
use crate::decode::http::{Head, StartLine};
use crate::http::origin::{Hops, request_target};
use crate::replay::transport::Outgoing;

/// A task and its progress.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) kind: TaskKind,
    pub(super) hops: Hops,
    /// The session id in its request.
    pub(super) session: Option<String>,
    /// The head of the current response.
    pub(super) head: Option<Box<Head>>,
    pub(super) body: Vec<u8>,
    /// Parses the events of all responses.
    pub(super) stream: SseReader,
    /// The number of times that the stream was resumed.
    pub(super) resumed: u32,
    /// The time when the answer arrived.
    pub(super) answered: Option<Instant>,
}

/// The purpose of a task.
#[derive(Debug)]
pub(super) enum TaskKind {
    /// Send a message, and receive the answer if it is a request.
    Message(Outgoing),
    /// Open the stream for messages that the server initiates, with these header fields.
    ServerStream(Vec<(String, String)>),
    /// Open the only stream of HTTP+SSE. Its first event announces the address for POSTs, all
    /// others are messages.
    SseStream,
    /// End the session, with these header fields.
    EndSession(Vec<(String, String)>),
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

    /// The message to send.
    pub(super) fn message(&self) -> Option<&Outgoing> {
        match &self.kind {
            TaskKind::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The id of the request to send.
    pub(super) fn id(&self) -> Option<u64> {
        self.message().and_then(|message| message.id)
    }

    /// The id of the request as its text has it.
    pub(super) fn written_id(&self) -> Option<String> {
        let message = self.message()?;
        message.written_id.clone().or_else(|| message.id.map(|id| id.to_string()))
    }

    fn method(&self) -> &'static str {
        match &self.kind {
            TaskKind::Message(_) if self.resumed == 0 => "POST",
            TaskKind::Message(_) | TaskKind::ServerStream(_) | TaskKind::SseStream => "GET",
            TaskKind::EndSession(_) => "DELETE",
        }
    }

    pub(super) fn is_get(&self) -> bool {
        self.method() == "GET"
    }

    /// The status of the response; 0 before it has arrived.
    pub(super) fn status(&self) -> u16 {
        match self.head.as_ref().map(|head| &head.start) {
            Some(StartLine::Response { status, .. }) => *status,
            _ => 0,
        }
    }

    /// Whether the server accepted the request (status 2xx).
    pub(super) fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status())
    }

    /// A header field of the response.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        self.head.as_ref()?.value(name).map(str::to_owned)
    }

    /// Whether the response is an event stream.
    pub(super) fn is_stream(&self) -> bool {
        let media_type = self.head.as_ref().and_then(|head| head.media_type());
        let has_content = if self.is_get() { self.status() == 200 } else { self.is_accepted() };
        has_content && media_type.as_deref() == Some("text/event-stream")
    }

    /// Prepares for another response.
    pub(super) fn restart(&mut self) {
        self.head = None;
        self.body.clear();
        self.stream.restart();
    }

    /// The HTTP request of the task. `common` contains the fields of every request.
    ///
    /// # Errors
    /// A header field contains characters that are not allowed.
    pub(super) fn request(&self, host: &str, common: &[(String, String)]) -> Result<Vec<u8>, String> {
        let none = Vec::new();
        let (text, fields) = match &self.kind {
            TaskKind::Message(message) => (message.text.as_str(), &message.fields),
            TaskKind::ServerStream(fields) | TaskKind::EndSession(fields) => ("", fields),
            TaskKind::SseStream => ("", &none),
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
            // Names and values can come from the recording and from the server. Line ends in them
            // must not create header fields.
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty()
                || !name.bytes().all(is_token)
                || value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
            {
                return Err(format!("the header field {name:?} cannot be sent with the value {value:?}"));
            }
            // Writing to a String cannot fail.
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
            // "The client MUST include an Accept header, listing both application/json and
            // text/event-stream"
            "POST" => Some("application/json, text/event-stream"),
            "GET" => Some("text/event-stream"),
            _ => None,
        }
    }
}
