//! A replay as a caller orders it: the command line and the user interface need only this module.
//!
//! ```text
//!  let recording = AnalyzedRecording::read(&reader, session)?;
//!  let target = Target::read("http://localhost:8080/mcp", timeout)?;   // or "python3 server.py"
//!  let mut job = Job::new(recording, target, DatabaseFile::file(database));
//!  job.choose(&[step]);                              // one call, and what supplies its values
//!  job.edit(step, r#"{"name":"get_weather","arguments":{"city":"Oslo"}}"#)?;
//!  for row in job.planned()? { … }                   // a preview, with reasons for skipping
//!  let replayed = job.run(&mut Follower::new(|progress| …, stop))?;  // blocks
//!  replayed.report;                                  // the differences
//!  job.answers(&replayed, step);                     // both answers of a step
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use crossbeam_channel::RecvTimeoutError;
use serde_json::Value;

use super::analyzed_recording::AnalyzedRecording;
use super::capture::Recorded;
use super::comparison;
use super::flow::Giver;
use super::follow::Follower;
use super::outcome::{ReplayResult, StepOutcome};
use super::plan::StepIndex;
use super::settings::Settings;
use super::target::Target;
use super::translate::{Dialect, Translated};
use crate::compare::{Answer, Label, Report, Rule, Rules};
use crate::mcp::MessageNumber;
use crate::store::DatabaseFile;

/// The pause between the two runs that are compared in a calibration. Many servers write times in
/// whole seconds, so the runs have to be more than a second apart.
const APART: Duration = Duration::from_millis(1_100);

/// A replay to be run: the recording, the server, and all options.
#[derive(Clone, Debug)]
pub struct Job {
    /// The recording, analyzed for replay.
    pub recording: AnalyzedRecording,
    /// The server to send to.
    pub target: Target,
    /// Options of the run.
    pub settings: Settings,
    /// Rules for comparing answers.
    pub rules: Rules,
    /// Rules that [`Job::calibrate`] found. `rules` contains them too.
    pub volatile: Vec<Rule>,
    /// The database that stores the traffic of the replay.
    pub place: DatabaseFile,
}

/// A finished replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The outcome of each step.
    pub result: ReplayResult,
    /// The recorded traffic.
    pub recorded: Recorded,
    /// The comparison of new and recorded answers.
    pub report: Report,
}

/// The message that supplies a value, by its number in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The response to this request.
    AnswerTo(MessageNumber),
    /// This request or notification of the server.
    Message(MessageNumber),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSource::AnswerTo(number) => write!(f, "the answer to #{}", number.0),
            ValueSource::Message(number) => write!(f, "#{}", number.0),
        }
    }
}

/// A preview of one step: what would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Index of the step in the plan.
    pub step: StepIndex,
    /// Message number in the recording.
    pub number: MessageNumber,
    /// The method and the subject of the message.
    pub label: Arc<Label>,
    /// The messages that the step waits for: requests that need a response, and messages that
    /// the server initiates.
    pub after: Vec<MessageNumber>,
    /// Values in `params` that the new server supplies: a JSON Pointer, and the source
    /// of the value.
    pub takes: Vec<(String, ValueSource)>,
    /// The reason for not sending it, if it is not sent.
    pub refused: Option<String>,
}

impl Job {
    /// A replay of the whole recording at full speed, compared without exceptions.
    pub fn new(recording: AnalyzedRecording, target: Target, place: DatabaseFile) -> Job {
        let (settings, rules, volatile) = (Settings::default(), Rules::default(), Vec::new());
        Job { recording, target, settings, rules, volatile, place }
    }

    /// Limits the replay to these steps and the steps that supply their values. The handshake
    /// is always sent.
    pub fn choose(&mut self, steps: &[StepIndex]) {
        let mut only = vec![false; self.recording.plan.steps.len()];
        let mut open = steps.to_vec();
        while let Some(step) = open.pop() {
            if let Some(chosen) = only.get_mut(step).filter(|chosen| !**chosen) {
                *chosen = true;
                open.extend(self.recording.flow.sources(step));
            }
        }
        self.settings.only = only;
    }

