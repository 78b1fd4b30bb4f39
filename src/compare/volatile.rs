//! Finds values that vary by themselves. A value that differs between two runs against the same
//! server is volatile: it proves nothing about another server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::answer::Answer;
use super::difference::{Change, differences};
use super::label::Label;
use super::rules::{Rule, words};

/// Rules for the values that differ between two answers to the same request. If only some words of
/// a text differ, the rule covers these words.
pub fn volatile(label: &Label, first: &Answer, second: &Answer) -> Vec<Rule> {
    let (Some(first), Some(second)) = (first.value(), second.value()) else { return Vec::new() };
    let rule = |path: &str, change: Change| match change {
        Change::Changed(Value::String(old), Value::String(new)) => Rule::at(label, path, varying(&old, &new)),
        Change::Changed(..) | Change::Removed(_) | Change::Added(_) => Rule::at(label, path, None),
    };
    differences(first, second, &|_| false).into_iter().map(|found| rule(&found.path, found.change)).collect()
}

/// The indices of the words that differ. `None` when the texts have different lengths or
/// most words differ.
fn varying(first: &str, second: &str) -> Option<BTreeSet<usize>> {
    let (first, second) = (words(first), words(second));
    let differ: BTreeSet<usize> =
        first.iter().zip(&second).enumerate().filter(|(_, (a, b))| a != b).map(|(index, _)| index).collect();
    // A text in which most words differ is a different text.
    (first.len() == second.len() && first.len() > 1 && differ.len() * 2 <= first.len()).then_some(differ)
}

/// Merges rules for the same place by uniting their words.
pub fn merged(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.sort();
    let mut merged: Vec<Rule> = Vec::new();
    for rule in rules {
        match merged.last_mut() {
            Some(last) if last.to_string() == rule.to_string() => {
                last.words = last.words.as_ref().zip(rule.words.as_ref()).map(|(some, others)| some | others);
            }
            _ => merged.push(rule),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compare::Rules;

    fn label() -> Label {
        Label { method: "tools/call".into(), subject: Some("now".into()) }
    }

    #[test]
    fn only_what_varied_is_ignored() {
        let run = |at: &str, place: &str| json!({"content": [{"type": "text", "text": format!("{at} in {place}")}], "at": at});
        let found = volatile(&label(), &Answer::Result(run("12:00", "Quito")), &Answer::Result(run("12:01", "Quito")));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["now:/at", "now:/content/0/text"]);
        let rules = Rules { ignored: found, unordered: Vec::new() };
        let left = |mut value| {
            rules.apply(&label(), &mut value);
            value
        };
        assert_eq!(left(run("9:00", "Quito")), left(run("12:01", "Quito")));
        assert_ne!(left(run("9:00", "Paris")), left(run("12:01", "Quito")), "what did not vary still counts");
    }

    #[test]
    fn rules_for_the_same_place_are_merged() {
        let at = |words: [usize; 1]| Rule::at(&label(), "/a", Some(BTreeSet::from(words)));
        assert_eq!(merged(vec![at([2]), at([0]), at([2])]), [Rule::at(&label(), "/a", Some(BTreeSet::from([0, 2])))]);
        assert_eq!(merged(vec![Rule::at(&label(), "/a", None), at([0])]), [Rule::at(&label(), "/a", None)]);
    }
}
