//! Which recorded request a client means.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use similar::TextDiff;

use super::script::{Script, Turn, TurnIndex};
use crate::compare::Label;
use crate::compare::label::subject;
use crate::decode::json::member;

/// How well a request fits the recorded one, or has to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Method and parameters are the same.
    Exact,
    /// But for `_meta` and members that are null.
    Loose,
    /// It is about the same tool, prompt or resource, or of the same method where that is about nothing: the next of them in order.
    #[default]
    Order,
}

impl Match {
    /// All of them, strictest first.
    pub const ALL: [Match; 3] = [Match::Exact, Match::Loose, Match::Order];

    /// What a message is known by.
    fn key(self, label: &Label, params: Option<&str>) -> String {
        let Label { method, subject } = label;
        let name = |text: &str| Value::from(text).to_string();
        match self {
            // A call that goes on is another one than that which began.
            Match::Order => {
                let goes_on = if params.is_some_and(goes_on) { " goes on" } else { "" };
                format!("{} {}{goes_on}", name(method), subject.as_deref().map(name).unwrap_or_default())
            }
            Match::Exact => format!("{} {}", name(method), params.map(canonical).unwrap_or_default()),
            Match::Loose => format!("{} {}", name(method), loose(params.unwrap_or("{}"))),
        }
    }
}

/// The same text for the same value: members in order of name.
fn canonical(params: &str) -> String {
    serde_json::from_str::<Value>(params).map_or_else(|_| params.to_owned(), |value| value.to_string())
}

/// `_meta` says how a request is made (progress token, revision, trace), not what is asked; some clients write null for what they leave out.
fn loose(params: &str) -> String {
    match serde_json::from_str::<Value>(params) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, value| name != "_meta" && !value.is_null());
            Value::Object(members).to_string()
        }
        Ok(other) => other.to_string(),
        Err(_) => params.to_owned(),
    }
}

/// Whether a request brings the input that an earlier one was asked for (2026-07-28 basic/patterns/mrtr).
fn goes_on(params: &str) -> bool {
    member(params, "inputResponses").is_some() || member(params, "requestState").is_some()
}

/// What a client's message is called.
pub fn label(method: &str, params: Option<&str>) -> Label {
    Label { method: method.to_owned(), subject: subject(method, params.unwrap_or_default()) }
}

/// Recorded turns by what they are known by, in order.
#[derive(Clone, Debug, Default)]
struct TurnLists {
    lists: HashMap<(bool, String), usize>,
    turns: Vec<Vec<TurnIndex>>,
}

/// The recorded requests and notifications, to be found again.
#[derive(Clone, Debug)]
pub struct Matcher {
    loosest: Match,
    indices: [TurnLists; 3],
    /// Requests that go on, by the state that the server gave for it, as JSON text.
    states: HashMap<String, TurnIndex>,
}

/// What one client has been answered with so far.
#[derive(Clone, Debug, Default)]
pub struct UsedTurns {
    turns: Vec<bool>,
    /// By kind of match and list: how far it is used up from its beginning.
    starts: HashMap<(usize, usize), usize>,
}

impl Matcher {
    /// Of a script; what fits less well than `loosest` counts as unknown.
    pub fn new(script: &Script, loosest: Match) -> Matcher {
        let mut indices: [TurnLists; 3] = Default::default();
        let mut states = HashMap::new();
        let raw = |turn: &Turn| &*script.message(turn.message).raw;
        let answered: HashSet<&[u8]> = script.turns.iter().filter(|turn| turn.is_answered()).map(raw).collect();
        // A request that was redirected stands twice in a recording: the copy that was answered is meant.
        let is_copy = |turn: &Turn| turn.is_request && !turn.is_answered() && answered.contains(raw(turn));
        for (at, turn) in script.turns.iter().enumerate().filter(|(_, turn)| !is_copy(turn)) {
            if let Some(state) = script.params(at).and_then(|params| member(params, "requestState")) {
                states.entry(state.to_owned()).or_insert(at);
            }
            for (kind, index) in Match::ALL.iter().zip(&mut indices) {
                let key = (turn.is_request, kind.key(&turn.label, script.params(at)));
                let next = index.turns.len();
                let list = *index.lists.entry(key).or_insert(next);
                if list == next {
                    index.turns.push(Vec::new());
                }
                index.turns[list].push(at);
            }
        }
        Matcher { loosest, indices, states }
    }

    /// The turn that a message means. What was asked once and is asked again is answered again: with the next recorded answer to it, and when
    /// they are used up with the last.
    pub fn find(
        &self,
        used: &mut UsedTurns,
        is_request: bool,
        label: &Label,
        params: Option<&str>,
    ) -> Option<(TurnIndex, Match)> {
        // The state says which one goes on, whatever the input is.
        let state = params.and_then(|params| self.states.get(member(params, "requestState")?));
        if let Some(turn) = state.copied().filter(|_| is_request) {
            used.take(turn);
            return Some((turn, Match::Loose));
        }
        // A handshake says who the client is, and nothing is asked but who the server is. Notifications ask nothing.
        let is_handshake = matches!(&*label.method, "initialize" | "server/discover");
        let loosest = if is_handshake || !is_request { Match::Order } else { self.loosest };
        let mut again = None;
        for (level, kind) in Match::ALL.into_iter().enumerate().take_while(|(_, kind)| *kind <= loosest) {
            let index = &self.indices[level];
            let Some(list) = index.lists.get(&(is_request, kind.key(label, params))) else { continue };
            let turns = &index.turns[*list];
            let start = used.starts.entry((level, *list)).or_default();
            while turns.get(*start).is_some_and(|turn| used.turns.get(*turn) == Some(&true)) {
                *start += 1;
            }
            let unused = turns.iter().skip(*start).find(|turn| used.turns.get(**turn) != Some(&true));
            // What was asked before is answered again rather than with the answer to another question.
            match unused {
                Some(turn) if again.is_none() || kind < Match::Order => {
                    used.take(*turn);
                    return Some((*turn, kind));
                }
                _ if kind < Match::Order || is_handshake || !is_request => {
                    again = again.or(turns.last().map(|turn| (*turn, kind)));
                }
                _ => {}
            }
        }
        again
    }
}

