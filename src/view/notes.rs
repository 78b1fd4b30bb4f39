//! Notes in words: what stands on the timeline between the messages.

use super::paint::Tone;
use super::units::{count, duration};
use crate::capture::pipe::Exit;
use crate::mcp::MessageNumber;
use crate::mcp::note::{Failure, HttpNote, NoteKind, WaitEnd};

/// The parts of a note's line. They are not yet safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteWords {
    /// A sign in the column of the arrows.
    pub sign: &'static str,
    /// The tone of the sign and of `what`.
    pub tone: Tone,
    /// A word or two, in the column of the methods.
    pub what: String,
    /// The facts about it in words.
    pub about: String,
    /// The messages that it concerns, in the column of the ids.
    pub messages: String,
}

/// A note in words.
pub fn words(kind: &NoteKind) -> NoteWords {
    let line = |sign, tone, what: &str, about, messages| NoteWords { sign, tone, what: what.into(), about, messages };
    match kind {
        NoteKind::Stderr { text, .. } => line("┊", Tone::Dim, "stderr", text.clone(), String::new()),
        NoteKind::Ended { exit, pending } => {
            let tone = if exit.code == Some(0) && pending.is_empty() { Tone::Dim } else { Tone::Error };
            let open = match pending.len() {
                0 => String::new(),
                open => format!(", {} open", count(open as u64, "request")),
            };
            let about = format!("{}{open}", ended(*exit));
            line("■", tone, "server ended", about, listed("open", pending))
        }
        NoteKind::Refused(http) => {
            let status = status(http);
            line("×", Tone::Error, &status, request(http, "  "), listed("answers", &http.requests))
        }
        NoteKind::Redirected(http) => {
            line("↪", Tone::Warning, &status(http), request(http, " → "), listed("answers", &http.requests))
        }
        NoteKind::Unanswered { request, waited, end, is_certain } => {
            let about = format!("waited {}, {}", duration(*waited), wait_end(*end));
            let (tone, what) =
                if *is_certain { (Tone::Error, "no answer") } else { (Tone::Warning, "no answer captured") };
            line("◌", tone, what, about, listed("to", &[*request]))
        }
        NoteKind::Connection { from, to, failure } => {
            let what = match failure {
                Failure::Refused => "connection refused",
                Failure::Reset => "connection reset",
            };
            line("×", Tone::Error, what, format!("{from} → {to}"), String::new())
        }
    }
}

/// The end of a process in words: `status 1`, `signal 9`.
pub fn ended(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("by signal {signal}"),
        (Some(code), None) => format!("with status {code}"),
        (None, None) => "with an unknown status".to_owned(),
    }
}

/// How a wait ended, in words.
pub fn wait_end(end: WaitEnd) -> String {
    match end {
        WaitEnd::Cancelled(message) => format!("then the client cancelled it (message {})", message.0),
        WaitEnd::ResponseEnded => "then the HTTP response ended without it".to_owned(),
        WaitEnd::ConnectionEnded => "then the connection ended".to_owned(),
        WaitEnd::SessionEnded => "still open at the end".to_owned(),
    }
}

/// `HTTP 404 Not Found`.
pub fn status(http: &HttpNote) -> String {
    format!("HTTP {} {}", http.status, http.reason).trim_end().to_owned()
}

fn request(http: &HttpNote, between: &str) -> String {
    let detail = if http.detail.is_empty() { String::new() } else { format!("{between}{}", http.detail) };
    format!("{} {}{detail}", http.method, http.target).trim().to_owned()
}

fn listed(word: &str, messages: &[MessageNumber]) -> String {
    match messages {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" +{}", rest.len()) };
            format!("{word} {}{more}", first.0)
        }
    }
}
