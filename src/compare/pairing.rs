//! Pairs the requests of two recordings by content and order. Request ids are never compared, since
//! each run chooses its own.
//!
//! Each recording is read once. Of every request only numbers and hashes are stored. Two answers
//! are read again only when their hashes differ.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use similar::DiffOp;

use super::alignment::align;
use super::answer::{Answer, Verdict, compare_answers};
use super::label::Label;
use super::report::{Outcome, Pair, Party, Report};
use super::rules::Rules;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber};

/// The longest recording, in requests, that is aligned by content. In longer ones, requests with
/// the same label are paired in order.
const LINED_UP: usize = 20_000;

/// A request of the client with what is needed to pair it.
#[derive(Debug)]
struct ComparableRequest {
    number: MessageNumber,
    latency: Option<i64>,
    label: Arc<Label>,
    /// Hash of the label and the parameters. Equal requests have equal hashes.
    question: u64,
    /// The first response to it.
    answer: Option<AnswerDigest>,
}

/// The number of a response, and a hash of its content.
#[derive(Clone, Copy, Debug)]
struct AnswerDigest {
    number: MessageNumber,
    digest: u64,
}

/// The requests of one recording, prepared for comparison.
#[derive(Debug, Default)]
pub struct ComparableRecording {
    hashes: RandomState,
    /// Requests that the server redirected. Their repeated copies are compared instead.
    redirected: HashSet<MessageNumber>,
    labels: HashSet<Arc<Label>>,
    requests: Vec<ComparableRequest>,
    unasked: BTreeMap<String, u64>,
}

impl ComparableRecording {
    /// An empty recording. Two recordings that are compared must share `hashes`.
    pub fn new(hashes: &RandomState, redirected: HashSet<MessageNumber>) -> ComparableRecording {
        ComparableRecording { hashes: hashes.clone(), redirected, ..ComparableRecording::default() }
    }

    /// Adds the next message of the recording.
    pub fn take(&mut self, message: &Message) {
        match (message.direction, message.kind) {
            (_, Kind::Response | Kind::Error) => self.answer(message),
            _ if message.redelivered => {}
            (Direction::ClientToServer, Kind::Request) if !self.redirected.contains(&message.number) => {
                self.add_request(message);
            }
            (Direction::ServerToClient, Kind::Request | Kind::Notification) => {
                *self.unasked.entry(message.method.as_deref().unwrap_or_default().to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }

    fn add_request(&mut self, message: &Message) {
        let label = Label::of(message);
        let label = self.labels.get(&label).cloned().unwrap_or_else(|| Arc::new(label));
        self.labels.insert(Arc::clone(&label));
        let question = self.hashes.hash_one((&label, question(part(message, "params").unwrap_or_default())));
        let Message { number, latency, .. } = *message;
        self.requests.push(ComparableRequest { number, latency, label, question, answer: None });
    }

    fn answer(&mut self, message: &Message) {
        let find = |request| self.requests.binary_search_by_key(&request, |requests| requests.number).ok();
        if let Some(at) = message.answers.and_then(find) {
            let name = if message.kind == Kind::Error { "error" } else { "result" };
            let digest = self.hashes.hash_one((name, part(message, name)));
            self.requests[at].answer.get_or_insert(AnswerDigest { number: message.number, digest });
        }
    }
}

/// The parameters in canonical form: members sorted by name, without `_meta`, which holds progress
/// tokens and client details.
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

/// Compares two recordings. `read` returns an answer of the first (0) or second (1) recording.
pub fn compare<E>(
    [old, new]: [&ComparableRecording; 2],
    read: &mut dyn FnMut(usize, MessageNumber) -> Result<Answer, E>,
    rules: &Rules,
) -> Result<Report, E> {
    let mut report = Report { unasked: differing(&old.unasked, &new.unasked), ..Report::default() };
    for (old, new) in pairs([&old.requests, &new.requests]) {
        let Some(label) = old.or(new).map(|requests| Arc::clone(&requests.label)) else { continue };
        let plain =
            |outcome, why: Option<&str>| Verdict { outcome, differences: Vec::new(), why: why.map(str::to_owned) };
        let Verdict { outcome, differences, why } = match (old, new) {
            (Some(old), Some(new)) if old.digest() == new.digest() => plain(Outcome::Same, None),
            (Some(old), Some(new)) => {
                let mut answer = |side, requests: &ComparableRequest| match requests.answer {
                    Some(answered) => read(side, answered.number),
                    None => Ok(Answer::Nothing("no answer was recorded".to_owned())),
                };
                compare_answers(&label, &answer(0, old)?, &answer(1, new)?, rules)
            }
            (Some(_), None) => plain(Outcome::Missing, Some("the request is not in the second recording")),
            _ => plain(Outcome::Extra, Some("the request is only in the second recording")),
        };
        let party = |requests: &ComparableRequest| Party { number: requests.number.0, latency: requests.latency };
        report.pairs.push(Pair { label, old: old.map(party), new: new.map(party), outcome, differences, why });
    }
    Ok(report)
}

impl ComparableRequest {
    fn digest(&self) -> Option<u64> {
        self.answer.map(|answer| answer.digest)
    }

    /// The key under which requests are paired: the label, or only the method. Calls of tools and
    /// prompts are never paired by method alone. Their names are chosen by people and stay the
    /// same, while a server may generate new resource URIs in each run.
    fn key(&self, by_method: bool) -> Option<(&str, Option<&str>)> {
        let Label { method, subject } = &*self.label;
        match by_method {
            true if matches!(&**method, "tools/call" | "prompts/get") => None,
            true => Some((method, None)),
            false => Some((method, subject.as_deref())),
        }
    }
}

/// Pairs of requests in the order of both recordings. A request without a partner has `None`
/// in its place.
type Pairs<'a> = Vec<(Option<&'a ComparableRequest>, Option<&'a ComparableRequest>)>;

fn pairs<'a>([old, new]: [&'a [ComparableRequest]; 2]) -> Pairs<'a> {
    if old.len().max(new.len()) > LINED_UP {
        return run(old, new);
    }
    let questions =
        |requests: &[ComparableRequest]| requests.iter().map(|requests| requests.question).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    for operation in align(&questions(old), &questions(new), None) {
        let (from, to) = (&old[operation.old_range()], &new[operation.new_range()]);
        match operation {
            DiffOp::Equal { .. } => pairs.extend(from.iter().map(Some).zip(to.iter().map(Some))),
            _ => pairs.extend(run(from, to)),
        }
    }
    pairs
}

