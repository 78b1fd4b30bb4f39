//! Access to parts of a JSON text without building a tree.
//!
//! Each function is one pass over the text of one value. Nothing is copied, and nesting never
//! grows the stack.
//!
//! The text was checked before, as the text of every message was, so it is not checked again
//! ([`is_json`] checks any other). On a text that is not JSON the functions return some part of
//! it, or nothing.

mod open_brackets;
mod quotes;
pub mod scan;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{ControlFlow, Range};

use serde::de::{Deserializer, IgnoredAny, Visitor};

pub use quotes::closing_quote;
pub use scan::Index;
use scan::{JsonScanner, Stop};

/// The blanks of JSON (RFC 8259 section 2).
pub const BLANK: [char; 4] = [' ', '\t', '\n', '\r'];

/// Calls `visit` with name and value of each member of an object, as JSON text,
/// until `visit` breaks.
///
/// Returns whether the object was read to its end and nothing follows it. A value that reaches the
/// end of the text is not visited: it may be cut off.
pub fn members<'a>(object: &'a str, visit: &mut dyn FnMut(&'a str, &'a str) -> ControlFlow<()>) -> bool {
    let mut reader = JsonScanner::trusting(object, 0);
    let mut read = || {
        reader.blanks();
        reader.enter(b'{')?;
        while let Some((name, _)) = reader.name()? {
            visit_part(object, reader.value()?, |value| visit(name, value))?;
        }
        reader.end()
    };
    read().is_ok()
}

/// Calls `visit` with each element of an array, as JSON text, until `visit` breaks.
///
/// Returns whether the array was read to its end and nothing follows it. An element that reaches
/// the end of the text is not visited: it may be cut off.
pub fn elements<'a>(array: &'a str, visit: &mut dyn FnMut(&'a str) -> ControlFlow<()>) -> bool {
    let mut reader = JsonScanner::trusting(array, 0);
    let mut read = || {
        reader.blanks();
        reader.enter(b'[')?;
        while reader.element()? {
            visit_part(array, reader.value()?, &mut *visit)?;
        }
        reader.end()
    };
    read().is_ok()
}

fn visit_part<'a>(
    text: &'a str,
    value: Range<usize>,
    visit: impl FnOnce(&'a str) -> ControlFlow<()>,
) -> Result<(), Stop> {
    match text.get(value.clone()) {
        Some(shown) if value.end < text.len() && visit(shown).is_continue() => Ok(()),
        _ => Err(Stop::NotJson),
    }
}

/// The value of a member. If a name occurs twice, its last value counts, as in
/// JavaScript and Python.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut last = None;
    let whole = members(object, &mut |key, value| {
        if string_equals(key, name) {
            last = Some(value);
        }
        ControlFlow::Continue(())
    });
    last.filter(|_| whole)
}

/// The range of the value that a JSON Pointer (RFC 6901) addresses.
pub fn locate(text: &str, pointer: &str) -> Option<Range<usize>> {
    let mut at = text.trim_start_matches(BLANK);
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        let mut found = None;
        if at.starts_with('{') {
            // If a name occurs twice, its last value counts.
            members(at, &mut |key, value| {
                if string_equals(key, &name) {
                    found = Some(value);
                }
                ControlFlow::Continue(())
            });
        } else {
            let mut left: usize = name.parse().ok()?;
            elements(at, &mut |value| match left.checked_sub(1) {
                Some(less) => {
                    left = less;
                    ControlFlow::Continue(())
                }
                None => {
                    found = Some(value);
                    ControlFlow::Break(())
                }
            });
        }
        at = found?;
    }
    let start = at.as_ptr() as usize - text.as_ptr() as usize;
    Some(start..start + at.len())
}

/// The members of an object, found in one pass, for look-up by name.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    text: &'a str,
    index: Cow<'a, [(Range<u32>, Range<u32>)]>,
}

