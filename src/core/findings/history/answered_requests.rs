//! Recently answered requests that later messages may still refer to.

use std::collections::VecDeque;

use super::open_requests::OpenRequest;
use crate::decode::{Direction, Kind};
use crate::findings::message_facts::MessageFacts;
use crate::mcp::{MessageNumber, Method};

/// Limit of remembered requests. Late messages follow soon after the response, or never.
const REMEMBERED: usize = 256;

/// An answered request.
#[derive(Clone, Debug)]
pub struct AnsweredRequest {
    pub request: OpenRequest,
    pub answer: MessageNumber,
    /// Whether the response created a task, which continues.
    pub became_task: bool,
}

/// Answered requests, oldest first.
#[derive(Debug, Default)]
pub struct AnsweredRequests(VecDeque<AnsweredRequest>);

impl AnsweredRequests {
    /// The latest request of this sender with this progress token.
    pub fn with_token(&self, sender: Direction, token: &str) -> Option<&AnsweredRequest> {
        let fits = |done: &&AnsweredRequest| {
            done.request.sender == sender && done.request.progress_token.as_deref() == Some(token)
        };
        self.0.iter().rev().find(fits)
    }

    /// The latest request of this sender with this id.
    pub fn with_id(&self, sender: Direction, id: &str) -> Option<&AnsweredRequest> {
        self.0.iter().rev().find(|done| done.request.sender == sender && done.request.id == id)
    }

    /// Records the response to a request. The request is remembered only if progress, a task or a
    /// subscription may follow.
    pub(super) fn insert(&mut self, request: OpenRequest, answer: &MessageFacts<'_>) {
        let result = answer.body();
        let became_task = answer.message.kind == Kind::Response
            && (request.is_task && result.get("task").is_some()
                || result.text("resultType").is_some_and(|kind| kind == "task"));
        let goes_on = request.progress_token.is_some() || request.method == Method::SubscriptionsListen;
        if became_task || goes_on {
            if self.0.len() >= REMEMBERED {
                self.0.pop_front();
            }
            self.0.push_back(AnsweredRequest { request, answer: answer.message.number, became_task });
        }
    }
}
