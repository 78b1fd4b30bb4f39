//! Which request of one recording is which of another: by what was asked and in which order, never by id.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::answer::{Answer, Label, judge};
use super::report::{Outcome, Pair, Party, Report};
use super::rules::Rules;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;
use crate::mcp::operations::Why;
use crate::mcp::{Message, MessageNumber};

/// Requests of one recording that are lined up by content; of longer recordings the like ones are paired in order.
const LINED_UP: usize = 20_000;

/// A client's request as it is paired.
struct Asked<'a> {
    message: &'a Message,
    label: Label,
    /// Label and parameters: the same text for the same question.
    question: String,
}

/// The client's requests of a recording, in order.
fn asked(messages: &[Message]) -> Vec<Asked<'_>> {
    // What the server redirected was asked by its copy.
    let copies = messages.iter().filter_map(|message| message.link).filter(|link| link.why == Why::Redirect);
    let redirected: HashSet<MessageNumber> = copies.map(|link| link.previous).collect();
    let is_request = |message: &&Message| {
        let is_asked = !message.redelivered && !redirected.contains(&message.number);
        message.kind == Kind::Request && message.direction == Direction::ClientToServer && is_asked
    };
    let asked = |message| {
        let label = Label::of(message);
        let question = format!("{label} {}", question(part(message, "params").unwrap_or_default()));
        Asked { message, label, question }
    };
    messages.iter().filter(is_request).map(asked).collect()
}

/// Parameters as a question: members in order of name, without `_meta` (progress tokens, what a client says of itself).
fn question(params: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(params) {
        Ok(mut value) => {
            if let Some(members) = value.as_object_mut() {
                members.remove("_meta");
            }
            value.to_string()
        }
        Err(_) => params.to_owned(),
    }
}

/// Compares two recordings.
pub fn compare(old: &[Message], new: &[Message], rules: &Rules) -> Report {
    let (asked_old, asked_new) = (asked(old), asked(new));
    let (answers_old, answers_new) = (answers(old), answers(new));
    let mut report = Report { unasked: differing(&unasked(old), &unasked(new)), ..Report::default() };
    for (old, new) in pairs(&asked_old, &asked_new) {
        let party = |asked: &Asked<'_>| Party { number: asked.message.number.0, latency: asked.message.latency };
        let (old, new) = (old.map(|index| &asked_old[index]), new.map(|index| &asked_new[index]));
        let Some(label) = old.or(new).map(|asked| asked.label.clone()) else { continue };
        let verdict = match (old, new) {
            (Some(old), Some(new)) => {
                let answer = |answers: &HashMap<MessageNumber, &Message>, asked: &Asked<'_>| {
                    let found = answers.get(&asked.message.number);
                    found
                        .map_or_else(|| Answer::Nothing("no answer was recorded".into()), |message| Answer::of(message))
                };
                let verdict = judge(&label, &answer(&answers_old, old), &answer(&answers_new, new), rules);
                (verdict.outcome, verdict.differences, verdict.why)
            }
            (Some(_), None) => {
                (Outcome::Missing, Vec::new(), Some("the request is not in the second recording".into()))
            }
            _ => (Outcome::Extra, Vec::new(), Some("the request is only in the second recording".into())),
        };
        let (outcome, differences, why) = verdict;
        report.pairs.push(Pair {
            label: Arc::new(label),
            old: old.map(party),
            new: new.map(party),
            outcome,
            differences,
            why,
        });
    }
    report
}

/// The first answer to each request.
fn answers(messages: &[Message]) -> HashMap<MessageNumber, &Message> {
    let mut answers = HashMap::new();
    for message in messages {
        if let Some(request) = message.answers {
            answers.entry(request).or_insert(message);
        }
    }
    answers
}

/// Indices of what belongs together, in the order of both.
fn pairs(old: &[Asked<'_>], new: &[Asked<'_>]) -> Vec<(Option<usize>, Option<usize>)> {
    if old.len().max(new.len()) > LINED_UP {
        return run((old, 0), (new, 0));
    }
    let questions = |asked: &[Asked<'_>]| asked.iter().map(|asked| asked.question.clone()).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, &questions(old), &questions(new)) {
        let (from, to) = (operation.old_range(), operation.new_range());
        match operation {
            DiffOp::Equal { .. } => pairs.extend(from.zip(to).map(|(old, new)| (Some(old), Some(new)))),
            _ => pairs.extend(run((&old[from.clone()], from.start), (&new[to.clone()], to.start))),
        }
    }
    pairs
}

/// A run of requests in place of another: those of one label are paired in order; then those of one method, but for what is called by a name
/// that people gave it (a server may make up its URIs anew each time, not its tools).
fn run(
    (old, old_start): (&[Asked<'_>], usize),
    (new, new_start): (&[Asked<'_>], usize),
) -> Vec<(Option<usize>, Option<usize>)> {
    let mut free: Vec<bool> = vec![true; new.len()];
    let mut partners: Vec<Option<usize>> = vec![None; old.len()];
    let is_named = |asked: &Asked<'_>| matches!(&*asked.label.method, "tools/call" | "prompts/get");
    for by_method in [false, true] {
        let key = |asked: &Asked<'_>| match by_method {
            true if is_named(asked) => None,
            true => Some(Label { method: asked.label.method.clone(), subject: None }),
            false => Some(asked.label.clone()),
        };
        let mut waiting: HashMap<Label, VecDeque<usize>> = HashMap::new();
        for (index, asked) in new.iter().enumerate().filter(|(index, _)| free[*index]) {
            if let Some(key) = key(asked) {
                waiting.entry(key).or_default().push_back(index);
            }
        }
        for (asked, partner) in old.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            *partner = key(asked).and_then(|key| waiting.get_mut(&key)?.pop_front());
            partner.iter().for_each(|partner| free[*partner] = false);
        }
    }
    let pairs = partners.into_iter().enumerate();
    let mut pairs: Vec<_> = pairs.map(|(old, new)| (Some(old_start + old), new.map(|new| new_start + new))).collect();
    pairs.extend((0..new.len()).filter(|index| free[*index]).map(|index| (None, Some(new_start + index))));
    pairs
}

/// How many notifications and requests of each method the server sent.
pub fn unasked(messages: &[Message]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for message in messages.iter().filter(|message| !message.redelivered) {
        if message.direction == Direction::ServerToClient && matches!(message.kind, Kind::Request | Kind::Notification)
        {
            *counts.entry(message.method.clone().unwrap_or_default()).or_default() += 1;
        }
    }
    counts
}

/// Those whose numbers differ: method, before, now.
pub fn differing(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Vec<(String, u64, u64)> {
    let methods: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let count = |counts: &BTreeMap<String, u64>, method: &String| counts.get(method).copied().unwrap_or(0);
    let both = methods.into_iter().map(|method| (method.clone(), count(old, method), count(new, method)));
    both.filter(|(_, old, new)| old != new).collect()
}
