//! How the flow of a recording is found: in one pass, in which of the values no more is held than hashes and places.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::{Flow, Giver, Inside, Origin, TEXT, TOKENS, Use, is_telling};
use crate::compare::difference::escaped;
use crate::compare::rules::{bare, words};
use crate::decode::json::{elements, is_json, members, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::mcp::content::part;
use crate::replay::plan::{Role, Told};

/// Values of one recording that are looked for. Beyond it later values are taken as they were recorded.
const VALUES: usize = 1 << 20;

/// Bytes of the paths to them, each counted once: an object may have names without end.
const PATHS: usize = 16 << 20;

/// Bytes of a value, and of the path to it.
const VALUE: usize = 4 << 10;

/// Finds the flow of messages that go by. Of values it holds hashes, and of what it found where they first stood.
#[derive(Debug, Default)]
pub struct Search {
    /// The flow so far.
    pub flow: Flow,
    hashes: RandomState,
    /// What the server said first, by the text of the value; by token kind too.
    known: FxHashMap<u64, u32>,
    /// Found on the server's side: where.
    candidates: Vec<Candidate>,
    /// The messages of the server in which they stood.
    givers: Vec<Giver>,
    /// Those of them that it told by itself: how they are found again.
    told: HashMap<Giver, Told>,
    /// Paths are many times the same.
    paths: HashMap<Arc<str>, u32>,
    path_names: Vec<Arc<str>>,
    path_bytes: usize,
    used: HashMap<u32, usize>,
    /// What the client said first is its own.
    own: FxHashSet<u64>,
}

/// Where a value first stood, as numbers.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    giver: u32,
    path: u32,
    inside: Where,
    is_string: bool,
}

/// [`Inside`], as numbers.
#[derive(Clone, Copy, Debug)]
enum Where {
    Whole,
    Json(u32),
    Word(u32),
}

/// A message of the server that is searched.
struct Said<'a> {
    giver: Giver,
    told: Option<&'a Told>,
    /// Its number among those that give something, once it does.
    at: Option<u32>,
}

impl Search {
    /// The next message of the recording, and what it is to the plan. What the server told that gives the values of a step is what that
    /// waits for.
    pub fn take(&mut self, message: &Message, role: &Role) -> Vec<Told> {
        let read = |name| part(message, name).unwrap_or_default();
        match role {
            Role::Step(step) => {
                let uses = self.client(read("params"));
                let told = uses.iter().filter_map(|used| self.told(used)).collect();
                self.flow.uses.extend((!uses.is_empty()).then_some((*step, uses)));
                return told;
            }
            Role::Reply(at) => {
                let uses = self.client(read("result"));
                self.flow.replies.extend((!uses.is_empty()).then_some((*at, uses)));
            }
            Role::Answer(step) => self.server(Giver::Answer(*step), None, read("result")),
            // Which of the new server's questions is the same as one that nobody answered is not known.
            Role::Told(told) if message.kind == Kind::Request && message.answered_by.is_some() => {
                self.server(Giver::Request(told.number), Some(told), read("params"));
            }
            Role::Told(told) if message.kind == Kind::Notification => {
                self.server(Giver::Notification(told.number), Some(told), read("params"));
            }
            Role::Told(_) | Role::None => {}
        }
        Vec::new()
    }

    /// What the server told that gives a value.
    fn told(&self, used: &Use) -> Option<Told> {
        self.told.get(&self.flow.origins[used.origin].giver).cloned()
    }

    fn hash(&self, kind: Option<&'static str>, text: &str) -> u64 {
        self.hashes.hash_one((kind, text))
    }

    /// What a message of the client hands back.
    fn client(&mut self, said: &str) -> Vec<Use> {
        let mut uses = Vec::new();
        scan_leaves(said, &mut |path, name, text, is_string| {
            let kind = TOKENS.iter().find(|(client, _)| *client == name).map(|(client, _)| *client);
            let (kind, tells) = (kind.map(|kind| self.hash(Some(kind), text)), is_telling(text));
            let value = tells.then(|| self.hash(None, text));
            match kind.into_iter().chain(value).find_map(|value| self.known.get(&value).copied()) {
                Some(candidate) => {
                    let origin = self.origin(candidate, text);
                    uses.push(Use { path: path.to_owned(), is_word: false, origin });
                }
                None => {
                    kind.into_iter().chain(value).for_each(|value| self.own(value));
                    if may_tell(text) {
                        self.client_text(is_string, path, text, &mut uses);
                    }
                }
            }
        });
        uses
    }

    /// The words of a text of the client: values of the server, and its own.
    fn client_text(&mut self, is_string: bool, path: &str, text: &str, uses: &mut Vec<Use>) {
        let mut seen = HashSet::new();
        for word in words(text).into_iter().map(bare).filter(|word| is_telling(word)) {
            let value = self.hash(None, word);
            match self.known.get(&value).copied() {
                Some(candidate) if is_string && text.len() <= TEXT => {
                    if seen.insert(word) {
                        let origin = self.origin(candidate, word);
                        uses.push(Use { path: path.to_owned(), is_word: true, origin });
                    }
                }
                Some(_) => {}
                None => self.own(value),
            }
        }
    }

