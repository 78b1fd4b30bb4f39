//! Finds the flow of a recording in one pass. Of the values, only hashes and positions are stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use super::leaves::{Leaf, scan_leaves};
use super::runs::{
    LONGEST, RunHasher, for_each_identifier, is_identifier, is_named_number, is_number, may_hold_identifier,
};
use super::{Flow, Giver, Inside, Later, Origin, Part, TEXT, TOKENS, Use};
use crate::decode::json::is_json;
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

/// Finds the flow while messages are read. It stores hashes of values, and the places
/// where they occurred.
#[derive(Debug, Default)]
pub struct Search {
    /// The flow so far.
    pub flow: Flow,
    hasher: RunHasher,
    /// The places of each value that the server sent first, by the hash of its text. For tokens
    /// also by the hash of the text and the member name.
    server_values: FxHashMap<u64, Places>,
    /// Places in server messages where values occurred.
    candidates: Vec<Candidate>,
    /// The server-initiated messages that contain candidates.
    givers: Vec<Giver>,
    initiated: HashMap<Giver, ServerInitiated>,
    /// Numbers of paths, which repeat often.
    paths: HashMap<Arc<str>, u32>,
    path_names: Vec<Arc<str>>,
    path_bytes: usize,
    /// Bytes of the longest value of a candidate.
    longest: usize,
    /// The index of the origin that each used candidate became.
    origins: HashMap<u32, usize>,
    /// Hashes of values that the client sent first. They are never replaced.
    client_values: FxHashSet<u64>,
}

/// The candidates of one value.
#[derive(Clone, Copy, Debug)]
struct Places {
    first: u32,
    /// The latest in another answer. One at the same place as the first is preferred.
    later: Option<u32>,
}

/// An [`Origin`] as numbers.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    giver: CompactGiver,
    place: CompactPlace,
    is_string: bool,
}

/// A [`Giver`] as a number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CompactGiver {
    Answer(u32),
    /// An index in [`Search::givers`].
    Initiated(u32),
}

/// A place in a message: a path, and an [`Inside`] as numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CompactPlace {
    path: u32,
    json: Option<u32>,
    part: Option<(u32, Option<u32>)>,
}

/// A server message that is being searched.
struct SearchedMessage<'a> {
    giver: Giver,
    initiated: Option<&'a ServerInitiated>,
    /// The message as a candidate has it, once it contains one.
    compact: Option<CompactGiver>,
}

