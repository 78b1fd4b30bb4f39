//! A replay, held against its recording.

use std::collections::HashMap;

use serde_json::Value;

use super::capture::Recorded;
use super::run::{Done, Fate, Taken};
use super::script::Script;
use super::translate::{Era, set_aside};
use crate::compare::rules::words;
use crate::compare::{Answer, Held, Outcome, Pair, Party, Report, Rule, Rules, judge, pairing, volatile};

/// The report of a replay.
pub fn report(script: &Script, taken: &Taken, recorded: &Recorded, rules: &Rules) -> Report {
    let mut rules = rules.clone();
    rules.ignored.extend(set_aside(script.era(), Era::of(&taken.revision)));
    if taken.revision != script.revision {
        rules.ignored.extend("initialize:/protocolVersion".parse::<Rule>());
    }
    let renewed = renewed(script, taken);
    let mut report = Report::default();
    for (index, (step, done)) in script.plan.steps.iter().zip(&taken.steps).enumerate() {
        if !step.is_request {
            continue;
        }
        let old = Some(Party { number: step.number.0, latency: script.latency(index) });
        let number = |done: &Done| recorded.request(done.id?);
        let new = number(done).map(|number| Party { number, latency: done.latency });
        let label = step.label.clone();
        let (outcome, differences, why) = match &done.fate {
            Fate::Skipped(why) => (Outcome::Skipped, Vec::new(), Some(why.clone())),
            Fate::Sent(answer) => {
                let new = answer.as_ref().map_or_else(|| Answer::Nothing("no answer".to_owned()), Held::read);
                let old = with_values(script.answer_in(index, Era::of(&taken.revision)), &renewed);
                let verdict = judge(&label, &old, &new, &rules);
                (verdict.outcome, verdict.differences, verdict.why)
            }
        };
        report.pairs.push(Pair { label, old, new, outcome, differences, why });
    }
    report.unasked = pairing::differing(&pairing::unasked(&script.recording.messages), &taken.unasked);
    report.notes = taken.notes.clone();
    report
}

/// What varies between two replays.
pub fn calibrate(script: &Script, first: &Taken, second: &Taken) -> Vec<Rule> {
    let mut rules = Vec::new();
    let renewed = renewed_between(first, second);
    for (step, (first, second)) in script.plan.steps.iter().zip(first.steps.iter().zip(&second.steps)) {
        if let (Fate::Sent(Some(first)), Fate::Sent(Some(second))) = (&first.fate, &second.fate) {
            rules.extend(volatile::volatile(&step.label, &with_values(first.read(), &renewed), &second.read()));
        }
    }
    volatile::merged(rules)
}

/// Recorded values that the new server replaced by its own: the same thing under another name.
type Renewed = HashMap<String, String>;

fn renewed(script: &Script, taken: &Taken) -> Renewed {
    let old = |origin: &usize| text(&script.flow.origins[*origin].value);
    taken.values.iter().map(|(origin, value)| (old(origin), text(value))).collect()
}

fn renewed_between(first: &Taken, second: &Taken) -> Renewed {
    let pair = |(origin, value): (&usize, &Value)| Some((text(value), text(second.values.get(origin)?)));
    first.values.iter().filter_map(pair).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
            None => {
                *text = words(text).into_iter().map(|word| renewed.get(word).map_or(word, String::as_str)).collect()
            }
        },
        Value::Number(number) => {
            if let Some(new) = renewed.get(&number.to_string()).and_then(|new| serde_json::from_str(new).ok()) {
                *value = new;
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
