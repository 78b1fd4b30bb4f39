//! The link of a message to an earlier message of its operation.

use super::numbers::MessageNumber;

words! {
    /// Why a message belongs to the operation of an earlier one.
    pub enum Why {
        /// The message is the response to a request of the operation.
        Answer = "answer",
        /// Its `cursor` is the `nextCursor` of an earlier response (server/utilities/pagination).
        Cursor = "cursor",
        /// Its `requestState` is the one that an earlier response asked to be sent back (2026-07-28
        /// basic/patterns/mrtr).
        RequestState = "request-state",
        /// The message repeats a request together with the input that the response required. There
        /// was no `requestState`.
        InputResponses = "input-responses",
        /// Its `taskId`, or the `taskId` in its `_meta`, names the task that an
        /// earlier response created.
        Task = "task",
        /// Its `subscriptionId` or `uri` names the subscription of an earlier request.
        Subscription = "subscription",
        /// The message repeats a call that failed, was cancelled or was never answered, with the
        /// same arguments. Nothing proves it.
        Retry = "retry",
        /// The message repeats a request at the target of a redirect.
        Redirect = "redirect",
        /// Its `progressToken` is the one of an earlier request (basic/utilities/progress).
        Progress = "progress",
        /// Its `requestId` is the id of an earlier request (basic/utilities/cancellation).
        Cancel = "cancel",
        /// Its `elicitationId` names an elicitation by URL that an earlier message required
        /// (2025-11-25 client/elicitation).
        Elicitation = "elicitation",
    }
}

impl Why {
    /// Whether no member of the messages proves the link.
    pub fn is_likely(self) -> bool {
        self == Why::Retry
    }

    /// A short label of the message for lists.
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

    /// The reason as a sentence. `previous` is the earlier message.
    pub fn reason(self, previous: MessageNumber) -> String {
        let MessageNumber(number) = previous;
        match self {
            Why::Answer => format!("it answers message {number}"),
            Why::Cursor => format!("its cursor is the nextCursor of message {number}, and of no other unused response"),
            Why::RequestState => format!("its requestState is the one of message {number}"),
            Why::InputResponses => {
                format!("it repeats the request for which message {number} required input, with inputResponses")
            }
            Why::Task => format!("it names the task that message {number} created"),
            Why::Subscription => format!("it names the subscription of message {number}"),
            Why::Redirect => format!("it repeats message {number} at the target of a redirect"),
            Why::Progress => {
                format!("its progressToken is the one of message {number}, and of no other open request")
            }
            Why::Cancel => format!("its requestId is the id of message {number}"),
            Why::Elicitation => format!("its elicitationId names an elicitation that message {number} required"),
            Why::Retry => {
                format!(
                    "likely: with the same arguments, it repeats the call that failed or had no answer, see message {number}"
                )
            }
        }
    }
}

/// The link of a message to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The number of the first request of the operation.
    pub operation: MessageNumber,
    /// The earlier message: the response that gave the cursor or task, the request that subscribed,
    /// the call that had no answer, or the request that this response answers.
    pub previous: MessageNumber,
    /// The reason for the link.
    pub why: Why,
}
