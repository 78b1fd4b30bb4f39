//! What client and server said they can do: the answer to initialize, and lists of tools, prompts and resources.

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::data::{CapabilityRow, ROWS};
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;
use crate::mcp::{Message, SessionNumber};
use crate::store::{Key, MessageRow, Reader};

/// Messages in which the lists are looked for: they come at the beginning.
const LOOK: usize = 5_000;

/// Bytes of a list that are read.
const LONGEST: u64 = 4 << 20;

/// Methods that tell of capabilities.
const METHODS: [&str; 6] =
    ["initialize", "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// The lines.
pub(super) fn read(reader: &Reader, session: SessionNumber) -> Result<Vec<CapabilityRow>> {
    let mut rows = Vec::new();
    let tells = |row: &MessageRow| {
        let method = row.method.as_deref().is_some_and(|method| METHODS.contains(&method));
        let asks = row.kind == Kind::Request && row.method.as_deref() == Some("initialize");
        method && row.size <= LONGEST && (row.kind == Kind::Response || asks)
    };
    for row in reader.message_rows_at(session, 1, LOOK)?.into_iter().filter(tells) {
        if let Some(message) = reader.message(Key::new(row.capture, row.number.0))? {
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
    match message.kind {
        Kind::Request => {
            if let Some(Value::Object(params)) = json("params") {
                party("client", "clientInfo", &params, message, rows);
            }
        }
        _ => {
            let Some(Value::Object(result)) = json("result") else { return };
            match message.method.as_deref() {
                Some("initialize" | "server/discover") => party("server", "serverInfo", &result, message, rows),
                Some("tools/list") => list("tools", &result, message, rows),
                Some("prompts/list") => list("prompts", &result, message, rows),
                Some("resources/list") => list("resources", &result, message, rows),
                Some("resources/templates/list") => list("resourceTemplates", &result, message, rows),
                _ => {}
            }
        }
    }
}

fn party(title: &str, info: &str, says: &Map<String, Value>, message: &Message, rows: &mut Vec<CapabilityRow>) {
    let own = |name| says.get(info).and_then(|info| info.get(name)).map(plain).unwrap_or_default();
    let value = format!("{} {}", own("name"), own("version"));
    rows.push(row(0, title, value.trim(), message));
    for name in ["protocolVersion", "instructions"] {
        if let Some(value) = says.get(name) {
            rows.push(row(1, name, &plain(value), message));
        }
    }
    let capabilities = says.get("capabilities").and_then(Value::as_object);
    for (name, value) in capabilities.into_iter().flatten() {
        let options = value.as_object().filter(|options| !options.is_empty());
        let words = options.map(|options| {
            let words: Vec<String> = options.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
            words.join(", ")
        });
        rows.push(row(1, name, &words.unwrap_or_else(|| "yes".to_owned()), message));
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
