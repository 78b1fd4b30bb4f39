//! Multi round-trip requests (2026-07-28 basic/patterns/mrtr): results that ask for input, and the
//! retries that bring it.

use std::collections::VecDeque;

use super::elicitations::Elicitation;
use super::fingerprint::{fingerprint, fingerprint_without};
use super::open_requests::{OpenRequest, RETRY_MEMBERS};
use crate::decode::Kind;
use crate::decode::json::{Object, string};
use crate::findings::message_facts::{Evidence, MessageFacts};
use crate::mcp::{MessageNumber, Method};

/// Limit of remembered rounds. A person answers them one after the other.
const ROUNDS: usize = 64;

/// Limits of the inputs of a round, of the bytes of their keys and forms, and of the bytes of a
/// state that is stored unhashed.
const INPUTS: usize = 64;
const WANTED: usize = 64 << 10;
const STATE: usize = 4_096;

/// An input that a server requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The key in `inputRequests`.
    pub key: String,
    /// The elicitation, if it is one.
    pub form: Option<Elicitation>,
}

/// A result of type `input_required`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    pub number: MessageNumber,
    /// The request that this result answers, and its JSON-RPC id.
    pub request: (MessageNumber, String),
    /// The method of that request.
    pub method: Method,
    /// A hash of the params, without the members that a retry adds.
    pub params: Option<u64>,
    /// `requestState`, or a hash of a long one.
    pub state: Option<String>,
    /// The requested inputs.
    pub inputs: Vec<InputRequest>,
    /// The retry, if the client has sent it.
    pub retried: Option<MessageNumber>,
}

/// The rounds of a session.
#[derive(Debug, Default)]
pub struct Rounds {
    rounds: VecDeque<Round>,
    /// Whether a round was evicted.
    pub is_truncated: bool,
}

/// The parts of a request that make it a retry.
#[derive(Debug)]
pub struct Retry {
    /// A hash of the params, without the members that a retry adds.
    pub params: Option<u64>,
    /// `requestState`, or a hash of a long one.
    pub state: Option<String>,
    /// The keys of `inputResponses`, at most 64.
    pub keys: Vec<String>,
}

impl Retry {
    /// Reads a request. `None` if it is not a retry.
    pub fn of(facts: &MessageFacts<'_>) -> Option<Retry> {
        let (state, responses) = (facts.body().get("requestState"), facts.body().get("inputResponses"));
        if state.is_none() && responses.is_none() {
            return None;
        }
        let responses = responses.map(Object::read).unwrap_or_default();
        let keys = responses.iter().take(INPUTS).filter_map(|(key, _)| Some(string(key)?.into_owned()));
        let params = facts.body_text().and_then(|_| fingerprint_without(facts.body(), &RETRY_MEMBERS));
        Some(Retry { params, state: state.and_then(stored_state), keys: keys.collect() })
    }
}

/// A state as it is stored: unchanged, or as a hash if it is long.
fn stored_state(state: &str) -> Option<String> {
    match string(state)? {
        state if state.len() <= STATE => Some(state.into_owned()),
        _ => Some(format!("#{:x}", fingerprint(state)?)),
    }
}

impl Rounds {
    /// The remembered rounds, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Round> {
        self.rounds.iter()
    }

    /// The round that a retry continues: the one with its state, or else the only open round with
    /// the same method and params.
    pub fn of(&self, method: Method, retry: &Retry) -> Option<&Round> {
        if let Some(same) = self.iter().rev().find(|round| round.state.is_some() && round.state == retry.state) {
            return Some(same);
        }
        let is_like = |round: &&Round| {
            round.retried.is_none() && round.method == method && round.params.is_some() && round.params == retry.params
        };
        let mut like = self.iter().filter(is_like);
        like.next().filter(|_| like.next().is_none())
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, request: Option<&OpenRequest>) {
        match facts.message.kind {
            Kind::Request => {
                let Some(retry) = Retry::of(facts) else { return };
                let Some(number) = self.of(facts.method, &retry).map(|round| round.number) else { return };
                if let Some(round) = self.rounds.iter_mut().find(|round| round.number == number) {
                    round.retried.get_or_insert(facts.message.number);
                }
            }
            Kind::Response if facts.in_force.evidence != Evidence::Meta => {}
            Kind::Response if facts.has_result_type("input_required") => {
                let Some(request) = request else { return };
                if self.rounds.len() == ROUNDS {
                    self.rounds.pop_front();
                    self.is_truncated = true;
                }
                self.rounds.push_back(Round {
                    number: facts.message.number,
                    request: (request.number, request.id.clone()),
                    method: facts.method,
                    params: request.params,
                    state: facts.body().get("requestState").and_then(stored_state),
                    inputs: inputs(facts),
                    retried: None,
                });
            }
            _ => {}
        }
    }
}

fn inputs(facts: &MessageFacts<'_>) -> Vec<InputRequest> {
    let mut bytes = 0;
    let mut found = Vec::new();
    for (key, request) in facts.body().object("inputRequests").iter().take(INPUTS) {
        let Some(key) = string(key) else { continue };
        let request = Object::read(request);
        let is_elicitation = request.text("method").is_some_and(|method| method == "elicitation/create");
        let form = is_elicitation.then(|| Elicitation::of(facts.message.number, &request.object("params")));
        bytes += key.len() + form.as_ref().and_then(|form| form.schema.as_ref()).map_or(0, String::len);
        if bytes > WANTED {
            break;
        }
        found.push(InputRequest { key: key.into_owned(), form });
    }
    found
}
