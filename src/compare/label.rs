//! The label of a request: its method and its subject.

use std::fmt;

use crate::decode::json::{member, string};
use crate::mcp::Message;
use crate::mcp::content::part;

/// The label of a request: its method, and the tool, prompt or resource that it addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The method of the request.
    pub method: String,
    /// The value of `params.name` or `params.uri`.
    pub subject: Option<String>,
}

impl Label {
    /// The label of a request or notification.
    pub fn of(message: &Message) -> Label {
        let method = message.method.as_deref().unwrap_or_default().to_owned();
        Label { subject: subject(&method, part(message, "params").unwrap_or_default()), method }
    }
}

/// The name or URI in `params`, for methods that address a tool, prompt or resource.
pub fn subject(method: &str, params: &str) -> Option<String> {
    let name = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return None,
    };
    Some(string(member(params, name)?)?.into_owned())
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.method)?;
        self.subject.as_ref().map_or(Ok(()), |subject| write!(f, " {subject}"))
    }
}
