//! Likely retries: a call of the same tool with the same arguments, after the first one failed or
//! had no answer.
//!
//! A call that failed, or that its client cancelled, gives a token for the next equal call. A call
//! that is merely open does not: the client may make equal calls at the same time. So the link to
//! such a call is made only when no answer can follow any more.

use std::collections::BTreeMap;

use super::open_requests::Name;
use super::{LinkableRequest, Operations, RETRY_TIME, Token};
use crate::mcp::link::{Link, Why};
use crate::mcp::{Message, MessageNumber};

/// Nanoseconds within which two equal calls count as sent at the same time if neither is answered:
/// a client waits longer for an answer, and a capture may end while both are in progress.
const AT_ONCE: i64 = 1_000_000_000;

impl Operations {
    /// Remembers that a call repeats the latest equal one that is open, if there is one.
    pub(super) fn note_repeat(&mut self, message: &Message, call: u64) {
        let is_recent = |(_, request): &(MessageNumber, &LinkableRequest)| {
            (0..=RETRY_TIME).contains(&message.time.since(request.time))
        };
        let open = self.requests.named(message.direction, Name::Call(call)).rev().find(is_recent);
        let Some((number, _)) = open else { return };
        self.requests.set_repeated(number, (message.number, message.time));
    }

    /// Lets the next equal call be a retry of one that was cancelled just now. An equal call that
    /// was sent before stays the only one that may be.
    pub(super) fn note_cancelled_call(&mut self, request: MessageNumber, cancellation: &Message) {
        let Some(open) = self.requests.get_mut(request) else { return };
        if open.sender != cancellation.direction || open.repeated_by.is_some() {
            return;
        }
        let operation = open.operation;
        if let Some(call) = self.requests.take_call(request) {
            self.store_token(Token::Failure(call), operation, cancellation);
        }
    }

    /// The links of calls that repeat a call which was never answered. No message may follow.
    pub fn late_links(&self) -> Vec<(MessageNumber, Link)> {
        // A repeated call may have been repeated itself. Then both belong to the first operation.
        let mut moved: BTreeMap<MessageNumber, MessageNumber> = BTreeMap::new();
        let link = |(previous, request): (MessageNumber, &LinkableRequest)| {
            let (repeat, time) = request.repeated_by?;
            let is_open = self.requests.contains(repeat);
            if is_open && time.since(request.time) < AT_ONCE {
                return None;
            }
            let operation = moved.get(&request.operation).copied().unwrap_or(request.operation);
            moved.insert(repeat, operation);
            Some((repeat, Link { operation, previous, why: Why::Retry }))
        };
        self.requests.iter().filter_map(link).collect()
    }
}
