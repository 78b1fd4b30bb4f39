//! Notes on the timeline: stderr, refusals of HTTP, failed connections, and the ends of processes
//! and of waits.

use super::connection_state::ConnectionState;
use super::sessions::Sessions;
use super::tracked::TrackedSink;
use crate::decode::stack::{ConnectionInfo, StderrLine};
use crate::decode::tcp::Facts;
use crate::decode::{ConnectionId, Side};
use crate::event::Event;
use crate::mcp::SessionNumber;
use crate::mcp::note::{Failure, Note, NoteKind};
use crate::mcp::tracker::Tracker;

/// Failed connections that are noted for a capture. A port scan makes many more, and the first
/// ones show the cause.
const CONNECTIONS: usize = 100;

/// Failed connections that are noted in a capture without any session.
const WITHOUT_SESSION: usize = 10;

/// The failed connections of a capture.
#[derive(Debug, Default)]
pub(super) struct FailedConnections {
    noted: usize,
    /// Those for which no session was known. They are emitted if the capture has no session at all.
    elsewhere: Vec<Note>,
}

impl Sessions {
    /// Notes a line of stderr.
    pub(super) fn stderr_line(&self, id: ConnectionId, line: &StderrLine, emit: &mut TrackedSink<'_>) {
        let Some(session) = self.tracker.session_on(id) else { return };
        let text = String::from_utf8_lossy(&line.bytes).into_owned();
        let kind = NoteKind::Stderr { line: line.number, text };
        emit_note(Note { session: Some(session), time: line.time, packets: vec![line.packet], kind }, emit);
    }

    /// Notes the end of a wrapped process.
    pub(super) fn process_changed(&self, id: ConnectionId, connected: &ConnectionInfo, emit: &mut TrackedSink<'_>) {
        let (Some(exit), Some(session)) =
            (connected.process.as_ref().and_then(|process| process.exit), self.tracker.session_on(id))
        else {
            return;
        };
        let pending = self.tracker.unanswered_by_server(session).map(|pending| pending.number).collect();
        let kind = NoteKind::Ended { exit, pending };
        let time = self.now.unwrap_or_default();
        emit_note(Note { session: Some(session), time, packets: Vec::new(), kind }, emit);
    }

    /// Notes that a connection was refused, or reset while an exchange was open.
    pub(super) fn connection_ended(&mut self, state: &ConnectionState, facts: &Facts, emit: &mut TrackedSink<'_>) {
        let [first_reset, second_reset] = facts.ends.map(|end| end.rst);
        let (Some(rst), [first, second]) = (second_reset.or(first_reset), facts.endpoints) else { return };
        let is_refused = facts.handshake[0].is_some()
            && facts.handshake[1].is_none()
            && second_reset.is_some()
            && facts.ends[Side::Second.index()].bytes == 0;
        let failure = match is_refused {
            true => Failure::Refused,
            false if state.has_cut_exchange && !state.has_gaps => Failure::Reset,
            false => return,
        };
        if self.failed.noted >= CONNECTIONS {
            return;
        }
        self.failed.noted += 1;
        let carried = state.sessions.last().map(|traffic| traffic.session);
        let session = carried.or_else(|| session_between(&self.tracker, facts));
        let kind = NoteKind::Connection { from: first, to: second, failure };
        let note = Note { session, time: facts.last, packets: vec![rst], kind };
        match session {
            Some(_) => emit_note(note, emit),
            None if self.failed.elsewhere.len() < WITHOUT_SESSION => self.failed.elsewhere.push(note),
            None => {}
        }
    }

    /// Notes what is left at the end of the capture.
    pub(super) fn notes_at_end(&mut self, emit: &mut TrackedSink<'_>) {
        let sessions = self.tracker.open_sessions();
        let end = self.now;
        for session in &sessions {
            self.tracker.ended_waits(*session, end).into_iter().for_each(|note| emit_note(note, emit));
        }
        if sessions.is_empty() {
            std::mem::take(&mut self.failed.elsewhere).into_iter().for_each(|note| emit_note(note, emit));
        }
    }
}

fn emit_note(note: Note, emit: &mut TrackedSink<'_>) {
    emit(Event::Note(Box::new(note)).into());
}

/// The latest session whose client and server have the addresses of a connection.
fn session_between(tracker: &Tracker, facts: &Facts) -> Option<SessionNumber> {
    let is_between = |session: &SessionNumber| tracker.is_between(*session, facts.endpoints);
    tracker.open_sessions().into_iter().rev().find(is_between)
}
