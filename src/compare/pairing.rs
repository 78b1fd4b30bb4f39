//! Which request of one recording is which of another: by what was asked and in which order, never by id.
//!
//! A recording is gone through once, and numbers and hashes are kept of it. An answer is read only where it is not the other one letter by letter.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::answer::{Answer, Label, Verdict, judge};
use super::report::{Outcome, Pair, Party, Report};
use super::rules::Rules;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber};

/// Requests of one recording that are lined up by content; of longer recordings the like ones are paired in order.
const LINED_UP: usize = 20_000;

/// A client's request as it is paired.
#[derive(Debug)]
struct Asked {
    number: MessageNumber,
    latency: Option<i64>,
    label: Arc<Label>,
    /// Of label and parameters: the same for the same question.
    question: u64,
    /// Its first answer.
    answer: Option<Answered>,
}

/// Where an answer stands, and enough to know it again.
#[derive(Clone, Copy, Debug)]
struct Answered {
    number: MessageNumber,
    digest: u64,
}

/// A recording as far as it is compared.
#[derive(Debug)]
pub struct Side {
    hashes: RandomState,
    /// Requests that the server redirected: what they ask was asked by their copies.
    redirected: HashSet<MessageNumber>,
    labels: HashSet<Arc<Label>>,
    asked: Vec<Asked>,
    unasked: BTreeMap<String, u64>,
}

impl Side {
    /// Before its first message. What is held against each other has the same hashes.
    pub fn new(hashes: &RandomState, redirected: HashSet<MessageNumber>) -> Side {
        let hashes = hashes.clone();
        Side { hashes, redirected, labels: HashSet::new(), asked: Vec::new(), unasked: BTreeMap::new() }
    }

    /// Takes the next message.
    pub fn take(&mut self, message: &Message) {
        match (message.direction, message.kind) {
            (_, Kind::Response | Kind::Error) => self.answer(message),
            _ if message.redelivered => {}
            (Direction::ClientToServer, Kind::Request) if !self.redirected.contains(&message.number) => {
                self.ask(message);
            }
            (Direction::ServerToClient, Kind::Request | Kind::Notification) => {
                *self.unasked.entry(message.method.as_deref().unwrap_or_default().to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }

    fn ask(&mut self, message: &Message) {
        let label = Label::of(message);
        let label = self.labels.get(&label).cloned().unwrap_or_else(|| Arc::new(label));
        self.labels.insert(Arc::clone(&label));
        let question = self.hashes.hash_one((&label, question(part(message, "params").unwrap_or_default())));
        let Message { number, latency, .. } = *message;
        self.asked.push(Asked { number, latency, label, question, answer: None });
    }

    fn answer(&mut self, message: &Message) {
        let find = |request| self.asked.binary_search_by_key(&request, |asked| asked.number).ok();
        if let Some(at) = message.answers.and_then(find) {
            let name = if message.kind == Kind::Error { "error" } else { "result" };
            let digest = self.hashes.hash_one((name, part(message, name)));
            self.asked[at].answer.get_or_insert(Answered { number: message.number, digest });
        }
    }
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

/// Compares two recordings. `read` gives an answer of the first (0) or the second (1).
///
/// # Errors
/// Those of `read`.
pub fn compare<E>(
    [old, new]: [&Side; 2],
    read: &mut dyn FnMut(usize, MessageNumber) -> Result<Answer, E>,
    rules: &Rules,
) -> Result<Report, E> {
    let mut report = Report { unasked: differing(&old.unasked, &new.unasked), ..Report::default() };
    for (old, new) in pairs([&old.asked, &new.asked]) {
        let Some(label) = old.or(new).map(|asked| Arc::clone(&asked.label)) else { continue };
        let plain =
            |outcome, why: Option<&str>| Verdict { outcome, differences: Vec::new(), why: why.map(str::to_owned) };
        let Verdict { outcome, differences, why } = match (old, new) {
            (Some(old), Some(new)) if old.digest() == new.digest() => plain(Outcome::Same, None),
            (Some(old), Some(new)) => {
                let mut answer = |side, asked: &Asked| match asked.answer {
                    Some(answered) => read(side, answered.number),
                    None => Ok(Answer::Nothing("no answer was recorded".to_owned())),
                };
                judge(&label, &answer(0, old)?, &answer(1, new)?, rules)
            }
            (Some(_), None) => plain(Outcome::Missing, Some("the request is not in the second recording")),
            _ => plain(Outcome::Extra, Some("the request is only in the second recording")),
        };
        let party = |asked: &Asked| Party { number: asked.number.0, latency: asked.latency };
        report.pairs.push(Pair { label, old: old.map(party), new: new.map(party), outcome, differences, why });
    }
    Ok(report)
}

impl Asked {
    fn digest(&self) -> Option<u64> {
        self.answer.map(|answer| answer.digest)
    }

    /// What requests of one label have in common, or those of one method: but for what is called by a name that people gave it, which a server
    /// does not make up anew each time, as it may its URIs.
    fn key(&self, by_method: bool) -> Option<(&str, Option<&str>)> {
        let Label { method, subject } = &*self.label;
        match by_method {
            true if matches!(&**method, "tools/call" | "prompts/get") => None,
            true => Some((method, None)),
            false => Some((method, subject.as_deref())),
        }
    }
}

/// What belongs together, in the order of both.
type Pairs<'a> = Vec<(Option<&'a Asked>, Option<&'a Asked>)>;

fn pairs<'a>([old, new]: [&'a [Asked]; 2]) -> Pairs<'a> {
    if old.len().max(new.len()) > LINED_UP {
        return run(old, new);
    }
    let questions = |asked: &[Asked]| asked.iter().map(|asked| asked.question).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, &questions(old), &questions(new)) {
        let (from, to) = (&old[operation.old_range()], &new[operation.new_range()]);
        match operation {
            DiffOp::Equal { .. } => pairs.extend(from.iter().map(Some).zip(to.iter().map(Some))),
            _ => pairs.extend(run(from, to)),
        }
    }
    pairs
}

