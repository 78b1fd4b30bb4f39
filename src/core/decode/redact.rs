//! Redaction: rules of the user for values in messages that nobody may record or see.
//!
//! ```text
//!  as sent   {"user":"alice@example.com","age":41}
//!  redacted  {"user":"[redacted string 17 9f3a6c21d0b8e457]","age":"[redacted number 2 5d07…]"}
//! ```
//!
//! The decoder redacts a text before it is parsed. So no later stage, and no output, ever has the
//! value. A replacement names the value's type and its length in bytes, and ends with a keyed hash
//! of 64 bits: equal values have equal ones. In packets the same bytes are masked (decision 46).
//!
//! Other texts (header fields, targets, lines of stderr, command lines) are masked in place, as
//! secrets are.

mod path;
mod walk;

use std::borrow::Cow;
use std::ops::Range;

use regex::bytes::Regex;

use super::json;
use super::json::scan::{JsonType, Nesting};
use super::mask::{self, Mask, MaskKey};
use super::{secret_shape, secrets};

pub use path::JsonPath;

/// The start of every replacement.
pub const START: &str = "[redacted ";

/// The start of a replacement that is a JSON string.
pub const QUOTED_START: &str = "\"[redacted ";

/// The start of names of header fields that repeat arguments of a tool (MCP 2026-07-28).
const PARAMETER_FIELD: &[u8] = b"mcp-param-";

/// The rules: a value that any of them names is redacted.
#[derive(Clone, Debug, Default)]
pub struct RedactionRules {
    /// Names of members, header fields and parameters, in any case.
    pub names: Vec<String>,
    /// Paths in a message.
    pub paths: Vec<JsonPath>,
    /// Patterns of texts. The part of a text that matches is redacted.
    pub patterns: Vec<Regex>,
    /// Whether tokens are redacted, which are recognised by their shape.
    pub tokens: bool,
}

/// The rules of one recording, with its key.
#[derive(Debug)]
pub struct Redaction {
    rules: RedactionRules,
    key: Option<MaskKey>,
}

/// A text after redaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedactedText {
    pub(super) text: Vec<u8>,
    /// The replaced parts, in order.
    pub(super) parts: Vec<Part>,
}

/// A part of a text that was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its range in the text as sent.
    pub(super) range: Range<usize>,
    /// Whether it is a whole JSON value. Where it was sent it becomes a string of stars.
    pub(super) is_value: bool,
    replacement: String,
}

impl Part {
    /// The number of bytes that replace it.
    pub(super) fn new_length(&self) -> usize {
        self.replacement.len()
    }

    /// The masks for the bytes as sent, each with its range in them. What was JSON stays JSON.
    pub(super) fn masks(&self, key: Option<MaskKey>, sent: &[u8]) -> Vec<(Range<usize>, Mask)> {
        let length = sent.len();
        match length {
            _ if !self.is_value => vec![(0..length, Mask::of(key, sent))],
            0 | 1 => vec![(0..length, Mask::filled(b'0'))],
            _ => vec![
                (0..1, Mask::filled(b'"')),
                (1..length - 1, Mask::of(key, &sent[1..length - 1])),
                (length - 1..length, Mask::filled(b'"')),
            ],
        }
    }
}

impl Redaction {
    /// The rules with the key of the hashes. Without a key, replacements have no hash.
    pub fn new(rules: RedactionRules, key: Option<MaskKey>) -> Redaction {
        Redaction { rules, key }
    }

    /// The text of a message with the values replaced. `None` if nothing is to be redacted.
    pub(super) fn message(&self, text: &[u8]) -> Option<RedactedText> {
        let parts = match std::str::from_utf8(text) {
            Ok(text) if json::is_json(text) => walk::parts(self, text),
            // What a path means in a damaged message is unknown.
            _ if !self.rules.paths.is_empty() && begins_like_json(text) => {
                vec![Part { range: 0..text.len(), is_value: false, replacement: self.replacement("text", text) }]
            }
            _ => {
                let part = |range: Range<usize>| Part {
                    replacement: self.replacement("text", &text[range.clone()]),
                    is_value: false,
                    range,
                };
                self.in_text(text).into_iter().map(part).collect()
            }
        };
        if parts.is_empty() {
            return None;
        }
        let mut redacted = Vec::with_capacity(text.len());
        let mut at = 0;
        for part in &parts {
            redacted.extend_from_slice(&text[at..part.range.start]);
            redacted.extend_from_slice(part.replacement.as_bytes());
            at = part.range.end;
        }
        redacted.extend_from_slice(&text[at..]);
        Some(RedactedText { text: redacted, parts })
    }