impl<'a> Object<'a> {
    /// Finds the members of an object. Empty if the text is not an object.
    pub fn read(text: &'a str) -> Object<'a> {
        Object { text, index: Index::of(text).0.into() }
    }

    /// Uses an index that was made of this text before.
    pub fn indexed(text: &'a str, index: &'a Index) -> Object<'a> {
        Object { text, index: index.0.as_slice().into() }
    }

    /// Whether the object has no members, or the text is not an object.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The JSON text of the object.
    pub fn json(&self) -> &'a str {
        self.text
    }

    fn part(&self, range: &Range<u32>) -> &'a str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// The value of a member as JSON text. If a name occurs twice, its last value counts.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let text = self.text.as_bytes();
        let key = |range: &Range<u32>| text.get(range.start as usize..range.end as usize).unwrap_or_default();
        let found = self.index.iter().rev().find(|(name_range, _)| bytes_equal(key(name_range), name));
        found.map(|(_, value)| self.part(value))
    }

    /// The unescaped value of a member; `None` if it is not a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    /// The object that is a member's value. Empty if it is not an object.
    pub fn object(&self, name: &str) -> Object<'a> {
        self.get(name).map(Object::read).unwrap_or_default()
    }

    /// The members in order: names with quotes, and values as JSON text.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.index.iter().map(|(name, value)| (self.part(name), self.part(value)))
    }
}

/// The first `limit` elements of an array as JSON text. Empty if the text is not an array.
pub fn array(text: &str, limit: usize) -> Vec<&str> {
    let mut found = Vec::new();
    if text.starts_with('[') {
        elements(text, &mut |element| {
            if found.len() == limit {
                return ControlFlow::Break(());
            }
            found.push(element);
            ControlFlow::Continue(())
        });
    }
    found
}

/// Whether the text is exactly one JSON value.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a JSON string, unescaped, equals `wanted`.
pub fn string_equals(json: &str, wanted: &str) -> bool {
    bytes_equal(json.as_bytes(), wanted)
}

/// As [`string_equals`], for the bytes of a JSON string.
fn bytes_equal(json: &[u8], wanted: &str) -> bool {
    let [b'"', inside @ .., b'"'] = json else { return false };
    // An escape makes a string longer, so comparing lengths first rules out most strings.
    match inside.len().cmp(&wanted.len()) {
        Ordering::Less => false,
        Ordering::Equal => inside == wanted.as_bytes(),
        Ordering::Greater => {
            let unescaped = || string(std::str::from_utf8(json).ok()?);
            memchr::memchr(b'\\', inside).is_some() && unescaped().is_some_and(|text| text == wanted)
        }
    }
}

/// The text between the quotation marks of a JSON string; `None` for any other value.
fn inside_quotes(json: &str) -> Option<&str> {
    let [b'"', .., b'"'] = json.as_bytes() else { return None };
    json.get(1..json.len() - 1)
}

/// The unescaped content of a JSON string; `None` for any other value.
///
/// Half a surrogate pair as an escape is legal JSON (RFC 8259 section 8.2), but not text. A string
/// that contains one is returned as it was written.
pub fn string(json: &str) -> Option<Cow<'_, str>> {
    let inside = inside_quotes(json)?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inside));
    }
    Some(serde_json::from_str::<String>(json).map_or(Cow::Borrowed(inside), Cow::Owned))
}

