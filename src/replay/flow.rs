//! Finds values that the server chose and the client sent back: ticket numbers, cursors, task ids,
//! resource URIs, session tokens. The new server chooses others, so the client has to send back
//! those.
//!
//! No value is replaced without evidence:
//!
//! * In the recording, the value occurred in a server message, at a known place, before the client
//!   first sent it.
//!
//! * The new server message has another value at the same place, and the old value occurs nowhere
//!   in it.
//!
//! * The value is an identifier (`is_identifier` in [`runs`]). Words and short numbers could be
//!   equal by accident. They count only in members that the protocol itself sends back
//!   ([`TOKENS`]), and numbers of six digits in members of the same name.
//!
//! Such a value is replaced wherever the client sends it, also joined to other characters
//! (`res://box/ID`). Numbers are replaced only where they are the whole value.
//!
//! A server can send the same value several times, and another server may send several instead. The
//! place where it first occurred counts, in the latest answer that has it at that same place. Only
//! if that answer supplies none, any other place counts.

mod leaves;
mod resolve;
mod runs;
mod search;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::leaves::scan_leaves;
use super::plan::StepIndex;
use crate::mcp::MessageNumber;

pub use runs::Replacements;
pub use search::Search;

/// Members in which the protocol sends a value back: the client's name for it, and the server's.
/// Here even a short value is evidence.
const TOKENS: [(&str, &str); 6] = [
    ("cursor", "nextCursor"),
    ("taskId", "taskId"),
    ("requestState", "requestState"),
    ("subscriptionId", "subscriptionId"),
    ("elicitationId", "elicitationId"),
    ("uri", "uri"),
];

/// The longest text of a server that is searched for values, in bytes.
const TEXT: usize = 64 << 10;

/// The server message that supplies a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Giver {
    /// The response to a step.
    Answer(StepIndex),
    /// The server's request with this number.
    Request(MessageNumber),
    /// The server's notification with this number.
    Notification(MessageNumber),
}

/// The place in a recorded server message where a value occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The server message that contains the value.
    pub giver: Giver,
    /// JSON Pointer into its result, its error or its `params`.
    pub path: String,
    /// The place inside the text at that path.
    pub inside: Inside,
    /// The recorded value.
    pub value: Value,
}

/// A place inside a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// The text contains JSON. This is a pointer into it.
    pub json: Option<String>,
    /// The value is a part of the text there. `None` if it is the whole.
    pub part: Option<Part>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The index of the word.
    pub word: usize,
    /// The index of the token in the word, unless it is the whole word.
    pub token: Option<usize>,
}

/// A place in a client message that gets a value of the new server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// JSON Pointer into `params`, or into the result of a response.
    pub path: String,
    /// Whether the value is only a part of the text there.
    pub is_joined: bool,
    /// Index in [`Flow::origins`] of the place where the value first occurred.
    pub origin: usize,
    /// Another place where it occurred since.
    pub later: Option<Later>,
}

/// A later place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later {
    /// Index in [`Flow::origins`].
    pub origin: usize,
    /// Whether it is the place of the first occurrence, in a later answer.
    pub is_same_place: bool,
}

impl Use {
    /// The new value for this use, and the place that supplied it. Then another new value for the
    /// same old value, if another place supplied one.
    pub fn choose<'v>(&self, values: &'v HashMap<usize, Value>) -> Option<(Chosen<'v>, Option<Chosen<'v>>)> {
        let chosen = |origin| Some((origin, values.get(&origin)?));
        let (first, later) = (chosen(self.origin), self.later.and_then(|later| chosen(later.origin)));
        let (best, other) = match self.later.is_some_and(|later| later.is_same_place) {
            true => (later.or(first), first),
            false => (first.or(later), later),
        };
        let best = best?;
        Some((best, other.filter(|other| other.1 != best.1)))
    }
}

/// The index of an origin, and its new value.
pub type Chosen<'v> = (usize, &'v Value);

