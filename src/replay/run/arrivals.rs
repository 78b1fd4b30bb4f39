//! Waits for messages of the server and processes them.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Pace, PendingRequest, Reply, Runner, StepOutcome, StepResult, TRIGGER_TIMEOUT};
use crate::compare::Answer;
use crate::decode::Direction;
use crate::decode::jsonrpc::{Envelope, JsonRpcText, Kind};
use crate::mcp::MessageNumber;
use crate::replay::flow::Giver;
use crate::replay::messages;
use crate::replay::plan::{PlannedMessage, ServerInitiated, StepIndex};
use crate::replay::translate::Era;
use crate::replay::transport::{Arrival, Failure, FailureKind, Next, Outgoing};

impl Runner<'_, '_> {
    pub(super) fn is_pending(&self, step: StepIndex) -> bool {
        self.step_results[step].is_none() && self.ids[step] > 0 && self.ended.is_none()
    }

    /// Whether the recording contains a response to this request.
    pub(super) fn is_expected(&self, pending: &PendingRequest) -> bool {
        pending.step.is_none_or(|step| self.recording.plan.steps[step].answer.is_some())
    }

    /// Waits for the server-initiated messages to which a step is a reaction.
    pub(super) fn await_triggers(&mut self, step: &PlannedMessage, triggers: &[ServerInitiated]) {
        let is_open = |runner: &Self, trigger: &ServerInitiated| {
            let count = runner.result.unasked.get(&trigger.method).copied().unwrap_or(0);
            runner.is_open
                && runner.ended.is_none()
                && count < trigger.count
                && !runner.missing_methods.contains(&trigger.method)
        };
        for trigger in triggers {
            if is_open(self, trigger) {
                self.wait(Some(Instant::now() + TRIGGER_TIMEOUT.min(self.settings.timeout)), |runner| {
                    is_open(runner, trigger)
                });
            }
            if is_open(self, trigger) {
                let (number, method, waited) = (step.number.0, &trigger.method, trigger.number.0);
                self.result.notes.push(format!("#{number} was sent although {method} (#{waited}) did not arrive"));
                self.missing_methods.insert(trigger.method.clone());
            }
        }
    }

    /// Waits as long as the recorded client did.
    pub(super) fn pause(&mut self, recorded: i64) {
        let Pace::Recorded(times) = self.settings.pace else { return };
        let pause = Duration::from_nanos(recorded.max(0).unsigned_abs()).div_f64(times);
        self.wait(Some(Instant::now() + pause), |_| true);
    }

    /// Processes arrivals while `going` returns true, at most until `until` or until the
    /// server is gone.
    pub(super) fn wait(&mut self, until: Option<Instant>, going: impl Fn(&Self) -> bool) {
        while self.ended.is_none() && going(self) {
            self.poll();
            // All requests have the same time limit, so the oldest one has the earliest deadline.
            let first = self.pending.values().next().map(|pending| pending.deadline);
            let polls = self.polls.iter().map(|poll| poll.at);
            // There is always a deadline here, because something is awaited. The fallback is only
            // for safety.
            let next = first
                .into_iter()
                .chain(polls)
                .chain(until)
                .min()
                .unwrap_or_else(|| Instant::now() + self.settings.timeout);
            match self.transport.next(next, &self.follower.stop) {
                Next::Arrived(arrival) => self.take_arrival(arrival),
                Next::Stopped => self.ended = Some(Failure::new(FailureKind::Server, "stopped on request")),
                Next::TimedOut => {
                    self.expire();
                    if until.is_some_and(|until| Instant::now() >= until) {
                        return;
                    }
                }
            }
        }
    }

    /// Gives up requests whose time is over.
    fn expire(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| pending.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            let Some(pending) = self.pending.remove(&id) else { continue };
            let why = format!("no answer within {:?}", pending.deadline.saturating_duration_since(pending.sent));
            self.timed_out = true;
            // 2025-06-18 basic/lifecycle "Timeouts": "the sender SHOULD issue a cancellation
            // notification for that request"
            if pending.method != "initialize" && self.dialect.era() == Era::Legacy {
                self.notify("notifications/cancelled", Some(&format!(r#"{{"requestId":{id},"reason":"timeout"}}"#)));
            }
            self.record_answer(id, pending, &Answer::Nothing(why), "", Instant::now());
        }
    }

    fn take_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Text(text, at) => self.receive(&text, at),
            Arrival::Closed(failure) => self.ended = Some(failure),
            Arrival::Failed(id, failure) => {
                let pending = id.and_then(|id| Some((id, self.pending.remove(&id)?)));
                match failure.kind {
                    FailureKind::Server => self.ended = Some(failure.clone()),
                    FailureKind::Transport => self.result.wrong_transport = Some(failure.clone()),
                    FailureKind::Session => self.session_lost = true,
                    FailureKind::Message if pending.is_none() => self.result.notes.push(failure.why.clone()),
                    FailureKind::Message => {}
                }
                if let Some((id, pending)) = pending {
                    self.record_answer(id, pending, &Answer::Nothing(failure.why), "", Instant::now());
                }
            }
        }
    }

    /// Processes one text of the server: a message or a batch.
    fn receive(&mut self, text: &[u8], at: Instant) {
        match messages::parse(text) {
            JsonRpcText::Single(envelope) => self.message(text, &envelope, at),
            JsonRpcText::Batch(members) => {
                for (range, member) in members {
                    if let (Some(text), Ok(envelope)) = (text.get(range), member) {
                        self.message(text, &envelope, at);
                    }
                }
            }
            JsonRpcText::Invalid(_) => *self.result.unasked.entry("(no message)".to_owned()).or_default() += 1,
        }
    }

