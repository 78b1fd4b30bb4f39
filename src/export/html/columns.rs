//! Columns: items of a list, member by member. A column whose values are all the same has one of
//! them. `page/data.js` reads them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The values of one member in all items, as JSON. They take one value while all are the same.
#[derive(Debug, Default)]
pub(super) struct ValueColumn {
    length: usize,
    /// The values, with commas between them.
    json: Vec<u8>,
    /// The length of the first value.
    first: usize,
    is_varied: bool,
}

impl ValueColumn {
    /// A column of an item member that so many items lack.
    fn of_nulls(length: usize) -> ValueColumn {
        let json = if length == 0 { Vec::new() } else { b"null".to_vec() };
        ValueColumn { length, first: json.len(), json, is_varied: false }
    }

    pub(super) fn push(&mut self, value: &impl Serialize) -> Result<()> {
        let end = self.json.len();
        if self.length > 0 {
            self.json.push(b',');
        }
        let start = self.json.len();
        serde_json::to_writer(&mut self.json, value)?;
        if self.length == 0 {
            self.first = self.json.len();
        } else if !self.is_varied {
            if self.json[start..] == self.json[..self.first] {
                self.json.truncate(end);
            } else {
                self.is_varied = true;
                let value = self.json.split_off(end);
                for _ in 1..self.length {
                    self.json.push(b',');
                    self.json.extend_from_within(..self.first);
                }
                self.json.extend_from_slice(&value);
            }
        }
        self.length += 1;
        Ok(())
    }
}

impl Serialize for ValueColumn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = [b"[", &self.json[..], b"]"].concat();
        serde_json::from_slice::<&RawValue>(&json).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// A list of items with members. An item that lacks a member has `null` in its column.
#[derive(Default, Serialize)]
pub(super) struct ItemColumns {
    pub(super) length: usize,
    columns: BTreeMap<String, ValueColumn>,
}

impl ItemColumns {
    /// Adds an item, which is an object.
    pub(super) fn push(&mut self, item: &impl Serialize) -> Result<()> {
        let Value::Object(members) = serde_json::to_value(item)? else { return Ok(()) };
        for name in members.keys().filter(|name| !self.columns.contains_key(*name)).collect::<Vec<_>>() {
            self.columns.insert(name.clone(), ValueColumn::of_nulls(self.length));
        }
        for (name, column) in &mut self.columns {
            column.push(members.get(name).unwrap_or(&Value::Null))?;
        }
        self.length += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_repeat_are_written_once() {
        let items = [json!({ "a": 1, "b": "x" }), json!({ "a": 1, "c": 2 }), json!({ "a": 1 })];
        let table = |items: &[Value]| {
            let mut table = ItemColumns::default();
            items.iter().for_each(|item| table.push(item).unwrap());
            serde_json::to_value(table).unwrap()
        };
        let columns = json!({ "a": [1], "b": ["x", null, null], "c": [null, 2, null] });
        assert_eq!(table(&items), json!({ "length": 3, "columns": columns }));
        assert_eq!(table(&[]), json!({ "length": 0, "columns": {} }));
        // Values that differ late, and a value that begins like the first.
        let items = [json!({ "a": 1 }), json!({ "a": 1 }), json!({ "a": 12 }), json!({ "a": 1 }), json!({})];
        assert_eq!(table(&items)["columns"], json!({ "a": [1, 1, 12, 1, null] }));
    }
}