    /// A text that is no message, with the values masked in place.
    pub fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        secrets::masked(text, self.in_text(text.as_bytes()), |value| Mask::of(self.key, value))
    }

    /// Masks values in the lines of a text in place. Returns whether there were any.
    pub fn mask(&self, text: &mut [u8]) -> bool {
        let found = self.in_text(text);
        for range in &found {
            let mask = Mask::of(self.key, &text[range.clone()]);
            mask.cover(&mut text[range.clone()]);
        }
        !found.is_empty()
    }

    /// The ranges to redact in a text that is no JSON, or whose grammar is unknown: what patterns
    /// and shapes match, and the values of named members and parameters.
    pub(super) fn in_text(&self, text: &[u8]) -> Vec<Range<usize>> {
        secrets::union(self.in_assignments(text), self.in_plain(text))
    }

    /// The ranges to redact in the value of a header field.
    pub(super) fn in_field(&self, name: &[u8], value: &[u8]) -> Vec<Range<usize>> {
        let repeats =
            name.get(..PARAMETER_FIELD.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAMETER_FIELD));
        if (repeats || self.is_named(name)) && !value.is_empty() && !mask::is_masked(value) {
            return std::iter::once(0..value.len()).collect();
        }
        self.in_plain(value)
    }

    /// The values of named parameters and members: `name=value`, `name: value`, `"name": "value"`.
    fn in_assignments(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if self.rules.names.is_empty() {
            return found;
        }
        for mark in memchr::memchr2_iter(b'=', b':', text) {
            if found.last().is_some_and(|last| mark < last.end) {
                continue;
            }
            let before = text[..mark].trim_ascii_end();
            let before = before.strip_suffix(b"\"").map_or(before, without_escapes);
            let length = before.iter().rev().take_while(|byte| is_of_name(**byte)).count();
            if length == 0 || !self.is_named(&before[before.len() - length..]) {
                continue;
            }
            let blanks = text[mark + 1..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let start = mark + 1 + blanks;
            let escapes = text[start..].iter().take_while(|byte| **byte == b'\\').count();
            let range = match text.get(start + escapes) {
                Some(b'"') if escapes == 0 => start + 1..json::closing_quote(text, start + 1).0,
                Some(b'{' | b'[') if escapes == 0 => start..nested_end(text, start),
                // JSON in a string of JSON.
                Some(b'"') => {
                    let start = start + escapes + 1;
                    start..memchr::memchr2(b'\\', b'"', &text[start..]).map_or(text.len(), |end| start + end)
                }
                _ => {
                    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"&;,\"'<>]}#".contains(byte);
                    start..text[start..].iter().position(ends).map_or(text.len(), |end| start + end)
                }
            };
            if !range.is_empty() && !mask::is_masked(&text[range.clone()]) && !is_replacement(&text[range.clone()]) {
                found.push(range);
            }
        }
        found
    }

    /// What patterns and shapes match in a text without structure.
    fn in_plain(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for pattern in &self.rules.patterns {
            let matches = pattern.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty());
            found = secrets::union(found, matches.collect());
        }
        if self.rules.tokens {
            found = secrets::union(found, secret_shape::in_text(text));
        }
        found.retain(|range| !mask::is_masked(&text[range.clone()]) && !is_replacement(&text[range.clone()]));
        found
    }

    fn is_named(&self, name: &[u8]) -> bool {
        self.rules.names.iter().any(|named| named.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The text that replaces a value. Its length is that of its content.
    fn replacement(&self, kind: &str, content: &[u8]) -> String {
        let length = content.len();
        match self.key {
            Some(key) => format!("{START}{kind} {length} {:016x}]", key.hash(content)),
            None => format!("{START}{kind} {length}]"),
        }
    }
}

/// Whether a string is the replacement of a redacted value.
pub fn is_replacement(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(START.as_bytes()).and_then(|rest| rest.strip_suffix(b"]")) else { return false };
    let mut words = rest.split(|byte| *byte == b' ');
    let is_kind = words.next().is_some_and(|kind| !kind.is_empty() && kind.iter().all(u8::is_ascii_lowercase));
    let is_length = words.next().is_some_and(|length| !length.is_empty() && length.iter().all(u8::is_ascii_digit));
    let is_hash = |hash: &[u8]| hash.len() == 16 && hash.iter().all(u8::is_ascii_hexdigit);
    is_kind && is_length && words.next().is_none_or(is_hash) && words.next().is_none()
}

/// Whether a text contains a replacement.
pub fn has_replacement(text: &str) -> bool {
    text.match_indices(START).any(|(at, _)| {
        let end = text[at..].find(']').map_or(text.len(), |end| at + end + 1);
        is_replacement(&text.as_bytes()[at..end])
    })
}

/// Whether a JSON value is the replacement of a redacted one, which may have had any type.
pub fn is_redacted_value(json: &str) -> bool {
    json.strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .is_some_and(|inside| is_replacement(inside.as_bytes()))
}

fn begins_like_json(text: &[u8]) -> bool {
    matches!(text.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'{' | b'['))
}