    fn message(&mut self, text: &[u8], envelope: &Envelope, at: Instant) {
        let of = |range: &Option<Range<usize>>| messages::slice(text, range);
        match envelope.kind {
            Some(Kind::Response | Kind::Error) => {
                let id = of(&envelope.id).and_then(|id| id.parse::<u64>().ok());
                let Some((id, pending)) = id.and_then(|id| Some((id, self.pending.remove(&id)?))) else {
                    *self.result.unasked.entry("(a response without a request)".to_owned()).or_default() += 1;
                    return;
                };
                let is_error = envelope.kind == Some(Kind::Error);
                let value = of(if is_error { &envelope.error } else { &envelope.result }).unwrap_or("null");
                if let Some(step) = pending.step.filter(|step| self.is_recorded_answer(*step, is_error, value)) {
                    let flow = &self.recording.flow;
                    let given = flow.given.get(&Giver::Answer(step)).into_iter().flatten();
                    self.result.values.extend(given.map(|origin| (*origin, flow.origins[*origin].value.clone())));
                    let (outcome, latency) = (StepOutcome::Sent(Some(Reply::AsRecorded)), pending.latency(at));
                    return self.finish_step(step, StepResult { id: Some(id), outcome, latency });
                }
                let answer = Answer::parse(is_error, value);
                if !self.answer_input_request(&pending, &answer) && !self.schedule_poll(&pending, &answer) {
                    self.record_answer(id, pending, &answer, value, at);
                }
            }
            Some(Kind::Request) => {
                let method = envelope.method_name.as_deref().unwrap_or_default().to_owned();
                let id = of(&envelope.id).unwrap_or("null").to_owned();
                let reply = self.reply(&method, of(&envelope.params), &id);
                self.transport.send(Outgoing {
                    text: reply,
                    fields: self.fields(&method, None),
                    ..Outgoing::default()
                });
                *self.result.unasked.entry(method).or_default() += 1;
            }
            Some(Kind::Notification) => {
                let method = envelope.method_name.as_deref().unwrap_or_default().to_owned();
                let count = self.result.unasked.entry(method.clone()).or_default();
                *count += 1;
                // The recorded notification with the same method and the same count corresponds to
                // it.
                if let Some(number) = self.recording.flow.notifications.get(&(method, *count)) {
                    self.resolve_values(Giver::Notification(*number), *number, of(&envelope.params));
                }
            }
            Some(Kind::Invalid) | None => {}
        }
    }

    /// Records the answer to a request. `text` is the JSON text of its value.
    fn record_answer(&mut self, id: u64, pending: PendingRequest, answer: &Answer, text: &str, at: Instant) {
        let latency = pending.latency(at).filter(|_| !matches!(answer, Answer::Nothing(_)));
        let Some(step) = pending.step else {
            self.handshakes.insert(id, answer.to_text(text));
            return;
        };
        if let Some(new) = answer.value()
            && self.recording.flow.given.contains_key(&Giver::Answer(step))
        {
            let recorded = self.recording.answer(self.texts, step);
            let is_same_kind = std::mem::discriminant(&recorded) == std::mem::discriminant(answer);
            if let Some(old) = recorded.value().filter(|_| is_same_kind) {
                self.result.values.extend(self.recording.flow.resolve(Giver::Answer(step), old, new));
            }
        }
        if let Answer::Result(new) = answer
            && pending.method == "tools/list"
        {
            self.effects.add_tools(new);
            self.add_schemas(new);
        }
        let reply = Reply::Other(self.new_answers.add(&answer.to_text(text)));
        self.finish_step(step, StepResult { id: Some(id), outcome: StepOutcome::Sent(Some(reply)), latency });
    }

    /// Whether an answer equals the recorded one in every byte and contains nothing else that is
    /// needed. Most answers do. They are neither parsed nor stored.
    fn is_recorded_answer(&self, step: StepIndex, is_error: bool, value: &str) -> bool {
        let has_same_era = self.recording.era() == self.dialect.era();
        let lists_tools = self.recording.plan.steps[step].label.method == "tools/list";
        has_same_era && !lists_tools && self.recording.plan.is_as_recorded(step, is_error, value)
    }

    /// Reads the values that a server request or notification supplies. `number` is that of the
    /// corresponding recorded message.
    pub(super) fn resolve_values(&mut self, giver: Giver, number: MessageNumber, new: Option<&str>) {
        if !self.recording.flow.given.contains_key(&giver) {
            return;
        }
        let recorded = self.recorded(Direction::ServerToClient, number, "params");
        let read = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let (Some(old), Some(new)) = (read(recorded.as_deref()), read(new)) {
            self.result.values.extend(self.recording.flow.resolve(giver, &old, &new));
        }
    }

    fn add_schemas(&mut self, result: &Value) {
        for tool in result.get("tools").and_then(Value::as_array).into_iter().flatten() {
            let schema = tool.get("inputSchema").filter(|schema| schema.to_string().contains("x-mcp-header"));
            if let (Some(name), Some(schema)) = (tool["name"].as_str(), schema) {
                self.schemas.insert(name.to_owned(), schema.clone());
            }
        }
    }
}