    fn own(&mut self, value: u64) {
        if self.own.len() < VALUES {
            self.own.insert(value);
        }
    }

    /// The number of an origin, which is one from now on, of a value with this text.
    fn origin(&mut self, candidate: u32, text: &str) -> usize {
        if let Some(origin) = self.used.get(&candidate) {
            return *origin;
        }
        let Candidate { giver, path, inside, is_string } = self.candidates[candidate as usize];
        let giver = self.givers[giver as usize];
        let named = |path: u32| self.path_names[path as usize].to_string();
        let inside = match inside {
            Where::Whole => Inside::Whole,
            Where::Json(at) => Inside::Json(named(at)),
            Where::Word(index) => Inside::Word(index as usize),
        };
        let number = || serde_json::from_str(text).ok();
        let value = if is_string { None } else { number() }.unwrap_or_else(|| Value::from(text));
        let origin = self.flow.origins.len();
        if let (Giver::Notification(number), Some(told)) = (giver, self.told.get(&giver)) {
            self.flow.told.insert((told.method.clone(), told.count), number);
        }
        self.flow.given.entry(giver).or_default().push(origin);
        self.flow.origins.push(Origin { giver, path: named(path), inside, value });
        self.used.insert(candidate, origin);
        origin
    }

    fn server(&mut self, giver: Giver, told: Option<&Told>, said: &str) {
        let mut from = Said { giver, told, at: None };
        scan_leaves(said, &mut |path, name, text, is_string| {
            let kind = TOKENS.iter().find(|(_, server)| *server == name).map(|(client, _)| *client);
            if kind.is_some() {
                self.learn(&mut from, kind, text, path, None, is_string);
            }
            if is_telling(text) {
                self.learn(&mut from, None, text, path, None, is_string);
            } else if is_string && text.len() <= TEXT && may_tell(text) {
                self.text(&mut from, path, text);
            }
        });
    }

    /// Values inside a text: of the JSON that it is, or of its words.
    fn text(&mut self, from: &mut Said<'_>, path: &str, text: &str) {
        let inner = text.trim();
        if inner.starts_with(['{', '[']) && is_json(inner) {
            return scan_leaves(inner, &mut |at, _, said, is_string| {
                if is_telling(said) {
                    self.learn(from, None, said, path, Some(Inside::Json(at.to_owned())), is_string);
                }
            });
        }
        let words = words(text).into_iter().map(bare).enumerate();
        for (index, word) in words.filter(|(_, word)| is_telling(word)) {
            self.learn(from, None, word, path, Some(Inside::Word(index)), true);
        }
    }

    fn learn(
        &mut self,
        from: &mut Said<'_>,
        kind: Option<&'static str>,
        text: &str,
        path: &str,
        inside: Option<Inside>,
        is_string: bool,
    ) {
        let value = self.hash(kind, text);
        if text.len().max(path.len()) > VALUE || self.own.contains(&value) {
            return;
        }
        if self.candidates.len() >= VALUES || self.path_bytes >= PATHS {
            self.flow.is_full = true;
            return;
        }
        let next = self.candidates.len() as u32;
        if *self.known.entry(value).or_insert(next) != next {
            return;
        }
        let inside = match inside {
            None | Some(Inside::Whole) => Where::Whole,
            Some(Inside::Json(at)) => Where::Json(self.path(&at)),
            Some(Inside::Word(index)) => Where::Word(index as u32),
        };
        let giver = *from.at.get_or_insert_with(|| {
            self.givers.push(from.giver);
            self.told.extend(from.told.cloned().map(|told| (from.giver, told)));
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

/// Whether a text can hold a value that tells: most do not, and are not taken apart.
fn may_tell(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) || text.contains("://")
}

/// Levels of JSON that are searched: what is nested deeper is not read whole later (serde_json).
const LEVELS: usize = 127;

/// Shows each string and number of a JSON text with its path, the name of the member it belongs to and whether it is a string, and builds nothing.
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
        fn a_text_has_the_leaves_of_the_value_that_is_read_from_it(value in json_value()) {
            let (mut built, mut scanned) = (Vec::new(), Vec::new());
            leaves(&value, &mut |path, name, value| built.push((path.to_owned(), name.to_owned(), text_of(value), value.is_string())));
            let text = serde_json::to_string_pretty(&value).unwrap();
            scan_leaves(&text, &mut |path, name, text, is_string| {
                scanned.push((path.to_owned(), name.to_owned(), text.to_owned(), is_string));
            });
            prop_assert_eq!(built, scanned);
        }
    }

    /// Shows each string and number with its path and the name of the member it belongs to.
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
