//! A replay as it is ordered: by the command line, or by a user interface, which needs no more than this.
//!
//! ```text
//!  let script = Script::read(&reader, session)?;
//!  let target = Target::read("http://localhost:8080/mcp", timeout)?;       // or "python3 server.py"
//!  let mut job = Job::new(script, target, Place::file(database));
//!  job.choose(&[step]);                                                   // one call, and what gives it its values
//!  job.edit(step, r#"{"name":"get_weather","arguments":{"city":"Oslo"}}"#)?;
//!  for row in job.planned()? { … }                                        // what would be sent, and why something is not
//!  let replayed = job.run(&mut Follower::new(|progress| …, stop))?;       // on a thread of its own: it waits for the server
//!  replayed.report; job.answers(&replayed, step);                         // what differs; the two answers of a step
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use crossbeam_channel::RecvTimeoutError;
use serde_json::Value;

use super::capture::Recorded;
use super::flow::Giver;
use super::follow::Follower;
use super::judge;
use super::plan::StepIndex;
use super::run::{Fate, Settings, Taken};
use super::script::Script;
use super::target::Target;
use super::translate::{Dialect, Translated};
use crate::compare::{Answer, Label, Report, Rule, Rules};
use crate::mcp::MessageNumber;
use crate::store::DatabaseFile;

/// How far apart the two runs that are compared with each other are: many times are told in whole seconds.
const APART: Duration = Duration::from_millis(1_100);

/// What is replayed, against which server, and how.
#[derive(Clone, Debug)]
pub struct Job {
    /// The recording, read for replay.
    pub script: Script,
    /// The server.
    pub target: Target,
    /// How it is run.
    pub settings: Settings,
    /// How answers are compared.
    pub rules: Rules,
    /// What [`Job::calibrate`] found to vary by itself. It is part of `rules`, too.
    pub volatile: Vec<Rule>,
    /// Where what is said is saved.
    pub place: DatabaseFile,
}

/// A replay and what came of it.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Each step with the new answer.
    pub taken: Taken,
    /// Where it was recorded.
    pub recorded: Recorded,
    /// The new answers against the recorded ones.
    pub report: Report,
}

/// What gives a value, by its number in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The answer to this request.
    AnswerTo(MessageNumber),
    /// This request or notification of the server.
    Told(MessageNumber),
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::AnswerTo(number) => write!(f, "the answer to #{}", number.0),
            Given::Told(number) => write!(f, "#{}", number.0),
        }
    }
}

/// A step as it would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its index in the plan.
    pub step: StepIndex,
    /// Its number in the recording.
    pub number: MessageNumber,
    /// What it is called.
    pub label: Arc<Label>,
    /// What it waits for: requests whose answers have to come, and what the server told.
    pub after: Vec<MessageNumber>,
    /// JSON Pointers into its `params`, each with what gives the value that is put there.
    pub takes: Vec<(String, Given)>,
    /// Why it is not sent.
    pub refused: Option<String>,
}

impl Job {
    /// All of a recording, as fast as it may go, compared without exceptions.
    pub fn new(script: Script, target: Target, place: DatabaseFile) -> Job {
        let (settings, rules, volatile) = (Settings::default(), Rules::default(), Vec::new());
        Job { script, target, settings, rules, volatile, place }
    }

    /// Only these steps, and those whose answers they need. The handshake is always sent.
    pub fn choose(&mut self, steps: &[StepIndex]) {
        let mut only = vec![false; self.script.plan.steps.len()];
        let mut open = steps.to_vec();
        while let Some(step) = open.pop() {
            if let Some(chosen) = only.get_mut(step).filter(|chosen| !**chosen) {
                *chosen = true;
                open.extend(self.script.flow.sources(step));
            }
        }
        self.settings.only = only;
    }

