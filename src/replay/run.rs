//! Runs one replay: sends the planned messages to a live server and collects the answers.
//!
//! One thread sends, receives and decides. It waits only for the next arrival, and always with a
//! deadline. A request without a response in time is given up, and the rest goes on. If the server
//! is gone, the replay ends, and the remaining steps contain that reason.

mod arrivals;
mod handshake;
mod polls;
mod questions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::polls::Poll;
use super::analyzed_recording::AnalyzedRecording;
use super::edit::replaced;
use super::flow::{Renewal, Use, renew};
use super::follow::{Follower, Progress};
use super::new_answers::NewAnswers;
use super::outcome::{ReplacedValue, ReplayResult, Reply, StepOutcome, StepResult};
use super::plan::{PlannedMessage, StepIndex};
use super::safety::Effects;
use super::settings::{Pace, Settings};
use super::texts::Texts;
use super::translate::{Dialect, Era, Translated, headers, parameter_headers};
use super::transport::{Failure, FailureKind, Outgoing, Transport};
use crate::compare::{Answer, AnswerText};
use crate::decode::Direction;
use crate::mcp::MessageNumber;

/// Time for responses that the recording does not contain, after all others have arrived.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// The longest time that a step waits for a message that the server initiates. Another server may
/// never send it.
const TRIGGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The most new handshakes after the server lost the session.
const MAX_REOPENINGS: u32 = 3;

/// The least time limit for the first request, because the server may still be starting.
const START_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct PendingRequest {
    /// The step of the request. `None` for a handshake that the recording does not contain.
    step: Option<StepIndex>,
    sent: Instant,
    deadline: Instant,
    method: String,
    params: Option<String>,
    rounds: u32,
}

impl PendingRequest {
    /// Nanoseconds from sending the request to `at`.
    fn latency(&self, at: Instant) -> Option<i64> {
        i64::try_from(at.saturating_duration_since(self.sent).as_nanos()).ok()
    }
}

/// Replays a recording. `texts` reads the messages of the same recording.
pub fn run(
    recording: &AnalyzedRecording,
    texts: &mut Texts,
    settings: &Settings,
    transport: Box<dyn Transport>,
    follower: &mut Follower<'_>,
) -> ReplayResult {
    let revision = settings.revision.as_deref().unwrap_or(&recording.revision);
    let mut runner = Runner {
        recording,
        texts,
        settings,
        transport,
        follower,
        dialect: Dialect::new(&recording.revision, revision, recording.client.clone()),
        step_results: vec![None; recording.plan.steps.len()],
        pending: BTreeMap::new(),
        polls: Vec::new(),
        handshakes: HashMap::new(),
        ids: vec![0; recording.plan.steps.len()],
        next_id: 1,
        used_replies: vec![false; recording.plan.server_requests.len()],
        used_questions: vec![false; recording.rounds.questions.len()],
        effects: recording.effects.clone(),
        new_answers: NewAnswers::default(),
        schemas: HashMap::new(),
        is_open: false,
        reopenings: 0,
        ended: None,
        session_lost: false,
        timed_out: false,
        missing_methods: BTreeSet::new(),
        result: ReplayResult::default(),
    };
    runner.send_all();
    runner.finish()
}

struct Runner<'a, 'f> {
    recording: &'a AnalyzedRecording,
    texts: &'a mut Texts,
    settings: &'a Settings,
    transport: Box<dyn Transport>,
    follower: &'a mut Follower<'f>,
    dialect: Dialect,
    step_results: Vec<Option<StepResult>>,
    /// Open requests by id. Ids grow, so they are in the order of sending.
    pending: BTreeMap<u64, PendingRequest>,
    /// Requests to be repeated later.
    polls: Vec<Poll>,
    /// Answers to handshakes that the recording does not contain.
    handshakes: HashMap<u64, AnswerText>,
    /// By step: the id of the latest request; 0 if none was sent.
    ids: Vec<u64>,
    next_id: u64,
    /// Whether each recorded response to a server request was used.
    used_replies: Vec<bool>,
    /// Whether each recorded response to an input request was used.
    used_questions: Vec<bool>,
    effects: Effects,
    /// Answers that differ from the recorded ones.
    new_answers: NewAnswers,
    /// Input schemas of tools that take arguments in header fields.
    schemas: HashMap<String, Value>,
    is_open: bool,
    reopenings: u32,
    ended: Option<Failure>,
    /// The server lost the session.
    session_lost: bool,
    /// A request got no response in time.
    timed_out: bool,
    /// Methods of server-initiated messages that did not arrive in time. They are not
    /// waited for again.
    missing_methods: BTreeSet<String>,
    result: ReplayResult,
}

