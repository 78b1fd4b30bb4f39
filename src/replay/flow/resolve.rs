//! Reads the values of the new server at the places of the recorded ones, in one pass
//! over a message.

use std::collections::{HashMap, HashSet};

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::leaves::scan_leaves;
use super::runs::{RunHasher, is_identifier, is_separator, may_hold_identifier, tokens};
use super::{Origin, Part, text_of};
use crate::compare::difference::{name_of, unescaped};
use crate::compare::rules::{bare, words};

/// The new values at those of the `origins` that are `given` in a message. A value is left out if
/// it has another type now, or if the old value still occurs in the new message.
pub(super) fn resolve(origins: &[Origin], given: &[usize], old: &Value, new: &Value) -> Vec<(usize, Value)> {
    if given.is_empty() {
        return Vec::new();
    }
    let still_there = occurring(origins, given, new);
    // Origins in the same text are resolved together, so that each text is split only once.
    let mut by_text: HashMap<&str, HashMap<Option<&str>, Vec<usize>>> = HashMap::new();
    for index in given {
        let Origin { path, inside, .. } = &origins[*index];
        by_text.entry(path).or_default().entry(inside.json.as_deref()).or_default().push(*index);
    }
    let (mut found, mut lists) = (Vec::new(), Lists::default());
    let mut add = |given: &[usize], was: &Value, is: &Value| {
        for (index, (was, is)) in parts(origins, given, was, is) {
            let same_kind = std::mem::discriminant(&was) == std::mem::discriminant(&is);
            let is_known = text_of(&was) == text_of(&origins[index].value);
            if is_known && same_kind && (was == is || !still_there.contains(&index)) {
                found.push((index, is));
            }
        }
    };
    for (path, by_json) in by_text {
        let Some((was, is)) = lists.follow(path, old, new) else { continue };
        let inner = |value: &Value| serde_json::from_str::<Value>(value.as_str()?).ok();
        let is_nested = by_json.keys().any(Option::is_some);
        let nested = if is_nested { inner(was).zip(inner(is)) } else { None };
        let mut lists = Lists::default();
        for (json, given) in by_json {
            match (json, &nested) {
                (None, _) => add(&given, was, is),
                (Some(json), Some((was, is))) => {
                    if let Some((was, is)) = lists.follow(json, was, is) {
                        add(&given, was, is);
                    }
                }
                (Some(_), None) => {}
            }
        }
    }
    found
}

/// Those of the given origins whose old value occurs anywhere in a new server message.
fn occurring(origins: &[Origin], given: &[usize], new: &Value) -> HashSet<usize> {
    let hasher = RunHasher::default();
    let mut by_hash: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let mut longest = 0;
    for index in given {
        let old = text_of(&origins[*index].value);
        longest = longest.max(old.len());
        by_hash.entry(hasher.hash(&old)).or_default().push(*index);
    }
    let mut occurring = HashSet::new();
    scan_leaves(&new.to_string(), &mut |leaf| {
        // A short token can be equal to anything by accident, so it counts only in a member of
        // the same name.
        let is_own =
            |index: &&usize| is_identifier(leaf.text) || origins[**index].path.rsplit('/').next() == Some(leaf.name);
        occurring.extend(by_hash.get(&hasher.hash(leaf.text)).into_iter().flatten().filter(is_own));
        if leaf.is_string && may_hold_identifier(leaf.text) {
            let mut known = |hash, run: &str| by_hash.get(&hash).filter(|_| is_identifier(run));
            hasher.known_runs(leaf.text, longest, &mut known, &mut |_, indices| occurring.extend(indices));
        }
    });
    occurring
}

