//! Hashes of values that only need to be recognised again.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use rustc_hash::FxBuildHasher;

use crate::decode::json::{self, Object};
use crate::mcp::contract::VALUE_BYTES;

/// Limit of nesting, because the hash function is recursive.
const DEPTH: usize = 128;

/// A hash of bytes or text.
pub fn content_hash(content: impl Hash) -> u64 {
    FxBuildHasher.hash_one(content)
}

/// A hash of a JSON value that ignores blanks, escapes and the order of members. `None` if the
/// value is nested deeper than 128, or larger than [`VALUE_BYTES`].
pub fn fingerprint(value: &str) -> Option<u64> {
    bounded_hash(value, |hasher| hash_value(value, DEPTH, hasher))
}

/// A hash of an object without some of its members.
pub fn fingerprint_without(object: &Object<'_>, without: &[&str]) -> Option<u64> {
    bounded_hash(object.json(), |hasher| member_hashes(object, without, DEPTH).map(|hashes| hashes.hash(hasher)))
}

fn bounded_hash(text: &str, hash: impl FnOnce(&mut DefaultHasher) -> Option<()>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let is_short = text.len() <= VALUE_BYTES;
    is_short.then(|| hash(&mut hasher)).flatten().map(|()| hasher.finish())
}

fn hash_value(value: &str, depth: usize, hasher: &mut DefaultHasher) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    value.bytes().next().hash(hasher);
    match value.as_bytes().first() {
        Some(b'{') => member_hashes(&Object::read(value), &[], depth)?.hash(hasher),
        Some(b'[') => {
            let mut is_shallow = true;
            json::elements(value, &mut |element| {
                is_shallow = hash_value(element, depth, hasher).is_some();
                if is_shallow { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            // Separates the elements of this array from the next value.
            b']'.hash(hasher);
            is_shallow.then_some(())?;
        }
        Some(b'"') => json::string(value).hash(hasher),
        // 1e2 and 100.0 are the same number, and serde_json writes both in the same way.
        Some(b'-' | b'0'..=b'9') => {
            let number = serde_json::from_str::<serde_json::Number>(value);
            number.map_or_else(|_| value.to_owned(), |number| number.to_string()).hash(hasher);
        }
        _ => {}
    }
    Some(())
}

/// The hashes of the members, sorted, so that their order does not matter.
fn member_hashes(object: &Object<'_>, without: &[&str], depth: usize) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    for (name, value) in object.iter().filter(|(name, _)| !without.iter().any(|other| json::string_equals(name, other)))
    {
        let mut hasher = DefaultHasher::new();
        json::string(name).hash(&mut hasher);
        hash_value(value, depth, &mut hasher)?;
        found.push(hasher.finish());
    }
    found.sort_unstable();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_ignore_order_and_blanks() {
        let of = |text| fingerprint_without(&Object::read(text), &["_meta"]);
        assert!(of(r#"{"a":1,"b":[1,2]}"#).is_some());
        assert_eq!(of(r#"{"a":1,"b":[1,2]}"#), of(r#"{ "b": [1, 2], "_meta": 7, "a": 1 }"#));
        assert_eq!(of(r#"{"a":{"x":1e2,"y":"\u00e9"}}"#), of(r#"{"a":{"y":"é","x":100.0}}"#));
        for (one, other) in [
            (r#"{"a":1,"b":[1,2]}"#, r#"{"a":1,"b":[2,1]}"#),
            (r#"{"a":[[1],2]}"#, r#"{"a":[[1,2]]}"#),
            (r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            (r#"{"a":true}"#, r#"{"a":false}"#),
            (r#"{"a":{"_meta":1}}"#, r#"{"a":{"_meta":2}}"#),
        ] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
        assert_eq!(fingerprint(&format!("{}{}", "[".repeat(200), "]".repeat(200))), None);
        assert_eq!(fingerprint("[1, {}]"), fingerprint("[1,{ }]"));
    }
}
