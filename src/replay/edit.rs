//! Changes single values inside JSON text. The rest of the text keeps its order of members, its
//! numbers and its escapes, so a message is sent as it was recorded.

use std::ops::ControlFlow;

use crate::decode::json::{locate, members};

/// The text with another value at a JSON Pointer. Unchanged if there is no value at the pointer.
pub fn replaced(text: &str, pointer: &str, value: &str) -> String {
    match locate(text, pointer) {
        Some(range) => format!("{}{value}{}", &text[..range.start], &text[range.end..]),
        None => text.to_owned(),
    }
}

/// The object with this member. It replaces a member of the same name. A text that is not an
/// object becomes one.
pub fn with_member(object: &str, name: &str, value: &str) -> String {
    let pointer = format!("/{}", crate::compare::difference::escaped(name));
    if object.trim_start().starts_with('{') && locate(object, &pointer).is_some() {
        return replaced(object, &pointer, value);
    }
    let name = serde_json::Value::from(name);
    match object.trim().strip_prefix('{').map(str::trim_start) {
        None | Some("}") => format!("{{{name}:{value}}}"),
        Some(rest) => format!("{{{name}:{value},{rest}"),
    }
}

/// The object without the members for which `is_unwanted` returns true.
pub fn without_members(object: &str, is_unwanted: &dyn Fn(&str) -> bool) -> String {
    let mut remaining = Vec::new();
    members(object, &mut |name, value| {
        let plain = crate::decode::json::string(name).unwrap_or_default();
        if !is_unwanted(&plain) {
            remaining.push(format!("{name}:{value}"));
        }
        ControlFlow::Continue(())
    });
    format!("{{{}}}", remaining.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_value_changes() {
        let text = r#"{ "b" : [1.0, {"a/b": "\u0041"}], "a":2e400 }"#;
        assert_eq!(replaced(text, "/b/1/a~1b", "7"), r#"{ "b" : [1.0, {"a/b": 7}], "a":2e400 }"#);
        assert_eq!(replaced(text, "/b/2", "7"), text);
        assert_eq!(replaced(text, "/c", "7"), text);
        assert_eq!(replaced("1", "", "7"), "7");
    }

    #[test]
    fn a_member_is_set_or_added() {
        assert_eq!(with_member(r#"{"a":1}"#, "a", "2"), r#"{"a":2}"#);
        assert_eq!(with_member(r#"{"a":1}"#, "x/y", "2"), r#"{"x/y":2,"a":1}"#);
        assert_eq!(with_member("{ }", "a", "2"), r#"{"a":2}"#);
        assert_eq!(with_member("", "a", "2"), r#"{"a":2}"#);
    }

    #[test]
    fn members_are_removed() {
        assert_eq!(without_members(r#"{"a":1,"b" : 2}"#, &|name| name == "a"), r#"{"b":2}"#);
    }
}
