//! Rules about `x-mcp-header`: parameters of a tool that a client repeats in
//! HTTP headers (2026-07-28).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::findings::http::modern::decoded;
use crate::findings::{Check, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::contract::SCHEMA_BYTES;
use crate::mcp::{Method, Revisions, Transport};

pub(in crate::findings) const ANNOTATIONS: &[&Rule] = &[&ANNOTATION];
pub(in crate::findings) const HEADERS: &[&Rule] = &[&PARAM];

pub(in crate::findings) static ANNOTATION: Rule = Rule {
    id: "tools-header-annotation",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "An x-mcp-header annotation is invalid, or a tool with an invalid one was called over HTTP",
    spec: "2026-07-28 server/tools \"x-mcp-header\"",
    why: "Clients that use HTTP must leave the tool out, so their users never see it.",
    example: "\"x-mcp-header\":\"My Header\"; the same name twice; an annotation on a property of type array, or inside items",
    remedy: "Name each header once, with letters, digits and hyphens. Use it only on properties of type string, integer or boolean.",
    checks: &[
        Check::Message(RESULTS, &[Method::ToolsList], annotation),
        Check::Message(REQUESTS, &[Method::ToolsCall], called),
    ],
};

const KEYWORD: &str = "x-mcp-header";

fn annotation(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for tool in context.tools() {
        if let Some(fault) = tool.get("inputSchema").and_then(|schema| fault(schema, |_, _| {})) {
            report.add(format!("{}: {fault}", tool.text("name").unwrap_or_default()));
        }
    }
}

fn called(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.message.transport != Transport::StreamableHttp {
        return;
    }
    let Some(name) = context.body().text("name") else { return };
    let schema = context.history.tools.get(&name).and_then(|tool| tool.input.as_deref());
    if let Some(fault) = schema.and_then(|schema| fault(schema, |_, _| {})) {
        report.add(format!("{name} was called although clients must leave it out: {fault}"));
    }
}

/// The first fault in the annotations of a schema. Until there, calls `on_header` with each header
/// and with the path of property names to the argument that it repeats.
fn fault(schema: &str, mut on_header: impl FnMut(&str, &[&str])) -> Option<String> {
    let has_any = memchr::memmem::find(schema.as_bytes(), KEYWORD.as_bytes()).is_some();
    if !has_any || schema.len() > SCHEMA_BYTES {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    let mut names = BTreeSet::new();
    // Schemas to visit, each with its path. It has none if another keyword than "properties" leads
    // to the schema. The flag tells whether the value maps names to schemas.
    let mut open = vec![(&schema, Some(Vec::new()), false)];
    while let Some((value, path, is_map)) = open.pop() {
        match value {
            Value::Object(members) => {
                if let Some(name) = members.get(KEYWORD).filter(|_| !is_map) {
                    if let Some(fault) = misplaced(name, members.get("type"), path.is_some()) {
                        return Some(fault);
                    }
                    let header = name.as_str().unwrap_or_default();
                    if !names.insert(header.to_ascii_lowercase()) {
                        return Some(format!("the header {header:?} is named twice"));
                    }
                    on_header(header, path.as_deref().unwrap_or_default());
                }
                for (name, below) in members {
                    let inside = || path.as_ref().map(|path| [path.as_slice(), &[name.as_str()]].concat());
                    match name.as_str() {
                        // The values of these keywords are not schemas.
                        "default" | "examples" | "enum" | "const" if !is_map => {}
                        _ if is_map => open.push((below, inside(), false)),
                        "properties" => open.push((below, path.clone(), true)),
                        "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                            open.push((below, None, true));
                        }
                        _ => open.push((below, None, false)),
                    }
                }
            }
            Value::Array(elements) => open.extend(elements.iter().map(|element| (element, None, false))),
            _ => {}
        }
    }
    None
}

fn misplaced(name: &Value, kind: Option<&Value>, is_reachable: bool) -> Option<String> {
    let Some(name) = name.as_str() else { return Some(format!("{KEYWORD} is not a string")) };
    // RFC 9110 section 5.6.2: token = 1*tchar.
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let kind = kind.and_then(Value::as_str);
    match kind {
        _ if name.is_empty() => Some(format!("{KEYWORD} is empty")),
        _ if !name.bytes().all(is_tchar) => Some(format!("the header {name:?} is not a token (RFC 9110)")),
        _ if !is_reachable => Some(format!("the header {name:?} is on a schema that no chain of properties reaches")),
        Some("string" | "integer" | "boolean") => None,
        Some(kind) => Some(format!("the header {name:?} is on a value of type {kind}")),
        None => Some(format!("the header {name:?} is on a value without a primitive type")),
    }
}

static PARAM: Rule = Rule {
    id: "http-header-param",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "An Mcp-Param header is missing, contradicts its argument, or has no argument",
    spec: "2026-07-28 basic/transports/streamable-http \"Custom Headers from Tool Parameters\"",
    why: "Proxies route by the header, and the server acts on the argument. Servers must answer 400 with -32020 if they differ.",
    example: "Mcp-Param-Region: us with the body {\"arguments\":{\"region\":\"eu\"}}",
    remedy: "Fill the header from the argument, as =?base64?…?= if it is not plain ASCII. Leave it out if the argument is null or absent.",
    checks: &[Check::Message(REQUESTS, &[Method::ToolsCall], param)],
};

fn param(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let (Some(mcp), Some(name)) = (context.exchange, context.body().text("name")) else { return };
    let schema = context.history.tools.get(&name).and_then(|tool| tool.input.as_deref());
    // Invalid annotations have no effect.
    let Some(schema) = schema.filter(|schema| fault(schema, |_, _| {}).is_none()) else { return };
    let arguments = context.body().get("arguments").and_then(|text| serde_json::from_str(text).ok());
    let arguments: Value = arguments.unwrap_or_default();
    fault(schema, |header, path| {
        let argument = path.iter().try_fold(&arguments, |value, name| value.get(name)).filter(|value| !value.is_null());
        let sent = mcp.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
        let argument_path = path.join("/");
        match (argument, sent) {
            (Some(_), None) => report.add(format!("the argument {argument_path} was sent without Mcp-Param-{header}")),
            (None, Some(_)) => report.add(format!("Mcp-Param-{header} was sent without the argument {argument_path}")),
            (Some(argument), Some((_, value))) if !agrees(argument, value) => {
                report.add(format!("Mcp-Param-{header} is {value:?}, but the argument {argument_path} is {argument}"));
            }
            _ => {}
        }
    });
}

/// Whether a header has the same value as an argument. Numbers are compared by value: 42.0 equals
/// 42. A header that cannot be decoded has its own rule.
fn agrees(argument: &Value, header: &str) -> bool {
    let Some(decoded) = decoded(header) else { return true };
    match argument {
        Value::String(text) => *text == decoded,
        Value::Bool(truth) => decoded == truth.to_string(),
        Value::Number(number) => {
            decoded == number.to_string() || decoded.parse() == Ok(number.as_f64().unwrap_or(f64::NAN))
        }
        // Arguments of other types are reported by the rule about schemas.
        Value::Null | Value::Array(_) | Value::Object(_) => true,
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
            let found = fault(&schema(property), |_, _| {}).unwrap_or_default();
            assert!(found.contains(wrong), "{property}: {found:?}");
        }
        for property in [
            r#"{"type":"integer","x-mcp-header":"A"}"#,
            r#"{"type":"object","properties":{"x-mcp-header":{"type":"string","x-mcp-header":"A"}}}"#,
            r#"{"type":"string","default":{"x-mcp-header":""}}"#,
        ] {
            assert_eq!(fault(&schema(property), |_, _| {}), None, "{property}");
        }
    }

    #[test]
    fn arguments_are_repeated_in_headers() {
        let rule = "http-header-param";
        let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"level":{"type":"integer","x-mcp-header":"Level"}}}}}}"#
            .replace('\n', "");
        let more = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
        let ask = |id: u32, method: &str, params: &str, headers: &str| {
            let headers = format!("MCP-Protocol-Version: 2026-07-28\nMcp-Method: {method}\n{headers}");
            post(&headers, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{}}}"#, modern(params)))
        };
        let call = |headers: &str, arguments: &str| {
            [
                ask(1, "tools/list", "", ""),
                json(200, "", &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}],{more}}}}}"#)),
                ask(2, "tools/call", &format!(r#""name":"t","arguments":{arguments}"#), headers),
            ]
        };
        let level = r#"{"deep":{"level":42}}"#;
        for (headers, arguments) in [
            ("", r#"{"region":"eu"}"#),
            ("Mcp-Param-Region: us\n", r#"{"region":"eu"}"#),
            ("Mcp-Param-Region: eu\n", r#"{"region":null}"#),
            ("Mcp-Param-Level: 43\n", level),
        ] {
            fires(rule, &call(headers, arguments));
        }
        for (headers, arguments) in [
            ("", "{}"),
            ("", r#"{"region":null}"#),
            ("mcp-param-region: eu\n", r#"{"region":"eu"}"#),
            ("Mcp-Param-Region: =?base64?w6k=?=\n", r#"{"region":"é"}"#),
            ("Mcp-Param-Level: 42\n", level),
            ("Mcp-Param-Level: 42.0\n", level),
            ("Mcp-Param-Other: x\n", "{}"),
        ] {
            silent(rule, &call(headers, arguments));
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
