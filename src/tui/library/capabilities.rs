//! What client and server said they can do, and the lists of tools, prompts and resources item by item.

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::data::{CapabilityRow, ROWS};
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;
use crate::mcp::{Message, SessionNumber};
use crate::store::{MessageRow, RowKey, StoreReader};
use crate::view::overview::{self, Line};

/// Messages in which the lists are looked for: they come at the beginning.
const LOOK: usize = 5_000;

/// Bytes of a list that are read.
const LONGEST: u64 = 4 << 20;

/// Methods whose answers are lists.
const METHODS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// The lines.
pub(super) fn read(reader: &StoreReader, session: SessionNumber) -> Result<Vec<CapabilityRow>> {
    let Some(record) = reader.session(session)? else { return Ok(Vec::new()) };
    let lines = overview::read(reader, &record)?.lines(&record).into_iter();
    let mut rows: Vec<CapabilityRow> =
        lines.map(|Line { depth, name, value, message }| CapabilityRow { depth, name, value, message }).collect();
    let tells = |row: &MessageRow| {
        let method = row.method.as_deref().is_some_and(|method| METHODS.contains(&method));
        method && row.size <= LONGEST && row.kind == Kind::Response
    };
    for row in reader.message_rows_at(session, 1, LOOK)?.into_iter().filter(tells) {
        if let Some(message) = reader.message(RowKey::new(row.capture, row.number.0))? {
            tell(&message, &mut rows);
        }
        if rows.len() >= ROWS {
            rows.truncate(ROWS);
            break;
        }
    }
    Ok(rows)
}

fn tell(message: &Message, rows: &mut Vec<CapabilityRow>) {
    let json = |name| part(message, name).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(Value::Object(result)) = json("result") else { return };
    match message.method.as_deref() {
        Some("tools/list") => list("tools", &result, message, rows),
        Some("prompts/list") => list("prompts", &result, message, rows),
        Some("resources/list") => list("resources", &result, message, rows),
        Some("resources/templates/list") => list("resourceTemplates", &result, message, rows),
        _ => {}
    }
}

fn list(name: &str, result: &Map<String, Value>, message: &Message, rows: &mut Vec<CapabilityRow>) {
    let items = result.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.push(row(0, name, &items.len().to_string(), message));
    for item in items {
        let own = |name: &str| item.get(name).map(plain).unwrap_or_default();
        let title = [own("name"), own("uri"), own("uriTemplate")].into_iter().find(|name| !name.is_empty());
        rows.push(row(1, &title.unwrap_or_default(), &own("description"), message));
        let schema = item.get("inputSchema");
        let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let says = |what| property.get(what).map(plain).unwrap_or_default();
            let needed = required.is_some_and(|names| names.iter().any(|known| known.as_str() == Some(name)));
            let needed = if needed { "required" } else { "optional" };
            rows.push(row(2, name, format!("{} {needed}  {}", says("type"), says("description")).trim(), message));
        }
        // Prompts name their arguments in a list.
        for argument in item.get("arguments").and_then(Value::as_array).into_iter().flatten() {
            let says = |what| argument.get(what).map(plain).unwrap_or_default();
            rows.push(row(2, &says("name"), &says("description"), message));
        }
    }
}

fn row(depth: usize, name: &str, value: &str, message: &Message) -> CapabilityRow {
    CapabilityRow { depth, name: name.to_owned(), value: value.to_owned(), message: Some(message.number) }
}

/// A string as its text, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
