//! Notes: what happened around the messages of a session. They stand on the timeline between the
//! messages, because they often are the cause of a symptom.

use std::net::SocketAddr;

use super::numbers::{MessageNumber, SessionNumber};
use crate::capture::pipe::Exit;
use crate::capture::{PacketNumber, Time};
use crate::decode::ExchangeNumber;

/// An occurrence around the messages of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The session; `None` if no evidence names one.
    pub session: Option<SessionNumber>,
    /// The capture time of the occurrence.
    pub time: Time,
    /// The packets that carried it.
    pub packets: Vec<PacketNumber>,
    /// The facts about it.
    pub kind: NoteKind,
}

/// The facts about a note, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum NoteKind {
    /// A line that a wrapped server wrote to stderr.
    Stderr {
        /// The line's number on the pipe, starting at 1.
        line: u64,
        /// Its text, without the line break. Bytes that are not UTF-8 are replaced.
        text: String,
    },
    /// A wrapped server ended.
    Ended {
        /// Its exit status or signal.
        exit: Exit,
        /// The requests of the client that were open.
        pending: Vec<MessageNumber>,
    },
    /// The server refused an HTTP request with a status of 400 or more.
    Refused(HttpNote),
    /// The server redirected an HTTP request.
    Redirected(HttpNote),
    /// A request of the client got no response, and its wait ended.
    Unanswered {
        /// The request that waited.
        request: MessageNumber,
        /// Nanoseconds from the request to the end of the wait.
        waited: i64,
        /// How the wait ended.
        end: WaitEnd,
        /// Whether the session was captured whole. Otherwise a part of it is missing, which may
        /// hold the response.
        is_certain: bool,
    },
    /// A connection failed.
    Connection {
        /// The address that opened the connection.
        from: SocketAddr,
        /// The address to which it was opened.
        to: SocketAddr,
        /// How it failed.
        failure: Failure,
    },
}

impl NoteKind {
    /// The requests that are over without a response, and whether the client cancelled them. The
    /// others were refused.
    pub fn settled_requests(&self) -> (&[MessageNumber], bool) {
        match self {
            NoteKind::Refused(refusal) => (&refusal.requests, false),
            NoteKind::Unanswered { request, end: WaitEnd::Cancelled(_), .. } => (std::slice::from_ref(request), true),
            _ => (&[], false),
        }
    }
}

/// An HTTP response that did not do what the request asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpNote {
    /// The exchange with the response.
    pub exchange: ExchangeNumber,
    /// The request method; empty if the request was not captured.
    pub method: String,
    /// The request target, with secrets masked.
    pub target: String,
    /// The status code of the response.
    pub status: u16,
    /// The reason phrase of the response, as sent.
    pub reason: String,
    /// For a refusal the explanation in the body or in `WWW-Authenticate`, for a redirect the
    /// target of it.
    pub detail: String,
    /// The requests of the client that the exchange carried.
    pub requests: Vec<MessageNumber>,
}

/// How the wait for a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The client cancelled the request with this message.
    Cancelled(MessageNumber),
    /// The HTTP response ended, and the JSON-RPC response was not in it.
    ResponseEnded,
    /// The connection ended before an HTTP response came.
    ConnectionEnded,
    /// The request was still open when the session ended.
    SessionEnded,
}

impl WaitEnd {
    /// The word in the output of `--json`.
    pub fn name(self) -> &'static str {
        match self {
            WaitEnd::Cancelled(_) => "cancelled",
            WaitEnd::ResponseEnded => "response-ended",
            WaitEnd::ConnectionEnded => "connection-ended",
            WaitEnd::SessionEnded => "session-ended",
        }
    }
}

words! {
    /// How a connection failed.
    pub enum Failure {
        /// The peer answered the SYN with a reset: nobody listens there.
        Refused = "refused",
        /// A side reset the connection while an exchange was open on it.
        Reset = "reset",
    }
}
