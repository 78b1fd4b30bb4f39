//! Finds the flow of a recording in one pass. Of the values, only hashes and positions are stored.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::{Flow, Giver, Inside, Origin, TEXT, TOKENS, Use, is_identifier};
use crate::compare::difference::escaped;
use crate::compare::rules::{bare, words};
use crate::decode::json::{elements, is_json, members, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::mcp::content::part;
use crate::replay::plan::{Role, ServerInitiated};

/// The most values of one recording that are followed. Beyond it, values are sent as
/// they were recorded.
const VALUES: usize = 1 << 20;

/// The most bytes of paths to these values, where equal paths count once. A server can send objects
/// with any number of names.
const PATHS: usize = 16 << 20;

/// The longest value and the longest path that is stored, in bytes.
const VALUE: usize = 4 << 10;

/// Finds the flow while messages are read. It stores hashes of values, and the places where
/// they first occurred.
#[derive(Debug, Default)]
pub struct Search {
    /// The flow so far.
    pub flow: Flow,
    hashes: RandomState,
    /// The candidate for each value that the server sent first, by the hash of its text. For tokens
    /// also by the hash of the text and the member name.
    server_values: FxHashMap<u64, u32>,
    /// Places in server messages where values occurred.
    candidates: Vec<Candidate>,
    /// The server messages that contain candidates.
    givers: Vec<Giver>,
    /// Those of `givers` that the server initiated.
    initiated: HashMap<Giver, ServerInitiated>,
    /// Numbers of paths, which repeat often.
    paths: HashMap<Arc<str>, u32>,
    path_names: Vec<Arc<str>>,
    path_bytes: usize,
    /// The index of the origin that each used candidate became.
    origins: HashMap<u32, usize>,
    /// Hashes of values that the client sent first. They are never replaced.
    client_values: FxHashSet<u64>,
}

/// An [`Origin`] as numbers.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    giver: u32,
    path: u32,
    inside: CompactInside,
    is_string: bool,
}

/// An [`Inside`] as numbers.
#[derive(Clone, Copy, Debug)]
enum CompactInside {
    Whole,
    Json(u32),
    Word(u32),
}

/// A server message that is being searched.
struct SearchedMessage<'a> {
    giver: Giver,
    initiated: Option<&'a ServerInitiated>,
    /// Its index in `givers`, once it contains a candidate.
    index: Option<u32>,
}

impl Search {
    /// Adds the next message of the recording with its role in the plan. Returns the
    /// server-initiated messages that supply values of a step, because that step has to
    /// wait for them.
    pub fn take(&mut self, message: &Message, role: &Role) -> Vec<ServerInitiated> {
        let read = |name| part(message, name).unwrap_or_default();
        match role {
            Role::Step(step) => {
                let uses = self.uses_in(read("params"));
                let initiated = uses.iter().filter_map(|used| self.supplier(used)).collect();
                self.flow.uses.extend((!uses.is_empty()).then_some((*step, uses)));
                return initiated;
            }
            Role::Reply(at) => {
                let uses = self.uses_in(read("result"));
                self.flow.replies.extend((!uses.is_empty()).then_some((*at, uses)));
            }
            Role::Answer(step) => self.add_server_message(Giver::Answer(*step), None, read("result")),
            // A request that the client did not answer cannot be matched with one of the new
            // server.
            Role::ServerInitiated(initiated) if message.kind == Kind::Request && message.answered_by.is_some() => {
                self.add_server_message(Giver::Request(initiated.number), Some(initiated), read("params"));
            }
            Role::ServerInitiated(initiated) if message.kind == Kind::Notification => {
                self.add_server_message(Giver::Notification(initiated.number), Some(initiated), read("params"));
            }
            Role::ServerInitiated(_) | Role::None => {}
        }
        Vec::new()
    }

    /// The server-initiated message that supplies a value.
    fn supplier(&self, used: &Use) -> Option<ServerInitiated> {
        self.initiated.get(&self.flow.origins[used.origin].giver).cloned()
    }

    fn hash(&self, kind: Option<&'static str>, text: &str) -> u64 {
        self.hashes.hash_one((kind, text))
    }

