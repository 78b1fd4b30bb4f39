//! Rules for what a comparison ignores: members, varying words of a text, and the order of arrays.
//!
//! A rule is written `[SCOPE:]POINTER`. The pointer (RFC 6901) leads into the result or the error.
//! In it `*` matches any one reference token and `**` any number of them. The scope is a method, or
//! the name of a tool, prompt or resource:
//!
//! ```text
//! /content/0/text                     in every answer
//! get_time:/structuredContent/now     in what the tool get_time answers
//! tools/list:/tools/*/description     in every list of tools
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::difference::{escaped, unescaped};
use super::label::Label;

/// A pattern for one reference token of a JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TokenPattern {
    /// Matches a member of this name, or the element of this index.
    Name(String),
    /// `*` matches any one token.
    Any,
    /// `**` matches any number of tokens, also none.
    Deep,
}

/// A place in some answers whose value is ignored, as a whole or in part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    scope: Option<String>,
    tokens: Vec<TokenPattern>,
    /// Indices (from 0) of the words of a text that vary, while all others stay the same. `None`
    /// means the whole value.
    pub words: Option<BTreeSet<usize>>,
}

/// A text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a path: write /pointer/into/the/result (* matches any one member or index), and METHOD:/path or TOOL:/path for some answers only"
)]
pub struct RuleError(String);

impl Rule {
    /// A rule for exactly this path in the answers to requests with this label. `words` limits it
    /// to some words of a text.
    pub fn at(label: &Label, path: &str, words: Option<BTreeSet<usize>>) -> Rule {
        let scope = label.subject.clone().unwrap_or_else(|| label.method.clone());
        let tokens = path.split('/').skip(1).map(|token| TokenPattern::Name(unescaped(token))).collect();
        Rule { scope: Some(scope), tokens, words }
    }

    fn applies_to(&self, label: &Label) -> bool {
        self.scope.as_ref().is_none_or(|scope| label.method == *scope || label.subject.as_ref() == Some(scope))
    }

    fn matches(&self, path: &[String]) -> bool {
        matches(&self.tokens, path)
    }
}

/// Whether a path matches a pattern. Each `**` costs one retry per token; patterns come from the
/// command line and have few.
fn matches(tokens: &[TokenPattern], path: &[String]) -> bool {
    match (tokens.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((TokenPattern::Deep, rest)), _) => (0..=path.len()).any(|skip| matches(rest, &path[skip..])),
        (Some((TokenPattern::Any, rest)), Some((_, tail))) => matches(rest, tail),
        (Some((TokenPattern::Name(name), rest)), Some((first, tail))) => name == first && matches(rest, tail),
        _ => false,
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        // A scope can be a URI, so the colon of "://" does not end it.
        let colon = text.match_indices(":/").find(|(at, _)| !text[at + 2..].starts_with('/')).map(|(at, _)| at);
        let (scope, pointer) = match colon {
            _ if text.starts_with('/') => (None, text),
            Some(at) => (Some(text[..at].to_owned()), &text[at + 1..]),
            None => return Err(RuleError(text.to_owned())),
        };
        let token = |token: &str| match token {
            "*" => TokenPattern::Any,
            "**" => TokenPattern::Deep,
            name => TokenPattern::Name(unescaped(name)),
        };
        Ok(Rule { scope, tokens: pointer.split('/').skip(1).map(token).collect(), words: None })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scope) = &self.scope {
            write!(f, "{scope}:")?;
        }
        for token in &self.tokens {
            match token {
                TokenPattern::Name(name) => write!(f, "/{}", escaped(name))?,
                TokenPattern::Any => f.write_str("/*")?,
                TokenPattern::Deep => f.write_str("/**")?,
            }
        }
        Ok(())
    }
}

/// The rules of one comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Values that are ignored.
    pub ignored: Vec<Rule>,
    /// Arrays whose order is ignored.
    pub unordered: Vec<Rule>,
}

/// Replaces the words of a text that vary.
pub(super) const VARIES: &str = "…";

impl Rules {
    /// Removes the ignored parts from the value.
    pub fn apply(&self, label: &Label, value: &mut Value) {
        let rules: Vec<&Rule> = self.ignored.iter().filter(|rule| rule.applies_to(label)).collect();
        if !rules.is_empty() {
            strip(&rules, &mut Vec::new(), value);
        }
    }

