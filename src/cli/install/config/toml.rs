//! TOML.

use std::ops::Range;

use anyhow::Result;
use toml_edit::{Array, Document, Item, Key, TableLike, TomlError};

use super::tree::{Layout, Map, Member, Node, NodeValue, Sequence};
use crate::cli::toml_error;

/// Parses the text.
pub(super) fn read(text: &str) -> Result<Option<Node>> {
    let wrong = |error: TomlError| toml_error(text, error.message(), error.span());
    let document = Document::parse(text).map_err(wrong)?;
    Ok(Some(Node { span: 0..text.len(), value: table(document.as_table(), Layout::Lines) }))
}

fn item(item: &Item) -> Node {
    let value = match item {
        Item::Value(one) => return value(one),
        Item::Table(inner) => table(inner, Layout::Lines),
        Item::ArrayOfTables(tables) => {
            let items =
                tables.iter().map(|inner| Node { span: place(inner.span()), value: table(inner, Layout::Lines) });
            NodeValue::Sequence(Sequence { layout: Layout::Lines, items: items.collect() })
        }
        Item::None => NodeValue::Other,
    };
    Node { span: place(item.span()), value }
}

fn value(value: &toml_edit::Value) -> Node {
    let tree = match value {
        toml_edit::Value::String(text) => NodeValue::Text(text.value().clone()),
        toml_edit::Value::Array(array) => list(array),
        // A dotted name makes a table without braces.
        toml_edit::Value::InlineTable(inner) if inner.is_dotted() => table(inner, Layout::Lines),
        toml_edit::Value::InlineTable(inner) => table(inner, Layout::Brackets),
        _ => NodeValue::Other,
    };
    Node { span: place(value.span()), value: tree }
}

fn list(array: &Array) -> NodeValue {
    NodeValue::Sequence(Sequence { layout: Layout::Brackets, items: array.iter().map(value).collect() })
}

fn table(table: &dyn TableLike, layout: Layout) -> NodeValue {
    let member = |(name, value): (&str, &Item)| {
        let key = table.key(name).and_then(Key::span);
        Member { name: name.to_owned(), key: place(key), value: item(value) }
    };
    NodeValue::Map(Map { layout, members: table.iter().map(member).collect() })
}

/// The place of a value. Only a table that has no text of its own has none.
fn place(span: Option<Range<usize>>) -> Range<usize> {
    span.unwrap_or_default()
}
