//! The result of running a replay.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::new_answers::{NewAnswers, TextRange};
use super::transport::Failure;
use crate::compare::Answer;
use crate::mcp::MessageNumber;

/// The new answer to a request, read by `AnalyzedRecording::reply`.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Equal to the recorded answer in every byte, so it is not stored again.
    AsRecorded,
    /// Another answer, stored in [`ReplayResult::new_answers`].
    Other(Answer<TextRange>),
}

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// The message was sent. A request has its new answer.
    Sent(Option<Reply>),
    /// The message was not sent, for this reason.
    Skipped(String),
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// The id of the request that was sent.
    pub id: Option<u64>,
    /// Whether it was sent, and the answer.
    pub outcome: StepOutcome,
    /// Nanoseconds from the request to the response.
    pub latency: Option<i64>,
}

/// A recorded value that was replaced in one message.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplacedValue {
    /// The index of its origin in [`Flow::origins`](super::Flow::origins).
    pub origin: usize,
    /// The value that was sent instead.
    pub new: Value,
    /// Another new value for the same recorded value, and its origin.
    pub other: Option<(usize, Value)>,
    /// The number of the client's message in the recording.
    pub message: MessageNumber,
    /// JSON Pointer into its parameters or its result.
    pub path: String,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayResult {
    /// One result per step, in order.
    pub steps: Vec<StepResult>,
    /// Answers that differ from the recorded ones.
    pub new_answers: Arc<NewAnswers>,
    /// Values of the new server, by the index of their origin.
    pub values: HashMap<usize, Value>,
    /// Where these values were sent in place of recorded ones, in the order of sending.
    pub replaced: Vec<ReplacedValue>,
    /// The number of the server's notifications and requests by method.
    pub unasked: BTreeMap<String, u64>,
    /// The revision that was used.
    pub revision: String,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// The URL uses another transport, so nothing was replayed.
    pub wrong_transport: Option<Failure>,
    /// The handshake failed for this reason, so nothing was replayed.
    pub unopened: Option<String>,
}
