//! Answers that were captured before their questions.
//!
//! TCP delivers nothing before what it acknowledges, so within a connection a question comes first. Between connections only the order of the
//! capture tells, and that may be wrong: queues of a network card are read in turns, files of two interfaces are merged. A client's answer, or one
//! on the stream of HTTP+SSE, then comes before its question. Such an answer waits, so that whoever reads the events meets questions first.
//!
//! This is no guess: the question must have the answer's session, the other sender and its typed id, the session's beginning must have been captured, and
//! this id must not have been seen before, so that no other question fits.

use std::collections::VecDeque;

use super::{Sink, Tracker};
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::message::Message;
use crate::mcp::pairing::{self, Scope};
use crate::mcp::session::SessionNumber;

/// Messages after which an answer waits no longer. What changes places in a capture are packets close to each other, and few of them
/// complete a message, but one may complete a batch.
const MESSAGES: u64 = 256;

/// Capture time, in nanoseconds, after which an answer waits no longer. A window of packets that change places may hold a pause.
const PATIENCE: i64 = 10_000_000_000;

/// Bytes of answers that wait: in an orderly capture there are none. Beyond, those that wait for longest go first.
const BYTES: usize = 16 << 20;

/// Answers whose questions may still come, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Messages told so far, of all sessions.
    told: u64,
    /// The latest time of a text.
    clock: Option<Time>,
}

#[derive(Debug)]
struct Waiting {
    answer: Box<Message>,
    scope: Scope,
    /// What was told, and the clock, when it came.
    since: (u64, Time),
}

impl Early {
    /// An answer for which there is no question yet.
    pub(super) fn hold(&mut self, answer: Box<Message>, scope: Scope) {
        let clock = *self.clock.get_or_insert(answer.time);
        self.bytes += answer.raw.len();
        self.waiting.push_back(Waiting { answer, scope, since: (self.told, clock) });
    }

    /// A message was told.
    pub(super) fn count(&mut self) {
        self.told += 1;
    }

    fn take(&mut self, position: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(position)?;
        self.bytes -= waiting.answer.raw.len();
        Some(waiting)
    }
}

/// A request, as far as its answer may wait for it.
#[derive(Debug)]
pub(super) struct Question {
    session: SessionNumber,
    sender: Direction,
    id: String,
}

impl Question {
    fn is_answered_by(&self, answer: &Message) -> bool {
        answer.session == self.session
            && answer.direction != self.sender
            && answer.id.as_deref().is_some_and(|id| pairing::is_same_id(id, &self.id))
    }
}

impl Tracker {
    /// The question that a message is, where answers wait for any.
    pub(super) fn question(&self, message: &Message) -> Option<Question> {
        let Message { session, direction: sender, id: Some(id), kind: Kind::Request, .. } = message else {
            return None;
        };
        (!self.early.waiting.is_empty()).then(|| Question { session: *session, sender: *sender, id: id.clone() })
    }

    /// A question was told: the answer that waited for it comes right behind.
    pub(super) fn asked(&mut self, question: &Question, sink: &mut Sink<'_>) {
        let position = self.early.waiting.iter().position(|waiting| question.is_answered_by(&waiting.answer));
        if let Some(position) = position {
            self.conclude(position, sink);
        }
    }

    /// A text was captured at `time`. Answers that have waited long enough, or are too many, are told without their questions.
    pub(super) fn give_up_due(&mut self, time: Time, sink: &mut Sink<'_>) {
        let clock = self.early.clock.map_or(time, |clock| clock.max(time));
        self.early.clock = Some(clock);
        while let Some(Waiting { since: (told, since), .. }) = self.early.waiting.front()
            && (self.early.bytes > BYTES || self.early.told - told >= MESSAGES || clock.since(*since) >= PATIENCE)
        {
            self.conclude(0, sink);
        }
    }

    /// These answers wait no longer.
    pub(super) fn give_up_where(&mut self, these: impl Fn(&Message) -> bool, sink: &mut Sink<'_>) {
        while let Some(position) = self.early.waiting.iter().position(|waiting| these(&waiting.answer)) {
            self.conclude(position, sink);
        }
    }

    fn conclude(&mut self, position: usize, sink: &mut Sink<'_>) {
        if let Some(Waiting { answer, scope, .. }) = self.early.take(position) {
            self.tell(answer, scope, Vec::new(), false, sink);
        }
    }

    /// The capture is over: no question comes any more.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        self.give_up_where(|_| true, sink);
    }
}
