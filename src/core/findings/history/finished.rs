//! Requests that were answered lately, of those whose story may go on behind the answer.

use std::collections::VecDeque;

use super::requests::Asked;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::findings::message_facts::Facts;
use crate::mcp::MessageNumber;
use crate::mcp::method::Method;

/// Requests remembered: what comes late comes soon behind its answer, or not at all.
const REMEMBERED: usize = 256;

/// A request and its answer.
#[derive(Clone, Debug)]
pub struct Done {
    pub asked: Asked,
    pub answer: MessageNumber,
    /// Whether that answer began a task, which goes on.
    pub became_task: bool,
}

/// They, latest last.
#[derive(Debug, Default)]
pub struct Finished(VecDeque<Done>);

impl Finished {
    /// The latest of this side with this progress token.
    pub fn with_token(&self, sender: Direction, token: &str) -> Option<&Done> {
        let fits = |done: &&Done| done.asked.sender == sender && done.asked.progress_token.as_deref() == Some(token);
        self.0.iter().rev().find(fits)
    }

    /// The latest of this side with this id.
    pub fn with_id(&self, sender: Direction, id: &str) -> Option<&Done> {
        self.0.iter().rev().find(|done| done.asked.sender == sender && done.asked.id == id)
    }

    /// A request was answered. It is remembered where progress, a task or a subscription may follow.
    pub(super) fn insert(&mut self, asked: Asked, answer: &Facts<'_>) {
        let result = answer.body();
        let became_task = answer.message.kind == Kind::Response
            && (asked.is_task && result.get("task").is_some()
                || result.text("resultType").is_some_and(|kind| kind == "task"));
        let goes_on = asked.progress_token.is_some() || asked.method == Method::SubscriptionsListen;
        if became_task || goes_on {
            if self.0.len() >= REMEMBERED {
                self.0.pop_front();
            }
            self.0.push_back(Done { asked, answer: answer.message.number, became_task });
        }
    }
}
