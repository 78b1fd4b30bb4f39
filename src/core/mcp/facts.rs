//! What a message says about its call, as the pipeline, the store and the filters all mean it.

use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use super::message::Message;
use crate::decode::json::{Object, array, is_json};
use crate::decode::jsonrpc::Kind;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// With a result.
    Ok,
    /// With a JSON-RPC error.
    Error,
    /// With a result that says that the tool failed (`isError`).
    ToolError,
    /// With a result of a tool that did its work and says no: a member of its data that is `false` (`NO`).
    Negative,
}

impl Status {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Error => "error",
            Status::ToolError => "tool-error",
            Status::Negative => "negative",
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
            let result = body(message);
            Some(match message.method.as_deref() {
                _ if result.get("isError") == Some("true") => Status::ToolError,
                Some("tools/call") if says_no(&result) => Status::Negative,
                _ => Status::Ok,
            })
        }
        Kind::Request | Kind::Notification | Kind::Invalid => None,
    }
}

/// Members by which the data of a tool's result says no, where they are `false`.
pub const NO: [&str; 3] = ["found", "exists", "success"];

/// Results longer than this say more than no.
const SHORT: usize = 4_096;

/// Whether the data of a tool's result says no: `structuredContent`, or the one text that is a JSON object (server/tools "Structured
/// Content": "a tool that returns structured content SHOULD also return the serialized JSON in a TextContent block").
fn says_no(result: &Object<'_>) -> bool {
    // Results are many and these words are rare in them: they are looked for before what a result holds is unescaped and read.
    static WORDS: LazyLock<[Finder<'_>; NO.len()]> = LazyLock::new(|| NO.map(Finder::new));
    let text = result.json().as_bytes();
    if text.len() > SHORT || !WORDS.iter().any(|word| word.find(text).is_some()) {
        return false;
    }
    let no = |data: &str| {
        let data = Object::read(data);
        NO.iter().any(|name| data.get(name) == Some("false"))
    };
    match (result.get("structuredContent"), array(result.get("content").unwrap_or_default(), 2).as_slice()) {
        (Some(data), _) => no(data),
        (None, [only]) => Object::read(only).text("text").is_some_and(|text| is_json(&text) && no(text.trim())),
        (None, _) => false,
    }
}

/// Bytes of a tool's name: names are for people, and a store keeps one with each message.
const NAME: usize = 200;

/// The tool that a `tools/call` calls, cut to 200 bytes; for the answer see the request that it answers.
pub fn tool(message: &Message) -> Option<Arc<str>> {
    if message.method.as_deref() != Some("tools/call") {
        return None;
    }
    let name = body(message).text("name")?;
    Some(name[..name.floor_char_boundary(NAME)].into())
}

/// The members of `params`, `result` or `error`: of whichever makes the message what it is.
pub fn body(message: &Message) -> Object<'_> {
    let text = message.envelope.place_of_body().and_then(|place| message.raw.part(place));
    text.map(|text| Object::indexed(text, &message.envelope.body)).unwrap_or_default()
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
    message.raw.part(range.clone()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_no_is_the_data_of_a_short_result() {
        for no in [
            r#"{"content":[],"structuredContent":{"found":false,"id":7}}"#,
            r#"{"content":[{"type":"text","text":"{\"found\": false}"}],"isError":false}"#,
            r#"{"content":[{"type":"text","text":" {\"success\":false}\n"}]}"#,
        ] {
            assert!(says_no(&Object::read(no)), "{no}");
        }
        for other in [
            r#"{"content":[],"structuredContent":{"found":true}}"#,
            r#"{"content":[],"structuredContent":{"found":"false"}}"#,
            r#"{"content":[],"structuredContent":{"rows":[{"found":false}]}}"#,
            r#"{"content":[{"type":"text","text":"found: false"}],"found":false}"#,
            r#"{"content":[{"type":"text","text":"{\"found\":false}"},{"type":"text","text":"but"}]}"#,
            "7",
        ] {
            assert!(!says_no(&Object::read(other)), "{other}");
        }
        let long = format!(r#"{{"structuredContent":{{"found":false}},"x":"{}"}}"#, "x".repeat(SHORT));
        assert!(!says_no(&Object::read(&long)));
    }
}