    /// Finds the values that a client message sends back.
    fn uses_in(&mut self, json: &str) -> Vec<Use> {
        let mut uses = Vec::new();
        scan_leaves(json, &mut |path, name, text, is_string| {
            let kind = TOKENS.iter().find(|(client, _)| *client == name).map(|(client, _)| *client);
            let (kind, is_identifier) = (kind.map(|kind| self.hash(Some(kind), text)), is_identifier(text));
            let value = is_identifier.then(|| self.hash(None, text));
            match kind.into_iter().chain(value).find_map(|value| self.server_values.get(&value).copied()) {
                Some(candidate) => {
                    let origin = self.origin(candidate, text);
                    uses.push(Use { path: path.to_owned(), is_word: false, origin });
                }
                None => {
                    kind.into_iter().chain(value).for_each(|value| self.add_client_value(value));
                    if may_hold_identifier(text) {
                        self.uses_in_words(is_string, path, text, &mut uses);
                    }
                }
            }
        });
        uses
    }

    /// Finds values of the server among the words of a client's text. All other words are marked as
    /// the client's own.
    fn uses_in_words(&mut self, is_string: bool, path: &str, text: &str, uses: &mut Vec<Use>) {
        let mut seen = HashSet::new();
        for word in words(text).into_iter().map(bare).filter(|word| is_identifier(word)) {
            let value = self.hash(None, word);
            match self.server_values.get(&value).copied() {
                Some(candidate) if is_string && text.len() <= TEXT => {
                    if seen.insert(word) {
                        let origin = self.origin(candidate, word);
                        uses.push(Use { path: path.to_owned(), is_word: true, origin });
                    }
                }
                Some(_) => {}
                None => self.add_client_value(value),
            }
        }
    }

    fn add_client_value(&mut self, value: u64) {
        if self.client_values.len() < VALUES {
            self.client_values.insert(value);
        }
    }

    /// The index of the origin for a candidate. The first use of a candidate makes it an origin.
    fn origin(&mut self, candidate: u32, text: &str) -> usize {
        if let Some(origin) = self.origins.get(&candidate) {
            return *origin;
        }
        let Candidate { giver, path, inside, is_string } = self.candidates[candidate as usize];
        let giver = self.givers[giver as usize];
        let named = |path: u32| self.path_names[path as usize].to_string();
        let inside = match inside {
            CompactInside::Whole => Inside::Whole,
            CompactInside::Json(at) => Inside::Json(named(at)),
            CompactInside::Word(index) => Inside::Word(index as usize),
        };
        let number = || serde_json::from_str(text).ok();
        let value = if is_string { None } else { number() }.unwrap_or_else(|| Value::from(text));
        let origin = self.flow.origins.len();
        if let (Giver::Notification(number), Some(initiated)) = (giver, self.initiated.get(&giver)) {
            self.flow.notifications.insert((initiated.method.clone(), initiated.count), number);
        }
        self.flow.given.entry(giver).or_default().push(origin);
        self.flow.origins.push(Origin { giver, path: named(path), inside, value });
        self.origins.insert(candidate, origin);
        origin
    }

    fn add_server_message(&mut self, giver: Giver, initiated: Option<&ServerInitiated>, json: &str) {
        let mut from = SearchedMessage { giver, initiated, index: None };
        scan_leaves(json, &mut |path, name, text, is_string| {
            let kind = TOKENS.iter().find(|(_, server)| *server == name).map(|(client, _)| *client);
            if kind.is_some() {
                self.add_candidate(&mut from, kind, text, path, None, is_string);
            }
            if is_identifier(text) {
                self.add_candidate(&mut from, None, text, path, None, is_string);
            } else if is_string && text.len() <= TEXT && may_hold_identifier(text) {
                self.add_text(&mut from, path, text);
            }
        });
    }

    /// Adds the values inside a text: those of the JSON that it contains, or its words.
    fn add_text(&mut self, from: &mut SearchedMessage<'_>, path: &str, text: &str) {
        let inner = text.trim();
        if inner.starts_with(['{', '[']) && is_json(inner) {
            return scan_leaves(inner, &mut |at, _, leaf, is_string| {
                if is_identifier(leaf) {
                    self.add_candidate(from, None, leaf, path, Some(Inside::Json(at.to_owned())), is_string);
                }
            });
        }
        let words = words(text).into_iter().map(bare).enumerate();
        for (index, word) in words.filter(|(_, word)| is_identifier(word)) {
            self.add_candidate(from, None, word, path, Some(Inside::Word(index)), true);
        }
    }

