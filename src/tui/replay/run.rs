//! The state of a running or finished replay.

use std::sync::Arc;

use super::Submission;
use super::side_by_side::{AlignedRow, RowMatch, align};
use crate::compare::{Answer, Outcome, Pair, Report};
use crate::mcp::MessageNumber;
use crate::replay::job::{Job, Replayed};
use crate::replay::plan::StepIndex;

/// An update from the replay thread.
#[derive(Debug)]
pub enum ReplayUpdate {
    /// The requests that will be sent, in order.
    Planned(Vec<RequestRow>),
    /// Nothing was sent. The user has to answer these questions first.
    NeedsConsent(Vec<String>),
    /// The session is open and uses this revision.
    Opened(String),
    /// A step was sent.
    Sent(StepIndex),
    /// A step ended in this state.
    Done(StepIndex, RequestState),
    /// The replay ended and was compared.
    Finished(Box<Finished>),
    /// The two answers to a request, the recorded one first; `None` if there are none.
    Answers(StepIndex, Option<(Answer, Answer)>),
    /// The replay failed, for this reason.
    Failed(String),
}

/// A recording and its replay, with their comparison.
#[derive(Debug)]
pub struct Finished {
    /// The submitted job, with the recording.
    pub job: Job,
    /// The recorded replay and the comparison.
    pub replayed: Replayed,
    /// Whether the user stopped it.
    pub stopped: bool,
}

impl Finished {
    /// Reads the two answers to a request from the store.
    pub fn answers(&self, step: StepIndex) -> Option<(Answer, Answer)> {
        self.job.answers(&self.replayed, step).unwrap_or_else(|error| {
            let unread = Answer::Nothing(format!("{error:#}"));
            Some((unread.clone(), unread))
        })
    }
}

/// A request in the list of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    /// Its index in the plan.
    pub step: StepIndex,
    /// Its number in the recording.
    pub number: MessageNumber,
    /// Its name in the list: `tools/call get_weather`.
    pub label: String,
    /// Latency of the recorded answer in nanoseconds.
    pub recorded: Option<i64>,
    pub state: RequestState,
}

/// The state of a request in a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RequestState {
    #[default]
    Waiting,
    /// Sent, and not answered yet.
    Sent,
    /// Answered after this many nanoseconds; `None` if no answer came.
    Answered(Option<i64>),
    /// Not sent, for this reason.
    Skipped(String),
    /// Compared with the recorded answer. The second value is the latency in nanoseconds.
    Compared(Outcome, Option<i64>),
}

/// The stage of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The recording is being read.
    #[default]
    Reading,
    /// Messages are being exchanged.
    Running,
    /// The user stopped it, and it has not ended yet.
    Stopping,
    /// The replay ended, and its answers can be read.
    Finished,
    /// The replay failed, for this reason.
    Failed(String),
}

/// The last replay, or the running one.
#[derive(Debug, Default)]
pub struct Run {
    pub submission: Option<Submission>,
    pub stage: Stage,
    /// The requests, in order of their steps.
    pub rows: Vec<RequestRow>,
    /// The revision of the new session.
    pub revision: Option<String>,
    /// The result, once there is one.
    pub finished: Option<Arc<Finished>>,
    /// The answers of the selected request.
    shown: Option<Shown>,
    /// The row of them that the cursor is at.
    current_row: usize,
    /// Whether the answers receive the keys, and not the list.
    pub answers_focused: bool,
    /// Steps that were skipped by the plan.
    skipped_by_plan: Vec<StepIndex>,
    /// Reasons for the other skipped steps: only the new server declares their tools destructive.
    pub late_refusals: Vec<String>,
}

/// The answers to a request, as they are shown.
#[derive(Debug)]
struct Shown {
    step: StepIndex,
    answers: Option<(Answer, Answer)>,
    /// The answers side by side.
    rows: Vec<AlignedRow>,
}

impl Run {
    /// A replay of this submission that has not started.
    pub fn new(submission: Submission) -> Run {
        Run { submission: Some(submission), ..Run::default() }
    }

    /// Whether it is running.
    pub fn is_going(&self) -> bool {
        matches!(self.stage, Stage::Reading | Stage::Running | Stage::Stopping)
    }

    /// Handles an update. Returns the row to select, if there is a new one.
    pub fn apply(&mut self, update: ReplayUpdate) -> Option<usize> {
        match update {
            ReplayUpdate::Planned(rows) => {
                self.stage = Stage::Running;
                let is_refused = |row: &&RequestRow| matches!(row.state, RequestState::Skipped(_));
                self.skipped_by_plan = rows.iter().filter(is_refused).map(|row| row.step).collect();
                self.rows = rows;
            }
            ReplayUpdate::Opened(revision) => self.revision = Some(revision),
            ReplayUpdate::Sent(step) => self.set(step, RequestState::Sent),
            ReplayUpdate::Done(step, state) => self.set(step, state),
            ReplayUpdate::Failed(why) => self.stage = Stage::Failed(why),
            ReplayUpdate::Finished(finished) => return Some(self.finish(finished)),
            ReplayUpdate::Answers(step, answers) => self.align_answers(step, answers),
            ReplayUpdate::NeedsConsent(_) => {}
        }
        None
    }

