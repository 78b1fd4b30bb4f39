//! Opens the session in the era of the recording, or in the other era if the server does not
//! support that.

use serde_json::Value;

use super::{Runner, StepOutcome};
use crate::compare::Answer;
use crate::decode::Direction;
use crate::replay::edit::with_member;
use crate::replay::follow::Progress;
use crate::replay::plan::{PlannedMessage, StepIndex};
use crate::replay::translate::{Era, LEGACY, MODERN};
use crate::replay::transport::{Failure, FailureKind};

impl Runner<'_, '_> {
    /// Opens the session. It tries the other era if the first attempt fails and the user
    /// set no revision.
    pub(super) fn open(&mut self, step: Option<StepIndex>) {
        let forced = self.settings.revision.is_some();
        let first = self.dialect.era();
        let other = if first == Era::Legacy { MODERN } else { LEGACY };
        let is_open = match self.send_handshake(step) {
            // A server that does not know `server/discover` may ignore it. A server that ignores
            // `initialize` is broken.
            Err(why) if !forced && self.is_connected() && !(first == Era::Legacy && self.timed_out) => {
                self.dialect.revision = other.to_owned();
                let second = self.send_handshake(None);
                if second.is_ok() {
                    let now = self.dialect.era();
                    self.result.notes.push(format!("the server uses revisions {now}, the recording {first}"));
                }
                second.map_err(|_| why)
            }
            result => result,
        };
        match is_open {
            Ok(()) => {
                self.is_open = true;
                // The server uses the other era, so the recorded handshake was not sent.
                let replaced = step.filter(|_| self.recording.era() != self.dialect.era());
                if let Some(step) = replaced {
                    let why = "the server's revision has a different handshake".to_owned();
                    self.finish_unsent(step, StepOutcome::Skipped(why));
                }
                // The transport must be ready before the server learns that the client is: over
                // HTTP, messages that the server initiates may have no other stream.
                self.transport.opened(&self.dialect.revision);
                self.follower.report(Progress::Opened(&self.dialect.revision));
                let initialized = |step: &PlannedMessage| step.label.method == "notifications/initialized";
                if self.dialect.era() == Era::Legacy {
                    self.notify("notifications/initialized", None);
                    if let Some(index) = self.recording.plan.steps.iter().position(initialized) {
                        self.follower.report(Progress::Sent(index));
                        self.finish_unsent(index, StepOutcome::Sent(None));
                    }
                }
            }
            Err(why) if self.is_connected() => {
                self.ended = Some(Failure::new(FailureKind::Server, format!("the handshake failed: {why}")));
            }
            Err(_) => {}
        }
    }

    fn is_connected(&self) -> bool {
        self.ended.is_none() && self.result.wrong_transport.is_none()
    }

    /// Sends the handshake of the current era and waits for the response.
    fn send_handshake(&mut self, step: Option<StepIndex>) -> Result<(), String> {
        let era = self.dialect.era();
        let method = if era == Era::Legacy { "initialize" } else { "server/discover" };
        let step = step.filter(|step| self.recording.plan.steps[*step].label.method == method);
        let number = step.map(|step| self.recording.plan.steps[step].number);
        let recorded = number.and_then(|number| self.recorded(Direction::ClientToServer, number, "params"));
        let params = if era == Era::Legacy {
            let params = recorded.filter(|params| params.starts_with('{'));
            let revision = Value::from(self.dialect.revision.as_str()).to_string();
            match params {
                // The revision that the recorded client asked for, unless another one was chosen.
                Some(params) if self.dialect.revision == self.recording.revision => params,
                Some(params) => with_member(&params, "protocolVersion", &revision),
                None => self.dialect.client.initialize(&self.dialect.revision),
            }
        } else {
            self.dialect.with_meta(recorded.as_deref().unwrap_or("{}"))
        };
        let id = self.request(step, method, Some(params), 0);
        if let Some(step) = step {
            self.ids[step] = id;
        }
        self.wait(None, |runner| runner.pending.contains_key(&id));
        let answer = match step {
            Some(step) => self.step_results[step].as_ref().and_then(|done| match &done.outcome {
                StepOutcome::Sent(Some(reply)) => {
                    Some(self.recording.reply(self.texts, &self.new_answers, step, reply))
                }
                _ => None,
            }),
            None => self.handshakes.remove(&id).map(|answer| answer.read()),
        };
        match answer {
            Some(Answer::Result(result)) => {
                if let Some(revision) =
                    result.get("protocolVersion").and_then(Value::as_str).filter(|_| era == Era::Legacy)
                {
                    self.dialect.revision = revision.to_owned();
                }
                Ok(())
            }
            Some(Answer::Error(other) | Answer::ToolError(other)) => Err(other.to_string()),
            Some(Answer::Nothing(why) | Answer::Unreadable(why)) => Err(why),
            None => Err("no answer".to_owned()),
        }
    }
}
