//! Finds the recorded request that a live request corresponds to.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use similar::diff_ratio;

use super::script::{Script, Turn, TurnIndex};
use crate::compare::Label;
use crate::compare::alignment::align;
use crate::compare::label::subject;
use crate::decode::json::member;

/// The degree to which a request matches a recorded one. Later variants are weaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Method and parameters are equal.
    Exact,
    /// Method and parameters are equal without `_meta` and without members that are null.
    Loose,
    /// Only method and subject (tool, prompt, resource) are equal. The next unused request in the
    /// recorded order matches.
    #[default]
    Order,
}

impl Match {
    /// All of them, strictest first.
    pub const ALL: [Match; 3] = [Match::Exact, Match::Loose, Match::Order];

    /// The key under which a message is found at this level.
    fn key(self, label: &Label, params: Option<&str>) -> String {
        let Label { method, subject } = label;
        let name = |text: &str| Value::from(text).to_string();
        match self {
            // The continuation of a call must not match the call itself.
            Match::Order => {
                let is_continuation = if params.is_some_and(is_continuation) { " goes on" } else { "" };
                format!("{} {}{is_continuation}", name(method), subject.as_deref().map(name).unwrap_or_default())
            }
            Match::Exact => format!("{} {}", name(method), params.map(canonical).unwrap_or_default()),
            Match::Loose => format!("{} {}", name(method), loose(params.unwrap_or("{}"))),
        }
    }
}

/// Parameters in canonical form, with members sorted by name.
fn canonical(params: &str) -> String {
    serde_json::from_str::<Value>(params).map_or_else(|_| params.to_owned(), |value| value.to_string())
}

/// Parameters without what does not change their meaning: `_meta` (progress token, revision, trace)
/// and null members, which some clients write for absent ones.
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

/// Whether a request continues an earlier one with the input that it asked for (2026-07-28
/// basic/patterns/mrtr).
fn is_continuation(params: &str) -> bool {
    member(params, "inputResponses").is_some() || member(params, "requestState").is_some()
}

/// The label of a message from the client.
pub fn label(method: &str, params: Option<&str>) -> Label {
    Label { method: method.to_owned(), subject: subject(method, params.unwrap_or_default()) }
}

/// Lists of turns with the same key, each in recorded order. The key contains whether the message
/// is a request.
#[derive(Clone, Debug, Default)]
struct TurnLists {
    lists: HashMap<(bool, String), usize>,
    turns: Vec<Vec<TurnIndex>>,
}

/// Finds recorded requests and notifications.
#[derive(Clone, Debug)]
pub struct Matcher {
    loosest: Match,
    levels: [TurnLists; 3],
    /// Requests that continue an earlier one, by their `requestState` as JSON text.
    states: HashMap<String, TurnIndex>,
}

/// The turns that one client has used.
#[derive(Clone, Debug, Default)]
pub struct UsedTurns {
    turns: Vec<bool>,
    /// For each level and list: the number of turns at its start that are used.
    starts: HashMap<(usize, usize), usize>,
}

impl Matcher {
    /// A matcher for a script. Weaker matches than `loosest` are not accepted.
    pub fn new(script: &Script, loosest: Match) -> Matcher {
        let mut levels: [TurnLists; 3] = Default::default();
        let mut states = HashMap::new();
        let raw = |turn: &Turn| &*script.message(turn.message).raw;
        let answered: HashSet<&[u8]> = script.turns.iter().filter(|turn| turn.is_answered()).map(raw).collect();
        // A redirected request occurs twice in a recording. Only the copy with the response counts.
        let is_copy = |turn: &Turn| turn.is_request && !turn.is_answered() && answered.contains(raw(turn));
        for (at, turn) in script.turns.iter().enumerate().filter(|(_, turn)| !is_copy(turn)) {
            if let Some(state) = script.params(at).and_then(|params| member(params, "requestState")) {
                states.entry(state.to_owned()).or_insert(at);
            }
            for (kind, index) in Match::ALL.iter().zip(&mut levels) {
                let key = (turn.is_request, kind.key(&turn.label, script.params(at)));
                let next = index.turns.len();
                let list = *index.lists.entry(key).or_insert(next);
                if list == next {
                    index.turns.push(Vec::new());
                }
                index.turns[list].push(at);
            }
        }
        Matcher { loosest, levels, states }
    }

