//! What a message says about its call, as the pipeline, the store and the filters all mean it.

use crate::decode::json::{member, string};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// With a result.
    Ok,
    /// With a JSON-RPC error.
    Error,
    /// With a result that says that the tool failed (`isError`).
    ToolError,
}

impl Status {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Error => "error",
            Status::ToolError => "tool-error",
        }
    }
}

/// How this message answers its request; `None` for what is no answer.
///
/// CallToolResult: "isError?: boolean — Whether the tool call ended in an error. If not set, this is assumed to be
/// false". No other result has such a member, so the request need not be known.
pub fn status(message: &Message) -> Option<Status> {
    match message.kind {
        Kind::Error => Some(Status::Error),
        Kind::Response => {
            // Results are long and failures rare: the member is looked for before the result is read as JSON.
            let said = |result: &&str| memchr::memmem::find(result.as_bytes(), b"\"isError\"").is_some();
            let failed = part(message, "result").filter(said).and_then(|result| member(result, "isError"));
            Some(if failed == Some("true") { Status::ToolError } else { Status::Ok })
        }
        Kind::Request | Kind::Notification | Kind::Invalid => None,
    }
}

/// Bytes of a tool's name: names are for people, and a store keeps one with each message.
const NAME: usize = 200;

/// The tool that a `tools/call` calls, cut to 200 bytes; for the answer see the request that it answers.
pub fn tool(message: &Message) -> Option<String> {
    if message.method.as_deref() != Some("tools/call") {
        return None;
    }
    let mut name = string(member(part(message, "params")?, "name")?)?.into_owned();
    name.truncate(name.floor_char_boundary(NAME));
    Some(name)
}

/// The text of `params`, `result` or `error`, from where the envelope says it stands.
pub fn part<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let envelope = &message.envelope;
    let range = match name {
        "params" => &envelope.params,
        "result" => &envelope.result,
        "error" => &envelope.error,
        _ => return None,
    };
    simdutf8::basic::from_utf8(message.raw.get(range.clone()?)?).ok()
}