/// The old and the new value of each of the given origins, which are in the same text.
fn parts(origins: &[Origin], given: &[usize], was: &Value, is: &Value) -> Vec<(usize, (Value, Value))> {
    let mut texts = None;
    let mut pair = |index: &usize| match origins[*index].inside.part {
        None => Some((*index, (was.clone(), is.clone()))),
        Some(part) => {
            let (was, is) = texts.get_or_insert_with(|| Texts::new(was, is)).as_mut()?.part(part)?;
            Some((*index, (Value::from(was), Value::from(is))))
        }
    };
    given.iter().filter_map(&mut pair).collect()
}

/// An old and a new text, split into words. The words are split into tokens as needed.
struct Texts<'t> {
    old: Vec<&'t str>,
    new: Vec<&'t str>,
    tokens: HashMap<usize, Option<[Vec<&'t str>; 2]>>,
}

impl<'t> Texts<'t> {
    fn new(old: &'t Value, new: &'t Value) -> Option<Texts<'t>> {
        let (old, new) = (words(old.as_str()?), words(new.as_str()?));
        (old.len() == new.len()).then(|| Texts { old, new, tokens: HashMap::new() })
    }

    /// A part of the old text, and the one of the new text that corresponds to it. The sentence
    /// must be the same: as many words, and the same neighbours. Words with digits may differ.
    fn part(&mut self, part: Part) -> Option<(&'t str, &'t str)> {
        let at = part.word;
        let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
        let is_alike = |index: Option<usize>| {
            let pair = index.and_then(|index| Some((*self.old.get(index)?, *self.new.get(index)?)));
            pair.is_none_or(|(old, new)| old == new || has_digit(old) && has_digit(new))
        };
        let is_same = [at.checked_sub(2), at.checked_sub(1), Some(at + 1)].into_iter().all(is_alike);
        let (was, is) = (bare(self.old.get(at)?), bare(self.new.get(at).filter(|_| is_same)?));
        let Some(token) = part.token else { return Some((was, is)) };
        let [was, is] = self.tokens.entry(at).or_insert_with(|| aligned_tokens(was, is)).as_ref()?;
        Some((was.get(token)?, is.get(token)?))
    }
}

/// The tokens of two words with the same separators between them.
fn aligned_tokens<'t>(was: &'t str, is: &'t str) -> Option<[Vec<&'t str>; 2]> {
    let (was, is) = (tokens(was), tokens(is));
    let is_alike = |(was, is): (&&str, &&str)| was == is || !is_separator(was) && !is_separator(is);
    (was.len() == is.len() && was.iter().zip(&is).all(is_alike)).then_some([was, is])
}

/// The names of the elements of lists, each read once.
#[derive(Default)]
struct Lists<'v>(HashMap<*const Value, HashMap<&'v str, usize>>);

impl<'v> Lists<'v> {
    /// The values at a path of `old`, in `old` and in `new`. List elements correspond by name. If
    /// the server also chose the names, they correspond by index, provided that both lists have
    /// the same length.
    fn follow(&mut self, path: &str, old: &'v Value, new: &'v Value) -> Option<(&'v Value, &'v Value)> {
        let (mut old, mut new) = (old, new);
        for step in path.split('/').skip(1) {
            let name = unescaped(step);
            (old, new) = match (old, new) {
                (Value::Array(olds), Value::Array(news)) => {
                    let index: usize = name.parse().ok()?;
                    let element = olds.get(index)?;
                    let called = name_of(element).and_then(|name| self.named(news, name));
                    (element, called.or_else(|| news.get(index).filter(|_| olds.len() == news.len()))?)
                }
                (Value::Object(olds), Value::Object(news)) => (olds.get(&name)?, news.get(&name)?),
                _ => return None,
            };
        }
        Some((old, new))
    }

    /// The first element of a list with this name.
    fn named(&mut self, list: &'v [Value], name: &str) -> Option<&'v Value> {
        let names = self.0.entry(list.as_ptr()).or_insert_with(|| {
            let named = list.iter().enumerate().rev().filter_map(|(index, element)| Some((name_of(element)?, index)));
            named.collect()
        });
        names.get(name).and_then(|index| list.get(*index))
    }
}
