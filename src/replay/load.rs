//! Runs many replays and measures latencies.
//!
//! Saving every replay would waste space. Saved are the first one, and each one that is the first
//! in which some request differs. The report mentions only these.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use super::analyzed_recording::AnalyzedRecording;
use super::follow::Follower;
use super::job::{Job, Replayed};
use super::outcome::{ReplayResult, StepOutcome};
use crate::compare::{Outcome, Report};
use crate::mcp::SessionNumber;
use crate::store::DatabaseFile;
use crate::view::latencies::nearest_rank;

/// The number of replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Replays per thread on average. The total is `repeat` times `parallel`.
    pub repeat: u64,
    /// Threads that replay at the same time.
    pub parallel: u64,
}

/// Latencies of the requests with one label, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Latencies in the recording.
    pub recorded: Vec<i64>,
    /// Latencies in the replays: the latest [`MAX_LATENCIES`].
    pub replayed: Vec<i64>,
    /// All latencies so far, including those that are not stored any more.
    seen: u64,
}

/// The most latencies that are stored for one label.
const MAX_LATENCIES: usize = 65_536;

impl Latencies {
    fn add(&mut self, latency: i64) {
        self.seen += 1;
        if self.replayed.len() < MAX_LATENCIES {
            self.replayed.push(latency);
        } else {
            // Later latencies replace earlier ones in turn.
            self.replayed[(self.seen % MAX_LATENCIES as u64) as usize] = latency;
        }
    }
}

/// The smallest value that at least `percent` percent of the values do not exceed.
pub fn percentile(values: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    nearest_rank(&sorted, percent)
}

/// The results of all replays.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// The report of the first replay. Each request has the first difference that any replay found.
    pub report: Report,
    /// Latencies by label.
    pub latencies: BTreeMap<String, Latencies>,
    /// Number of finished replays.
    pub replays: u64,
    /// The sessions of saved replays, unless the database is temporary.
    pub saved: Vec<SessionNumber>,
}

impl Outcomes {
    /// Adds a replay. Returns whether the report mentions it.
    fn add(&mut self, recording: &AnalyzedRecording, result: &ReplayResult, report: Report) -> bool {
        self.replays += 1;
        for (index, (step, done)) in
            recording.plan.steps.iter().zip(&result.steps).enumerate().filter(|(_, (step, _))| step.is_request)
        {
            let latencies = self.latencies.entry(step.label.to_string()).or_default();
            if self.replays == 1 {
                latencies.recorded.extend(recording.latency(index));
            }
            if let (Some(latency), StepOutcome::Sent(_)) = (done.latency, &done.outcome) {
                latencies.add(latency);
            }
        }
        if self.replays == 1 {
            self.report = report;
            return true;
        }
        let mut is_other = false;
        for (first, other) in self.report.pairs.iter_mut().zip(report.pairs) {
            if !first.outcome.differs() && other.outcome.differs() {
                *first = other;
                is_other = true;
            }
        }
        for note in report.notes {
            if !self.report.notes.contains(&note) {
                self.report.notes.push(note);
            }
        }
        is_other
    }

    /// Adds a note on the saved replays.
    fn note_saved(&mut self) {
        let numbers: Vec<String> = self.saved.iter().map(|session| session.0.to_string()).collect();
        let sessions = if numbers.len() == 1 { "session" } else { "sessions" };
        self.report.notes.push(format!(
            "of {} replays {} saved as {sessions} {}: the first one, and each one with a new difference",
            self.replays,
            numbers.len(),
            numbers.join(", ")
        ));
    }

    /// Whether any replay differed from the recording.
    pub fn differs(&self) -> bool {
        self.report.pairs.iter().any(|pair| pair.outcome != Outcome::Same && pair.outcome.differs())
    }
}

/// Runs a replay as often as `load` asks for. Only differences are retained.
pub fn run(job: &Job, load: Load) -> Result<Outcomes> {
    let total = load.repeat.saturating_mul(load.parallel);
    let is_single = total <= 1;
    let outcomes = Mutex::new((Outcomes::default(), None));
    let started = AtomicU64::new(0);
    let replay = || {
        let place = if is_single { job.place.clone() } else { DatabaseFile::temporary()? };
        job.run_in(&place, &mut Follower::nobody())
    };
    let add = |outcomes: &mut Outcomes, Replayed { result, recorded, report }: Replayed| {
        if outcomes.add(&job.recording, &result, report) && !job.place.is_temporary() {
            outcomes.saved.extend(if is_single {
                recorded.session()?
            } else {
                recorded.save(&job.place, job.recording.number_in(&job.place))?
            });
        }
        Ok(())
    };
    let session = || {
        while started.fetch_add(1, Ordering::Relaxed) < total {
            let done = replay();
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = done.and_then(|replayed| add(&mut outcomes.0, replayed)) {
                outcomes.1.get_or_insert(error);
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..load.parallel {
            scope.spawn(session);
        }
        session();
    });
    match outcomes.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, Some(error)) => Err(error),
        (mut outcomes, None) => {
            if !is_single && !outcomes.saved.is_empty() {
                outcomes.note_saved();
            }
            Ok(outcomes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        assert_eq!([0, 50, 95, 99, 100].map(|percent| percentile(&[3, 1, 2], percent)), [1, 2, 3, 3, 3].map(Some));
        let many: Vec<i64> = (1..=200).collect();
        assert_eq!([50, 95, 99].map(|percent| percentile(&many, percent)), [100, 190, 198].map(Some));
        assert_eq!(percentile(&[], 50), None);
    }
}