    fn add_candidate(
        &mut self,
        from: &mut SearchedMessage<'_>,
        kind: Option<&'static str>,
        text: &str,
        path: &str,
        inside: Option<Inside>,
        is_string: bool,
    ) {
        let value = self.hash(kind, text);
        if text.len().max(path.len()) > VALUE || self.client_values.contains(&value) {
            return;
        }
        if self.candidates.len() >= VALUES || self.path_bytes >= PATHS {
            self.flow.is_full = true;
            return;
        }
        let next = self.candidates.len() as u32;
        if *self.server_values.entry(value).or_insert(next) != next {
            return;
        }
        let inside = match inside {
            None | Some(Inside::Whole) => CompactInside::Whole,
            Some(Inside::Json(at)) => CompactInside::Json(self.path(&at)),
            Some(Inside::Word(index)) => CompactInside::Word(index as u32),
        };
        let giver = *from.index.get_or_insert_with(|| {
            self.givers.push(from.giver);
            self.initiated.extend(from.initiated.cloned().map(|initiated| (from.giver, initiated)));
            self.givers.len() as u32 - 1
        });
        let path = self.path(path);
        self.candidates.push(Candidate { giver, path, inside, is_string });
    }

    /// The number of a path.
    fn path(&mut self, path: &str) -> u32 {
        if let Some(known) = self.paths.get(path) {
            return *known;
        }
        let (next, name) = (self.path_names.len() as u32, Arc::<str>::from(path));
        self.path_bytes += name.len();
        self.path_names.push(Arc::clone(&name));
        self.paths.insert(name, next);
        next
    }
}

/// Whether a text may contain an identifier. Most do not, and are not split into words.
fn may_hold_identifier(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) || text.contains("://")
}

/// The deepest level of JSON that is searched. serde_json does not parse deeper values later.
const LEVELS: usize = 127;

/// Visits each string and number of a JSON text with its path, the name of its member, its text,
/// and whether it is a string. It builds no values.
pub(super) fn scan_leaves(json: &str, visit: &mut dyn FnMut(&str, &str, &str, bool)) {
    fn walk(path: &mut String, name: &str, json: &str, levels: usize, visit: &mut dyn FnMut(&str, &str, &str, bool)) {
        let length = path.len();
        match json.as_bytes().first() {
            Some(b'{') if levels > 0 => drop(members(json, &mut |key, value| {
                let name = string(key).unwrap_or_default();
                path.push('/');
                path.push_str(&escaped(&name));
                walk(path, &name, value, levels - 1, visit);
                path.truncate(length);
                ControlFlow::Continue(())
            })),
            Some(b'[') if levels > 0 => {
                let mut index = 0;
                elements(json, &mut |value| {
                    let _ = write!(path, "/{index}");
                    walk(path, name, value, levels - 1, visit);
                    path.truncate(length);
                    index += 1;
                    ControlFlow::Continue(())
                });
            }
            Some(b'"') => visit(path, name, &string(json).unwrap_or_default(), true),
            Some(b'-' | b'0'..=b'9') => visit(path, name, json, false),
            _ => {}
        }
    }
    walk(&mut String::new(), "", json, LEVELS, visit);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::flow::text_of;

    proptest! {
        #[test]
        fn scanning_text_finds_the_leaves_of_the_parsed_value(value in json_value()) {
            let (mut built, mut scanned) = (Vec::new(), Vec::new());
            leaves(&value, &mut |path, name, value| built.push((path.to_owned(), name.to_owned(), text_of(value), value.is_string())));
            let text = serde_json::to_string_pretty(&value).unwrap();
            scan_leaves(&text, &mut |path, name, text, is_string| {
                scanned.push((path.to_owned(), name.to_owned(), text.to_owned(), is_string));
            });
            prop_assert_eq!(built, scanned);
        }
    }

    /// Visits each string and number of a value with its path and the name of its member.
    fn leaves(value: &Value, visit: &mut dyn FnMut(&str, &str, &Value)) {
        fn walk(path: &mut String, name: &str, value: &Value, visit: &mut dyn FnMut(&str, &str, &Value)) {
            let length = path.len();
            match value {
                Value::Object(members) => {
                    for (name, value) in members {
                        path.push('/');
                        path.push_str(&escaped(name));
                        walk(path, name, value, visit);
                        path.truncate(length);
                    }
                }
                Value::Array(elements) => {
                    for (index, value) in elements.iter().enumerate() {
                        path.push('/');
                        path.push_str(&index.to_string());
                        walk(path, name, value, visit);
                        path.truncate(length);
                    }
                }
                Value::String(_) | Value::Number(_) => visit(path, name, value),
                Value::Null | Value::Bool(_) => {}
            }
        }
        walk(&mut String::new(), "", value, visit);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/\"]{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
