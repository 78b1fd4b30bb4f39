//! Notes about exchanges and waits: what HTTP answered instead of a response, and which requests
//! got none.

use super::tracked_session::TrackedSession;
use super::{Tracker, TrackerEvent, TrackerSink};
use crate::capture::Time;
use crate::decode::{Direction, Exchange};
use crate::mcp::note::{HttpNote, NoteKind, WaitEnd};
use crate::mcp::pairing::{ExchangeEnd, Pending};
use crate::mcp::{Message, Note, SessionNumber};

/// Statuses that redirect a request.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

impl Tracker {
    /// Takes the end of an exchange: its requests without a response wait no longer, or only on
    /// other streams. Emits a note if the response refused or redirected them.
    pub(super) fn end_waits(&mut self, exchange: &Exchange, sink: &mut TrackerSink<'_>) {
        let session = self.session_at(exchange.number);
        let first_message = self.exchanges.get(&exchange.number).and_then(|evidence| evidence.first_message);
        let Some(state) = session.and_then(|session| self.sessions.get_mut(&session)) else { return };
        let half = if exchange.response.ended.is_some() { &exchange.response } else { &exchange.request };
        let time = half.ended.unwrap_or_default().max(state.session.started);
        let method = exchange.method.as_deref().unwrap_or_default();
        let field = |name| exchange.response.fields.get(name);
        let mut requests = Vec::new();
        let (is_redirect, detail) = match exchange.status {
            // A server that offers no stream, or does not let clients end sessions, says so.
            Some(405) if method == "GET" || method == "DELETE" => return,
            Some(status @ 400..) => {
                requests = state.refuse(exchange.number);
                // A JSON-RPC error in the body is a message, and has the explanation.
                let is_answered = requests.is_empty() && first_message.is_some();
                let explanation = exchange.explanation.clone().filter(|_| !is_answered);
                let asked = field("www-authenticate").filter(|_| matches!(status, 401 | 403));
                let asked = asked.map(|asked| format!("WWW-Authenticate: {asked}"));
                (false, explanation.into_iter().chain(asked).collect::<Vec<String>>().join("; "))
            }
            Some(status) if REDIRECTS.contains(&status) => (true, field("location").unwrap_or_default().to_owned()),
            _ => {
                let end = if exchange.response.complete { WaitEnd::ResponseEnded } else { WaitEnd::ConnectionEnded };
                let end = ExchangeEnd { connection: exchange.connection, time, end };
                return state.pairing.exchange_ended(exchange.number, end);
            }
        };
        if requests.is_empty() {
            requests.extend(first_message);
        }
        let note = HttpNote {
            exchange: exchange.number,
            method: method.to_owned(),
            target: exchange.target.clone().unwrap_or_default(),
            status: exchange.status.unwrap_or_default(),
            reason: exchange.reason.clone().unwrap_or_default(),
            detail,
            requests,
        };
        let kind = if is_redirect { NoteKind::Redirected(note) } else { NoteKind::Refused(note) };
        let packets = exchange.response.head_packets.clone();
        sink(TrackerEvent::Note(Box::new(Note { session, time, packets, kind })));
    }

    /// The requests of the client that have no response and were not cancelled.
    pub fn unanswered_by_server(&self, number: SessionNumber) -> impl Iterator<Item = &Pending> {
        let state = self.sessions.get(&number).into_iter();
        let pending = state.flat_map(|state| state.pairing.pending_of(Direction::ClientToServer));
        pending.filter(|pending| !pending.cancelled)
    }

    /// The notes about the requests of the client that got no response until the session ended.
    /// `last` is the time of the last packet of the capture.
    pub fn ended_waits(&self, number: SessionNumber, last: Option<Time>) -> Vec<Note> {
        let Some(state) = self.sessions.get(&number) else { return Vec::new() };
        ended_waits(state, last)
    }
}

/// The notes about the requests of the client that got no response until the session ended.
pub(super) fn ended_waits(state: &TrackedSession, last: Option<Time>) -> Vec<Note> {
    // The note about the end of the process names them.
    if state.session.exit.is_some() {
        return Vec::new();
    }
    let session_end = (last.unwrap_or_default().max(state.session.ended), WaitEnd::SessionEnded);
    let pending = state.pairing.pending_of(Direction::ClientToServer);
    // A subscription stays open as long as its client wants.
    let waits = |pending: &&Pending| !pending.cancelled && pending.method.as_deref() != Some("subscriptions/listen");
    let notes = pending.filter(waits).map(|pending| {
        let (time, end) = pending.ended.map_or(session_end, |ended| (ended.time, ended.end));
        unanswered(state.session.number, pending, time, end)
    });
    notes.collect()
}

/// The note about a request that `message` cancelled.
pub(super) fn cancelled(message: &Message, pending: &Pending) -> Note {
    unanswered(message.session, pending, message.time, WaitEnd::Cancelled(message.number))
}

fn unanswered(session: SessionNumber, pending: &Pending, time: Time, end: WaitEnd) -> Note {
    let kind =
        NoteKind::Unanswered { request: pending.number, waited: time.since(pending.time), end, is_certain: true };
    Note { session: Some(session), time, packets: Vec::new(), kind }
}
