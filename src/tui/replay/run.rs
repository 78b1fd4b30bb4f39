//! A replay under way, and what came of it: the state behind its screen.

use std::sync::Arc;

use super::Order;
use super::beside::{self, Mark};
use crate::compare::{Answer, Outcome, Pair, Report};
use crate::mcp::MessageNumber;
use crate::replay::job::{Job, Replayed};
use crate::replay::plan::StepIndex;

/// What the thread that replays tells.
#[derive(Debug)]
pub enum Told {
    /// What will be sent, in order.
    Planned(Vec<Row>),
    /// Nothing was sent: these sentences have to be answered first.
    Asks(Vec<String>),
    /// The conversation is open, and this revision is spoken.
    Opened(String),
    /// A step is on its way.
    Sent(StepIndex),
    /// A step is over.
    Over(StepIndex, State),
    /// All is over.
    Finished(Box<Finished>),
    /// The two answers to a request, the recorded one first; nothing where there were none.
    Answers(StepIndex, Option<(Answer, Answer)>),
    /// It could not be done.
    Failed(String),
}

/// Recording and replay, held against each other.
#[derive(Debug)]
pub struct Finished {
    /// What was ordered, with the recording.
    pub job: Job,
    /// What came of it.
    pub replayed: Replayed,
    /// Whether it was ended before its end.
    pub stopped: bool,
}

impl Finished {
    /// Reads the two answers to a request, from the store.
    pub fn answers(&self, step: StepIndex) -> Option<(Answer, Answer)> {
        self.job.answers(&self.replayed, step).unwrap_or_else(|error| {
            let unread = Answer::Nothing(format!("{error:#}"));
            Some((unread.clone(), unread))
        })
    }
}

/// A request of the replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its index in the plan.
    pub step: StepIndex,
    /// Its number in the recording.
    pub number: MessageNumber,
    /// What it is called: `tools/call get_weather`.
    pub label: String,
    /// Nanoseconds that the recorded answer took.
    pub recorded: Option<i64>,
    /// What became of it.
    pub state: State,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// Not yet sent.
    #[default]
    Waiting,
    /// Sent, not yet answered.
    Sent,
    /// Answered, after so many nanoseconds.
    Answered(Option<i64>),
    /// Not sent, for this reason.
    Skipped(String),
    /// Held against the recorded answer.
    Compared(Outcome, Option<i64>),
}

/// How far a replay is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The recording is read.
    #[default]
    Reading,
    /// Messages go to and fro.
    Running,
    /// It was told to end, and says how far it got.
    Stopping,
    /// Its answers are here.
    Finished,
    /// It could not be done, for this reason.
    Failed(String),
}

/// The last replay.
#[derive(Debug, Default)]
pub struct Run {
    /// What was ordered.
    pub order: Option<Order>,
    /// How far it is.
    pub stage: Stage,
    /// The requests, in order.
    pub rows: Vec<Row>,
    /// The revision that is spoken.
    pub revision: Option<String>,
    /// What came of it.
    pub finished: Option<Arc<Finished>>,
    /// The answers of the selected request.
    shown: Option<Shown>,
    /// Which row of them is looked at.
    at: usize,
    /// Whether they have the keys, and not the list.
    pub in_answers: bool,
    /// Steps that were known not to be sent.
    refused: Vec<StepIndex>,
    /// Why others were not sent: only the new server said that they destroy.
    pub refused_late: Vec<String>,
}

/// The answers to a request, as they are shown.
#[derive(Debug)]
struct Shown {
    step: StepIndex,
    answers: Option<(Answer, Answer)>,
    /// Beside each other.
    beside: Vec<beside::Row>,
}

impl Run {
    /// Of an order.
    pub fn new(order: Order) -> Run {
        Run { order: Some(order), ..Run::default() }
    }

    /// Whether it is under way.
    pub fn is_going(&self) -> bool {
        matches!(self.stage, Stage::Reading | Stage::Running | Stage::Stopping)
    }

    /// Takes in what is told; says which row to look at, where that is news.
    pub fn take(&mut self, told: Told) -> Option<usize> {
        match told {
            Told::Planned(rows) => {
                self.stage = Stage::Running;
                let is_refused = |row: &&Row| matches!(row.state, State::Skipped(_));
                self.refused = rows.iter().filter(is_refused).map(|row| row.step).collect();
                self.rows = rows;
            }
            Told::Opened(revision) => self.revision = Some(revision),
            Told::Sent(step) => self.set(step, State::Sent),
            Told::Over(step, state) => self.set(step, state),
            Told::Failed(why) => self.stage = Stage::Failed(why),
            Told::Finished(finished) => return Some(self.finish(finished)),
            Told::Answers(step, answers) => self.lay_out(step, answers),
            Told::Asks(_) => {}
        }
        None
    }

