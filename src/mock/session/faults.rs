//! Injected faults: answers that are delayed, replaced, dropped or cut.

use std::time::Duration;

use serde_json::json;

use super::{MAX_PLAYBACKS, Post, RecordedServer, Session};
use crate::capture::Time;
use crate::decode::Direction;
use crate::filter::{FaultAction, Row};
use crate::mcp::{Message, MessageNumber};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub text: String,
    /// Whether the recorded answer was a server-sent event.
    pub is_event: bool,
    /// The error code, if it is an error.
    pub code: Option<i64>,
    /// Only so many bytes of the text are sent.
    pub cut: Option<usize>,
}

impl Answer {
    /// An answer that is sent whole.
    pub fn of(text: String, code: Option<i64>) -> Answer {
        Answer { text, is_event: false, code, cut: None }
    }
}

/// The faults of one request, combined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InjectedFault {
    /// The sum of all delays.
    pub delay: Duration,
    /// The first of the other faults.
    rest: Option<FaultAction>,
}

impl InjectedFault {
    /// The replacement of the answer, if it is replaced or (`Some(None)`) dropped.
    pub fn replacement(&self, id: &str) -> Option<Option<Answer>> {
        match self.rest.as_ref()? {
            FaultAction::Error(code, message) => {
                let error = json!({ "code": code, "message": message.as_deref().unwrap_or("injected fault") });
                Some(Some(Answer::of(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#), Some(*code))))
            }
            FaultAction::Drop => Some(None),
            FaultAction::Delay(_) | FaultAction::Cut(_) => None,
        }
    }
}

/// An answer that is sent later or never.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    /// The time at which it is sent.
    pub due: Option<Duration>,
    pub post: Post,
    /// The id of the request, as JSON text.
    id: String,
    answer: Option<Answer>,
}

impl RecordedServer {
    /// The faults of a request with this text.
    pub(super) fn fault(&self, text: &[u8]) -> InjectedFault {
        let mut fault = InjectedFault::default();
        let Some(text) = std::str::from_utf8(text).ok().filter(|_| !self.faults.is_empty()) else { return fault };
        let message = Message::of_text(MessageNumber(1), Time(0), Direction::ClientToServer, text);
        let row =
            Row { message: &message, answered: false, findings: &[], severities: &[], session: None, exchange: None };
        for injected in self.faults.iter().filter(|fault| fault.filter.matches(&row)) {
            match &injected.action {
                FaultAction::Delay(delay) => fault.delay = fault.delay.saturating_add(Duration::from_nanos(*delay)),
                action => fault.rest = fault.rest.or_else(|| Some(action.clone())),
            }
        }
        fault
    }
}

impl Session {
    /// Sends the answer to a request, with its fault.
    pub(super) fn answer(&mut self, fault: &InjectedFault, request: (Post, &str), answer: Answer, now: Duration) {
        let cut = match fault.rest {
            Some(FaultAction::Cut(bytes)) => Some(bytes),
            _ => None,
        };
        self.hold_or_answer(request, Some(Answer { cut, ..answer }), fault.delay, now);
    }

    /// Sends an answer after a delay, or never if there is none.
    pub(super) fn hold_or_answer(
        &mut self,
        (post, id): (Post, &str),
        answer: Option<Answer>,
        delay: Duration,
        now: Duration,
    ) {
        if answer.is_some() && delay.is_zero() {
            return self.finish_request(post, answer);
        }
        if self.held.len() >= MAX_PLAYBACKS
            && let Some(oldest) = self.held.pop_front()
        {
            self.finish_request(oldest.post, None);
        }
        let due = answer.is_some().then(|| now.saturating_add(delay));
        self.held.push_back(HeldAnswer { due, post, id: id.to_owned(), answer });
    }

    /// Ends a request that was cancelled while its answer was held.
    pub(super) fn cancel_held(&mut self, id: &str) {
        if let Some(held) = self.held.iter().position(|held| held.id == id).and_then(|at| self.held.remove(at)) {
            self.finish_request(held.post, None);
        }
    }

    /// Sends the held answers that are due.
    pub(super) fn release_held(&mut self, now: Duration) {
        while let Some(at) = self.held.iter().position(|held| held.due.is_some_and(|due| due <= now))
            && let Some(held) = self.held.remove(at)
        {
            self.finish_request(held.post, held.answer);
        }
    }
}
