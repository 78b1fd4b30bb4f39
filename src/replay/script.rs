//! Everything that is known before anything is sent: the recording, read for replay.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::flow::{Flow, Search};
use super::kept::Kept;
use super::plan::{Plan, Planner, Role, Step, StepIndex};
use super::rounds::Rounds;
use super::run::{Reply, Settings};
use super::safety::{Effects, masked};
use super::texts::{Early, Texts};
use super::translate::{Client, Dialect, Era, LEGACY, MODERN, Translated};
use crate::compare::answer::subject;
use crate::compare::{Answer, Label};
use crate::decode::Direction;
use crate::mcp::Session;
use crate::mcp::facts::part;
use crate::mcp::operations::Why;
use crate::store::{DatabaseFile, StoreReader};

/// A recording, read for replay: what is said, and where; not the texts, which stay where they are ([`Texts`]).
#[derive(Clone, Debug)]
pub struct Script {
    /// The session.
    pub session: Session,
    /// Where it is stored.
    place: DatabaseFile,
    early: Arc<Early>,
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
    /// Reads a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn read(reader: &StoreReader, session: Session) -> Result<Script> {
        let copies = reader.linked(&session, Why::Redirect)?.into_iter().collect();
        let (mut planner, mut search) = (Planner::new(copies), Search::default());
        let (mut effects, mut client, mut early) = (Effects::default(), None, Early::default());
        for message in reader.whole_conversation(&session) {
            let message = &message?;
            if message.direction == Direction::ClientToServer {
                early.keep(message);
            }
            let role = planner.take(message);
            let told = search.take(message, &role);
            match role {
                Role::Step(step) => {
                    // What hands back a value waits for who gives it; answers that had come are waited for anyway.
                    told.into_iter().for_each(|told| planner.plan.wait_for(step, told));
                    client = client.or_else(|| part(message, "params").and_then(Client::of));
                }
                Role::Answer(step) if planner.plan.steps[step].label.method == "tools/list" => {
                    let result = part(message, "result").and_then(|result| serde_json::from_str(result).ok());
                    result.iter().for_each(|result: &Value| effects.learn(result));
                }
                _ => {}
            }
        }
        let (plan, flow, place, early) = (planner.plan, search.flow, reader.place().clone(), Arc::new(early));
        let texts = &mut Texts::open(&place, &session, Arc::clone(&early))?;
        // What the input was asked for is in one order, whatever it was that says so.
        let mut continued = reader.linked(&session, Why::RequestState)?;
        continued.extend(reader.linked(&session, Why::InputResponses)?);
        continued.sort_unstable();
        let rounds = Rounds::read(texts, &plan, &continued)?;
        let asks = |method: &str| plan.steps.iter().any(|step| step.label.method == method);
        let unknown = if !asks("initialize") && asks("server/discover") { MODERN } else { LEGACY };
        let revision = session.protocol_version.clone().unwrap_or_else(|| unknown.to_owned());
        let client = client.unwrap_or_default();
        Ok(Script { session, place, early, plan, flow, rounds, client, revision, effects })
    }

    /// The texts of the recording.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn texts(&self) -> Result<Texts> {
        Texts::open(&self.place, &self.session, Arc::clone(&self.early))
    }

    /// The era of the recording.
    pub fn era(&self) -> Era {
        Era::of(&self.revision)
    }

    /// The parameters of a step as they were recorded.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn params<'a>(&self, texts: &'a mut Texts, step: StepIndex) -> Result<Option<&'a str>> {
        texts.part(Direction::ClientToServer, self.plan.steps[step].number, "params")
    }

    /// Why a step with these recorded `params` is not sent to a server whose tools have these effects; `None` where it is.
    pub fn reason_to_skip(
        &self,
        step: StepIndex,
        params: Option<&str>,
        settings: &Settings,
        effects: &Effects,
    ) -> Option<String> {
        let Step { label, .. } = &self.plan.steps[step];
        let is_handshake = matches!(&*label.method, "initialize" | "notifications/initialized" | "server/discover");
        if !is_handshake && settings.only.get(step) == Some(&false) {
            return Some("not wanted".to_owned());
        }
        let edited = settings.edits.get(&step).map(String::as_str);
        if let Some(path) = edited.or(params).and_then(masked) {
            return Some(format!("{path} was masked when it was recorded: record with --keep-secrets"));
        }
        match edited.map(|params| subject(&label.method, params)) {
            Some(subject) => effects.refuse(&Label { subject, method: label.method.clone() }, &settings.policy),
            None => effects.refuse(label, &settings.policy),
        }
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
    pub fn answer_in(&self, texts: &mut Texts, step: StepIndex, era: Era) -> Answer {
        let is_back = (self.era(), era) == (Era::Modern, Era::Legacy);
        self.answer(texts, if is_back { self.rounds.last(step) } else { step })
    }

    /// The recorded answer to a step.
    pub fn answer(&self, texts: &mut Texts, step: StepIndex) -> Answer {
        let Some(answer) = &self.plan.steps[step].answer else {
            return Answer::Nothing("no answer was recorded".to_owned());
        };
        let unread = |error| Answer::Nothing(format!("the recorded answer cannot be read: {error:#}"));
        texts.answer(answer.number).unwrap_or_else(unread)
    }

    /// A new answer to a step.
    pub fn reply(&self, texts: &mut Texts, kept: &Kept, step: StepIndex, reply: &Reply) -> Answer {
        match reply {
            Reply::AsRecorded => self.answer(texts, step),
            Reply::Other(answer) => kept.answer(answer),
        }
    }

    /// The recorded latency of a step.
    pub fn latency(&self, step: StepIndex) -> Option<i64> {
        self.plan.steps[step].answer?.latency
    }
}
