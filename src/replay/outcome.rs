//! The outcome of a replay.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::new_answers::{NewAnswers, TextRange};
use super::transport::Failure;
use crate::compare::Answer;

/// The new answer to a request; [`AnalyzedRecording::reply`] reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The recorded one, letter by letter: it is not held twice.
    AsRecorded,
    /// Another, kept in [`ReplayResult::new_answers`].
    Other(Answer<TextRange>),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// It was sent; a request with its answer.
    Sent(Option<Reply>),
    /// It was not, for this reason.
    Skipped(String),
}

/// A step, done.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// The id of the request that was sent.
    pub id: Option<u64>,
    /// What became of it.
    pub outcome: StepOutcome,
    /// Nanoseconds until the answer was there.
    pub latency: Option<i64>,
}

/// A replay, done.
#[derive(Clone, Debug, Default)]
pub struct ReplayResult {
    /// Each step, in order.
    pub steps: Vec<StepResult>,
    /// Answers that are not the recorded ones.
    pub new_answers: Arc<NewAnswers>,
    /// By origin: the new server's value.
    pub values: HashMap<usize, Value>,
    /// The server's notifications and requests, by method.
    pub unasked: BTreeMap<String, u64>,
    /// The revision that was spoken.
    pub revision: String,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// The address speaks another transport: nothing was replayed.
    pub wrong_transport: Option<Failure>,
    /// The conversation could not be opened: nothing was replayed.
    pub unopened: Option<String>,
}
