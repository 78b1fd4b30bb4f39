//! Structural differences of two JSON values, each with its path (JSON Pointer, RFC 6901).
//!
//! The recursion is at most 128 levels deep, because serde_json refuses to parse deeper values.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};
use similar::DiffOp;

use super::alignment::align;

/// The most differences that are listed for one answer. With more of them, reading the two
/// texts is easier.
pub const LISTED: usize = 1_000;

/// The longest run of array elements that is aligned by content. Longer runs are paired by
/// position, because aligning costs the product of length and differences. Equal elements at both
/// ends do not count.
const LINED_UP: usize = 2_000;

/// The change of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The value differs: the old one and the new one.
    Changed(Value, Value),
    /// The value exists only in the recorded answer.
    Removed(Value),
    /// The value exists only in the new answer.
    Added(Value),
}

/// One difference with its path.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON Pointer into the recorded value; for an added value, into the new one. The empty
    /// pointer is the whole value.
    pub path: String,
    /// The change of the value at the path.
    pub change: Change,
}

/// The differences from `old` to `new` in document order, at most [`LISTED`]. `is_unordered` gets
/// the path of an array and returns whether the order of its elements is to be ignored.
pub fn differences(old: &Value, new: &Value, is_unordered: &dyn Fn(&str) -> bool) -> Vec<Difference> {
    let mut walk = Walk { path: String::new(), found: Vec::new(), is_unordered };
    walk.values(old, new);
    walk.found
}

/// A member name as a reference token of a JSON Pointer: `~` becomes `~0`, `/` becomes `~1` (RFC
/// 6901 section 3).
pub fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}

/// The member name that a reference token of a JSON Pointer encodes (RFC 6901 section 4).
pub fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

struct Walk<'a> {
    path: String,
    found: Vec<Difference>,
    is_unordered: &'a dyn Fn(&str) -> bool,
}

impl Walk<'_> {
    fn values(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.objects(old, new),
            (Value::Array(old), Value::Array(new)) if (self.is_unordered)(&self.path) => self.sets(old, new),
            (Value::Array(old), Value::Array(new)) => self.arrays(old, new),
            _ if is_same(old, new) => {}
            _ => self.note(Change::Changed(old.clone(), new.clone())),
        }
    }

    fn objects(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for (name, value) in old {
            self.at(&escaped(name), |walk| match new.get(name) {
                Some(other) => walk.values(value, other),
                None => walk.note(Change::Removed(value.clone())),
            });
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.at(&escaped(name), |walk| walk.note(Change::Added(value.clone())));
        }
    }

    /// Compares two arrays. Equal elements are aligned. The elements between them are paired by
    /// name, and those without a name by position.
    fn arrays(&mut self, old: &[Value], new: &[Value]) {
        let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        if old.len().max(new.len()) > LINED_UP {
            return self.run((old, head), (new, head));
        }
        let texts = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>();
        for operation in align(&texts(old), &texts(new), None) {
            if let DiffOp::Equal { .. } = operation {
                continue;
            }
            let (from, to) = (operation.old_range(), operation.new_range());
            self.run((&old[from.clone()], head + from.start), (&new[to.clone()], head + to.start));
        }
    }

    /// Compares a run of elements with the run that replaced it. Each run comes with the index of
    /// its first element.
    fn run(&mut self, (old, old_start): (&[Value], usize), (new, new_start): (&[Value], usize)) {
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for (index, value) in new.iter().enumerate() {
            if let Some(name) = name_of(value) {
                by_name.entry(name).or_insert(index);
            }
        }
        let named = |value: &Value| name_of(value).and_then(|name| by_name.get(name).copied());
        let mut paired = vec![false; new.len()];
        let partners: Vec<Option<usize>> = old.iter().map(named).collect();
        partners.iter().flatten().for_each(|index| paired[*index] = true);
        // Elements without a name are paired with each other in order.
        let mut rest = (0..new.len()).filter(|index| !paired[*index] && name_of(&new[*index]).is_none());
        let partners: Vec<Option<usize>> = old
            .iter()
            .zip(partners)
            .map(|(value, partner)| partner.or_else(|| if name_of(value).is_none() { rest.next() } else { None }))
            .collect();
        let mut matched = vec![false; new.len()];
        for (index, (value, partner)) in old.iter().zip(partners).enumerate() {
            // When two old elements have the same name, the second one counts as removed.
            let partner = partner.filter(|partner| !std::mem::replace(&mut matched[*partner], true));
            self.at(&(old_start + index).to_string(), |walk| match partner {
                Some(partner) => walk.values(value, &new[partner]),
                None => walk.note(Change::Removed(value.clone())),
            });
        }
        for (index, value) in new.iter().enumerate().filter(|(index, _)| !matched[*index]) {
            self.at(&(new_start + index).to_string(), |walk| walk.note(Change::Added(value.clone())));
        }
    }

    /// Compares two arrays without regard to order. Equal elements cancel each other.
    fn sets(&mut self, old: &[Value], new: &[Value]) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        new.iter().for_each(|value| *counts.entry(value.to_string()).or_default() += 1);
        let mut cancels = |value: &Value| match counts.get_mut(&value.to_string()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let removed: Vec<(usize, &Value)> = old.iter().enumerate().filter(|(_, value)| !cancels(value)).collect();
        // The elements left in `counts` have no equal in `old`. Of several equal elements, the last
        // ones count as added.
        let mut added: Vec<(usize, &Value)> = Vec::new();
        for (index, value) in new.iter().enumerate().rev() {
            if let Some(count) = counts.get_mut(&value.to_string()).filter(|count| **count > 0) {
                *count -= 1;
                added.push((index, value));
            }
        }
        added.reverse();
        for (index, value) in removed {
            let partner =
                added.iter().position(|(_, other)| name_of(value).is_some() && name_of(value) == name_of(other));
            let partner = partner.map(|at| added.remove(at));
            self.at(&index.to_string(), |walk| match partner {
                Some((_, other)) => walk.values(value, other),
                None => walk.note(Change::Removed(value.clone())),
            });
        }
        for (index, value) in added {
            self.at(&index.to_string(), |walk| walk.note(Change::Added(value.clone())));
        }
    }

    fn at(&mut self, step: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(step);
        then(self);
        self.path.truncate(length);
    }

    fn note(&mut self, change: Change) {
        if self.found.len() < LISTED {
            self.found.push(Difference { path: self.path.clone(), change });
        }
    }
}

