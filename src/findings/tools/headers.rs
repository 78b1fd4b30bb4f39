//! `x-mcp-header`: parameters of a tool that a client repeats in HTTP headers (2026-07-28).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::findings::report::Report;
use crate::findings::rule::{REQUESTS, RESULTS};
use crate::findings::seen::Seen;
use crate::findings::{Check, Rule, Severity};
use crate::mcp::Transport;
use crate::mcp::contract::SCHEMA_BYTES;
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;

/// The rules of this file.
pub(in crate::findings) const RULES: &[&Rule] = &[&ANNOTATION];

static ANNOTATION: Rule = Rule {
    id: "tools-header-annotation",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    layer: "tools",
    title: "An x-mcp-header that breaks its constraints, or a call over HTTP of such a tool",
    spec: "2026-07-28 server/tools \"x-mcp-header\"",
    why: "Clients over HTTP have to leave the tool out: its users never see it.",
    example: "\"x-mcp-header\":\"My Header\"; the same name twice; one on a property of type array, or inside items",
    remedy: "Name each header once, in letters, digits and hyphens, on properties of type string, integer or boolean.",
    checks: &[
        Check::Message(RESULTS, &[Method::ToolsList], annotation),
        Check::Message(REQUESTS, &[Method::ToolsCall], called),
    ],
};

const KEYWORD: &str = "x-mcp-header";

fn annotation(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    for tool in seen.tools() {
        if let Some(fault) = tool.get("inputSchema").and_then(fault) {
            report.say(format!("{}: {fault}", tool.text("name").unwrap_or_default()));
        }
    }
}

fn called(seen: &Seen<'_, '_>, report: &mut Report<'_>) {
    if seen.message.transport != Transport::StreamableHttp {
        return;
    }
    let Some(name) = seen.body().text("name") else { return };
    let schema = seen.history.tools.get(&name).and_then(|tool| tool.input.as_deref());
    if let Some(fault) = schema.and_then(fault) {
        report.say(format!("{name} was called although clients have to leave it out: {fault}"));
    }
}

/// What is wrong with the annotations of a schema.
fn fault(schema: &str) -> Option<String> {
    let has_any = memchr::memmem::find(schema.as_bytes(), KEYWORD.as_bytes()).is_some();
    if !has_any || schema.len() > SCHEMA_BYTES {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    let mut names = BTreeSet::new();
    // Schemas still to be looked at, with whether a chain of "properties" alone leads to them, and whether they are a map of
    // names to schemas.
    let mut open = vec![(&schema, true, false)];
    while let Some((value, is_reachable, is_map)) = open.pop() {
        match value {
            Value::Object(members) => {
                let annotation = members.get(KEYWORD).filter(|_| !is_map);
                if let Some(fault) = annotation.and_then(|name| misplaced(name, members.get("type"), is_reachable)) {
                    return Some(fault);
                }
                if let Some(name) = annotation.and_then(Value::as_str)
                    && !names.insert(name.to_ascii_lowercase())
                {
                    return Some(format!("the header {name:?} is named twice"));
                }
                for (name, below) in members {
                    match name.as_str() {
                        // What these hold is no schema.
                        "default" | "examples" | "enum" | "const" if !is_map => {}
                        _ if is_map => open.push((below, is_reachable, false)),
                        "properties" => open.push((below, is_reachable, true)),
                        "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                            open.push((below, false, true));
                        }
                        _ => open.push((below, false, false)),
                    }
                }
            }
            Value::Array(elements) => open.extend(elements.iter().map(|element| (element, false, false))),
            _ => {}
        }
    }
    None
}

fn misplaced(name: &Value, kind: Option<&Value>, is_reachable: bool) -> Option<String> {
    let Some(name) = name.as_str() else { return Some(format!("{KEYWORD} is no string")) };
    // RFC 9110 section 5.6.2: token = 1*tchar.
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let kind = kind.and_then(Value::as_str);
    match kind {
        _ if name.is_empty() => Some(format!("{KEYWORD} is empty")),
        _ if !name.bytes().all(is_tchar) => Some(format!("the header {name:?} is no token (RFC 9110)")),
        _ if !is_reachable => Some(format!("the header {name:?} stands where no chain of properties leads")),
        Some("string" | "integer" | "boolean") => None,
        Some(kind) => Some(format!("the header {name:?} stands on a value of type {kind}")),
        None => Some(format!("the header {name:?} stands on a value without one primitive type")),
    }
}

#[cfg(test)]
mod tests {
    use super::fault;
    use crate::findings::testing::{fires, json, modern, post, silent};

    fn schema(property: &str) -> String {
        format!(r#"{{"type":"object","properties":{{"a":{property},"b":{{"type":"string","x-mcp-header":"B"}}}}}}"#)
    }

    #[test]
    fn constraints_of_the_annotation() {
        for (property, wrong) in [
            (r#"{"type":"string","x-mcp-header":""}"#, "empty"),
            (r#"{"type":"string","x-mcp-header":"a b"}"#, "token"),
            (r#"{"type":"string","x-mcp-header":"b"}"#, "twice"),
            (r#"{"type":"number","x-mcp-header":"A"}"#, "number"),
            (r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#, "chain"),
        ] {
            let found = fault(&schema(property)).unwrap_or_default();
            assert!(found.contains(wrong), "{property}: {found:?}");
        }
        for property in [
            r#"{"type":"integer","x-mcp-header":"A"}"#,
            r#"{"type":"object","properties":{"x-mcp-header":{"type":"string","x-mcp-header":"A"}}}"#,
            r#"{"type":"string","default":{"x-mcp-header":""}}"#,
        ] {
            assert_eq!(fault(&schema(property)), None, "{property}");
        }
    }

    #[test]
    fn tools_that_clients_leave_out() {
        let rule = "tools-header-annotation";
        let request = |id: u32, method: &str, params: &str| {
            let headers = format!("MCP-Protocol-Version: 2026-07-28\nMcp-Method: {method}\n");
            post(&headers, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{}}}"#, modern(params)))
        };
        let conversation = |property: &str| {
            let tool = format!(r#"{{"name":"t","inputSchema":{}}}"#, schema(property));
            let more = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
            [
                request(1, "tools/list", ""),
                json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}],{more}}}}}"#)),
                request(2, "tools/call", r#""name":"t","arguments":{}"#),
            ]
        };
        let bad = conversation(r#"{"type":"number","x-mcp-header":"A"}"#);
        fires(rule, &bad);
        let found = crate::findings::testing::findings(&bad);
        assert!(found.iter().any(|finding| finding.text.contains("was called")));
        silent(rule, &conversation(r#"{"type":"integer","x-mcp-header":"A"}"#));
    }
}