/// Pairs a run of requests with the run that replaced it: first by label, then by method,
/// both in order.
fn run<'a>(old: &'a [ComparableRequest], new: &'a [ComparableRequest]) -> Pairs<'a> {
    let mut free: Vec<bool> = vec![true; new.len()];
    let mut partners: Vec<Option<usize>> = vec![None; old.len()];
    for by_method in [false, true] {
        let mut unpaired: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (index, requests) in new.iter().enumerate().filter(|(index, _)| free[*index]) {
            if let Some(key) = requests.key(by_method) {
                unpaired.entry(key).or_default().push_back(index);
            }
        }
        for (requests, partner) in old.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            *partner = requests.key(by_method).and_then(|key| unpaired.get_mut(&key)?.pop_front());
            partner.iter().for_each(|partner| free[*partner] = false);
        }
    }
    let mut pairs: Pairs<'a> =
        old.iter().zip(partners).map(|(old, partner)| (Some(old), partner.map(|partner| &new[partner]))).collect();
    pairs.extend(new.iter().zip(free).filter(|(_, free)| *free).map(|(new, _)| (None, Some(new))));
    pairs
}

/// The methods whose counts differ, each with the old and the new count.
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

    /// The report on two conversations, and which answers were read for it.
    fn compared(talks: [&str; 2]) -> (Report, Vec<(usize, u64)>) {
        let (hashes, messages) = (RandomState::new(), talks.map(read));
        let sides = [0, 1].map(|side: usize| {
            let mut recording = ComparableRecording::new(&hashes, HashSet::new());
            messages[side].iter().for_each(|message| recording.take(message));
            recording
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
        fn comparing_by_hash_equals_comparing_answers(talks in prop::array::uniform2(prop::collection::vec((0..3u8, 0..2u8, 0..4u8), 0..12))) {
            let written = talks.map(|calls| {
                let call = |(id, (name, n, answer)): (usize, (u8, u8, u8))| {
                    let add_request = format!("-> {{\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t{name}\",\"arguments\":{{\"n\":{n}}}}}}}\n");
                    let answer = match answer {
                        0 => String::new(),
                        1 => format!("<- {{\"id\":{id},\"error\":{{\"code\":1}}}}\n"),
                        other => format!("<- {{\"id\":{id},\"result\":{{\"x\":{other}}}}}\n"),
                    };
                    add_request + &answer
                };
                calls.into_iter().enumerate().map(call).collect::<String>()
            });
            let messages = [read(&written[0]), read(&written[1])];
            let (report, _) = compared([&written[0], &written[1]]);
            let answer = |side: usize, party: Party| {
                let found = messages[side].iter().find(|message| message.answers.is_some_and(|request| request.0 == party.number));
                found.map_or_else(|| Answer::Nothing(String::new()), Answer::of)
            };
            let requests = |side: usize| messages[side].iter().filter(|message| message.kind == Kind::Request).count();
            prop_assert_eq!(report.pairs.iter().filter(|pair| pair.old.is_some()).count(), requests(0));
            prop_assert_eq!(report.pairs.iter().filter(|pair| pair.new.is_some()).count(), requests(1));
            for pair in &report.pairs {
                if let (Some(old), Some(new)) = (pair.old, pair.new) {
                    let verdict = compare_answers(&pair.label, &answer(0, old), &answer(1, new), &Rules::default());
                    prop_assert_eq!((pair.outcome, &pair.differences), (verdict.outcome, &verdict.differences));
                }
            }
        }
    }
}