impl Runner<'_, '_> {
    fn send_all(&mut self) {
        let steps = &self.recording.plan.steps;
        // Clients of both eras send `server/discover` first. To a server of the older era it is a
        // request like any other.
        let opening = if self.dialect.era() == Era::Legacy { "initialize" } else { "server/discover" };
        let opens = |step: &PlannedMessage| step.label.method == opening;
        if !steps.iter().any(opens) {
            self.open(None);
        }
        for (index, step) in steps.iter().enumerate() {
            if self.step_results[index].is_some() {
                continue;
            }
            self.wait(None, |runner| runner.recording.plan.after(index).any(|step| runner.is_pending(step)));
            let params = self.recorded(Direction::ClientToServer, step.number, "params");
            let triggers = self.recording.plan.triggers(index);
            if !triggers.is_empty() && self.reason_to_skip(index, params.as_deref()).is_none() {
                self.await_triggers(step, triggers);
            }
            self.pause(step.pause);
            if std::mem::take(&mut self.session_lost) && self.reopenings < MAX_REOPENINGS {
                self.reopenings += 1;
                self.transport.forget_session();
                self.result.notes.push(format!("the session was opened again before #{}", step.number.0));
                self.open(None);
            }
            if let Some(why) = self.reason_to_skip(index, params.as_deref()) {
                self.finish_unsent(index, StepOutcome::Skipped(why));
            } else if opens(step) && !self.is_open {
                self.open(Some(index));
            } else {
                self.send_step(index, step, params);
            }
            if self.result.wrong_transport.is_some() {
                return;
            }
        }
        let is_awaited = |runner: &Self| runner.pending.values().any(|pending| runner.is_expected(pending));
        self.wait(None, |runner| is_awaited(runner) || !runner.polls.is_empty());
        self.wait(Some(Instant::now() + LAST_ANSWERS), |runner| !runner.pending.is_empty());
    }

    fn finish(mut self) -> ReplayResult {
        let server_exit = self.transport.close();
        let reason = self.ended.take().map(|ended| ended.why);
        let reason = match (reason, server_exit) {
            (Some(reason), Some(server_exit)) => Some(format!("{reason}; {server_exit}")),
            (reason, server_exit) => reason.or(server_exit),
        };
        if !self.is_open {
            self.result.unopened = reason.clone();
        }
        let nothing = |why: String| StepOutcome::Sent(Some(Reply::Other(Answer::Nothing(why))));
        for (index, done) in self.step_results.iter_mut().enumerate() {
            let id = Some(self.ids[index]).filter(|id| *id > 0);
            let outcome = match (&done, &reason, id) {
                (Some(_), ..) => continue,
                (None, Some(reason), Some(_)) => nothing(format!("no answer: {reason}")),
                (None, Some(reason), None) => nothing(format!("not sent: {reason}")),
                (None, None, _) => nothing("no answer".to_owned()),
            };
            let unfinished = StepResult { id, outcome, latency: None };
            self.follower.report(Progress::Done(index, &unfinished));
            *done = Some(unfinished);
        }
        self.result.steps = self.step_results.into_iter().flatten().collect();
        self.result.new_answers = Arc::new(self.new_answers);
        self.result.revision = self.dialect.revision;
        self.result
    }

    fn reason_to_skip(&self, index: StepIndex, params: Option<&str>) -> Option<String> {
        if self.ended.is_some() {
            return None;
        }
        self.recording.reason_to_skip(index, params, self.settings, &self.effects)
    }

    /// A member of a recorded message. The replay ends if the recording cannot be read.
    fn recorded(&mut self, side: Direction, number: MessageNumber, name: &str) -> Option<String> {
        match self.texts.part(side, number, name) {
            Ok(text) => text.map(str::to_owned),
            Err(error) => {
                let why = format!("the recording cannot be read: {error:#}");
                self.ended.get_or_insert(Failure::new(FailureKind::Server, why));
                None
            }
        }
    }

    /// Finishes a step that needs no response.
    fn finish_unsent(&mut self, step: StepIndex, outcome: StepOutcome) {
        self.finish_step(step, StepResult { id: None, outcome, latency: None });
    }

    fn finish_step(&mut self, step: StepIndex, step_result: StepResult) {
        self.follower.report(Progress::Done(step, &step_result));
        self.step_results[step] = Some(step_result);
    }

