//! Everything that is known before anything is sent: the recording, read for replay.

use serde_json::Value;

use super::flow::Flow;
use super::plan::{Plan, Step, StepIndex, Told};
use super::recording::Recording;
use super::rounds::Rounds;
use super::run::{Reply, Settings};
use super::safety::{Effects, masked};
use super::translate::{Client, Dialect, Era, LEGACY, MODERN, Translated};
use crate::compare::answer::subject;
use crate::compare::{Answer, Label};
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;

/// A recording, read for replay.
#[derive(Clone, Debug)]
pub struct Script {
    /// The recording.
    pub recording: Recording,
    /// What the client says.
    pub plan: Plan,
    /// Which values go from answers to later requests.
    pub flow: Flow,
    /// Which requests were asked back.
    pub rounds: Rounds,
    /// Who the client said that it is.
    pub client: Client,
    /// The revision that was spoken, as far as is known.
    pub revision: String,
    /// What the tools said of their effects.
    pub effects: Effects,
}

impl Script {
    /// Of a recording.
    pub fn new(recording: Recording) -> Script {
        let mut plan = Plan::of(&recording.messages);
        let flow = Flow::of(&recording.messages, &plan);
        // What hands back a value waits for who gives it; answers that had come are waited for anyway.
        let given = flow.uses.iter().flat_map(|(step, used)| used.iter().map(|used| (*step, used.origin)));
        let told = |(step, origin): (StepIndex, usize)| Some((step, flow.origins[origin].giver.told(&plan)?));
        let told: Vec<(StepIndex, usize)> = given.filter_map(told).collect();
        if !told.is_empty() {
            let all = Told::all(&recording.messages);
            for (step, index) in told {
                plan.steps[step].because.extend(all.get(&index).cloned());
            }
        }
        let rounds = Rounds::of(&recording.messages, &plan);
        let params = |step: &Step| part(&recording.messages[step.message], "params");
        let client = plan.steps.iter().filter_map(params).find_map(Client::of).unwrap_or_default();
        let opened = plan.steps.iter().any(|step| step.label.method == "initialize");
        let known = recording.session.protocol_version.clone();
        let unknown = if opened || plan.steps.iter().all(|step| step.label.method != "server/discover") {
            LEGACY
        } else {
            MODERN
        };
        let mut effects = Effects::default();
        for step in plan.steps.iter().filter(|step| step.label.method == "tools/list") {
            let result = step.answer.and_then(|answer| part(&recording.messages[answer], "result"));
            result
                .and_then(|result| serde_json::from_str::<Value>(result).ok())
                .iter()
                .for_each(|result| effects.learn(result));
        }
        let revision = known.unwrap_or_else(|| unknown.to_owned());
        Script { plan, flow, rounds, client, revision, effects, recording }
    }

    /// The era of the recording.
    pub fn era(&self) -> Era {
        Era::of(&self.revision)
    }

    /// The parameters of a step as they were recorded.
    pub fn params(&self, step: StepIndex) -> Option<&str> {
        part(&self.recording.messages[self.plan.steps[step].message], "params")
    }

    /// Why a step is not sent to a server whose tools have these effects; `None` where it is.
    pub fn reason_to_skip(&self, step: StepIndex, settings: &Settings, effects: &Effects) -> Option<String> {
        let Step { label, .. } = &self.plan.steps[step];
        let is_handshake = matches!(&*label.method, "initialize" | "notifications/initialized" | "server/discover");
        if !is_handshake && settings.only.get(step) == Some(&false) {
            return Some("not wanted".to_owned());
        }
        let edited = settings.edits.get(&step).map(String::as_str);
        if let Some(path) = edited.or_else(|| self.params(step)).and_then(masked) {
            return Some(format!("{path} was masked when it was recorded: record with --keep-secrets"));
        }
        let subject = edited.map(|params| subject(&label.method, params)).unwrap_or_else(|| label.subject.clone());
        effects.refuse(&Label { subject, method: label.method.clone() }, &settings.policy)
    }

    /// A step as it is said in a dialect, with these `params`.
    pub fn translate(&self, step: StepIndex, dialect: &mut Dialect, params: Option<&str>) -> Translated {
        if dialect.is_back() && self.rounds.is_continuation(step) {
            return Translated::Said(
                "up to 2025-11-25 the server asks by itself: its question is answered, and the first call with it",
            );
        }
        let Step { label, is_request, .. } = &self.plan.steps[step];
        dialect.translate(label, *is_request, params)
    }

    /// The recorded answer to a step, as a server of an era gives it: one that asks by itself answers the first call at once.
    pub fn answer_in(&self, step: StepIndex, era: Era) -> Answer {
        let is_back = (self.era(), era) == (Era::Modern, Era::Legacy);
        self.answer(if is_back { self.rounds.last(step) } else { step })
    }

    /// The recorded answer to a step.
    pub fn answer(&self, step: StepIndex) -> Answer {
        let answer = self.plan.steps[step].answer;
        answer.map_or_else(
            || Answer::Nothing("no answer was recorded".to_owned()),
            |answer| Answer::of(&self.recording.messages[answer]),
        )
    }

    /// The text of the recorded answer's error or result, and whether it is an error.
    pub fn answer_text(&self, step: StepIndex) -> Option<(bool, &str)> {
        let message = &self.recording.messages[self.plan.steps[step].answer?];
        let is_error = message.kind == Kind::Error;
        Some((is_error, part(message, if is_error { "error" } else { "result" })?))
    }

    /// A new answer to a step.
    pub fn reply(&self, step: StepIndex, reply: &Reply) -> Answer {
        match reply {
            Reply::AsRecorded => self.answer(step),
            Reply::Other(held) => held.read(),
        }
    }

    /// The recorded latency of a step.
    pub fn latency(&self, step: StepIndex) -> Option<i64> {
        self.recording.messages[self.plan.steps[step].answer?].latency
    }
}
