//! Values that the pipeline, the store and the filters read from the content of a message.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use super::message::Message;
use crate::decode::Kind;
use crate::decode::json::{Object, array, is_json};

words! {
    /// The outcome of a request, read from its response.
    pub enum Status {
        /// A result without an error.
        Ok = "ok",
        /// A JSON-RPC error.
        Error = "error",
        /// A result with `isError`: the tool failed.
        ToolError = "tool-error",
        /// A result of a tool that worked, whose data is negative: a member named in
        /// `NEGATIVE_MEMBERS` is `false`.
        Negative = "negative",
    }
}

/// The outcome that a response reports; `None` for a message that is no response.
///
/// CallToolResult: "isError?: boolean — Whether the tool call ended in an error. If not set, this
/// is assumed to be false". No other result has such a member, so the request need not be known.
pub fn status(message: &Message) -> Option<Status> {
    match message.kind {
        Kind::Error => Some(Status::Error),
        Kind::Response => {
            let result = body(message);
            Some(match message.method.as_deref() {
                _ if result.get("isError") == Some("true") => Status::ToolError,
                Some("tools/call") if is_negative(&result) => Status::Negative,
                _ => Status::Ok,
            })
        }
        Kind::Request | Kind::Notification | Kind::Invalid => None,
    }
}

/// Members that make the data of a tool's result negative where they are `false`.
pub const NEGATIVE_MEMBERS: [&str; 3] = ["found", "exists", "success"];

/// Bytes of a result beyond which it is not searched. A longer result holds more than
/// a negative answer.
const LONGEST_NEGATIVE: usize = 4_096;

/// Whether the data of a tool's result is negative. The data is `structuredContent`, or the only
/// text where that is a JSON object (server/tools "Structured Content": "a tool that returns
/// structured content SHOULD also return the serialized JSON in a TextContent block").
fn is_negative(result: &Object<'_>) -> bool {
    if result.json().len() > LONGEST_NEGATIVE || !may_be_negative(result.json()) {
        return false;
    }
    let is_negative = |data: &str| {
        let data = Object::read(data);
        NEGATIVE_MEMBERS.iter().any(|name| data.get(name) == Some("false"))
    };
    match (result.get("structuredContent"), array(result.get("content").unwrap_or_default(), 2).as_slice()) {
        (Some(data), _) => is_negative(data),
        (None, [only]) => {
            Object::read(only).text("text").is_some_and(|text| is_json(&text) && is_negative(text.trim()))
        }
        (None, _) => false,
    }
}

/// Whether `false` may be the value of one of the names. Results are many and few are negative, so
/// this search saves unescaping and parsing.
fn may_be_negative(json: &str) -> bool {
    static FALSE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("false"));
    // What can stand between a name and its value: in a text, escaped.
    let between = |c: char| c.is_ascii_whitespace() || matches!(c, ':' | '"' | '\\' | 'n' | 'r' | 't');
    FALSE.find_iter(json.as_bytes()).any(|at| {
        let before = json[..at].trim_end_matches(between);
        NEGATIVE_MEMBERS.iter().any(|name| before.ends_with(name))
    })
}

/// Bytes of a tool name that are stored with each message. Longer names are cut: names
/// are for people.
const TOOL_NAME_BYTES: usize = 200;

/// The name of the tool that a `tools/call` request calls, cut to 200 bytes.
pub fn tool(message: &Message) -> Option<Arc<str>> {
    if message.method.as_deref() != Some("tools/call") {
        return None;
    }
    let name = body(message).text("name")?;
    Some(name[..name.floor_char_boundary(TOOL_NAME_BYTES)].into())
}

/// The members of `params`, `result` or `error`, whichever the message has.
pub fn body(message: &Message) -> Object<'_> {
    let text = message.envelope.place_of_body().and_then(|range| message.raw.part(range));
    text.map(|text| Object::indexed(text, &message.envelope.body)).unwrap_or_default()
}

/// The text of the member `params`, `result` or `error`.
pub fn part<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let envelope = &message.envelope;
    let range = match name {
        "params" => &envelope.params,
        "result" => &envelope.result,
        "error" => &envelope.error,
        _ => return None,
    };
    message.raw.part(range.clone()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_data_of_a_short_result_can_be_negative() {
        for no in [
            r#"{"content":[],"structuredContent":{"found":false,"id":7}}"#,
            r#"{"content":[{"type":"text","text":"{\"found\": false}"}],"isError":false}"#,
            r#"{"content":[{"type":"text","text":" {\"success\":false}\n"}]}"#,
        ] {
            assert!(is_negative(&Object::read(no)), "{no}");
        }
        for other in [
            r#"{"content":[],"structuredContent":{"found":true}}"#,
            r#"{"content":[],"structuredContent":{"found":"false"}}"#,
            r#"{"content":[],"structuredContent":{"rows":[{"found":false}]}}"#,
            r#"{"content":[{"type":"text","text":"found: false"}],"found":false}"#,
            r#"{"content":[{"type":"text","text":"{\"found\":false}"},{"type":"text","text":"but"}]}"#,
            "7",
        ] {
            assert!(!is_negative(&Object::read(other)), "{other}");
        }
        let long = format!(r#"{{"structuredContent":{{"found":false}},"x":"{}"}}"#, "x".repeat(LONGEST_NEGATIVE));
        assert!(!is_negative(&Object::read(&long)));
    }
}
