//! Compares a replay with its recording.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::analyzed_recording::AnalyzedRecording;
use super::capture::Recorded;
use super::flow::{Giver, Replacements, text_of};
use super::outcome::{ReplayResult, Reply, StepOutcome, StepResult};
use super::plan::PlannedMessage;
use super::translate::{Era, set_aside};
use crate::compare::{
    Answer, Outcome, Pair, Party, Replacement, Report, Rule, Rules, Verdict, compare_answers, pairing, volatile,
};

/// Compares the new answer to each request with the recorded one, in order. The message numbers of
/// the new requests are added later, by [`report`].
pub fn pairs(recording: &AnalyzedRecording, result: &ReplayResult, rules: &Rules) -> Result<Vec<Pair>> {
    let mut texts = recording.texts();
    let mut rules = rules.clone();
    let era = Era::of(&result.revision);
    rules.ignored.extend(set_aside(recording.era(), era));
    if result.revision != recording.revision {
        rules.ignored.extend("initialize:/protocolVersion".parse::<Rule>());
    }
    let renewed = renewed(recording, result);
    let pair = |(index, (step, done)): (usize, (&PlannedMessage, &StepResult))| {
        let plain = |outcome, why| Verdict { outcome, differences: Vec::new(), why };
        let Verdict { outcome, differences, why } = match &done.outcome {
            StepOutcome::Skipped(why) => plain(Outcome::Skipped, Some(why.clone())),
            // Equal text means an equal answer, unless values in it were renamed.
            StepOutcome::Sent(Some(Reply::AsRecorded)) if renewed.is_empty() => plain(Outcome::Same, None),
            StepOutcome::Sent(reply) => {
                let nothing = || Answer::Nothing("no answer".to_owned());
                let new = reply
                    .as_ref()
                    .map_or_else(nothing, |reply| recording.reply(&mut texts, &result.new_answers, index, reply));
                let old = with_values(recording.answer_in(&mut texts, index, era), &renewed);
                compare_answers(&step.label, &old, &new, &rules)
            }
        };
        let old = Some(Party { number: step.number.0, latency: recording.latency(index) });
        Pair { label: Arc::clone(&step.label), old, new: None, outcome, differences, why }
    };
    Ok(requests(recording, result).map(pair).collect())
}

/// The requests of a recording with their results.
fn requests<'a>(
    recording: &'a AnalyzedRecording,
    result: &'a ReplayResult,
) -> impl Iterator<Item = (usize, (&'a PlannedMessage, &'a StepResult))> {
    recording.plan.steps.iter().zip(&result.steps).enumerate().filter(|(_, (step, _))| step.is_request)
}

/// Note for a recording with too many values to follow.
const FULL: &str = "the recording contains more identifiers than can be followed; later ones were sent as recorded";

/// The report of a replay from its compared pairs.
pub fn report(
    recording: &AnalyzedRecording,
    result: &ReplayResult,
    mut pairs: Vec<Pair>,
    recorded: &Recorded,
) -> Report {
    for ((_, (_, done)), pair) in requests(recording, result).zip(&mut pairs) {
        let number = done.id.and_then(|id| recorded.request(id));
        pair.new = number.map(|number| Party { number, latency: done.latency });
    }
    Report {
        pairs,
        replaced: replacements(recording, result),
        unasked: pairing::differing(&recording.plan.unasked, &result.unasked),
        notes: result.notes.iter().cloned().chain(recording.flow.is_full.then(|| FULL.to_owned())).collect(),
        ..Report::default()
    }
}

/// Rules for the values that differ between two replays.
pub fn calibrate(recording: &AnalyzedRecording, first: &ReplayResult, second: &ReplayResult) -> Result<Vec<Rule>> {
    let (mut rules, mut texts) = (Vec::new(), recording.texts());
    let renewed = renewed_between(first, second);
    for (index, (done, again)) in first.steps.iter().zip(&second.steps).enumerate() {
        if let (StepOutcome::Sent(Some(one)), StepOutcome::Sent(Some(other))) = (&done.outcome, &again.outcome) {
            // Most answers are the same in both.
            if (one, other) == (&Reply::AsRecorded, &Reply::AsRecorded) && renewed.is_empty() {
                continue;
            }
            let one = recording.reply(&mut texts, &first.new_answers, index, one);
            let other = recording.reply(&mut texts, &second.new_answers, index, other);
            let label = &recording.plan.steps[index].label;
            rules.extend(volatile::volatile(label, &with_values(one, &renewed), &other));
        }
    }
    Ok(volatile::merged(rules))
}

/// The values that were sent in place of recorded ones, each with the places where it was sent.
fn replacements(recording: &AnalyzedRecording, result: &ReplayResult) -> Vec<Replacement> {
    let mut found: Vec<Replacement> = Vec::new();
    let mut index: HashMap<(String, String), usize> = HashMap::new();
    let given_by = |origin: usize| match recording.flow.origins[origin].giver {
        Giver::Answer(step) => recording.plan.steps[step].answer.map_or(0, |answer| answer.number.0),
        Giver::Request(number) | Giver::Notification(number) => number.0,
    };
    for replaced in &result.replaced {
        let (old, new) = (text_of(&recording.flow.origins[replaced.origin].value), text_of(&replaced.new));
        let at = *index.entry((old.clone(), new.clone())).or_insert_with(|| {
            let other = replaced.other.as_ref().map(|(origin, value)| (text_of(value), given_by(*origin)));
            let given_by = given_by(replaced.origin);
            found.push(Replacement { old, new, given_by, other, uses: Vec::new() });
            found.len() - 1
        });
        found[at].uses.push((replaced.message.0, replaced.path.clone()));
    }
    found
}

fn renewed(recording: &AnalyzedRecording, result: &ReplayResult) -> Replacements {
    let old = |origin: &usize| text_of(&recording.flow.origins[*origin].value);
    Replacements::new(result.values.iter().map(|(origin, value)| (old(origin), text_of(value))))
}

fn renewed_between(first: &ReplayResult, second: &ReplayResult) -> Replacements {
    let pair = |(origin, value): (&usize, &Value)| Some((text_of(value), text_of(second.values.get(origin)?)));
    Replacements::new(first.values.iter().filter_map(pair))
}

/// An answer in which all recorded values are replaced by the new ones.
fn with_values(answer: Answer, renewed: &Replacements) -> Answer {
    if renewed.is_empty() {
        return answer;
    }
    let with = |mut value: Value| {
        renew(&mut value, renewed);
        value
    };
    match answer {
        Answer::Result(value) => Answer::Result(with(value)),
        Answer::ToolError(value) => Answer::ToolError(with(value)),
        other => other,
    }
}

fn renew(value: &mut Value, renewed: &Replacements) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|value| renew(value, renewed)),
        Value::Array(elements) => elements.iter_mut().for_each(|value| renew(value, renewed)),
        Value::String(text) => match renewed.whole(text) {
            Some(new) => *text = new.to_owned(),
            None => *text = renewed.joined(text, true).0,
        },
        Value::Number(number) => {
            if let Some(new) = renewed.whole(&number.to_string()).and_then(|new| serde_json::from_str(new).ok()) {
                *value = new;
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
