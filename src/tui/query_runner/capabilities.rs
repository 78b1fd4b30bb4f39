//! The declared capabilities of client and server, and the lists of tools, prompts and resources
//! item by item.

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::data::{CapabilityRow, ROWS};
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::{Message, SessionNumber};
use crate::store::{MessageRow, RowKey, StoreReader};
use crate::view::overview::{self, SummaryRow};

/// Messages in which the lists are searched: they are at the beginning.
const SEARCHED: usize = 5_000;

/// Limit of the bytes of a list.
const LONGEST: u64 = 4 << 20;

/// The methods that list something, with the member of their results that is the list.
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

/// The rows of a session.
pub(super) fn read(reader: &StoreReader, session: SessionNumber) -> Result<Vec<CapabilityRow>> {
    let Some(record) = reader.session(session)? else { return Ok(Vec::new()) };
    let lines = overview::read(reader, &record)?.lines(&record).into_iter();
    let mut rows: Vec<CapabilityRow> =
        lines.map(|SummaryRow { depth, name, value, message }| CapabilityRow { depth, name, value, message }).collect();
    let list_of = |row: &MessageRow| LISTS.iter().find(|(method, _)| row.method.as_deref() == Some(*method));
    for row in reader.message_rows_at(session, 1, SEARCHED)? {
        let Some((_, member)) = list_of(&row).filter(|_| row.size <= LONGEST && row.kind == Kind::Response) else {
            continue;
        };
        if let Some(message) = reader.message(RowKey::new(row.capture, row.number.0))?
            && let Some(result) = part(&message, "result").and_then(|text| serde_json::from_str(text).ok())
        {
            list(member, &result, &message, &mut rows);
        }
        if rows.len() >= ROWS {
            rows.truncate(ROWS);
            break;
        }
    }
    Ok(rows)
}

/// Adds a list with its items and their arguments.
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
            let text_of = |what| property.get(what).map(plain).unwrap_or_default();
            let needed = required.is_some_and(|names| names.iter().any(|known| known.as_str() == Some(name)));
            let needed = if needed { "required" } else { "optional" };
            rows.push(row(
                2,
                name,
                format!("{} {needed}  {}", text_of("type"), text_of("description")).trim(),
                message,
            ));
        }
        // A prompt names its arguments in a list.
        for argument in item.get("arguments").and_then(Value::as_array).into_iter().flatten() {
            let text_of = |what| argument.get(what).map(plain).unwrap_or_default();
            rows.push(row(2, &text_of("name"), &text_of("description"), message));
        }
    }
}

fn row(depth: usize, name: &str, value: &str, message: &Message) -> CapabilityRow {
    CapabilityRow { depth, name: name.to_owned(), value: value.to_owned(), message: Some(message.number) }
}

/// A string without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
