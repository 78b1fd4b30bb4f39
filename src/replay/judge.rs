//! A replay, held against its recording.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::capture::Recorded;
use super::flow::text_of;
use super::outcome::{Done, Fate, Reply, Taken};
use super::plan::Step;
use super::script::Script;
use super::translate::{Era, set_aside};
use crate::compare::rules::with_words;
use crate::compare::{Answer, Outcome, Pair, Party, Report, Rule, Rules, Verdict, judge, pairing, volatile};

/// How the new answers compare with the recorded ones: each request, in order. The numbers of the new ones are known later ([`report`]).
///
/// # Errors
/// The recording cannot be read.
pub fn pairs(script: &Script, taken: &Taken, rules: &Rules) -> Result<Vec<Pair>> {
    let mut texts = script.texts()?;
    let mut rules = rules.clone();
    let era = Era::of(&taken.revision);
    rules.ignored.extend(set_aside(script.era(), era));
    if taken.revision != script.revision {
        rules.ignored.extend("initialize:/protocolVersion".parse::<Rule>());
    }
    let renewed = renewed(script, taken);
    let pair = |(index, (step, done)): (usize, (&Step, &Done))| {
        let plain = |outcome, why| Verdict { outcome, differences: Vec::new(), why };
        let Verdict { outcome, differences, why } = match &done.fate {
            Fate::Skipped(why) => plain(Outcome::Skipped, Some(why.clone())),
            // The same text says the same, but for what has another name now.
            Fate::Sent(Some(Reply::AsRecorded)) if renewed.is_empty() => plain(Outcome::Same, None),
            Fate::Sent(reply) => {
                let nothing = || Answer::Nothing("no answer".to_owned());
                let new =
                    reply.as_ref().map_or_else(nothing, |reply| script.reply(&mut texts, &taken.kept, index, reply));
                let old = with_values(script.answer_in(&mut texts, index, era), &renewed);
                judge(&step.label, &old, &new, &rules)
            }
        };
        let old = Some(Party { number: step.number.0, latency: script.latency(index) });
        Pair { label: Arc::clone(&step.label), old, new: None, outcome, differences, why }
    };
    Ok(requests(script, taken).map(pair).collect())
}

/// The requests of a script, with what became of them.
fn requests<'a>(script: &'a Script, taken: &'a Taken) -> impl Iterator<Item = (usize, (&'a Step, &'a Done))> {
    script.plan.steps.iter().zip(&taken.steps).enumerate().filter(|(_, (step, _))| step.is_request)
}

/// What is said of a recording with more values than are followed.
const FULL: &str = "the recording has more identifiers than are followed: later ones were sent as they had been";

/// The report of a replay whose requests compare so.
pub fn report(script: &Script, taken: &Taken, mut pairs: Vec<Pair>, recorded: &Recorded) -> Report {
    for ((_, (_, done)), pair) in requests(script, taken).zip(&mut pairs) {
        let number = done.id.and_then(|id| recorded.request(id));
        pair.new = number.map(|number| Party { number, latency: done.latency });
    }
    Report {
        pairs,
        unasked: pairing::differing(&script.plan.unasked, &taken.unasked),
        notes: taken.notes.iter().cloned().chain(script.flow.is_full.then(|| FULL.to_owned())).collect(),
        ..Report::default()
    }
}

/// What varies between two replays.
///
/// # Errors
/// The recording cannot be read.
pub fn calibrate(script: &Script, first: &Taken, second: &Taken) -> Result<Vec<Rule>> {
    let (mut rules, mut texts) = (Vec::new(), script.texts()?);
    let renewed = renewed_between(first, second);
    for (index, (done, again)) in first.steps.iter().zip(&second.steps).enumerate() {
        if let (Fate::Sent(Some(one)), Fate::Sent(Some(other))) = (&done.fate, &again.fate) {
            // Most are the same each time.
            if (one, other) == (&Reply::AsRecorded, &Reply::AsRecorded) && renewed.is_empty() {
                continue;
            }
            let one = script.reply(&mut texts, &first.kept, index, one);
            let other = script.reply(&mut texts, &second.kept, index, other);
            let label = &script.plan.steps[index].label;
            rules.extend(volatile::volatile(label, &with_values(one, &renewed), &other));
        }
    }
    Ok(volatile::merged(rules))
}

/// Recorded values that the new server replaced by its own: the same thing under another name.
type Renewed = HashMap<String, String>;

fn renewed(script: &Script, taken: &Taken) -> Renewed {
    let old = |origin: &usize| text_of(&script.flow.origins[*origin].value);
    let pairs = taken.values.iter().map(|(origin, value)| (old(origin), text_of(value)));
    pairs.filter(|(old, new)| old != new).collect()
}

fn renewed_between(first: &Taken, second: &Taken) -> Renewed {
    let pair = |(origin, value): (&usize, &Value)| Some((text_of(value), text_of(second.values.get(origin)?)));
    first.values.iter().filter_map(pair).filter(|(first, second)| first != second).collect()
}

/// An answer in which those values are the new ones, wherever they stand.
fn with_values(answer: Answer, renewed: &Renewed) -> Answer {
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

fn renew(value: &mut Value, renewed: &Renewed) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|value| renew(value, renewed)),
        Value::Array(elements) => elements.iter_mut().for_each(|value| renew(value, renewed)),
        Value::String(text) => match renewed.get(text) {
            Some(new) => *text = new.clone(),
            None => *text = with_words(text, |word| renewed.get(word).map(String::as_str)),
        },
        Value::Number(number) => {
            if let Some(new) = renewed.get(&number.to_string()).and_then(|new| serde_json::from_str(new).ok()) {
                *value = new;
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
