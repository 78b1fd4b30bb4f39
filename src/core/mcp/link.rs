//! What ties a message to an earlier one of its operation, in words.

use super::numbers::MessageNumber;

/// Why a message belongs to the operation of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It answers a request of the operation.
    Answer,
    /// Its `cursor` is the `nextCursor` of the earlier answer (server/utilities/pagination).
    Cursor,
    /// Its `requestState` is the one that the earlier answer asked to be echoed (2026-07-28 basic/patterns/mrtr).
    RequestState,
    /// It repeats the request that the earlier answer wanted input for, with that input; there was no `requestState`.
    InputResponses,
    /// Its `taskId`, or that of its `_meta`, names the task that the earlier answer created.
    Task,
    /// Its `subscriptionId` or `uri` names what the earlier request subscribed to.
    Subscription,
    /// It calls the tool whose call failed before. Likely, not proven.
    Retry,
    /// It repeats the request to where the server redirected it.
    Redirect,
    /// Its `progressToken` is the one that the earlier request gave (basic/utilities/progress).
    Progress,
    /// Its `requestId` is that of the earlier request (basic/utilities/cancellation).
    Cancel,
    /// Its `elicitationId` is that of an elicitation by URL which the earlier message asked for (2025-11-25 client/elicitation).
    Elicitation,
}

impl Why {
    /// All of them, with the word of the JSON lines.
    pub const NAMES: [(Why, &'static str); 11] = [
        (Why::Answer, "answer"),
        (Why::Cursor, "cursor"),
        (Why::RequestState, "request-state"),
        (Why::InputResponses, "input-responses"),
        (Why::Task, "task"),
        (Why::Subscription, "subscription"),
        (Why::Retry, "retry"),
        (Why::Redirect, "redirect"),
        (Why::Progress, "progress"),
        (Why::Cancel, "cancel"),
        (Why::Elicitation, "elicitation"),
    ];

    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(why, _)| *why == self).map_or("", |(_, name)| name)
    }

    /// Whether nothing in the messages proves it.
    pub fn is_likely(self) -> bool {
        self == Why::Retry
    }

    /// What a message with this link does, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Why::Answer => "answers",
            Why::Cursor => "next page",
            Why::RequestState | Why::InputResponses => "with input",
            Why::Task => "task",
            Why::Subscription => "subscription",
            Why::Retry => "likely retry",
            Why::Redirect => "redirected",
            Why::Progress => "progress",
            Why::Cancel => "cancels",
            Why::Elicitation => "elicitation",
        }
    }

    /// The reason in a sentence; `previous` is the earlier message.
    pub fn reason(self, previous: MessageNumber) -> String {
        let MessageNumber(number) = previous;
        match self {
            Why::Answer => format!("it answers message {number}"),
            Why::Cursor => format!("its cursor is the nextCursor of message {number}, and of no other unused one"),
            Why::RequestState => format!("its requestState is the one of message {number}"),
            Why::InputResponses => {
                format!("it repeats the request that message {number} wanted input for, with inputResponses")
            }
            Why::Task => format!("it names the task that message {number} created"),
            Why::Subscription => format!("it names the subscription that message {number} asked for"),
            Why::Redirect => format!("it is message {number} again, sent to where the server redirected that"),
            Why::Progress => {
                format!("its progressToken is the one that message {number} gave, and no other open request")
            }
            Why::Cancel => format!("its requestId is the id of message {number}"),
            Why::Elicitation => format!("its elicitationId is that of an elicitation which message {number} asked for"),
            Why::Retry => {
                format!("likely: the same tool was called soon after message {number} said that it had failed")
            }
        }
    }
}

/// What ties a message to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The operation: the number of its first request.
    pub operation: MessageNumber,
    /// The earlier message: the answer that gave what this one uses, the request that subscribed; for an answer its request.
    pub previous: MessageNumber,
    /// Why.
    pub why: Why,
}