    fn set(&mut self, step: StepIndex, state: RequestState) {
        // Rows are in order of their steps.
        if let Ok(row) = self.rows.binary_search_by_key(&step, |row| row.step) {
            self.rows[row].state = state;
        }
    }

    /// Takes the result. Returns the first row with a different answer, or the last row if a single
    /// call was sent.
    fn finish(&mut self, finished: Box<Finished>) -> usize {
        let requests = finished.job.recording.plan.steps.iter().enumerate().filter(|(_, step)| step.is_request);
        for ((step, _), pair) in requests.zip(&finished.replayed.report.pairs) {
            let latency = pair.new.and_then(|new| new.latency);
            let state = match (&pair.why, pair.outcome) {
                // The row has its reason already.
                (Some(_), Outcome::Skipped) => continue,
                _ => RequestState::Compared(pair.outcome, latency),
            };
            self.set(step, state);
        }
        let refused = |row: &RequestRow| match &row.state {
            // The new server may declare what the recording does not.
            RequestState::Skipped(why) if !self.skipped_by_plan.contains(&row.step) => Some(why.clone()),
            _ => None,
        };
        self.late_refusals = self.rows.iter().filter_map(refused).collect();
        self.late_refusals.dedup();
        (self.stage, self.shown, self.current_row) = (Stage::Finished, None, 0);
        self.finished = Some(finished.into());
        let differs = |row: &RequestRow| matches!(row.state, RequestState::Compared(outcome, _) if outcome.differs());
        let is_call = self.submission.as_ref().is_some_and(|submission| submission.call.is_some());
        let first = self.rows.iter().position(differs).filter(|_| !is_call);
        first.unwrap_or(self.rows.len().saturating_sub(1))
    }

    /// The report, once there is one.
    pub fn report(&self) -> Option<&Report> {
        self.finished.as_ref().map(|finished| &finished.replayed.report)
    }

    /// The compared pair of a row.
    pub fn pair(&self, row: usize) -> Option<&Pair> {
        let (row, finished) = (self.rows.get(row)?, self.finished.as_ref()?);
        let before = finished.job.recording.plan.steps.get(..row.step)?.iter().filter(|step| step.is_request).count();
        finished.replayed.report.pairs.get(before)
    }

    /// Shows the answers of a row. Returns the step to read if they are not shown yet.
    pub fn show_answers(&mut self, row: usize) -> Option<StepIndex> {
        let step = self.rows.get(row)?.step;
        if self.finished.is_none() || self.shown.as_ref().is_some_and(|shown| shown.step == step) {
            return None;
        }
        (self.shown, self.current_row) = (Some(Shown { step, answers: None, rows: Vec::new() }), 0);
        Some(step)
    }

    /// Aligns the answers of a request once they were read.
    fn align_answers(&mut self, step: StepIndex, answers: Option<(Answer, Answer)>) {
        let Ok(row) = self.rows.binary_search_by_key(&step, |row| row.step) else { return };
        let differences = self.pair(row).map(|pair| pair.differences.as_slice()).unwrap_or_default();
        let rows = answers.as_ref().map(|(old, new)| align(old, new, differences)).unwrap_or_default();
        // Another row may be selected by now.
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.step == step) {
            // The first difference is visible.
            self.current_row = rows.iter().position(|row| row.matching == RowMatch::Differs).unwrap_or(0);
            (shown.answers, shown.rows) = (answers, rows);
        }
    }

    /// The two answers that are shown, the recorded one first; `None` if there are none.
    pub fn answers(&self) -> Option<&(Answer, Answer)> {
        self.shown.as_ref()?.answers.as_ref()
    }

    /// The same answers side by side.
    pub fn aligned_rows(&self) -> &[AlignedRow] {
        self.shown.as_ref().map(|shown| shown.rows.as_slice()).unwrap_or_default()
    }

    /// The first visible row of a window of this height. Two rows above the cursor are visible, and
    /// the window is full.
    pub fn top(&self, height: usize) -> usize {
        self.current_row.saturating_sub(2).min(self.aligned_rows().len().saturating_sub(height))
    }

    /// Scrolls by this many rows, from the first visible one.
    pub fn scroll(&mut self, by: isize, height: usize) {
        let last = self.aligned_rows().len().saturating_sub(height);
        let top = self.top(height).saturating_add_signed(by).min(last);
        self.current_row = if top == 0 { 0 } else { top + 2 };
    }

    /// Goes to the next start of a group of rows that differ, or to the one before the cursor.
    /// Returns false if there is none.
    pub fn next_difference(&mut self, by: i8) -> bool {
        let rows = self.aligned_rows();
        let begins = |at: &usize| {
            rows[*at].matching == RowMatch::Differs
                && at.checked_sub(1).is_none_or(|above| rows[above].matching != RowMatch::Differs)
        };
        let here = self.current_row;
        let found =
            if by > 0 { (here + 1..rows.len()).find(begins) } else { (0..here.min(rows.len())).rev().find(begins) };
        let Some(found) = found else { return false };
        self.current_row = found;
        true
    }
}
