//! The result of a comparison, as data.

use std::sync::Arc;

use super::difference::Difference;
use super::label::Label;
use super::rules::Rule;

/// Factor by which a response has to be slower to get a line in the report.
pub const SLOWER: i64 = 2;
/// Nanoseconds by which it has to be slower: a tenth of a second, which a person notices.
pub const NOTICED: i64 = 100_000_000;

mcptap_core::words! {
    /// The result of comparing one pair of answers, with its word in all outputs.
    pub enum Outcome {
        /// Equal, apart from values that are set aside.
        Same = "same",
        /// The request was not sent again. The report gives the reason.
        Skipped = "skipped",
        /// Both are results, or both are errors, and they differ.
        Different = "different",
        /// There was a response (or a request) before, and there is none now.
        Missing = "missing",
        /// There is a response (or a request) now, and there was none before.
        Extra = "extra",
        /// An error instead of a result.
        Error = "error",
        /// A result instead of an error.
        Result = "result",
        /// A tool failed that did not fail before.
        ToolError = "tool-error",
    }
}

impl Outcome {
    /// Whether this outcome makes the whole comparison count as different.
    pub fn differs(self) -> bool {
        !matches!(self, Outcome::Same | Outcome::Skipped)
    }
}

/// A request in one of the two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The number of the request in its recording.
    pub number: u64,
    /// Nanoseconds from the request to its response.
    pub latency: Option<i64>,
}

/// A request and its counterpart in the other recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The method and the subject of the request.
    pub label: Arc<Label>,
    /// The request in the recording.
    pub old: Option<Party>,
    /// The request in the new run.
    pub new: Option<Party>,
    /// The result of comparing the two answers.
    pub outcome: Outcome,
    /// The differences inside the two answers.
    pub differences: Vec<Difference>,
    /// An explanation, where the outcome alone is not enough.
    pub why: Option<String>,
}

/// A recorded value, and the one that the new server chose in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The recorded value.
    pub old: String,
    /// The value that was sent instead.
    pub new: String,
    /// The number of the recorded message of the server that contains the old value.
    pub given_by: u64,
    /// Another new value for the same recorded value, and the recorded message at whose place the
    /// new server sent it. It was not used.
    pub other: Option<(String, u64)>,
    /// The recorded messages of the client that it was sent in, with JSON Pointers into their
    /// parameters or results.
    pub uses: Vec<(u64, String)>,
}

/// The result of comparing two recordings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Name of the recorded side.
    pub old: String,
    /// Name of the new side.
    pub new: String,
    /// All requests, in order.
    pub pairs: Vec<Pair>,
    /// Rules for values that varied between two calibration runs. They were set aside.
    pub volatile: Vec<Rule>,
    /// Recorded values that a replay replaced by those of the new server, in the order of sending.
    pub replaced: Vec<Replacement>,
    /// Methods of the server's notifications and requests whose counts differ, each
    /// with the old and the new count. Their timing is up to the server, so they do not
    /// make a comparison differ.
    pub unasked: Vec<(String, u64, u64)>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Report {
    /// The pairs whose response became noticeably slower: by the factor [`SLOWER`] and by
    /// more than [`NOTICED`] nanoseconds. A busy machine can cause that too, so it does not
    /// make a comparison differ.
    pub fn slower(&self) -> impl Iterator<Item = (&Pair, i64, i64)> {
        let latencies = |pair: &Pair| Some((pair.old?.latency?, pair.new?.latency?));
        let pairs = self.pairs.iter().filter(|pair| !matches!(&*pair.label.method, "initialize" | "server/discover"));
        pairs
            .filter_map(move |pair| latencies(pair).map(|(old, new)| (pair, old, new)))
            .filter(|(_, old, new)| new.saturating_sub(*old) > NOTICED && *new > old.saturating_mul(SLOWER))
    }

    /// Whether no pair differs.
    pub fn is_same(&self) -> bool {
        !self.pairs.iter().any(|pair| pair.outcome.differs())
    }

    /// The number of pairs for each outcome that occurs.
    pub fn counts(&self) -> Vec<(Outcome, u64)> {
        let count = |outcome| self.pairs.iter().filter(|pair| pair.outcome == outcome).count() as u64;
        Outcome::ALL.into_iter().map(|outcome| (outcome, count(outcome))).filter(|(_, count)| *count > 0).collect()
    }
}
