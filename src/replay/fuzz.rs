//! The body of the fuzz target for replays: a recording, and what another server answers to it.

use std::collections::HashMap;

use serde_json::Value;

use super::flow::{Flow, Giver, Renewal, Search, renew};
use super::plan::{Plan, Planner, Role};
use super::safety::{Effects, Policy, masked};
use super::translate::{
    ClientIdentity, Dialect, Translated, discovered, headers, legacy_result, modern_result, parameter_headers,
};
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Limits, LinkType, Packet, PacketNumber, Time};
use crate::compare::rules::Rules;
use crate::compare::{Answer, Outcome, compare_answers};
use crate::decode::Direction;
use crate::decode::json::is_json;
use crate::event::{Detail, Event};
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber, Revision};
use crate::pipeline::{Input, Pipeline, PipelineConfig};

/// Plans the replay of a recording, renews the values that a new server chose, and translates each
/// message for every revision.
///
/// Each line is a message: of the client after `>`, of the server after `<`. Lines after `=` are
/// the new results, in the order of the recorded ones.
///
/// A plan waits only for what precedes. The parameters that are sent are JSON if the recorded ones
/// are. Values of HTTP fields have no control characters. An answer equals itself.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn fuzz_replay(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let messages = recorded(text);
    let (plan, flow) = analyze(&messages);
    assert_ordered(&plan);
    let mut new = text.lines().filter_map(|line| line.strip_prefix('='));
    let mut values = HashMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let Some(answer) = step.answer.and_then(|answer| message(&messages, answer.number)) else { continue };
        let old = Answer::of(answer);
        let text = new.next().unwrap_or_default();
        let rules = Rules::default();
        assert_eq!(compare_answers(&step.label, &old, &old, &rules).outcome, Outcome::Same, "{old:?}");
        for is_error in [false, true] {
            let new = Answer::parse(is_error, text);
            let verdict = compare_answers(&step.label, &old, &new, &rules);
            assert!(verdict.outcome != Outcome::Same || verdict.differences.is_empty());
            plan.is_as_recorded(index, is_error, text);
        }
        let given = (old.value(), serde_json::from_str::<Value>(text));
        if let (Some(old), Ok(new)) = given {
            flow.resolve(Giver::Answer(index), old, old);
            values.extend(flow.resolve(Giver::Answer(index), old, &new));
        }
    }
    for message in messages.iter().filter(|message| message.direction == Direction::ServerToClient) {
        let Some(params) = part(message, "params").and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            continue;
        };
        for giver in [Giver::Request(message.number), Giver::Notification(message.number)] {
            values.extend(flow.resolve(giver, &params, &params));
        }
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let mut params = message(&messages, step.number).and_then(|message| part(message, "params")).map(str::to_owned);
        let uses = flow.uses.get(&index).into_iter().flatten();
        let renewals: Vec<Renewal<'_>> = uses
            .filter_map(|used| {
                let ((_, new), _) = used.choose(&values)?;
                Some(Renewal { used, old: &flow.origins[used.origin].value, new })
            })
            .collect();
        if let Some(params) = &mut params {
            *params = renew(params, &renewals).0;
            assert!(is_json(params), "not JSON: {params}");
        }
        translate(&plan, index, params.as_deref());
        masked(params.as_deref().unwrap_or_default());
    }
}

/// The messages of a recording over pipes.
fn recorded(text: &str) -> Vec<Message> {
    let options = PipelineConfig {
        limits: Limits::default(),
        detail: Detail::Messages,
        hash: false,
        keep_secrets: false,
        mask_key: None,
        redaction: None,
    };
    let (mut pipeline, mut messages) = (Pipeline::new(options), Vec::new());
    let mut emit = |event| {
        if let Event::Message(message) = event {
            messages.push(*message);
        }
    };
    for (line, number) in text.lines().zip(1..) {
        let (pipe, line) = match (line.strip_prefix('>'), line.strip_prefix('<')) {
            (Some(line), _) => (Pipe::Stdin, line),
            (_, Some(line)) => (Pipe::Stdout, line),
            _ => continue,
        };
        let mut data = Vec::new();
        pipe::encode(1, &PipeEvent::Data(pipe, format!("{line}\n").as_bytes()), &mut data);
        let (time, original_length) = (Time(number as i64 * 1_000_000), data.len() as u32);
        let packet = Packet {
            number: PacketNumber(number),
            time,
            link: LinkType::PIPE,
            interface: 0,
            original_length,
            data: &data,
        };
        pipeline.push(Input::Packet(packet), &mut emit);
    }
    pipeline.push(Input::End, &mut emit);
    messages
}