    /// The turn that a message corresponds to. A repeated request gets the next recorded response
    /// to it, and after the last one that one again.
    pub fn find(
        &self,
        used: &mut UsedTurns,
        is_request: bool,
        label: &Label,
        params: Option<&str>,
    ) -> Option<(TurnIndex, Match)> {
        // The request state identifies the continuation, whatever the input contains.
        let state = params.and_then(|params| self.states.get(member(params, "requestState")?));
        if let Some(turn) = state.copied().filter(|_| is_request) {
            used.take(turn);
            return Some((turn, Match::Loose));
        }
        // A handshake has nothing to compare but its method, and notifications get no response. So
        // both match at the weakest level.
        let is_handshake = matches!(&*label.method, "initialize" | "server/discover");
        let loosest = if is_handshake || !is_request { Match::Order } else { self.loosest };
        let mut again = None;
        for (level, kind) in Match::ALL.into_iter().enumerate().take_while(|(_, kind)| *kind <= loosest) {
            let index = &self.levels[level];
            let Some(list) = index.lists.get(&(is_request, kind.key(label, params))) else { continue };
            let turns = &index.turns[*list];
            let start = used.starts.entry((level, *list)).or_default();
            while turns.get(*start).is_some_and(|turn| used.turns.get(*turn) == Some(&true)) {
                *start += 1;
            }
            let unused = turns.iter().skip(*start).find(|turn| used.turns.get(**turn) != Some(&true));
            // Repeating an earlier response is better than a response to other parameters.
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

/// The closest request is only a hint for people, so the work is limited: to this many bytes of
/// each request, and to this many recorded requests.
const HINT_BYTES: usize = 256;
const HINT_CANDIDATES: usize = 256;

/// The recorded request that is most similar: first by method, then by subject and parameters.
pub fn closest(script: &Script, label: &Label, params: Option<&str>) -> Option<TurnIndex> {
    let question = cut(&loose(params.unwrap_or("{}"))).to_owned();
    let name = label.to_string();
    let mut compared = HashSet::new();
    let requests = script.turns.iter().enumerate().filter(|(_, turn)| turn.is_request);
    let mut candidates: Vec<(bool, bool, TurnIndex)> =
        requests.map(|(at, turn)| (turn.label != *label, turn.label.method != label.method, at)).collect();
    candidates.sort_unstable();
    candidates.sort_by_key(|(label, method, _)| (*method, *label));
    let similarity = |(_, _, at): (bool, bool, TurnIndex)| {
        let turn = &script.turns[at];
        let known = loose(script.params(at).unwrap_or("{}"));
        let ratio = |a: &str, b: &str| {
            let (a, b): (Vec<char>, Vec<char>) = (cut(a).chars().collect(), cut(b).chars().collect());
            diff_ratio(&align(&a, &b, None), a.len(), b.len())
        };
        compared.insert((turn.label.clone(), known.clone())).then(|| {
            let same_method = turn.label.method == label.method;
            (same_method, ratio(&name, &turn.label.to_string()), ratio(&question, &known), at)
        })
    };
    let scored = candidates.into_iter().take(HINT_CANDIDATES).filter_map(similarity);
    // The first of equally similar ones.
    let best = scored.reduce(|best, other| {
        let (a, b) = ((best.0, best.1, best.2), (other.0, other.1, other.2));
        if b.partial_cmp(&a) == Some(std::cmp::Ordering::Greater) { other } else { best }
    });
    best.map(|(_, _, _, at)| at)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(HINT_BYTES)]
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

    /// The turns that match calls of `echo` with these texts.
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
    fn better_matches_come_first_and_each_turn_is_used_once() {
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
