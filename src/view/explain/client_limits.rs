//! Limits of clients that make them refuse a tool which the specification allows.

use std::borrow::Cow;

use crate::decode::json::Object;

/// A limit, and where it was reported. Limits change with each release of a client.
pub(super) struct ClientLimit {
    /// The client or the service behind it.
    pub client: &'static str,
    /// The date of the report.
    pub date: &'static str,
    /// What the client does with the tool.
    pub effect: &'static str,
    /// A public report with the error text.
    pub source: &'static str,
    /// What the tool has, if the limit concerns it.
    breaks: fn(&Object<'_>) -> Option<String>,
}

const LIMITS: &[ClientLimit] = &[
    ClientLimit {
        client: "Claude Code and other clients of the Anthropic API",
        date: "2026-08",
        effect: "the API refuses oneOf, allOf and anyOf at the top level of an input schema, and the client drops the \
                 tool",
        source: "github.com/anthropics/claude-code/issues/95504",
        breaks: |tool| {
            let schema = tool.object("inputSchema");
            let word = ["oneOf", "allOf", "anyOf"].into_iter().find(|word| schema.get(word).is_some())?;
            Some(format!("its input schema has {word} at the top level"))
        },
    },
    ClientLimit {
        client: "clients of the TypeScript SDK",
        date: "2026-09",
        effect: "the SDK refuses the whole list of tools",
        source: "github.com/opentokenz/mcpx/issues/28",
        breaks: |tool| {
            let has_type = |schema: &Object<'_>| schema.text("type").as_deref() == Some("object");
            let schema = ["inputSchema", "outputSchema"]
                .into_iter()
                .find(|name| tool.get(name).is_some() && !has_type(&tool.object(name)))?;
            Some(format!("its {schema} has no \"type\": \"object\""))
        },
    },
    ClientLimit {
        client: "clients of the Anthropic API",
        date: "2025-03",
        effect: "the API accepts only names of letters, digits, _ and -, up to 64 characters",
        source: "github.com/apify/tester-mcp-client/issues/11",
        breaks: |tool| {
            let name = tool.text("name")?;
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            match name.chars().count() {
                0..=64 if name.chars().all(is_allowed) => None,
                0..=64 => Some("its name has other characters than letters, digits, _ and -".to_owned()),
                length => Some(format!("its name has {length} characters")),
            }
        },
    },
];

/// A tool that a known client refuses.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub tool: String,
    /// What the tool has.
    pub reason: String,
    /// The clients and what they do, with the source.
    pub consequence: String,
}

/// The first limit that a tool breaks.
pub(super) fn refusal(tool: &str) -> Option<Refusal> {
    let object = Object::read(tool);
    let (limit, reason) = LIMITS.iter().find_map(|limit| Some((limit, (limit.breaks)(&object)?)))?;
    let ClientLimit { client, date, effect, source, .. } = limit;
    let tool = object.text("name").map(Cow::into_owned).unwrap_or_default();
    Some(Refusal { tool, reason, consequence: format!("{client}: {effect} ({source}, {date})") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_reason() {
        let reason = |tool: &str| refusal(tool).map(|refusal| refusal.reason);
        assert_eq!(reason(r#"{"name":"add","inputSchema":{"type":"object","properties":{"a":{"anyOf":[]}}}}"#), None);
        let any = reason(r#"{"name":"add","inputSchema":{"type":"object","anyOf":[{"required":["a"]}]}}"#);
        assert_eq!(any.as_deref(), Some("its input schema has anyOf at the top level"));
        let untyped = reason(r#"{"name":"add","inputSchema":{"type":"object"},"outputSchema":{}}"#);
        assert_eq!(untyped.as_deref(), Some("its outputSchema has no \"type\": \"object\""));
        let dotted = reason(r#"{"name":"a.b","inputSchema":{"type":"object"}}"#);
        assert_eq!(dotted.as_deref(), Some("its name has other characters than letters, digits, _ and -"));
        let long = reason(&format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, "a".repeat(65)));
        assert_eq!(long.as_deref(), Some("its name has 65 characters"));
    }
}