    /// Sends a step with these recorded `params`.
    fn send_step(&mut self, index: StepIndex, step: &PlannedMessage, mut params: Option<String>) {
        if self.ended.is_some() {
            return;
        }
        if let Some(edited) = self.settings.edits.get(&index) {
            params = Some(edited.clone());
        }
        if let Some(uses) = self.recording.flow.uses.get(&index) {
            params = params.map(|params| self.with_values(params, uses, (step.number, "")));
        }
        let cancelled = self.recording.plan.cancels(index).map(|step| self.ids[step]).filter(|id| *id > 0);
        if let (Some(params), Some(id)) = (&mut params, cancelled) {
            *params = replaced(params, "/requestId", &id.to_string());
        }
        let params = match self.recording.translate(index, &mut self.dialect, params.as_deref()) {
            Translated::Send(params) => params,
            Translated::Implied(why) | Translated::Impossible(why) => {
                return self.finish_unsent(index, StepOutcome::Skipped(why.to_owned()));
            }
        };
        if step.is_request {
            let id = self.request(Some(index), &step.label.method, params, 0);
            self.ids[index] = id;
        } else {
            self.notify(&step.label.method, params.as_deref());
            self.follower.report(Progress::Sent(index));
            self.finish_unsent(index, StepOutcome::Sent(None));
        }
    }

    /// Replaces recorded values by those of the new server. `place` is the recorded message and the
    /// path at which the text is a part of it.
    fn with_values(&mut self, text: String, uses: &[Use], place: (MessageNumber, &str)) -> String {
        let origins = &self.recording.flow.origins;
        let chosen: Vec<_> = uses.iter().filter_map(|used| Some((used, used.choose(&self.result.values)?))).collect();
        let renewals: Vec<Renewal<'_>> = chosen
            .iter()
            .map(|(used, ((origin, new), _))| Renewal { used, old: &origins[*origin].value, new })
            .collect();
        let (text, changed) = renew(&text, &renewals);
        for index in changed {
            let (used, ((origin, new), other)) = &chosen[index];
            if origins[*origin].value != **new {
                self.result.replaced.push(ReplacedValue {
                    origin: *origin,
                    new: (*new).clone(),
                    other: other.map(|(origin, value)| (origin, value.clone())),
                    message: place.0,
                    path: format!("{}{}", place.1, used.path),
                });
            }
        }
        text
    }

    /// Sends a request. Its answer becomes the answer to the step.
    fn request(&mut self, step: Option<StepIndex>, method: &str, params: Option<String>, rounds: u32) -> u64 {
        let sent = Instant::now();
        let opens = matches!(method, "initialize" | "server/discover");
        let deadline = sent + if opens { self.settings.timeout.max(START_TIMEOUT) } else { self.settings.timeout };
        let id = self.send_request(PendingRequest { step, sent, deadline, method: method.to_owned(), params, rounds });
        if let Some(step) = step {
            self.follower.report(Progress::Sent(step));
        }
        id
    }

    /// Sends a request under a new id.
    fn send_request(&mut self, pending: PendingRequest) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let text = compose(Some(id), &pending.method, pending.params.as_deref());
        let fields = self.fields(&pending.method, pending.params.as_deref());
        self.pending.insert(id, pending);
        self.transport.send(Outgoing { text, id: Some(id), fields, ..Outgoing::default() });
        id
    }

    fn notify(&mut self, method: &str, params: Option<&str>) {
        let (text, fields) = (compose(None, method, params), self.fields(method, params));
        self.transport.send(Outgoing { text, in_order: true, fields, ..Outgoing::default() });
    }

    fn fields(&self, method: &str, params: Option<&str>) -> Vec<(String, String)> {
        let modern = self.dialect.era() == Era::Modern;
        let revision =
            Some(self.dialect.revision.as_str()).filter(|_| (self.is_open || modern) && method != "initialize");
        let mut fields = headers(revision, method, params);
        let params = params.filter(|_| modern && method == "tools/call" && !self.schemas.is_empty());
        let call = params.and_then(|params| serde_json::from_str::<Value>(params).ok()).unwrap_or_default();
        if let Some(schema) = call["name"].as_str().and_then(|name| self.schemas.get(name)) {
            fields.extend(parameter_headers(schema, &call["arguments"]));
        }
        fields
    }
}

/// The JSON text of a message.
fn compose(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let method = Value::from(method);
    let id = id.map(|id| format!(r#","id":{id}"#)).unwrap_or_default();
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0"{id},"method":{method}{params}}}"#)
}
