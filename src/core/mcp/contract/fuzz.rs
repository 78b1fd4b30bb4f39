//! Properties of every check of a value against a schema.

use serde_json::Value;

use super::{SchemaChecker, VIOLATIONS, Verdict};
use crate::mcp::Revision;

/// Characters of the longest text of a violation, its ellipsis included.
const TEXT_CHARS: usize = 201;

/// Checks values against a schema, which may be any texts.
///
/// A cached schema gives the same verdicts as a new one. What is unusable checks nothing.
/// Violations are bounded, lead into the value, and repeat no text of it.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn fuzz_contract(revision: Revision, schema: &str, values: &[&str]) {
    let mut checker = SchemaChecker::default();
    let usable = checker.schema(revision, schema);
    assert_ne!(usable, Verdict::Broken(Vec::new()));
    for text in values {
        let verdict = checker.check(revision, schema, text);
        assert_eq!(verdict, checker.check(revision, schema, text), "the second check is another");
        if usable != Verdict::Holds {
            assert_eq!(verdict, usable, "an unusable schema checked a value");
        }
        let Verdict::Broken(violations) = verdict else { continue };
        let value: Value = serde_json::from_str(text).expect("only JSON is checked");
        assert!((1..=VIOLATIONS).contains(&violations.len()), "{violations:?}");
        for violation in violations {
            assert!(value.pointer(&violation.path).is_some(), "{violation:?} leads nowhere");
            assert!(violation.text.chars().count() <= TEXT_CHARS, "{violation:?}");
            for secret in texts(&value) {
                assert!(schema.contains(secret) || !violation.text.contains(secret), "{violation:?} repeats {secret}");
            }
        }
    }
}

/// The strings in a value that are long enough to be no word of a message, and no name of a member.
fn texts(value: &Value) -> Vec<&str> {
    let (mut found, mut names, mut open) = (Vec::new(), Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.len() > 12 => found.push(text.as_str()),
            Value::Array(values) => open.extend(values),
            Value::Object(members) => {
                names.extend(members.keys());
                open.extend(members.values());
            }
            _ => {}
        }
    }
    found.retain(|text| !names.iter().any(|name| name.contains(text)));
    found
}
