//! What a comparison found, as data.

use std::sync::Arc;

use super::difference::Difference;
use super::label::Label;
use super::rules::Rule;

/// How much slower is worth a line.
pub const SLOWER: i64 = 2;
/// A tenth of a second: what a person notices.
pub const NOTICED: i64 = 100_000_000;

/// How a pair of answers compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The same answer, but for what was set aside.
    Same,
    /// It was not asked again, for a reason that is given.
    Skipped,
    /// Another answer.
    Different,
    /// There was an answer (or a request) before, and none now.
    Missing,
    /// There is one now, and none before.
    Extra,
    /// An error where there was a result.
    Error,
    /// A result where there was an error.
    Result,
    /// A tool that failed where it had not.
    ToolError,
}

impl Outcome {
    /// All of them, with the word of the outputs.
    pub const NAMES: [(Outcome, &'static str); 8] = [
        (Outcome::Same, "same"),
        (Outcome::Skipped, "skipped"),
        (Outcome::Different, "different"),
        (Outcome::Missing, "missing"),
        (Outcome::Extra, "extra"),
        (Outcome::Error, "error"),
        (Outcome::Result, "result"),
        (Outcome::ToolError, "tool-error"),
    ];

    /// The word of the outputs.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, name)| name)
    }

    /// Whether it makes the whole comparison say "differs".
    pub fn differs(self) -> bool {
        !matches!(self, Outcome::Same | Outcome::Skipped)
    }
}

/// One side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// The number of the request in its recording.
    pub number: u64,
    /// Nanoseconds until it was answered.
    pub latency: Option<i64>,
}

/// A request on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What it is called.
    pub label: Arc<Label>,
    /// The recorded one.
    pub old: Option<Party>,
    /// The new one.
    pub new: Option<Party>,
    /// How they compare.
    pub outcome: Outcome,
    /// Where they differ.
    pub differences: Vec<Difference>,
    /// In a sentence, where the outcome alone does not say it.
    pub why: Option<String>,
}

/// A whole comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What the recorded side is called.
    pub old: String,
    /// What the new side is called.
    pub new: String,
    /// The requests, in order.
    pub pairs: Vec<Pair>,
    /// What was found to vary by itself, and set aside.
    pub volatile: Vec<Rule>,
    /// The server's notifications and requests whose numbers differ: method, before, now. They come when they come, so they do not make a
    /// comparison differ.
    pub unasked: Vec<(String, u64, u64)>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl Report {
    /// The pairs whose answer took so much longer that somebody would notice: [`SLOWER`] times as long, and [`NOTICED`] nanoseconds more. That
    /// the machine was busy is no difference: it does not make a comparison differ.
    pub fn slower(&self) -> impl Iterator<Item = (&Pair, i64, i64)> {
        let latencies = |pair: &Pair| Some((pair.old?.latency?, pair.new?.latency?));
        let pairs = self.pairs.iter().filter(|pair| !matches!(&*pair.label.method, "initialize" | "server/discover"));
        pairs
            .filter_map(move |pair| latencies(pair).map(|(old, new)| (pair, old, new)))
            .filter(|(_, old, new)| new.saturating_sub(*old) > NOTICED && *new > old.saturating_mul(SLOWER))
    }

    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        !self.pairs.iter().any(|pair| pair.outcome.differs())
    }

    /// How many pairs there are of each outcome that occurs.
    pub fn counts(&self) -> Vec<(Outcome, u64)> {
        let count = |outcome| self.pairs.iter().filter(|pair| pair.outcome == outcome).count() as u64;
        Outcome::NAMES.iter().map(|(outcome, _)| (*outcome, count(*outcome))).filter(|(_, count)| *count > 0).collect()
    }
}