/// Whether two scalars are equal. RFC 8259 section 6 has only one kind of number, so 1 equals 1.0.
fn is_same(old: &Value, new: &Value) -> bool {
    old == new
        || match (old, new) {
            (Value::Number(old), Value::Number(new)) => {
                (old.is_f64() || new.is_f64()) && old.as_f64().is_some() && old.as_f64() == new.as_f64()
            }
            _ => false,
        }
}

/// The name of a list element. Every list of the protocol (tools, prompts, resources, tasks) has
/// one of these members.
pub fn name_of(value: &Value) -> Option<&str> {
    let object = value.as_object()?;
    ["name", "uri", "uriTemplate", "id", "taskId"].into_iter().find_map(|member| object.get(member)?.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn described(old: Value, new: Value) -> Vec<String> {
        let words = |difference: Difference| match difference.change {
            Change::Changed(old, new) => format!("{} {old} -> {new}", difference.path),
            Change::Removed(old) => format!("{} - {old}", difference.path),
            Change::Added(new) => format!("{} + {new}", difference.path),
        };
        differences(&old, &new, &|path| path == "/set").into_iter().map(words).collect()
    }

    #[test]
    fn each_difference_has_its_path() {
        assert_eq!(described(json!({"a": 1, "b/c": [1]}), json!({"a": 2, "b/c": [1]})), ["/a 1 -> 2"]);
        assert_eq!(described(json!({"b/c~": 1}), json!({"d": 1})), ["/b~1c~0 - 1", "/d + 1"]);
        assert_eq!(described(json!(1), json!("1")), [" 1 -> \"1\""]);
        assert_eq!(described(json!({"a": 1}), json!({"a": 1.0})), [""; 0], "one number");
        assert_eq!(described(json!(u64::MAX), json!(u64::MAX - 1)).len(), 1, "large integers are exact");
    }

    #[test]
    fn a_missing_tool_is_one_difference_at_any_index() {
        let tool = |name: &str, text: &str| json!({"name": name, "description": text});
        let all = json!([tool("a", "x"), tool("b", "y"), tool("c", "z")]);
        assert_eq!(described(all.clone(), json!([tool("b", "y"), tool("c", "z")])).len(), 1);
        assert_eq!(
            described(all.clone(), json!([tool("a", "x"), tool("c", "z")])),
            [format!("/1 - {}", tool("b", "y"))]
        );
        let changed = json!([tool("b", "other"), tool("c", "z")]);
        assert_eq!(
            described(all, changed),
            [format!("/0 - {}", tool("a", "x")), "/1/description \"y\" -> \"other\"".into()],
            "the tool that is left is held against itself"
        );
    }

    #[test]
    fn unordered_arrays_are_compared_as_sets() {
        assert_eq!(described(json!({"set": [1, 2, 2]}), json!({"set": [2, 1, 3]})), ["/set/2 - 2", "/set/2 + 3"]);
        assert_eq!(described(json!({"list": [1, 2]}), json!({"list": [2, 1]})).len(), 2);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[ab/~]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Differences are found exactly when the values differ, and each path leads to its value.
        #[test]
        fn differences_match_the_values(old in values(), new in values()) {
            prop_assert!(differences(&old, &old, &|_| false).is_empty());
            prop_assert!(differences(&old, &old, &|_| true).is_empty());
            let found = differences(&old, &new, &|_| false);
            prop_assert_eq!(found.is_empty(), old == new);
            for Difference { path, change } in found {
                match change {
                    Change::Changed(from, _) | Change::Removed(from) => prop_assert_eq!(old.pointer(&path), Some(&from)),
                    Change::Added(to) => prop_assert!(new.pointer(&path) == Some(&to) || !path.is_empty()),
                }
            }
        }
    }
}
