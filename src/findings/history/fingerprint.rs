//! What stands for a JSON value where only sameness is asked for.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::mcp::contract::VALUE_BYTES;

/// A number for a JSON value, the same whatever its blanks and the order of its members; `without` names members that do not
/// count. `None` where the text is no JSON, too deep (128) or larger than what is held against a schema.
pub fn fingerprint(text: &str, without: &[&str]) -> Option<u64> {
    if text.len() > VALUE_BYTES {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !without.contains(&name.as_str()));
    }
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_blanks_do_not_count() {
        let of = |text| fingerprint(text, &["_meta"]);
        assert!(of(r#"{"a":1,"b":[1,2]}"#).is_some());
        assert_eq!(of(r#"{"a":1,"b":[1,2]}"#), of(r#"{ "b": [1, 2], "_meta": 7, "a": 1 }"#));
        assert_ne!(of(r#"{"a":1,"b":[1,2]}"#), of(r#"{"a":1,"b":[2,1]}"#));
        assert_eq!(of("{"), None);
    }
}