/// The message with this number.
fn message(messages: &[Message], number: MessageNumber) -> Option<&Message> {
    messages.get(usize::try_from(number.0).ok()?.checked_sub(1)?)
}

fn analyze(messages: &[Message]) -> (Plan, Flow) {
    let (mut planner, mut search) = (Planner::default(), Search::default());
    let mut effects = Effects::default();
    for message in messages {
        let role = planner.take(message);
        let triggers = search.take(message, &role);
        if let Role::Step(step) = role {
            triggers.into_iter().for_each(|trigger| planner.plan.add_trigger(step, trigger));
        }
        let result = part(message, "result").and_then(|result| serde_json::from_str(result).ok());
        result.iter().for_each(|result: &Value| effects.add_tools(result));
    }
    for step in &planner.plan.steps {
        effects.reason_to_refuse(&step.label, &Policy::default());
    }
    (planner.plan, search.flow)
}

/// Asserts that every step waits only for what precedes it.
fn assert_ordered(plan: &Plan) {
    assert!(plan.steps.is_sorted_by(|one, next| one.number < next.number));
    for (index, step) in plan.steps.iter().enumerate() {
        assert!(plan.after(index).all(|before| before < index && plan.steps[before].is_request));
        assert!(plan.cancels(index).is_none_or(|cancelled| cancelled < index));
        assert!(plan.triggers(index).iter().all(|trigger| trigger.number < step.number));
        assert!(step.answer.is_none_or(|answer| answer.number > step.number));
        assert!(step.pause >= 0);
    }
}

/// Translates a step from and to every revision.
fn translate(plan: &Plan, index: usize, params: Option<&str>) {
    let step = &plan.steps[index];
    let client = params.and_then(ClientIdentity::of).unwrap_or_default();
    for from in Revision::ALL.map(Revision::name) {
        for to in Revision::ALL.map(Revision::name) {
            let translated = Dialect::new(from, to, client.clone()).translate(&step.label, step.is_request, params);
            if let Translated::Send(Some(sent)) = translated {
                assert!(is_json(&sent), "{from} to {to} made {sent}");
                assert_fields(&headers(Some(to), &step.label.method, Some(&sent)));
            }
        }
    }
    let Some(params) = params else { return };
    for result in [modern_result(&step.label.method, params), legacy_result(params), discovered(params)] {
        assert!(result.is_none_or(|result| is_json(&result)));
    }
    if let Ok(value) = serde_json::from_str::<Value>(params) {
        assert_fields(&parameter_headers(&value, &value["arguments"]));
    }
}

/// Asserts that the values of fields cannot end their line. The name of a method is sent as it is,
/// and the transport refuses it then.
fn assert_fields(fields: &[(String, String)]) {
    for (name, value) in fields.iter().filter(|(name, _)| name != "Mcp-Method") {
        assert!(!value.contains(|c: char| c.is_control()), "{name:?}: {value:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_replay;

    #[test]
    fn seeds_hold() {
        let seed = concat!(
            ">{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"create\"}}\n",
            "<{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"made IT-100000 now\"}]}}\n",
            ">{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"get\",\"arguments\":{\"id\":\"IT-100000\"}}}\n",
            "<{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],\"structuredContent\":{\"id\":\"IT-100000\"}}}\n",
            "={\"content\":[{\"type\":\"text\",\"text\":\"made IT-200000 now\"}]}\n=7\n",
        );
        for end in 0..=seed.len() {
            fuzz_replay(&seed.as_bytes()[..end]);
        }
    }
}