    /// The `params` of a step as they would be sent, before values of the new server are inserted.
    /// `None` if the message has none.
    pub fn params(&self, step: StepIndex) -> Result<Option<String>> {
        match self.settings.edits.get(&step) {
            Some(edited) => Ok(Some(edited.clone())),
            None => Ok(self.recording.params(&mut self.recording.texts(), step)?.map(str::to_owned)),
        }
    }

    /// Replaces the `params` of a step. Values of the new server are still inserted where the
    /// edited text contains the recorded values.
    ///
    /// # Errors
    /// The step does not exist, or the text is not a JSON object or array (JSON-RPC 2.0 section
    /// 4.2).
    pub fn edit(&mut self, step: StepIndex, params: &str) -> Result<()> {
        if step >= self.recording.plan.steps.len() {
            bail!("there is no step {step}");
        }
        match serde_json::from_str(params) {
            Ok(Value::Object(_) | Value::Array(_)) => {}
            Ok(_) => bail!("params must be an object or an array"),
            Err(error) => bail!("not JSON: {error}"),
        }
        self.settings.edits.insert(step, params.to_owned());
        Ok(())
    }

    /// Previews of all steps, in order.
    pub fn planned(&self) -> Result<Vec<Planned>> {
        let mut rows = Vec::new();
        planned(&self.recording, &self.settings, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Replays twice and adds rules for the values that differ between the two runs. These runs
    /// are not saved.
    pub fn calibrate(&mut self, follower: &mut Follower<'_>) -> Result<()> {
        // Calibration runs are not saved as sessions.
        let place = DatabaseFile::temporary()?;
        let (first, capture) = self.target.replay(&self.recording, &self.settings, &place, follower)?;
        capture.finish()?;
        // The pause lies between the end of the first run and the start of the second. Otherwise a
        // slow first start of the server would shorten it.
        if follower.stop.recv_timeout(APART) != Err(RecvTimeoutError::Timeout) {
            bail!("stopped on request");
        }
        let (second, capture) = self.target.replay(&self.recording, &self.settings, &place, follower)?;
        capture.finish()?;
        self.volatile = comparison::calibrate(&self.recording, &first, &second)?;
        self.rules.ignored.extend(self.volatile.iter().cloned());
        Ok(())
    }

    /// Replays once. Blocks until the server is done, so a user interface calls it on a separate
    /// thread. The server process ends with that thread.
    pub fn run(&self, follower: &mut Follower<'_>) -> Result<Replayed> {
        self.run_in(&self.place, follower)
    }

    /// Replays once and records into another database.
    pub(super) fn run_in(&self, place: &DatabaseFile, follower: &mut Follower<'_>) -> Result<Replayed> {
        let (result, capture) = self.target.replay(&self.recording, &self.settings, place, follower)?;
        // The recorder catches up during the comparison.
        let pairs = comparison::pairs(&self.recording, &result, &self.rules);
        let recorded = capture.finish()?;
        let mut report = comparison::report(&self.recording, &result, pairs?, &recorded);
        (report.new, report.volatile) = (self.target.name(), self.volatile.clone());
        Ok(Replayed { result, recorded, report })
    }

    /// The recorded and the new answer to a request. `None` for a notification or a request that
    /// was not sent.
    pub fn answers(&self, replayed: &Replayed, step: StepIndex) -> Result<Option<(Answer, Answer)>> {
        let Some(StepOutcome::Sent(Some(reply))) = replayed.result.steps.get(step).map(|done| &done.outcome) else {
            return Ok(None);
        };
        let texts = &mut self.recording.texts();
        let new = self.recording.reply(texts, &replayed.result.new_answers, step, reply);
        Ok(Some((self.recording.answer(texts, step), new)))
    }
}

/// Passes a preview of each step to `show`, in order.
pub fn planned(
    recording: &AnalyzedRecording,
    settings: &Settings,
    show: &mut dyn FnMut(Planned) -> Result<()>,
) -> Result<()> {
    let mut texts = recording.texts();
    // The revision of the server is known in advance only if the user sets it.
    let revision = settings.revision.as_deref().unwrap_or(&recording.revision);
    let mut dialect = Dialect::new(&recording.revision, revision, recording.client.clone());
    for (index, step) in recording.plan.steps.iter().enumerate() {
        let number = |step: StepIndex| recording.plan.steps[step].number;
        let uses = recording.flow.uses.get(&index).into_iter().flatten();
        let params = recording.params(&mut texts, index)?;
        let untranslated = match recording.translate(index, &mut dialect, params) {
            Translated::Send(_) => None,
            Translated::Implied(why) | Translated::Impossible(why) => Some(why.to_owned()),
        };
        let triggers = recording.plan.triggers(index).iter().map(|trigger| trigger.number);
        show(Planned {
            step: index,
            number: step.number,
            label: Arc::clone(&step.label),
            after: recording.plan.after(index).map(number).chain(triggers).collect(),
            takes: uses
                .map(|used| (used.path.clone(), given(recording, recording.flow.origins[used.origin].giver)))
                .collect(),
            refused: recording.reason_to_skip(index, params, settings, &recording.effects).or(untranslated),
        })?;
    }
    Ok(())
}

fn given(recording: &AnalyzedRecording, giver: Giver) -> ValueSource {
    match giver {
        Giver::Answer(step) => ValueSource::AnswerTo(recording.plan.steps[step].number),
        Giver::Request(number) | Giver::Notification(number) => ValueSource::Message(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::test_recordings;
    use crate::source::stdio::Server;

    fn job() -> Job {
        let recording = test_recordings::analyzed(
            r#"
            -> {"id":1,"method":"initialize","params":{}}
            <- {"id":1,"result":{}}
            -> {"id":2,"method":"tools/call","params":{"name":"open","arguments":{}}}
            <- {"id":2,"result":{"ticket":"T-4711"}}
            -> {"id":3,"method":"tools/call","params":{"name":"look","arguments":{"x":1}}}
            <- {"id":3,"result":{}}
            -> {"id":4,"method":"tools/call","params":{"name":"close","arguments":{"ticket":"T-4711"}}}
            <- {"id":4,"result":{}}
            "#,
        );
        Job::new(recording, Target::Command(Server::default()), DatabaseFile::file("unused"))
    }

    #[test]
    fn a_chosen_call_includes_the_calls_that_supply_its_values() {
        let mut job = job();
        job.choose(&[3]);
        let sent: Vec<String> = job
            .planned()
            .unwrap()
            .into_iter()
            .filter(|row| row.refused.is_none())
            .map(|row| format!("{} after {:?} takes {:?}", row.label, row.after, row.takes))
            .collect();
        insta::assert_snapshot!(sent.join("\n"), @r#"
        initialize after [] takes []
        tools/call open after [MessageNumber(1)] takes []
        tools/call close after [MessageNumber(5)] takes [("/arguments/ticket", AnswerTo(MessageNumber(3)))]
        "#);
    }

    #[test]
    fn only_objects_and_arrays_are_accepted_as_params() {
        let mut job = job();
        assert!(job.edit(2, r#"{"name":"look","arguments":{"x":2}}"#).is_ok());
        let params = |step| job.params(step).unwrap().unwrap();
        assert_eq!(params(2), r#"{"name":"look","arguments":{"x":2}}"#);
        assert_eq!(params(1), r#"{"name":"open","arguments":{}}"#);
        assert!(job.edit(2, "{").is_err() && job.edit(2, "1").is_err() && job.edit(9, "{}").is_err());
    }
}
