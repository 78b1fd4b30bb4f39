//! JSON, with or without comments.

use anyhow::{Result, anyhow};
use jsonc_parser::ast::{self, ObjectPropName};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::tree::{Layout, Map, Member, Node, NodeValue, Sequence};

/// Parses the text. An empty text gives nothing.
pub(super) fn read(text: &str) -> Result<Option<Node>> {
    let result = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    Ok(result.map_err(|error| anyhow!("{error}"))?.value.map(node))
}

fn node(value: ast::Value) -> Node {
    let range = value.range();
    let value = match value {
        ast::Value::StringLit(text) => NodeValue::Text(text.value.into_owned()),
        ast::Value::Array(array) => NodeValue::Sequence(Sequence {
            layout: Layout::Brackets,
            items: array.elements.into_iter().map(node).collect(),
        }),
        ast::Value::Object(object) => NodeValue::Map(Map {
            layout: Layout::Brackets,
            members: object.properties.into_iter().map(member).collect(),
        }),
        _ => NodeValue::Other,
    };
    Node { span: range.start..range.end, value }
}

fn member(member: ast::ObjectProp) -> Member {
    let key = member.name.range();
    let name = match member.name {
        ObjectPropName::String(name) => name.value.into_owned(),
        ObjectPropName::Word(name) => name.value.to_owned(),
    };
    Member { name, key: key.start..key.end, value: node(member.value) }
}