/// The unescaped content of a JSON string, with half a surrogate pair as U+FFFD. `None` for
/// any other value.
pub fn string_lossy(json: &str) -> Option<Cow<'_, str>> {
    // serde_json rejects half a surrogate pair in a `str`, but returns it as bytes.
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    let inside = inside_quotes(json)?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::Deserializer::from_str(json).deserialize_bytes(Bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn the_last_of_two_members_counts_and_names_are_unescaped() {
        assert_eq!(member(r#"{"a":1,"b":[2],"\u0061":{"c":3}}"#, "a"), Some(r#"{"c":3}"#));
        assert_eq!(member(r#"{"a":1} tail"#, "a"), None);
        assert_eq!(member(r#"{"a":1"#, "a"), None);
        assert_eq!(member("[1]", "a"), None);
    }

    #[test]
    fn half_a_surrogate_pair_hides_no_other_member() {
        assert_eq!(member(r#"{"\ud800":1,"b":"\ud800"}"#, "b"), Some(r#""\ud800""#));
        assert_eq!(string(r#""\ud800""#).as_deref(), Some(r"\ud800"));
        assert_eq!(string(r#""a\n\u00e9""#).as_deref(), Some("a\né"));
    }

    #[test]
    fn a_pointer_addresses_a_range_of_the_text() {
        let text = r#" {"a/b":[10, {"~":"x"} ,[]],"c":null}"#;
        let at = |pointer| locate(text, pointer).map(|range| &text[range]);
        assert_eq!(at("/a~1b/1/~0"), Some("\"x\""));
        assert_eq!(at("/a~1b/0"), Some("10"));
        assert_eq!(at("/a~1b/2"), Some("[]"));
        assert_eq!(at("/c"), Some("null"));
        assert_eq!([at("/a~1b/3"), at("/a~1b/2/0"), at("/c/d"), at("/d")], [None; 4]);
    }

    #[test]
    fn deep_nesting_does_not_grow_the_stack() {
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(member(&deep, "b"), Some("2"));
    }

    /// Random JSON with blanks and escapes.
    fn any_json() -> impl Strategy<Value = String> {
        let plain =
            prop::sample::select(&["null", "true", "-1.5e3", "0", r#""""#, r#""a\"]}""#, r#""\\""#, r#""é{,""#][..]);
        plain.prop_map(str::to_owned).prop_recursive(4, 40, 5, |inner| {
            let (blank, name) =
                (|| "[ \t\n\r]{0,2}", prop::sample::select(&[r#""a""#, r#""a\"b""#, r#""""#, r#""}""#][..]));
            let members = prop::collection::vec((blank(), name, blank(), blank(), inner.clone(), blank()), 0..5);
            let elements = prop::collection::vec((blank(), inner, blank()), 0..5);
            let member = |(a, name, b, c, value, d)| format!("{a}{name}{b}:{c}{value}{d}");
            prop_oneof![
                members
                    .prop_map(move |all| format!("{{{}}}", all.into_iter().map(member).collect::<Vec<_>>().join(","))),
                elements.prop_map(|all: Vec<(String, String, String)>| {
                    format!("[{}]", all.into_iter().map(|(a, value, b)| a + &value + &b).collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_and_elements_are_those_of_serde_json(json in any_json()) {
            let mut shown = Vec::new();
            if let Ok(array) = serde_json::from_str::<Vec<&RawValue>>(&json) {
                let whole = elements(&json, &mut |value| {
                    shown.push(value.to_owned());
                    ControlFlow::Continue(())
                });
                prop_assert!(whole);
                prop_assert_eq!(shown, array.iter().map(|value| value.get().to_owned()).collect::<Vec<_>>());
            } else if let Ok(object) = serde_json::from_str::<BTreeMap<String, &RawValue>>(&json) {
                let whole = members(&json, &mut |name, value| {
                    assert!(is_json(name) && is_json(value));
                    ControlFlow::Continue(())
                });
                prop_assert!(whole);
                for (name, value) in object {
                    prop_assert_eq!(member(&json, &name), Some(value.get()));
                }
            } else {
                prop_assert!(Object::read(&json).is_empty() && array(&json, 1).is_empty());
            }
        }

        #[test]
        fn any_text_is_read_without_leaving_it(text in r#"[\[\]{}"\\,:a1é ]{0,40}"#) {
            let mut visit = |part: &str| {
                assert!(!part.is_empty() && text.contains(part));
                ControlFlow::Continue(())
            };
            elements(&text, &mut visit);
            members(&text, &mut |_, value| visit(value));
        }
    }
}
