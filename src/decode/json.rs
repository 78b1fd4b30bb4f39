//! Looking into JSON without building it: each step is one pass over the text of one value; nothing is copied.
//!
//! serde_json passes over values it is not asked for without recursion, so nesting never grows the stack.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Blanks of JSON (RFC 8259 section 2).
pub const BLANK: [char; 4] = [' ', '\t', '\n', '\r'];

/// Shows each member of an object to `visit`, name and value as JSON text, until it breaks.
///
/// Returns whether the object was read to its end and nothing followed it.
pub fn members<'a>(object: &'a str, visit: &mut dyn FnMut(&'a str, &'a str) -> ControlFlow<()>) -> bool {
    let mut reader = serde_json::Deserializer::from_str(object);
    (&mut reader).deserialize_map(Members(visit)).is_ok() && reader.end().is_ok()
}

/// Shows each element of an array to `visit`, as JSON text, until it breaks.
///
/// Returns whether the array was read to its end and nothing followed it.
pub fn elements<'a>(array: &'a str, visit: &mut dyn FnMut(&'a str) -> ControlFlow<()>) -> bool {
    let mut reader = serde_json::Deserializer::from_str(array);
    (&mut reader).deserialize_seq(Elements(visit)).is_ok() && reader.end().is_ok()
}

/// The value of a member. Where a name occurs twice the last one counts, as in JavaScript and Python.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut last = None;
    let whole = members(object, &mut |key, value| {
        if is(key, name) {
            last = Some(value);
        }
        ControlFlow::Continue(())
    });
    last.filter(|_| whole)
}

/// The members of an object, found in one pass and asked for by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Object<'a> {
    /// Members that are remembered; those behind are not there for [`Object::get`]. What the protocol defines has few.
    const MEMBERS: usize = 1_024;

    /// Reads a text; empty where it is no object.
    pub fn read(text: &'a str) -> Object<'a> {
        let mut found = Vec::new();
        if !text.starts_with('{') {
            return Object::default();
        }
        let whole = members(text, &mut |name, value| {
            if found.len() < Self::MEMBERS {
                found.push((name, value));
            }
            ControlFlow::Continue(())
        });
        if whole { Object(found) } else { Object::default() }
    }

    /// The value of a member as JSON text; the last one of two.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| is(key, name)).map(|(_, value)| *value)
    }

    /// The value of a member that is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    /// The members of a member.
    pub fn object(&self, name: &str) -> Object<'a> {
        self.get(name).map(Object::read).unwrap_or_default()
    }

    /// Names as JSON text, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().copied()
    }
}

/// The elements of an array, as JSON text; none where the text is no array. At most `limit`.
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

/// Whether a text is one JSON value.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a JSON string says `wanted`.
pub fn is(json: &str, wanted: &str) -> bool {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => plain == wanted,
        Some(_) => string(json).is_some_and(|text| text == wanted),
        None => false,
    }
}

/// What a JSON string says; `None` for any other value.
///
/// An escaped half of a surrogate pair is legal JSON (RFC 8259 section 8.2) and no text: such a string is given as it
/// was written.
pub fn string(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    Some(serde_json::from_str::<String>(json).map_or(Cow::Borrowed(inside), Cow::Owned))
}

struct Members<'f, 'de>(&'f mut dyn FnMut(&'de str, &'de str) -> ControlFlow<()>);

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
            if (self.0)(name.get(), value.get()).is_break() {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

struct Elements<'f, 'de>(&'f mut dyn FnMut(&'de str) -> ControlFlow<()>);

impl<'de> Visitor<'de> for Elements<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(value) = sequence.next_element::<&'de RawValue>()? {
            if (self.0)(value.get()).is_break() {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
    fn deep_nesting_does_not_grow_the_stack() {
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(member(&deep, "b"), Some("2"));
    }
}
