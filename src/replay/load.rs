//! Many replays at once, and how long the answers took.
//!
//! Of many that are alike one is worth keeping. Saved are the first, and each that was the first in which some request was answered otherwise: those
//! are the ones that the report speaks of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use super::follow::Follower;
use super::job::{Job, Replayed};
use super::run::{Fate, Taken};
use super::script::Script;
use crate::compare::{Outcome, Report};
use crate::mcp::SessionNumber;
use crate::store::DatabaseFile;

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Replays one after the other, in each session.
    pub repeat: u64,
    /// Sessions at once.
    pub parallel: u64,
}

/// The latencies of one kind of request, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// In the recording.
    pub recorded: Vec<i64>,
    /// In the replays, at most [`KEPT`], evenly chosen.
    pub replayed: Vec<i64>,
    seen: u64,
}

/// Latencies kept of one kind of request.
const KEPT: usize = 65_536;

impl Latencies {
    fn add(&mut self, latency: i64) {
        self.seen += 1;
        if self.replayed.len() < KEPT {
            self.replayed.push(latency);
        } else {
            // Later ones take the place of earlier ones in turn.
            self.replayed[(self.seen % KEPT as u64) as usize] = latency;
        }
    }
}

/// The value that `percent` of the values do not exceed.
pub fn percentile(values: &[i64], percent: usize) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    // The nearest rank: of three values the largest is the one that 99 % do not exceed.
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// What came of all of them.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// The first report, with the worst outcome of each request in all of them.
    pub report: Report,
    /// By label.
    pub latencies: BTreeMap<String, Latencies>,
    /// Replays done.
    pub replays: u64,
    /// Those of them that were saved, where they are saved.
    pub saved: Vec<SessionNumber>,
}

impl Outcomes {
    /// Adds a replay, and says whether the report speaks of it.
    fn add(&mut self, script: &Script, taken: &Taken, report: Report) -> bool {
        self.replays += 1;
        for (index, (step, done)) in
            script.plan.steps.iter().zip(&taken.steps).enumerate().filter(|(_, (step, _))| step.is_request)
        {
            let latencies = self.latencies.entry(step.label.to_string()).or_default();
            if self.replays == 1 {
                latencies.recorded.extend(script.latency(index));
            }
            if let (Some(latency), Fate::Sent(_)) = (done.latency, &done.fate) {
                latencies.add(latency);
            }
        }
        if self.replays == 1 {
            self.report = report;
            return true;
        }
        let mut is_other = false;
        for (kept, other) in self.report.pairs.iter_mut().zip(report.pairs) {
            if !kept.outcome.differs() && other.outcome.differs() {
                *kept = other;
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

    /// Says what was saved of many.
    fn note_saved(&mut self) {
        let numbers: Vec<String> = self.saved.iter().map(|session| session.0.to_string()).collect();
        let sessions = if numbers.len() == 1 { "session" } else { "sessions" };
        self.report.notes.push(format!(
            "of {} replays {} saved, {sessions} {}: the first, and each that was the first to differ somewhere",
            self.replays,
            numbers.len(),
            numbers.join(", ")
        ));
    }

    /// Whether anything differed.
    pub fn differs(&self) -> bool {
        self.report.pairs.iter().any(|pair| pair.outcome != Outcome::Same && pair.outcome.differs())
    }
}

/// Replays a script as often as asked for. Of each replay nothing is kept but what differs.
///
/// # Errors
/// As for [`Job::run`]: the first that any of them met.
pub fn run(job: &Job, load: Load) -> Result<Outcomes> {
    let total = load.repeat.saturating_mul(load.parallel);
    let is_single = total <= 1;
    let outcomes = Mutex::new((Outcomes::default(), None));
    let started = AtomicU64::new(0);
    let replay = || {
        let place = if is_single { job.place.clone() } else { DatabaseFile::temporary()? };
        job.run_in(&place, &mut Follower::nobody())
    };
    let add = |outcomes: &mut Outcomes, Replayed { taken, recorded, report }: Replayed| {
        if outcomes.add(&job.script, &taken, report) && !job.place.is_temporary() {
            outcomes.saved.extend(if is_single { recorded.session()? } else { recorded.save(&job.place)? });
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
    fn a_percentile_is_a_value_that_so_many_do_not_exceed() {
        assert_eq!([0, 50, 95, 99, 100].map(|percent| percentile(&[3, 1, 2], percent)), [1, 2, 3, 3, 3].map(Some));
        let many: Vec<i64> = (1..=200).collect();
        assert_eq!([50, 95, 99].map(|percent| percentile(&many, percent)), [100, 190, 198].map(Some));
        assert_eq!(percentile(&[], 50), None);
    }
}