/// A place in a server message that is being searched.
#[derive(Clone, Copy)]
struct FoundPlace<'a> {
    path: &'a str,
    json: Option<&'a str>,
    part: Option<Part>,
    is_string: bool,
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
                let supplier = |used: &Use| self.initiated.get(&self.flow.origins[used.origin].giver).cloned();
                let initiated = uses.iter().filter_map(supplier).collect();
                self.flow.uses.extend((!uses.is_empty()).then_some((*step, uses)));
                return initiated;
            }
            Role::Reply(at) => {
                let uses = self.uses_in(read("result"));
                self.flow.replies.extend((!uses.is_empty()).then_some((*at, uses)));
            }
            Role::Answer(step) => {
                let name = if message.kind == Kind::Error { "error" } else { "result" };
                self.add_server_message(Giver::Answer(*step), None, read(name));
            }
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

    /// Finds the values that a client message sends back.
    fn uses_in(&mut self, json: &str) -> Vec<Use> {
        let mut uses = Vec::new();
        scan_leaves(json, &mut |leaf| {
            let Leaf { path, name, text, is_string, .. } = *leaf;
            let hasher = self.hasher;
            let is_named = is_named_number(text) || TOKENS.iter().any(|(client, _)| *client == name);
            let named = is_named.then(|| hasher.hash_named(name, text));
            let value = is_identifier(text).then(|| hasher.hash(text));
            match named.into_iter().chain(value).find_map(|value| self.server_values.get(&value).copied()) {
                Some(places) => uses.push(self.used(path, false, places, text)),
                None => {
                    named.into_iter().chain(value).for_each(|value| self.add_client_value(value));
                    if is_string && may_hold_identifier(text) {
                        self.uses_in_text(path, text, &mut uses);
                    }
                }
            }
        });
        uses
    }

    /// Finds values of the server inside a client's text. All other identifiers in it are marked as
    /// the client's own.
    fn uses_in_text(&mut self, path: &str, text: &str, uses: &mut Vec<Use>) {
        let mut found = Vec::new();
        let values = &self.server_values;
        let mut known = |hash, run: &str| values.get(&hash).filter(|_| is_identifier(run) && !is_number(run)).copied();
        self.hasher.known_runs(text, self.longest, &mut known, &mut |place, places| found.push((&text[place], places)));
        let mut seen = HashSet::new();
        for (run, places) in found {
            if seen.insert(run) {
                uses.push(self.used(path, true, places, run));
            }
        }
        for_each_identifier(text, &mut |own, _, _| {
            let value = self.hasher.hash(own);
            if !self.server_values.contains_key(&value) {
                self.add_client_value(value);
            }
        });
    }

    fn add_client_value(&mut self, value: u64) {
        if self.client_values.len() < VALUES {
            self.client_values.insert(value);
        }
    }

    fn used(&mut self, path: &str, is_joined: bool, places: Places, text: &str) -> Use {
        let place = |search: &Search, candidate: u32| search.candidates[candidate as usize].place;
        let later = places.later.map(|later| Later {
            origin: self.origin(later, text),
            is_same_place: place(self, later) == place(self, places.first),
        });
        Use { path: path.to_owned(), is_joined, origin: self.origin(places.first, text), later }
    }

    /// The index of the origin for a candidate. The first use of a candidate makes it an origin.
    fn origin(&mut self, candidate: u32, text: &str) -> usize {
        if let Some(origin) = self.origins.get(&candidate) {
            return *origin;
        }
        let Candidate { giver, place, is_string } = self.candidates[candidate as usize];
        let named = |path: u32| self.path_names[path as usize].to_string();
        let part = |(word, token): (u32, Option<u32>)| Part { word: word as usize, token: token.map(|at| at as usize) };
        let inside = Inside { json: place.json.map(named), part: place.part.map(part) };
        let number = || serde_json::from_str(text).ok();
        let value = if is_string { None } else { number() }.unwrap_or_else(|| Value::from(text));
        let giver = match giver {
            CompactGiver::Answer(step) => Giver::Answer(step as usize),
            CompactGiver::Initiated(index) => self.givers[index as usize],
        };
        if let (Giver::Notification(number), Some(initiated)) = (giver, self.initiated.get(&giver)) {
            self.flow.notifications.insert((initiated.method.clone(), initiated.count), number);
        }
        let origin = self.flow.origins.len();
        self.flow.given.entry(giver).or_default().push(origin);
        self.flow.origins.push(Origin { giver, path: named(place.path), inside, value });
        self.origins.insert(candidate, origin);
        origin
    }

    fn add_server_message(&mut self, giver: Giver, initiated: Option<&ServerInitiated>, json: &str) {
        let mut from = SearchedMessage { giver, initiated, compact: None };
        scan_leaves(json, &mut |leaf| {
            let place = FoundPlace { path: leaf.path, json: None, part: None, is_string: leaf.is_string };
            if let Some((client, _)) = TOKENS.iter().find(|(_, server)| *server == leaf.name) {
                self.add_candidate(&mut from, self.hasher.hash_named(client, leaf.text), leaf.text, place);
            }
            self.add_leaf(&mut from, leaf, place);
        });
    }

    /// Adds a string or number, and the values inside a string.
    fn add_leaf(&mut self, from: &mut SearchedMessage<'_>, leaf: &Leaf<'_>, place: FoundPlace<'_>) {
        let text = leaf.text;
        if is_named_number(text) {
            self.add_candidate(from, self.hasher.hash_named(leaf.name, text), text, place);
        }
        if is_identifier(text) {
            self.add_candidate(from, self.hasher.hash(text), text, place);
        }
        if !leaf.is_string || text.len() > TEXT || !may_hold_identifier(text) {
            return;
        }
        let inner = text.trim();
        if place.json.is_none() && inner.starts_with(['{', '[']) && is_json(inner) {
            return scan_leaves(inner, &mut |leaf| {
                self.add_leaf(from, leaf, FoundPlace { json: Some(leaf.path), is_string: leaf.is_string, ..place });
            });
        }
        for_each_identifier(text, &mut |own, word, token| {
            if own.len() < text.len() {
                let place = FoundPlace { part: Some(Part { word, token }), ..place };
                self.add_candidate(from, self.hasher.hash(own), own, place);
            }
        });
    }

    fn add_candidate(&mut self, from: &mut SearchedMessage<'_>, value: u64, text: &str, place: FoundPlace<'_>) {
        let longest = text.len().max(place.path.len()).max(place.json.map_or(0, str::len));
        if longest > LONGEST || self.client_values.contains(&value) {
            return;
        }
        let Some(mut places) = self.server_values.get(&value).copied() else {
            if let Some(first) = self.new_candidate(from, place) {
                self.server_values.insert(value, Places { first, later: None });
                self.longest = self.longest.max(text.len());
            }
            return;
        };
        // A notification may come at any time, so it supplies only what nothing else gave.
        let Giver::Answer(step) = from.giver else { return };
        let giver = CompactGiver::Answer(step as u32);
        let first = self.candidates[places.first as usize];
        let later = places.later.map(|later| self.candidates[later as usize]);
        if first.giver == giver || later.is_some_and(|later| later.giver == giver) {
            return;
        }
        if later.is_some_and(|later| later.place == first.place) && !self.is_at(first.place, place) {
            return;
        }
        match places.later {
            // No use refers to that candidate, so it can be replaced.
            Some(later) if !self.origins.contains_key(&later) => {
                let Some(place_of) = self.compact(place) else { return };
                self.candidates[later as usize] = Candidate { giver, place: place_of, is_string: place.is_string };
            }
            _ => {
                let Some(later) = self.new_candidate(from, place) else { return };
                places.later = Some(later);
                self.server_values.insert(value, places);
            }
        }
    }

    /// Adds a candidate; `None` if there are too many.
    fn new_candidate(&mut self, from: &mut SearchedMessage<'_>, place: FoundPlace<'_>) -> Option<u32> {
        if self.candidates.len() >= VALUES {
            self.flow.is_full = true;
            return None;
        }
        let compact = self.compact(place)?;
        let giver = *from.compact.get_or_insert_with(|| match (from.giver, from.initiated) {
            (Giver::Answer(step), _) => CompactGiver::Answer(step as u32),
            (giver, initiated) => {
                self.givers.push(giver);
                self.initiated.extend(initiated.cloned().map(|initiated| (giver, initiated)));
                CompactGiver::Initiated(self.givers.len() as u32 - 1)
            }
        });
        self.candidates.push(Candidate { giver, place: compact, is_string: place.is_string });
        Some(self.candidates.len() as u32 - 1)
    }

    /// Whether a place is this one.
    fn is_at(&self, compact: CompactPlace, place: FoundPlace<'_>) -> bool {
        let name = |path: u32| &*self.path_names[path as usize];
        name(compact.path) == place.path
            && compact.json.map(name) == place.json
            && compact.part == place.part.map(Part::compact)
    }

    /// A place as numbers; `None` if there are too many paths.
    fn compact(&mut self, place: FoundPlace<'_>) -> Option<CompactPlace> {
        if self.path_bytes >= PATHS {
            self.flow.is_full = true;
            return None;
        }
        let (path, json) = (self.path(place.path), place.json.map(|json| self.path(json)));
        Some(CompactPlace { path, json, part: place.part.map(Part::compact) })
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

impl Part {
    fn compact(self) -> (u32, Option<u32>) {
        (self.word as u32, self.token.map(|token| token as u32))
    }
}
