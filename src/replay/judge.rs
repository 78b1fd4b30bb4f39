//! A replay, held against its recording.

use std::collections::HashMap;

use serde_json::Value;

use super::capture::Recorded;
use super::plan::Step;
use super::run::{Done, Fate, Reply, Taken};
use super::script::Script;
use super::translate::{Era, set_aside};
use crate::compare::rules::with_words;
use crate::compare::{Answer, Outcome, Pair, Party, Report, Rule, Rules, Verdict, judge, pairing, volatile};

/// How the new answers compare with the recorded ones: one verdict for each request, in order.
pub fn verdicts(script: &Script, taken: &Taken, rules: &Rules) -> Vec<Verdict> {
    let mut rules = rules.clone();
    let era = Era::of(&taken.revision);
    rules.ignored.extend(set_aside(script.era(), era));
    if taken.revision != script.revision {
        rules.ignored.extend("initialize:/protocolVersion".parse::<Rule>());
    }
    let renewed = renewed(script, taken);
    let verdict = |(index, (step, done)): (usize, (&Step, &Done))| {
        let plain = |outcome, why| Verdict { outcome, differences: Vec::new(), why };
        match &done.fate {
            _ if !step.is_request => None,
            Fate::Skipped(why) => Some(plain(Outcome::Skipped, Some(why.clone()))),
            // The same text says the same, but for what has another name now.
            Fate::Sent(Some(Reply::AsRecorded)) if renewed.is_empty() => Some(plain(Outcome::Same, None)),
            Fate::Sent(reply) => {
                let nothing = || Answer::Nothing("no answer".to_owned());
                let new = reply.as_ref().map_or_else(nothing, |reply| script.reply(index, reply));
                let old = with_values(script.answer_in(index, era), &renewed);
                Some(judge(&step.label, &old, &new, &rules))
            }
        }
    };
    script.plan.steps.iter().zip(&taken.steps).enumerate().filter_map(verdict).collect()
}

/// The report of a replay whose requests have these verdicts.
pub fn report(script: &Script, taken: &Taken, verdicts: Vec<Verdict>, recorded: &Recorded) -> Report {
    let steps = script.plan.steps.iter().zip(&taken.steps).enumerate().filter(|(_, (step, _))| step.is_request);
    let pair = |((index, (step, done)), verdict): ((usize, (&Step, &Done)), Verdict)| {
        let new = done.id.and_then(|id| recorded.request(id));
        let Verdict { outcome, differences, why } = verdict;
        Pair {
            label: step.label.clone(),
            old: Some(Party { number: step.number.0, latency: script.latency(index) }),
            new: new.map(|number| Party { number, latency: done.latency }),
            outcome,
            differences,
            why,
        }
    };
    Report {
        pairs: steps.zip(verdicts).map(pair).collect(),
        unasked: pairing::differing(&pairing::unasked(&script.recording.messages), &taken.unasked),
        notes: taken.notes.clone(),
        ..Report::default()
    }
}

/// What varies between two replays.
pub fn calibrate(script: &Script, first: &Taken, second: &Taken) -> Vec<Rule> {
    let mut rules = Vec::new();
    let renewed = renewed_between(first, second);
    for (index, (first, second)) in first.steps.iter().zip(&second.steps).enumerate() {
        if let (Fate::Sent(Some(first)), Fate::Sent(Some(second))) = (&first.fate, &second.fate) {
            let (first, second) = (script.reply(index, first), script.reply(index, second));
            let label = &script.plan.steps[index].label;
            rules.extend(volatile::volatile(label, &with_values(first, &renewed), &second));
        }
    }
    volatile::merged(rules)
}

/// Recorded values that the new server replaced by its own: the same thing under another name.
type Renewed = HashMap<String, String>;

fn renewed(script: &Script, taken: &Taken) -> Renewed {
    let old = |origin: &usize| text(&script.flow.origins[*origin].value);
    let pairs = taken.values.iter().map(|(origin, value)| (old(origin), text(value)));
    pairs.filter(|(old, new)| old != new).collect()
}

fn renewed_between(first: &Taken, second: &Taken) -> Renewed {
    let pair = |(origin, value): (&usize, &Value)| Some((text(value), text(second.values.get(origin)?)));
    first.values.iter().filter_map(pair).filter(|(first, second)| first != second).collect()
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