/// A text without the backslashes at its end.
fn without_escapes(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1)]
}

/// The end of the object or array at `start`; that of the text if it is not complete.
fn nested_end(text: &[u8], start: usize) -> usize {
    let mut nesting = Nesting::default();
    let closes = |byte: &u8| {
        nesting.step(*byte);
        nesting.depth == 0
    };
    text[start..].iter().position(closes).map_or(text.len(), |last| start + last + 1)
}

/// Whether a byte may be part of a name before `=` or `:`.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | 0x80..)
}

/// The name of a type in a replacement.
fn kind_name(kind: JsonType) -> &'static str {
    kind.name().rsplit(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redaction(names: &[&str], paths: &[&str], patterns: &[&str]) -> Redaction {
        let rules = RedactionRules {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            paths: paths.iter().map(|path| JsonPath::parse(path).expect("a path")).collect(),
            patterns: patterns.iter().map(|pattern| Regex::new(pattern).expect("a pattern")).collect(),
            tokens: true,
        };
        Redaction::new(rules, Some(MaskKey::new([7; 16])))
    }

    /// The redacted text, with each hash replaced by `#`.
    fn redacted(redaction: &Redaction, text: &str) -> String {
        let Some(redacted) = redaction.message(text.as_bytes()) else { return text.to_owned() };
        let text = String::from_utf8(redacted.text).expect("UTF-8");
        Regex::new(" [0-9a-f]{16}\\]")
            .map(|hash| String::from_utf8(hash.replace_all(text.as_bytes(), &b" #]"[..]).into_owned()).expect("UTF-8"))
            .expect("a pattern")
    }

    #[test]
    fn values_are_redacted_by_name_path_pattern_and_shape() {
        let rules = redaction(&["password"], &["$.params.arguments.user", "$..ssn[*]"], &[r"\b\d{4}-\d{4}\b", "alice"]);
        for (text, expected) in [
            (r#"{"a":{"Password":"x","b":1}}"#, r#"{"a":{"Password":"[redacted string 1 #]","b":1}}"#),
            (r#"{"params":{"arguments":{"user":41}}}"#, r#"{"params":{"arguments":{"user":"[redacted number 2 #]"}}}"#),
            (r#"{"params":{"user":41}}"#, r#"{"params":{"user":41}}"#),
            (r#"{"x":{"ssn":[1,{"y":2}]}}"#, r#"{"x":{"ssn":["[redacted number 1 #]","[redacted object 7 #]"]}}"#),
            (r#"{"t":"card 1234-5678, end"}"#, r#"{"t":"card [redacted string 9 #], end"}"#),
            (r#"{"t":"say \"1234-5678\""}"#, r#"{"t":"say \"[redacted string 9 #]\""}"#),
            (r#"{"alice":1}"#, r#"{"[redacted string 5 #]":1}"#),
            (r#"["\u0061lice"]"#, r#"["[redacted string 5 #]"]"#),
            (r#"[{"k":"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}]"#, r#"[{"k":"[redacted string 40 #]"}]"#),
            // A batch: each member is a message.
            (
                r#"[{"params":{"arguments":{"user":null}}}]"#,
                r#"[{"params":{"arguments":{"user":"[redacted null 4 #]"}}}]"#,
            ),
            // A schema describes values. A text or number in it is one.
            (
                r#"{"inputSchema":{"properties":{"password":{}},"default":{"password":"x"}}}"#,
                r#"{"inputSchema":{"properties":{"password":{}},"default":{"password":"[redacted string 1 #]"}}}"#,
            ),
            // JSON in a string, as in the text content of a tool result.
            (r#"{"text":"{\"password\":\"x\"}"}"#, r#"{"text":"{\"password\":\"[redacted string 1 #]\"}"}"#),
            // Damaged: nobody knows what a path would name.
            (r#"{"params":{"argu"#, "[redacted text 16 #]"),
            (r#"log {"e":"{\"password\": \"x y\"}"}"#, r#"log {"e":"{\"password\": \"[redacted text 3 #]\"}"}"#),
            ("password=abc&x=alice", "password=[redacted text 3 #]&x=[redacted text 5 #]"),
        ] {
            assert_eq!(redacted(&rules, text), expected, "{text}");
        }
    }

    #[test]
    fn the_envelope_stays() {
        let rules = redaction(&["jsonrpc", "method", "id"], &["$.method", "$.jsonrpc"], &[]);
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"id":2}}"#;
        assert_eq!(redacted(&rules, text), text.replace("{\"id\":2}", "{\"id\":\"[redacted number 1 #]\"}"));
    }

    #[test]
    fn equal_values_have_equal_hashes_under_one_key() {
        let text = br#"{"a":{"password":"same"},"b":{"password":"s\u0061me"},"c":{"password":"other"}}"#;
        let hashes = |key: Option<MaskKey>| {
            let redacted = Redaction { key, ..redaction(&["password"], &[], &[]) }.message(text).expect("redacted");
            redacted.parts.into_iter().map(|part| part.replacement).collect::<Vec<_>>()
        };
        let (one, other) = (hashes(Some(MaskKey::new([1; 16]))), hashes(Some(MaskKey::new([2; 16]))));
        assert_eq!(one[0], one[1]);
        assert!(one[0] != one[2] && one[0] != other[0]);
        assert_eq!(hashes(None)[0], "\"[redacted string 4]\"");
    }

    #[test]
    fn texts_without_structure_are_masked_in_place() {
        let rules = redaction(&["x-user", "token"], &[], &["alice"]);
        assert_eq!(rules.masked("by alice; token=ab"), "by *****; token=**");
        for (name, value, start) in
            [(&b"X-User"[..], &b"bob"[..], 0), (b"Mcp-Param-City", b"Paris", 0), (b"Other", b"an alice", 3)]
        {
            assert_eq!(rules.in_field(name, value), vec![start..value.len()]);
        }
        assert_eq!(rules.in_text(b"/alice?token=12&x=1"), [1..6, 13..15]);
        // An object or array has its values inside, also if it is cut.
        assert_eq!(rules.in_text(br#"e {"token":["a]",{"b":1}],"c":2}"#), vec![11..25]);
        assert_eq!(rules.in_text(br#"token: {"a": "b"#), vec![7..15]);
    }

    #[test]
    fn bytes_as_sent_stay_json() {
        let rules = redaction(&["v"], &[], &["li"]);
        for (text, expected) in [
            (r#"{"v":"abc"}"#, r#"{"v":"***"}"#),
            (r#"{"v":12}"#, r#"{"v":""}"#),
            (r#"{"v":7}"#, r#"{"v":0}"#),
            (r#"{"v":{"a":1}}"#, r#"{"v":"*****"}"#),
            (r#"{"w":"alice"}"#, r#"{"w":"a**ce"}"#),
        ] {
            let mut sent = text.as_bytes().to_vec();
            for part in rules.message(text.as_bytes()).expect("redacted").parts {
                for (range, mask) in part.masks(None, &text.as_bytes()[part.range.clone()]) {
                    let start = part.range.start;
                    mask.cover(&mut sent[start + range.start..start + range.end]);
                }
            }
            assert_eq!(String::from_utf8_lossy(&sent), expected);
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let plain = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i32>().prop_map(Into::into),
            "[ -~é\n]{0,12}".prop_map(Into::into),
            Just("the alice secret".into()),
        ];
        plain.prop_recursive(4, 40, 5, |inner| {
            let name = prop::sample::select(&["a", "password", "PassWord", "alice", "b\n"][..]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((name, inner), 0..5).prop_map(|members| {
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect::<serde_json::Map<_, _>>()
                        .into()
                }),
            ]
        })
    }

    proptest! {
        /// Redacted JSON is JSON without the values. Redacting it again changes nothing.
        #[test]
        fn no_value_remains(value in any_json(), nests: bool) {
            let rules = redaction(&["password"], &[], &["alice"]);
            let text = value.to_string();
            let text = if nests { serde_json::json!({"text": text}).to_string() } else { text };
            let once = rules.message(text.as_bytes()).map_or(text.clone().into_bytes(), |redacted| redacted.text);
            let once = String::from_utf8(once).expect("UTF-8");
            prop_assert!(serde_json::from_str::<serde_json::Value>(&once).is_ok(), "{}", once);
            prop_assert!(!once.contains("alice"), "{}", once);
            prop_assert_eq!(rules.message(once.as_bytes()), None);
        }

        #[test]
        fn any_bytes_are_searched(text: Vec<u8>) {
            let rules = redaction(&["a"], &["$.a"], &["b+"]);
            if let Some(redacted) = rules.message(&text) {
                prop_assert!(redacted.parts.windows(2).all(|two| two[0].range.end <= two[1].range.start));
            }
        }
    }
}
