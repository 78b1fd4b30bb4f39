//! Walks through the strings and numbers of a JSON text.

use std::fmt::Write;
use std::ops::ControlFlow;

use serde_json::Value;

use crate::compare::difference::escaped;
use crate::decode::json::{elements, members, string};

/// The deepest level of JSON that is searched. serde_json does not parse deeper values later.
const LEVELS: usize = 127;

/// A string or a number of a JSON text.
pub(super) struct Leaf<'a> {
    /// JSON Pointer to it.
    pub(super) path: &'a str,
    /// The name of its member. Elements of a list have that of the list.
    pub(super) name: &'a str,
    /// The content of the string, or the number.
    pub(super) text: &'a str,
    pub(super) is_string: bool,
    /// Its JSON text, a part of the text that is walked through.
    pub(super) json: &'a str,
}

impl Leaf<'_> {
    /// Whether this is a number equal to a value.
    pub(super) fn is_number(&self, value: &Value) -> bool {
        !self.is_string && serde_json::from_str::<Value>(self.json).is_ok_and(|here| here == *value)
    }
}

/// Visits each string and number of a JSON text. It builds no values.
pub(super) fn scan_leaves(json: &str, visit: &mut dyn FnMut(&Leaf<'_>)) {
    fn walk(path: &mut String, name: &str, json: &str, levels: usize, visit: &mut dyn FnMut(&Leaf<'_>)) {
        let length = path.len();
        match json.as_bytes().first() {
            Some(b'{') if levels > 0 => drop(members(json, &mut |key, value| {
                let name = string(key).unwrap_or_default();
                path.push('/');
                path.push_str(&escaped(&name));
                walk(path, &name, value, levels - 1, visit);
                path.truncate(length);
                ControlFlow::Continue(())
            })),
            Some(b'[') if levels > 0 => {
                let mut index = 0;
                elements(json, &mut |value| {
                    let _ = write!(path, "/{index}");
                    walk(path, name, value, levels - 1, visit);
                    path.truncate(length);
                    index += 1;
                    ControlFlow::Continue(())
                });
            }
            Some(b'"') => {
                visit(&Leaf { path, name, text: &string(json).unwrap_or_default(), is_string: true, json });
            }
            Some(b'-' | b'0'..=b'9') => visit(&Leaf { path, name, text: json, is_string: false, json }),
            _ => {}
        }
    }
    walk(&mut String::new(), "", json, LEVELS, visit);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::flow::text_of;

    proptest! {
        #[test]
        fn scanning_text_finds_the_leaves_of_the_parsed_value(value in json_value()) {
            let (mut built, mut scanned) = (Vec::new(), Vec::new());
            leaves(&value, &mut |path, name, value| built.push((path.to_owned(), name.to_owned(), text_of(value), value.is_string())));
            let text = serde_json::to_string_pretty(&value).unwrap();
            scan_leaves(&text, &mut |leaf| {
                scanned.push((leaf.path.to_owned(), leaf.name.to_owned(), leaf.text.to_owned(), leaf.is_string));
            });
            prop_assert_eq!(built, scanned);
        }
    }

    /// Visits each string and number of a value with its path and the name of its member.
    fn leaves(value: &Value, visit: &mut dyn FnMut(&str, &str, &Value)) {
        fn walk(path: &mut String, name: &str, value: &Value, visit: &mut dyn FnMut(&str, &str, &Value)) {
            let length = path.len();
            match value {
                Value::Object(members) => {
                    for (name, value) in members {
                        path.push('/');
                        path.push_str(&escaped(name));
                        walk(path, name, value, visit);
                        path.truncate(length);
                    }
                }
                Value::Array(elements) => {
                    for (index, value) in elements.iter().enumerate() {
                        path.push('/');
                        path.push_str(&index.to_string());
                        walk(path, name, value, visit);
                        path.truncate(length);
                    }
                }
                Value::String(_) | Value::Number(_) => visit(path, name, value),
                Value::Null | Value::Bool(_) => {}
            }
        }
        walk(&mut String::new(), "", value, visit);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/\"]{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
