//! A recording analyzed for replay. All of it is known before the first message is sent.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::flow::{Flow, Search};
use super::new_answers::NewAnswers;
use super::outcome::Reply;
use super::plan::{Plan, PlannedMessage, Planner, Role, StepIndex};
use super::rounds::Rounds;
use super::safety::{Effects, masked};
use super::settings::Settings;
use super::texts::{FirstMessages, Texts};
use super::translate::{ClientIdentity, Dialect, Era, LEGACY, MODERN, Translated};
use crate::compare::label::subject;
use crate::compare::{Answer, Label};
use crate::decode::Direction;
use crate::mcp::content::part;
use crate::mcp::link::Why;
use crate::mcp::{Session, SessionNumber};
use crate::store::{DatabaseFile, StoreReader};

/// A recording analyzed for replay. It contains numbers and positions. The texts stay in the store
/// and are read when they are needed ([`Texts`]).
#[derive(Clone, Debug)]
pub struct AnalyzedRecording {
    /// The recorded session.
    pub session: Session,
    /// The database that contains the recording.
    place: DatabaseFile,
    first_messages: Arc<FirstMessages>,
    /// The messages that the client sends.
    pub plan: Plan,
    /// The values that go from server messages to later client messages.
    pub flow: Flow,
    /// Calls that were continued with input.
    pub rounds: Rounds,
    /// The name and the capabilities of the client.
    pub client: ClientIdentity,
    /// The recorded revision. If it is unknown, the last one of the era in which
    /// the recording begins.
    pub revision: String,
    /// The effects that the tools declare.
    pub effects: Effects,
}

impl AnalyzedRecording {
    /// Reads and analyzes a session.
    pub fn read(reader: &StoreReader, session: Session) -> Result<AnalyzedRecording> {
        let _snapshot = reader.snapshot()?;
        let copies = reader.linked(&session, Why::Redirect)?.into_iter().collect();
        let (mut planner, mut search) = (Planner::new(copies), Search::default());
        let (mut effects, mut client, mut first_messages) = (Effects::default(), None, FirstMessages::default());
        for message in reader.whole_conversation(&session) {
            let message = &message?;
            if message.direction == Direction::ClientToServer {
                first_messages.add(message);
            }
            let role = planner.take(message);
            let triggers = search.take(message, &role);
            match role {
                Role::Step(step) => {
                    // A message that sends back a value waits for the server message that supplied
                    // it. Responses are waited for anyway.
                    triggers.into_iter().for_each(|trigger| planner.plan.add_trigger(step, trigger));
                    client = client.or_else(|| part(message, "params").and_then(ClientIdentity::of));
                }
                Role::Answer(step) if planner.plan.steps[step].label.method == "tools/list" => {
                    let result = part(message, "result").and_then(|result| serde_json::from_str(result).ok());
                    result.iter().for_each(|result: &Value| effects.add_tools(result));
                }
                _ => {}
            }
        }
        let (plan, flow, place, first_messages) =
            (planner.plan, search.flow, reader.place().clone(), Arc::new(first_messages));
        let texts = &mut Texts::new(&place, &session, Arc::clone(&first_messages));
        // Both kinds of links identify continuations. They are sorted so that the rounds come in
        // recorded order.
        let mut continued = reader.linked(&session, Why::RequestState)?;
        continued.extend(reader.linked(&session, Why::InputResponses)?);
        continued.sort_unstable();
        let rounds = Rounds::read(texts, &plan, &continued)?;
        let asks = |method: &str| plan.steps.iter().any(|step| step.label.method == method);
        let unknown = if !asks("initialize") && asks("server/discover") { MODERN } else { LEGACY };
        let revision = session.protocol_version.clone().unwrap_or_else(|| unknown.to_owned());
        let client = client.unwrap_or_default();
        Ok(AnalyzedRecording { session, place, first_messages, plan, flow, rounds, client, revision, effects })
    }

    /// Access to the texts of the recording.
    pub fn texts(&self) -> Texts {
        Texts::new(&self.place, &self.session, Arc::clone(&self.first_messages))
    }

    /// The number of the recorded session in this database, if it is the one with the recording.
    pub fn number_in(&self, place: &DatabaseFile) -> Option<SessionNumber> {
        self.place.is_same(place).then_some(self.session.number)
    }

    /// The era of the recording.
    pub fn era(&self) -> Era {
        Era::of(&self.revision)
    }

    /// The recorded parameters of a step.
    pub fn params<'a>(&self, texts: &'a mut Texts, step: StepIndex) -> Result<Option<&'a str>> {
        texts.part(Direction::ClientToServer, self.plan.steps[step].number, "params")
    }

    /// The reason for not sending a step with these recorded `params` to a server whose tools have
    /// these effects. `None` if it is sent.
    pub fn reason_to_skip(
        &self,
        step: StepIndex,
        params: Option<&str>,
        settings: &Settings,
        effects: &Effects,
    ) -> Option<String> {
        let PlannedMessage { label, .. } = &self.plan.steps[step];
        let is_handshake = matches!(&*label.method, "initialize" | "notifications/initialized" | "server/discover");
        if !is_handshake && settings.only.get(step) == Some(&false) {
            return Some("not selected".to_owned());
        }
        let edited = settings.edits.get(&step).map(String::as_str);
        if let Some(path) = edited.or(params).and_then(masked) {
            return Some(format!(
                "the recording does not have the value of {path}: it was redacted or masked; --set supplies it"
            ));
        }
        match edited.map(|params| subject(&label.method, params)) {
            Some(subject) => {
                effects.reason_to_refuse(&Label { subject, method: label.method.clone() }, &settings.policy)
            }
            None => effects.reason_to_refuse(label, &settings.policy),
        }
    }

    /// Translates a step with these `params` for the revision of the new server.
    pub fn translate(&self, step: StepIndex, dialect: &mut Dialect, params: Option<&str>) -> Translated {
        if dialect.leads_to_legacy() && self.rounds.is_continuation(step) {
            return Translated::Implied(
                "up to 2025-11-25 the server sends its own request for input, and the response to it completes the first call",
            );
        }
        let PlannedMessage { label, is_request, .. } = &self.plan.steps[step];
        dialect.translate(label, *is_request, params)
    }

    /// The recorded answer to a step as a server of this era gives it. A server of the older era
    /// answers the first request of a continued call with the last result.
    pub fn answer_in(&self, texts: &mut Texts, step: StepIndex, era: Era) -> Answer {
        let leads_to_legacy = (self.era(), era) == (Era::Modern, Era::Legacy);
        self.answer(texts, if leads_to_legacy { self.rounds.last(step) } else { step })
    }

    /// The recorded answer to a step.
    pub fn answer(&self, texts: &mut Texts, step: StepIndex) -> Answer {
        let Some(answer) = &self.plan.steps[step].answer else {
            return Answer::Nothing("no answer was recorded".to_owned());
        };
        let unread = |error| Answer::Nothing(format!("the recorded answer cannot be read: {error:#}"));
        texts.answer(answer.number).unwrap_or_else(unread)
    }

    /// The new answer to a step.
    pub fn reply(&self, texts: &mut Texts, new_answers: &NewAnswers, step: StepIndex, reply: &Reply) -> Answer {
        match reply {
            Reply::AsRecorded => self.answer(texts, step),
            Reply::Other(answer) => new_answers.answer(answer),
        }
    }

    /// The recorded latency of a step, in nanoseconds.
    pub fn latency(&self, step: StepIndex) -> Option<i64> {
        self.plan.steps[step].answer?.latency
    }
}