/// A run of requests in place of another: those of one label are paired in order; then those of one method.
fn run<'a>(old: &'a [Asked], new: &'a [Asked]) -> Pairs<'a> {
    let mut free: Vec<bool> = vec![true; new.len()];
    let mut partners: Vec<Option<usize>> = vec![None; old.len()];
    for by_method in [false, true] {
        let mut waiting: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (index, asked) in new.iter().enumerate().filter(|(index, _)| free[*index]) {
            if let Some(key) = asked.key(by_method) {
                waiting.entry(key).or_default().push_back(index);
            }
        }
        for (asked, partner) in old.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            *partner = asked.key(by_method).and_then(|key| waiting.get_mut(&key)?.pop_front());
            partner.iter().for_each(|partner| free[*partner] = false);
        }
    }
    let mut pairs: Pairs<'a> =
        old.iter().zip(partners).map(|(old, partner)| (Some(old), partner.map(|partner| &new[partner]))).collect();
    pairs.extend(new.iter().zip(free).filter(|(_, free)| *free).map(|(new, _)| (None, Some(new))));
    pairs
}

/// Those whose numbers differ: method, before, now.
pub fn differing(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Vec<(String, u64, u64)> {
    let methods: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let count = |counts: &BTreeMap<String, u64>, method: &String| counts.get(method).copied().unwrap_or(0);
    let both = methods.into_iter().map(|method| (method.clone(), count(old, method), count(new, method)));
    both.filter(|(_, old, new)| old != new).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_messages::read;

    /// The report on two conversations, with the numbers of the answers that were read for it.
    fn compared(talks: [&str; 2]) -> (Report, Vec<(usize, u64)>) {
        let (hashes, messages) = (RandomState::new(), talks.map(read));
        let sides = [0, 1].map(|side: usize| {
            let mut taken = Side::new(&hashes, HashSet::new());
            messages[side].iter().for_each(|message| taken.take(message));
            taken
        });
        let mut numbers = Vec::new();
        let mut answer = |side: usize, number: MessageNumber| {
            numbers.push((side, number.0));
            messages[side].iter().find(|message| message.number == number).map(Answer::of).ok_or(number)
        };
        let report = compare([&sides[0], &sides[1]], &mut answer, &Rules::default()).unwrap();
        (report, numbers)
    }

    #[test]
    fn answers_are_read_only_where_they_differ() {
        let call = |id, answer: &str| {
            format!(
                "-> {{\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"a\",\"arguments\":{{\"n\":{id}}}}}}}\n<- {{\"id\":{id},{answer}}}\n"
            )
        };
        let old = call(1, r#""result":{"x":1}"#) + &call(2, r#""result":{"x":2}"#) + &call(3, r#""error":{"code":1}"#);
        let new = call(1, r#""result":{"x":1}"#) + &call(2, r#""result":{"x":3}"#) + &call(3, r#""result":{"code":1}"#);
        let (report, read) = compared([&old, &new]);
        let outcomes: Vec<Outcome> = report.pairs.iter().map(|pair| pair.outcome).collect();
        assert_eq!(outcomes, [Outcome::Same, Outcome::Different, Outcome::Result]);
        assert_eq!(read, [(0, 4), (1, 4), (0, 6), (1, 6)]);
    }

    proptest! {
        #[test]
        fn hashes_say_what_the_answers_say(talks in prop::array::uniform2(prop::collection::vec((0..3u8, 0..2u8, 0..4u8), 0..12))) {
            let written = talks.map(|calls| {
                let call = |(id, (name, n, answer)): (usize, (u8, u8, u8))| {
                    let ask = format!("-> {{\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t{name}\",\"arguments\":{{\"n\":{n}}}}}}}\n");
                    let answer = match answer {
                        0 => String::new(),
                        1 => format!("<- {{\"id\":{id},\"error\":{{\"code\":1}}}}\n"),
                        other => format!("<- {{\"id\":{id},\"result\":{{\"x\":{other}}}}}\n"),
                    };
                    ask + &answer
                };
                calls.into_iter().enumerate().map(call).collect::<String>()
            });
            let messages = [read(&written[0]), read(&written[1])];
            let (report, _) = compared([&written[0], &written[1]]);
            let answer = |side: usize, party: Party| {
                let found = messages[side].iter().find(|message| message.answers.is_some_and(|request| request.0 == party.number));
                found.map_or_else(|| Answer::Nothing(String::new()), Answer::of)
            };
            let asked = |side: usize| messages[side].iter().filter(|message| message.kind == Kind::Request).count();
            prop_assert_eq!(report.pairs.iter().filter(|pair| pair.old.is_some()).count(), asked(0));
            prop_assert_eq!(report.pairs.iter().filter(|pair| pair.new.is_some()).count(), asked(1));
            for pair in &report.pairs {
                if let (Some(old), Some(new)) = (pair.old, pair.new) {
                    let verdict = judge(&pair.label, &answer(0, old), &answer(1, new), &Rules::default());
                    prop_assert_eq!((pair.outcome, &pair.differences), (verdict.outcome, &verdict.differences));
                }
            }
        }
    }
}
