//! The tools: names, descriptions, schemas, and the functions behind them.

mod check;
mod compare;
mod explain;
mod message;
mod search;
mod sessions;
mod statistics;

use std::any::Any;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rmcp::handler::server::common::{schema_for_output, schema_for_type};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::NOTICE;
use crate::mcp::{Session, SessionNumber};
use crate::store::{CaptureId, CaptureKind, ListedSession, Page, StoreReader};

/// A tool of the server.
pub struct AgentTool {
    /// The definition that clients get.
    pub definition: Tool,
    run: Box<ToolFunction>,
}

/// Arguments in, structured content out.
type ToolFunction = dyn Fn(&StoreReader, JsonObject) -> Result<Value> + Send + Sync;

impl AgentTool {
    /// Calls the tool.
    ///
    /// # Errors
    /// The arguments are wrong, or the database cannot be read.
    pub fn call(&self, reader: &StoreReader, arguments: JsonObject) -> Result<Value> {
        (self.run)(reader, arguments)
    }
}

/// All tools, in the order in which an agent needs them.
pub fn all() -> Vec<AgentTool> {
    vec![
        tool("list_sessions", "List sessions", sessions::DESCRIPTION, sessions::list),
        tool("explain_session", "Explain a session", explain::DESCRIPTION, explain::explain),
        tool("search_messages", "Search messages", search::description(), search::search),
        tool("read_message", "Read a message", message::DESCRIPTION, message::read),
        tool("tool_statistics", "Statistics of tools", statistics::DESCRIPTION, statistics::statistics),
        tool("check_session", "Check a session", check::description(), check::check),
        tool("compare_sessions", "Compare two sessions", compare::DESCRIPTION, compare::compare),
    ]
}

fn tool<Arguments: JsonSchema + DeserializeOwned + Any, Answer: JsonSchema + Serialize + Any>(
    name: &'static str,
    title: &str,
    description: impl Into<std::borrow::Cow<'static, str>>,
    function: fn(&StoreReader, Arguments) -> Result<Answer>,
) -> AgentTool {
    let mut input = compact(&schema_for_type::<Arguments>());
    input.remove("description");
    let annotations = ToolAnnotations::new().read_only(true).idempotent(true).destructive(false).open_world(false);
    let mut definition = Tool::new(name, description, Arc::new(input));
    definition.title = Some(title.to_owned());
    definition.output_schema = Some(Arc::new(compact(&schema_for_output::<Answer>())));
    definition.annotations = Some(annotations);
    let run = move |reader: &StoreReader, arguments: JsonObject| {
        let arguments = serde_json::from_value(Value::Object(arguments)).context("the arguments are wrong")?;
        Ok(serde_json::to_value(function(reader, arguments)?)?)
    };
    AgentTool { definition, run: Box::new(run) }
}

/// A schema without what tells a model nothing: every definition is a part of its context.
fn compact(schema: &JsonObject) -> JsonObject {
    const NOISE: [&str; 4] = ["$schema", "format", "minimum", "title"];
    let shorter = |(name, value): (&String, &Value)| {
        let value = match value {
            // An optional member is left out, never null. Some clients do not know lists of types.
            Value::Array(types) if name == "type" && types.len() == 2 => {
                types.iter().find(|kind| *kind != "null").cloned().unwrap_or_default()
            }
            Value::Array(words) if name == "enum" => words.iter().filter(|word| !word.is_null()).cloned().collect(),
            // The members of `properties` have names that an object chose.
            Value::Object(members) if name == "properties" || name == "$defs" => {
                let member = |(name, value): (&String, &Value)| (name.clone(), compact_value(value));
                Value::Object(members.iter().map(member).collect())
            }
            value => compact_value(value),
        };
        (name.clone(), value)
    };
    let tells =
        |(name, value): &(&String, &Value)| !(NOISE.contains(&name.as_str()) || *name == "default" && value.is_null());
    schema.iter().filter(tells).map(shorter).collect()
}

fn compact_value(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(compact(members)),
        Value::Array(elements) => Value::Array(elements.iter().map(compact_value).collect()),
        other => other.clone(),
    }
}

/// An answer as text: the JSON, behind the sentence that it is data.
pub fn text(answer: &Value) -> String {
    format!("{NOTICE}\n{answer}")
}

/// The name of this program as a server. Its own sessions are not the latest.
pub const SERVER: &str = "mcptap";

/// Sessions that are read at once in search of the latest one.
const PAGE: usize = 100;

/// The session with this number. Without one it is the latest recording that is neither a replay
/// nor one of this server itself.
pub fn session(reader: &StoreReader, number: Option<u32>) -> Result<(Session, CaptureId)> {
    if let Some(number) = number {
        let number = SessionNumber(number);
        let Some(session) = reader.session(number)? else {
            bail!("there is no session {}: list_sessions lists them", number.0)
        };
        let capture = reader.capture_of(number)?.context("the session is being deleted")?;
        return Ok((session, capture));
    }
    let mut page = Page::last(PAGE);
    loop {
        let listed = reader.listed_sessions(None, page)?;
        let Some(last) = listed.last() else { bail!("no session is recorded yet: \"mcptap wrap\" records a server") };
        page = Page::back_from(SessionNumber(last.session.number.0.saturating_sub(1)), PAGE);
        let is_meant = |listed: &ListedSession| {
            let own = listed.session.server.as_ref().is_some_and(|server| server.name == SERVER);
            !own && listed.capture.info.kind != CaptureKind::Replay
        };
        if let Some(found) = listed.into_iter().find(is_meant) {
            return Ok((found.session, found.capture.id));
        }
        if page.from == Some(SessionNumber(0)) {
            bail!("no session is recorded yet: \"mcptap wrap\" records a server");
        }
    }
}
