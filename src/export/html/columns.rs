//! Columns: items of a list, member by member. A column whose values are all the same has one of
//! them. `page/data.js` reads them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The values of one member in all items. It is written as one value if all are the same.
#[derive(Debug)]
pub(super) struct ValueColumn<T>(Vec<T>);

impl<T> Default for ValueColumn<T> {
    fn default() -> ValueColumn<T> {
        ValueColumn(Vec::new())
    }
}

impl<T> ValueColumn<T> {
    pub(super) fn push(&mut self, value: T) {
        self.0.push(value);
    }
}

impl<T: PartialEq + Serialize> Serialize for ValueColumn<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = &self.0[..];
        let is_same = values.windows(2).all(|pair| pair[0] == pair[1]);
        serializer.collect_seq(if is_same { values.get(..1).unwrap_or_default() } else { values })
    }
}

/// A list of items with members. An item that lacks a member has `null` in its column.
#[derive(Default, Serialize)]
pub(super) struct ItemColumns {
    length: usize,
    columns: BTreeMap<String, ValueColumn<Value>>,
}

impl ItemColumns {
    /// The items in columns.
    pub(super) fn new<T: Serialize>(items: &[T]) -> Result<ItemColumns> {
        let mut table = ItemColumns::default();
        for item in items {
            let Value::Object(members) = serde_json::to_value(item)? else { continue };
            for name in members.keys() {
                let absent = || ValueColumn(vec![Value::Null; table.length]);
                table.columns.entry(name.clone()).or_insert_with(absent);
            }
            for (name, column) in &mut table.columns {
                column.push(members.get(name).cloned().unwrap_or_default());
            }
            table.length += 1;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_repeat_are_written_once() {
        let items = [json!({ "a": 1, "b": "x" }), json!({ "a": 1, "c": 2 }), json!({ "a": 1 })];
        let table = serde_json::to_value(ItemColumns::new(&items).unwrap()).unwrap();
        let columns = json!({ "a": [1], "b": ["x", null, null], "c": [null, 2, null] });
        assert_eq!(table, json!({ "length": 3, "columns": columns }));
        assert_eq!(serde_json::to_value(ItemColumns::new(&items[..0]).unwrap()).unwrap()["length"], 0);
    }
}