/// The origins and the uses of all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The places of the values that the client sends back.
    pub origins: Vec<Origin>,
    /// For each step, the values that it sends back.
    pub uses: HashMap<StepIndex, Vec<Use>>,
    /// For each response of the client, the values that it sends back. The key is an index in
    /// [`Plan::server_requests`](super::Plan::server_requests).
    pub replies: HashMap<usize, Vec<Use>>,
    /// For each server message, the origins in it (indices in `origins`).
    pub given: HashMap<Giver, Vec<usize>>,
    /// Notifications that supply a value, by method and by their count among those of the method.
    /// The same count identifies the notification of the new server.
    pub notifications: HashMap<(String, u64), MessageNumber>,
    /// The recording has more values than are followed.
    pub is_full: bool,
}

impl Flow {
    /// The steps whose responses supply the values that a step sends back.
    pub fn sources(&self, step: StepIndex) -> impl Iterator<Item = StepIndex> {
        let used = self.uses.get(&step).into_iter().flatten();
        used.filter_map(|used| match self.origins[used.origin].giver {
            Giver::Answer(step) => Some(step),
            Giver::Request(_) | Giver::Notification(_) => None,
        })
    }

    /// The new values that a server message supplies, where the evidence holds. Each comes with the
    /// index of its origin.
    pub fn resolve(&self, giver: Giver, old: &Value, new: &Value) -> Vec<(usize, Value)> {
        let given = self.given.get(&giver).map(Vec::as_slice).unwrap_or_default();
        resolve::resolve(&self.origins, given, old, new)
    }
}

/// A string without its quotes, or any other value as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A use with the old value and the one that replaces it.
pub struct Renewal<'a> {
    /// The place in the client's message.
    pub used: &'a Use,
    /// The recorded value.
    pub old: &'a Value,
    /// The value of the new server.
    pub new: &'a Value,
}

/// The JSON text with the old values replaced by the new ones, and the indices of those renewals
/// that changed it. A value that the user edited stays.
pub fn renew(json: &str, renewals: &[Renewal<'_>]) -> (String, Vec<usize>) {
    let mut by_path: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, renewal) in renewals.iter().enumerate() {
        by_path.entry(&renewal.used.path).or_default().push(index);
    }
    let (mut renewed, mut done, mut changed) = (String::with_capacity(json.len()), 0, Vec::new());
    scan_leaves(json, &mut |leaf| {
        let Some(here) = by_path.get(leaf.path) else { return };
        let is_whole = |index: &&usize| {
            let Renewal { used, old, .. } = &renewals[**index];
            !used.is_joined && if leaf.is_string { leaf.text == text_of(old) } else { leaf.is_number(old) }
        };
        let value = match here.iter().find(is_whole) {
            Some(index) => {
                changed.push(*index);
                let new = renewals[*index].new;
                if leaf.is_string { Value::from(text_of(new)).to_string() } else { new.to_string() }
            }
            None => {
                let joined = here.iter().filter(|index| renewals[**index].used.is_joined);
                let pairs = joined.map(|index| (text_of(renewals[*index].old), text_of(renewals[*index].new)));
                let replacements = Replacements::new(pairs);
                let (text, replaced) = replacements.joined(leaf.text, false);
                if replaced.is_empty() || !leaf.is_string {
                    return;
                }
                let replaced: HashSet<&str> = replaced.into_iter().collect();
                let is_replaced = |index: &&usize| {
                    let Renewal { used, old, .. } = &renewals[**index];
                    used.is_joined && replaced.contains(&*text_of(old))
                };
                changed.extend(here.iter().filter(is_replaced));
                Value::from(text).to_string()
            }
        };
        let start = leaf.json.as_ptr() as usize - json.as_ptr() as usize;
        renewed.push_str(&json[done..start]);
        renewed.push_str(&value);
        done = start + leaf.json.len();
    });
    renewed.push_str(&json[done..]);
    (renewed, changed)
}

#[cfg(test)]
mod tests;
