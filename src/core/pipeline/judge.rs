//! The third stage: from tracked items to events. It applies the rules, which depend on one session
//! each.

use super::tracked::Tracked;
use crate::capture::Limits;
use crate::event::{Emit, Event};
use crate::findings::{Checker, Finding};
use crate::mcp::SessionNumber;
use crate::mcp::Transport;
use crate::mcp::note::NoteKind;

/// Applies the rules.
#[derive(Debug)]
pub struct Judge {
    checker: Checker,
}

impl Judge {
    /// A judge who has seen no traffic.
    pub fn new(limits: Limits) -> Judge {
        Judge { checker: Checker::new(limits) }
    }

    /// Takes the next item. Calls `emit` with its events, in order.
    pub fn take(&mut self, tracked: Tracked, emit: &mut Emit<'_>) {
        let checker = &mut self.checker;
        match tracked {
            Tracked::Event(Event::Note(mut note)) => {
                if let (NoteKind::Unanswered { is_certain, .. }, Some(session)) = (&mut note.kind, note.session) {
                    *is_certain = !checker.has_gaps(session);
                }
                emit(Event::Note(note));
            }
            Tracked::Event(event) => emit(event),
            Tracked::Head(exchange, direction, session) => {
                emit_findings(checker.head(&exchange, direction, session), emit);
            }
            Tracked::ServerSentEvent(sent, session, opened) => {
                let mut found = checker.event(sent.exchange, &sent.event(), session, opened_as(opened));
                for finding in &mut found {
                    finding.packets = sent.packets.clone();
                    finding.span = Some(sent.span);
                }
                emit_findings(found, emit);
            }
            Tracked::Message { mut message, oddities, has_beginning, is_order_doubtful } => {
                let found = checker.message(&mut message, &oddities, || has_beginning, is_order_doubtful);
                emit(Event::Message(message));
                emit_findings(found, emit);
            }
            Tracked::Exchange(exchange) => {
                let found = checker.exchange(&exchange);
                emit(Event::Exchange(exchange));
                emit_findings(found, emit);
            }
            Tracked::Process(session, change, time, opened) => {
                checker.process_changed(session, change.as_ref(), time, opened_as(opened));
            }
            Tracked::ConnectionClosed(id, facts) => checker.connection_closed(id, &facts),
            Tracked::MessagesMissing(session, opened) => checker.messages_missing(session, opened_as(opened)),
            Tracked::DecoderFinding(finding) => emit_findings(checker.decoder_finding(*finding), emit),
            Tracked::SessionEnded(session, pending) => {
                emit_findings(checker.session_ended(session, &pending.iter().collect::<Vec<_>>()), emit);
            }
            Tracked::End => emit_findings(checker.finish(), emit),
        }
    }
}

/// The answer to the question of the checker how a session was opened.
fn opened_as(opened: Option<(Transport, bool)>) -> impl Fn(SessionNumber) -> Option<(Transport, bool)> {
    move |_| opened
}

fn emit_findings(found: Vec<Finding>, emit: &mut Emit<'_>) {
    found.into_iter().for_each(|finding| emit(Event::Finding(Box::new(finding))));
}