impl UsedTurns {
    fn take(&mut self, turn: TurnIndex) {
        if self.turns.len() <= turn {
            self.turns.resize(turn + 1, false);
        }
        self.turns[turn] = true;
    }
}

/// Bytes of a question that are compared to find the closest, and recorded ones that are compared with it: it is a hint for people.
const COMPARED: usize = 256;
const CANDIDATES: usize = 256;

/// The recorded request that a request resembles most: of the same method where there is one, about the same thing where there is one.
pub fn closest(script: &Script, label: &Label, params: Option<&str>) -> Option<TurnIndex> {
    let question = cut(&loose(params.unwrap_or("{}"))).to_owned();
    let name = label.to_string();
    let mut compared = HashSet::new();
    let requests = script.turns.iter().enumerate().filter(|(_, turn)| turn.is_request);
    let mut candidates: Vec<(bool, bool, TurnIndex)> =
        requests.map(|(at, turn)| (turn.label != *label, turn.label.method != label.method, at)).collect();
    candidates.sort_unstable();
    candidates.sort_by_key(|(label, method, _)| (*method, *label));
    let likeness = |(_, _, at): (bool, bool, TurnIndex)| {
        let turn = &script.turns[at];
        let known = loose(script.params(at).unwrap_or("{}"));
        let ratio = |a: &str, b: &str| TextDiff::from_chars(cut(a), cut(b)).ratio();
        compared.insert((turn.label.clone(), known.clone())).then(|| {
            let same_method = turn.label.method == label.method;
            (same_method, ratio(&name, &turn.label.to_string()), ratio(&question, &known), at)
        })
    };
    let scored = candidates.into_iter().take(CANDIDATES).filter_map(likeness);
    // Of equals the first.
    let best = scored.reduce(|best, other| {
        let (a, b) = ((best.0, best.1, best.2), (other.0, other.1, other.2));
        if b.partial_cmp(&a) == Some(std::cmp::Ordering::Greater) { other } else { best }
    });
    best.map(|(_, _, _, at)| at)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(COMPARED)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::session::tests::script;

    const RECORDED: &str = r#"
        -> {"id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"},"_meta":{"progressToken":1}}}
        <- {"id":1,"result":{}}
        -> {"id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}
        <- {"id":2,"result":{}}
        -> {"id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"b"}}}
        <- {"id":3,"result":{}}
        -> {"id":4,"method":"tools/list"}
        <- {"id":4,"result":{}}
    "#;

    /// The turns that calls of `echo` with these texts get.
    fn found(loosest: Match, texts: &[&str]) -> Vec<Option<(TurnIndex, Match)>> {
        let script = script(RECORDED);
        let (matcher, mut used) = (Matcher::new(&script, loosest), UsedTurns::default());
        let find = |text: &&str| {
            let params = format!(r#"{{"arguments":{{"text":"{text}"}},"name":"echo"}}"#);
            matcher.find(&mut used, true, &label("tools/call", Some(&params)), Some(&params))
        };
        texts.iter().map(find).collect()
    }

    #[test]
    fn the_closest_fit_comes_first_and_each_answer_once() {
        use Match::{Exact, Loose, Order};
        assert_eq!(
            found(Order, &["a", "a", "a", "c", "c", "b"]),
            [Some((1, Exact)), Some((0, Loose)), Some((1, Exact)), Some((2, Order)), None, Some((2, Exact))]
        );
        assert_eq!(found(Loose, &["a", "b", "c"]), [Some((1, Exact)), Some((2, Exact)), None]);
        assert_eq!(found(Exact, &["c"]), [None]);
    }

    #[test]
    fn absent_parameters_are_empty_ones() {
        let script = script(RECORDED);
        let matcher = Matcher::new(&script, Match::Loose);
        for params in [None, Some("{}"), Some(r#"{"_meta":{"progressToken":7}}"#), Some(r#"{"cursor":null}"#)] {
            let found = matcher.find(&mut UsedTurns::default(), true, &label("tools/list", params), params);
            assert_eq!(found.map(|(turn, _)| turn), Some(3), "{params:?}");
        }
    }

    #[test]
    fn the_closest_is_of_the_same_method_and_name() {
        let script = script(RECORDED);
        let closest = |method: &str, params: &str| closest(&script, &label(method, Some(params)), Some(params));
        assert_eq!(closest("tools/call", r#"{"name":"ecko","arguments":{"text":"bb"}}"#), Some(2));
        assert_eq!(closest("tools/lost", "{}"), Some(3));
    }
}