    /// The `params` of a step as they would be sent, but for values that the new server gives; `None` where it has none.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn params(&self, step: StepIndex) -> Result<Option<String>> {
        match self.settings.edits.get(&step) {
            Some(edited) => Ok(Some(edited.clone())),
            None => Ok(self.script.params(&mut self.script.texts()?, step)?.map(str::to_owned)),
        }
    }

    /// Sends these `params` with a step instead of the recorded ones. Values of the new server still take the place of recorded ones where those
    /// are left as they were.
    ///
    /// # Errors
    /// There is no such step, or the text is no JSON object or array (JSON-RPC 2.0 section 4.2).
    pub fn edit(&mut self, step: StepIndex, params: &str) -> Result<()> {
        if step >= self.script.plan.steps.len() {
            bail!("there is no step {step}");
        }
        match serde_json::from_str(params) {
            Ok(Value::Object(_) | Value::Array(_)) => {}
            Ok(_) => bail!("params are an object or an array"),
            Err(error) => bail!("no JSON: {error}"),
        }
        self.settings.edits.insert(step, params.to_owned());
        Ok(())
    }

    /// What would be sent, in order.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn planned(&self) -> Result<Vec<Planned>> {
        let mut rows = Vec::new();
        planned(&self.script, &self.settings, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Replays twice and sets aside, from now on, what differs between the two. These two are not saved.
    ///
    /// # Errors
    /// As for [`Target::replay`].
    pub fn calibrate(&mut self, follower: &mut Follower<'_>) -> Result<()> {
        // What is only measured is not kept among the sessions.
        let place = DatabaseFile::temporary()?;
        let (first, capture) = self.target.replay(&self.script, &self.settings, &place, follower)?;
        capture.finish()?;
        // From the end of the one to the start of the other: a server that starts slowly the first time would bring them together.
        if follower.stop.recv_timeout(APART) != Err(RecvTimeoutError::Timeout) {
            bail!("ended on request");
        }
        let (second, capture) = self.target.replay(&self.script, &self.settings, &place, follower)?;
        capture.finish()?;
        self.volatile = judge::calibrate(&self.script, &first, &second)?;
        self.rules.ignored.extend(self.volatile.iter().cloned());
        Ok(())
    }

    /// Replays once. It waits for the server, so a user interface calls it on a thread of its own, which has to live until it is done.
    ///
    /// # Errors
    /// As for [`Target::replay`].
    pub fn run(&self, follower: &mut Follower<'_>) -> Result<Replayed> {
        self.run_in(&self.place, follower)
    }

    /// The same, recorded in another place.
    pub(super) fn run_in(&self, place: &DatabaseFile, follower: &mut Follower<'_>) -> Result<Replayed> {
        let (taken, capture) = self.target.replay(&self.script, &self.settings, place, follower)?;
        // The recorder may be behind: it catches up meanwhile.
        let pairs = judge::pairs(&self.script, &taken, &self.rules);
        let recorded = capture.finish()?;
        let mut report = judge::report(&self.script, &taken, pairs?, &recorded);
        (report.new, report.volatile) = (self.target.name(), self.volatile.clone());
        Ok(Replayed { taken, recorded, report })
    }

    /// The two answers to a request, the recorded one first; `None` for what is no request or was not sent.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn answers(&self, replayed: &Replayed, step: StepIndex) -> Result<Option<(Answer, Answer)>> {
        let Some(Fate::Sent(Some(reply))) = replayed.taken.steps.get(step).map(|done| &done.fate) else {
            return Ok(None);
        };
        let texts = &mut self.script.texts()?;
        let new = self.script.reply(texts, &replayed.taken.kept, step, reply);
        Ok(Some((self.script.answer(texts, step), new)))
    }
}

/// Shows what of a script would be sent, in order.
///
/// # Errors
/// The recording cannot be read, or `show` ends it.
pub fn planned(script: &Script, settings: &Settings, show: &mut dyn FnMut(Planned) -> Result<()>) -> Result<()> {
    let mut texts = script.texts()?;
    // Which revision the server speaks is known beforehand only where it is forced.
    let revision = settings.revision.as_deref().unwrap_or(&script.revision);
    let mut dialect = Dialect::new(&script.revision, revision, script.client.clone());
    for (index, step) in script.plan.steps.iter().enumerate() {
        let number = |step: StepIndex| script.plan.steps[step].number;
        let uses = script.flow.uses.get(&index).into_iter().flatten();
        let params = script.params(&mut texts, index)?;
        let unsaid = match script.translate(index, &mut dialect, params) {
            Translated::Send(_) => None,
            Translated::Said(why) | Translated::Refused(why) => Some(why.to_owned()),
        };
        let because = script.plan.because(index).iter().map(|told| told.number);
        show(Planned {
            step: index,
            number: step.number,
            label: Arc::clone(&step.label),
            after: script.plan.after(index).map(number).chain(because).collect(),
            takes: uses
                .map(|used| (used.path.clone(), given(script, script.flow.origins[used.origin].giver)))
                .collect(),
            refused: script.reason_to_skip(index, params, settings, &script.effects).or(unsaid),
        })?;
    }
    Ok(())
}

fn given(script: &Script, giver: Giver) -> Given {
    match giver {
        Giver::Answer(step) => Given::AnswerTo(script.plan.steps[step].number),
        Giver::Request(number) | Giver::Notification(number) => Given::Told(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::talk;
    use crate::source::stdio::Server;

    fn job() -> Job {
        let script = talk::script(
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
        Job::new(script, Target::Command(Server::default()), DatabaseFile::file("unused"))
    }

    #[test]
    fn one_call_comes_with_those_that_give_it_its_values() {
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
    fn only_parameters_can_be_sent_as_parameters() {
        let mut job = job();
        assert!(job.edit(2, r#"{"name":"look","arguments":{"x":2}}"#).is_ok());
        let params = |step| job.params(step).unwrap().unwrap();
        assert_eq!(params(2), r#"{"name":"look","arguments":{"x":2}}"#);
        assert_eq!(params(1), r#"{"name":"open","arguments":{}}"#);
        assert!(job.edit(2, "{").is_err() && job.edit(2, "1").is_err() && job.edit(9, "{}").is_err());
    }
}