    fn set(&mut self, step: StepIndex, state: State) {
        // Rows are in order of their steps.
        if let Ok(row) = self.rows.binary_search_by_key(&step, |row| row.step) {
            self.rows[row].state = state;
        }
    }

    /// The first request that was answered otherwise, or the last of all: the one that was asked for.
    fn finish(&mut self, finished: Box<Finished>) -> usize {
        let requests = finished.job.recording.plan.steps.iter().enumerate().filter(|(_, step)| step.is_request);
        for ((step, _), pair) in requests.zip(&finished.replayed.report.pairs) {
            let latency = pair.new.and_then(|new| new.latency);
            let state = match (&pair.why, pair.outcome) {
                // It has its reason already.
                (Some(_), Outcome::Skipped) => continue,
                _ => State::Compared(pair.outcome, latency),
            };
            if let Ok(row) = self.rows.binary_search_by_key(&step, |row| row.step) {
                self.rows[row].state = state;
            }
        }
        let refused = |row: &Row| match &row.state {
            // What the recording does not say, the new server may.
            State::Skipped(why) if !self.refused.contains(&row.step) => Some(why.clone()),
            _ => None,
        };
        self.refused_late = self.rows.iter().filter_map(refused).collect();
        self.refused_late.dedup();
        (self.stage, self.shown, self.at) = (Stage::Finished, None, 0);
        self.finished = Some(finished.into());
        let differs = |row: &Row| matches!(row.state, State::Compared(outcome, _) if outcome.differs());
        let is_call = self.order.as_ref().is_some_and(|order| order.call.is_some());
        let first = self.rows.iter().position(differs).filter(|_| !is_call);
        first.unwrap_or(self.rows.len().saturating_sub(1))
    }

    /// The report, once there is one.
    pub fn report(&self) -> Option<&Report> {
        self.finished.as_ref().map(|finished| &finished.replayed.report)
    }

    /// The pair of a row.
    pub fn pair(&self, row: usize) -> Option<&Pair> {
        let (row, finished) = (self.rows.get(row)?, self.finished.as_ref()?);
        let before = finished.job.recording.plan.steps.get(..row.step)?.iter().filter(|step| step.is_request).count();
        finished.replayed.report.pairs.get(before)
    }

    /// Shows the answers of a row. Says which have to be read for it.
    pub fn settle(&mut self, row: usize) -> Option<StepIndex> {
        let step = self.rows.get(row)?.step;
        if self.finished.is_none() || self.shown.as_ref().is_some_and(|shown| shown.step == step) {
            return None;
        }
        (self.shown, self.at) = (Some(Shown { step, answers: None, beside: Vec::new() }), 0);
        Some(step)
    }

    /// The answers of a request were read.
    fn lay_out(&mut self, step: StepIndex, answers: Option<(Answer, Answer)>) {
        let Ok(row) = self.rows.binary_search_by_key(&step, |row| row.step) else { return };
        let differences = self.pair(row).map(|pair| pair.differences.as_slice()).unwrap_or_default();
        let beside = answers.as_ref().map(|(old, new)| beside::rows(old, new, differences)).unwrap_or_default();
        // Another may be selected by now.
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.step == step) {
            // The first difference is in view.
            self.at = beside.iter().position(|row| row.mark == Mark::Differs).unwrap_or(0);
            (shown.answers, shown.beside) = (answers, beside);
        }
    }

    /// The two answers that are shown, the recorded one first; nothing where there were none.
    pub fn answers(&self) -> Option<&(Answer, Answer)> {
        self.shown.as_ref()?.answers.as_ref()
    }

    /// The same beside each other.
    pub fn beside(&self) -> &[beside::Row] {
        self.shown.as_ref().map(|shown| shown.beside.as_slice()).unwrap_or_default()
    }

    /// The first row of them in view where so many are: a little of what stands above the one that is looked at is seen, and the view is full.
    pub fn top(&self, height: usize) -> usize {
        self.at.saturating_sub(2).min(self.beside().len().saturating_sub(height))
    }

    /// Scrolls by so many rows, from the first one in view.
    pub fn scroll(&mut self, by: isize, height: usize) {
        let last = self.beside().len().saturating_sub(height);
        let top = self.top(height).saturating_add_signed(by).min(last);
        self.at = if top == 0 { 0 } else { top + 2 };
    }

    /// To the next run of rows that differ, or to the one before; false where there is none.
    pub fn step(&mut self, by: i8) -> bool {
        let rows = self.beside();
        let begins = |at: &usize| {
            rows[*at].mark == Mark::Differs && at.checked_sub(1).is_none_or(|above| rows[above].mark != Mark::Differs)
        };
        let here = self.at;
        let found =
            if by > 0 { (here + 1..rows.len()).find(begins) } else { (0..here.min(rows.len())).rev().find(begins) };
        let Some(found) = found else { return false };
        self.at = found;
        true
    }
}