    /// Whether the order of the array at this path is ignored.
    pub fn is_unordered(&self, label: &Label, path: &str) -> bool {
        let mut rules = self.unordered.iter().filter(|rule| rule.applies_to(label)).peekable();
        rules.peek().is_some() && {
            let path: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
            rules.any(|rule| rule.matches(&path))
        }
    }
}

/// Removes what matches a rule, at `path` and below. Array elements become null, so that the
/// elements after them keep their index.
fn strip(rules: &[&Rule], path: &mut Vec<String>, value: &mut Value) {
    for rule in rules.iter().filter(|rule| rule.matches(path)) {
        match (&rule.words, &mut *value) {
            (Some(words), Value::String(text)) => *text = without_words(text, words),
            _ => *value = Value::Null,
        }
    }
    match value {
        Value::Object(members) => members.retain(|name, value| {
            path.push(name.clone());
            let whole = rules.iter().any(|rule| rule.words.is_none() && rule.matches(path));
            if !whole {
                strip(rules, path, value);
            }
            path.pop();
            !whole
        }),
        Value::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                path.push(index.to_string());
                strip(rules, path, element);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Splits a text into words and the separators between them. A word is a run of letters, digits and
/// the characters that occur inside times, numbers, paths and ids.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let is_inside = |c: char| c.is_alphanumeric() || "-_.:+/%".contains(c);
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in text.char_indices() {
        let inside = is_inside(c);
        if last.is_some_and(|last| last != inside) {
            words.push(&text[start..at]);
            start = at;
        }
        last = Some(inside);
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

/// A word without a final period or colon. Both can be part of an identifier, but not at its end.
pub(crate) fn bare(word: &str) -> &str {
    word.trim_end_matches(['.', ':'])
}

fn without_words(text: &str, varying: &BTreeSet<usize>) -> String {
    let word = |(index, word)| if varying.contains(&index) { VARIES } else { word };
    words(text).into_iter().enumerate().map(word).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn label() -> Label {
        Label { method: "tools/call".into(), subject: Some("get_time".into()) }
    }

    fn left(rule: &str, mut value: Value) -> Value {
        let rules = Rules { ignored: vec![rule.parse().unwrap()], unordered: Vec::new() };
        rules.apply(&label(), &mut value);
        value
    }

    #[test]
    fn a_rule_removes_the_values_that_it_matches() {
        assert_eq!(left("/a/b", json!({"a": {"b": 1, "c": 2}})), json!({"a": {"c": 2}}));
        assert_eq!(left("/a/*/b", json!({"a": [{"b": 1}, {"b": 2, "c": 3}]})), json!({"a": [{}, {"c": 3}]}));
        assert_eq!(left("/**/at", json!({"at": 1, "x": [{"at": 2}]})), json!({"x": [{}]}));
        assert_eq!(left("/a/0", json!({"a": [1, 2]})), json!({"a": [null, 2]}));
        assert_eq!(left("/a~1b", json!({"a/b": 1})), json!({}));
    }

    #[test]
    fn a_scope_is_a_method_or_a_subject() {
        let value = json!({"a": 1});
        assert_eq!(left("get_time:/a", value.clone()), json!({}));
        assert_eq!(left("tools/call:/a", value.clone()), json!({}));
        assert_eq!(left("tools/list:/a", value.clone()), value);
        assert_eq!(left("file:///x:/a", value.clone()), value);
        let uri: Rule = "file:///x:/a".parse().unwrap();
        assert_eq!((uri.scope.as_deref(), uri.to_string().as_str()), (Some("file:///x"), "file:///x:/a"));
        assert!("a/b".parse::<Rule>().is_err());
    }

    #[test]
    fn only_the_varying_words_are_ignored() {
        let rule = Rule::at(&label(), "/text", Some(BTreeSet::from([2])));
        let rules = Rules { ignored: vec![rule], unordered: Vec::new() };
        let mut value = json!({"text": "At 12:30:01 it was fine"});
        rules.apply(&label(), &mut value);
        assert_eq!(value, json!({"text": "At … it was fine"}));
        assert_eq!(words(r#"{"at":"2026-11-21T04:00:00Z"}"#).concat(), r#"{"at":"2026-11-21T04:00:00Z"}"#);
    }
}
