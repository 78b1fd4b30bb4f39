//! Resources: a session with its explanation, and a message. Their content is that of the tools.

use anyhow::{Context, Result, bail};
use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Value, json};

use super::recorded::{name, time};
use super::tools::AgentTool;
use crate::store::{Page, StoreReader};
use crate::view::session_list;

/// The scheme of the addresses.
const SCHEME: &str = "mcptap://";

/// Sessions that are listed. The templates reach the others.
const LISTED: usize = 50;

const JSON: &str = "application/json";

/// The latest sessions as resources.
pub fn list(reader: &StoreReader) -> Result<Vec<Resource>> {
    let listed = reader.listed_sessions(None, Page::last(LISTED))?;
    let resource = |listed: &crate::store::ListedSession| {
        let number = listed.session.number.0;
        let about =
            format!("Session with {}, from {}", name(&session_list::name(listed)), time(listed.session.started));
        Resource::new(format!("{SCHEME}session/{number}"), format!("session {number}"))
            .with_description(about)
            .with_mime_type(JSON)
    };
    Ok(listed.iter().map(resource).collect())
}

/// The forms of the addresses.
pub fn templates() -> Vec<ResourceTemplate> {
    let of = |address: &str, name: &str, about: &str| {
        ResourceTemplate::new(format!("{SCHEME}{address}"), name).with_description(about).with_mime_type(JSON)
    };
    vec![
        of("session/{session}", "session", "The causes of a problem in a recorded session"),
        of("session/{session}/message/{message}", "message", "A recorded message with its layers and findings"),
    ]
}

/// The tool and the arguments whose answer is the content of an address. `None` if no resource
/// can have the address.
pub fn call(uri: &str) -> Option<(&'static str, Value)> {
    let path: Vec<&str> = uri.strip_prefix(SCHEME)?.split('/').collect();
    match path[..] {
        ["session", session] => Some(("explain_session", json!({ "session": session.parse::<u32>().ok()? }))),
        ["session", session, "message", message] => {
            let (session, message) = (session.parse::<u32>().ok()?, message.parse::<u64>().ok()?);
            Some(("read_message", json!({ "session": session, "message": message })))
        }
        _ => None,
    }
}

/// The content of an address, as JSON.
///
/// # Errors
/// There is no such session or message, or the database cannot be read.
pub fn read(reader: &StoreReader, all: &[AgentTool], uri: &str) -> Result<String> {
    let Some((tool, Value::Object(arguments))) = call(uri) else { bail!("{uri} is no address of a resource") };
    let tool = all.iter().find(|known| known.definition.name == tool).context("a tool of resources")?;
    Ok(tool.call(reader, arguments)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_addresses_are_resources() {
        assert_eq!(call("mcptap://session/7"), Some(("explain_session", json!({ "session": 7 }))));
        let message = call("mcptap://session/7/message/12");
        assert_eq!(message, Some(("read_message", json!({ "session": 7, "message": 12 }))));
        for wrong in ["mcptap://session/", "mcptap://session/7/", "mcptap://session/-1", "file:///etc/passwd", ""] {
            assert_eq!(call(wrong), None, "{wrong}");
        }
    }
}
