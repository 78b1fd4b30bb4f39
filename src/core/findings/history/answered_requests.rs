//! Requests that were answered lately, of those whose story may go on behind the answer.

use std::collections::VecDeque;

use super::open_requests::OpenRequest;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::findings::message_facts::MessageFacts;
use crate::mcp::MessageNumber;
use crate::mcp::method::Method;

/// Requests remembered: what comes late comes soon behind its answer, or not at all.
const REMEMBERED: usize = 256;

/// A request and its answer.
#[derive(Clone, Debug)]
pub struct AnsweredRequest {
    pub request: OpenRequest,
    pub answer: MessageNumber,
    /// Whether that answer began a task, which goes on.
    pub became_task: bool,
}

/// They, latest last.
#[derive(Debug, Default)]
pub struct AnsweredRequests(VecDeque<AnsweredRequest>);

impl AnsweredRequests {
    /// The latest of this side with this progress token.
    pub fn with_token(&self, sender: Direction, token: &str) -> Option<&AnsweredRequest> {
        let fits = |done: &&AnsweredRequest| {
            done.request.sender == sender && done.request.progress_token.as_deref() == Some(token)
        };
        self.0.iter().rev().find(fits)
    }

    /// The latest of this side with this id.
    pub fn with_id(&self, sender: Direction, id: &str) -> Option<&AnsweredRequest> {
        self.0.iter().rev().find(|done| done.request.sender == sender && done.request.id == id)
    }

    /// A request was answered. It is remembered where progress, a task or a subscription may follow.
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
