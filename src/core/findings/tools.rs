//! Rules about tools: listed tools, calls, and whether values match their schemas.

pub(super) mod headers;
pub(super) mod hidden;
pub(super) mod listing;
pub(super) mod unchecked;

use std::borrow::Cow;

use super::schema::revision;
use super::{Check, ERRORS, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::{self, Object};
use crate::mcp::contract::Verdict;
use crate::mcp::revision::Revision::{self, V2025_06_18, V2025_11_25, V2026_07_28};
use crate::mcp::{Method, Revisions};

pub(super) const RULES: &[&Rule] = &[
    &CALL_UNKNOWN,
    &ARGUMENTS,
    &ARGUMENTS_ACCEPTED,
    &SCHEMA,
    &STRUCTURED_MISSING,
    &STRUCTURED_MISMATCH,
    &STRUCTURED_NO_TEXT,
    &ERROR_CHANNEL,
    &NAME,
];

static CALL_UNKNOWN: Rule = Rule {
    id: "tools-call-unknown",
    severity: Severity::Warning,
    title: "A call to a tool that the server did not list",
    spec: "server/tools \"Error Handling\": unknown tools are protocol errors",
    why: "The model or the client invented the name, or uses an outdated list.",
    example: "tools/call of get_team when tools/list named get_user and get_devices",
    remedy: "Request the list again after notifications/tools/list_changed. Offer the model only listed tools.",
    checks: &[Check::Any(REQUESTS, &[Method::ToolsCall], call_unknown)],
    ..Rule::BLANK
};

fn call_unknown(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(name) = context.body().text("name") else { return };
    let tools = &context.history.tools;
    if tools.is_complete && tools.get(&name).is_none() {
        report.add(format!("the server listed no tool {name:?}"));
    } else if !context.history.requested_tools
        && context.history.is_whole()
        && context.is_one_client()
        && !context.history.called_unlisted.contains(&*name)
    {
        report.add_as(Severity::Info, format!("{name:?} was called, but the tools were never listed"));
    }
}

static ARGUMENTS: Rule = Rule {
    id: "tools-arguments-invalid",
    severity: Severity::Warning,
    title: "The arguments of a call do not match the tool's inputSchema",
    spec: "server/tools \"Tool\"",
    why: "The tool fails, or does something unintended.",
    example: "{\"city\":7} for {\"properties\":{\"city\":{\"type\":\"string\"}}}",
    remedy: "Validate arguments before the call. Make sure that descriptions and schemas agree.",
    checks: &[Check::Any(REQUESTS, &[Method::ToolsCall], violation)],
    ..Rule::BLANK
};

/// The verdict on the value of a call against the schema that the server published.
fn call_verdict<'c>(context: &'c MessageContext<'_, '_>) -> Option<&'c Verdict> {
    let verdict = || {
        let (schema, value) = schema_and_value(context)?;
        Some(context.schemas.borrow_mut().check(revision(context)?, schema, value))
    };
    context.call_verdict.get_or_init(verdict).as_ref()
}

/// The value that a message of a call holds, after its schema: the arguments of a request, or the
/// structured content of a result.
fn schema_and_value<'c>(context: &'c MessageContext<'_, '_>) -> Option<(&'c str, &'c str)> {
    if context.is_from_client() { arguments(context) } else { structured(context) }
}

/// The inputSchema of the called tool, and the arguments.
fn arguments<'c>(context: &'c MessageContext<'_, '_>) -> Option<(&'c str, &'c str)> {
    let schema = context.history.tools.get(&context.body().text("name")?)?.input.as_deref()?;
    // "arguments?: { [key: string]: unknown }": missing arguments count as an empty object.
    let arguments = context.body().get("arguments").unwrap_or("{}");
    // Arguments that are not an object are reported by `schema-request-invalid`.
    arguments.starts_with('{').then_some((schema, arguments))
}

/// The name of the tool that a message calls, or that it answers for.
fn tool_name<'c>(context: &'c MessageContext<'_, '_>) -> Cow<'c, str> {
    match context.is_from_client() {
        true => context.body().text("name").unwrap_or_default(),
        false => context.request.and_then(|request| request.subject.as_deref()).unwrap_or_default().into(),
    }
}

/// Reports the first violation of a call's schema.
fn violation(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(Verdict::Broken(violations)) = call_verdict(context)
        && let Some(violation) = violations.first()
    {
        report.add(format!("{}: {violation}", tool_name(context)));
    }
}

static ARGUMENTS_ACCEPTED: Rule = Rule {
    id: "tools-arguments-invalid-accepted",
    severity: Severity::Info,
    title: "The server accepted a call whose arguments do not match the inputSchema",
    spec: "server/tools \"Security Considerations\": \"Servers MUST: Validate all tool inputs\"",
    why: "Input that the server's code does not expect reaches the tool.",
    example: "a result for {\"count\":\"many\"} although the schema requires an integer",
    remedy: "Validate arguments against the schema before acting, or loosen the schema.",
    checks: &[Check::Any(RESULTS, &[Method::ToolsCall], accepted)],
    ..Rule::BLANK
};

fn accepted(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_error = context.body().get("isError") == Some("true");
    if let Some(request) = context.request.filter(|request| request.breaks.contains(&ARGUMENTS.id) && !is_error) {
        let text = format!("the arguments of message {} do not match the schema", request.number.0);
        report.add_about(&[request.number], text);
    }
}

pub(super) static SCHEMA: Rule = Rule {
    id: "tools-schema-invalid",
    severity: Severity::Error,
    title: "An inputSchema or outputSchema is not a JSON Schema of an object",
    spec: "server/tools \"Tool\"; 2025-11-25 basic/index \"JSON Schema Usage\"",
    why: "Clients and models refuse the tool, and often the whole list.",
    example: "\"inputSchema\":null; or {\"type\":\"text\"}",
    remedy: "Send {\"type\":\"object\",\"additionalProperties\":false} for a tool without parameters. Name the dialect in $schema.",
    checks: &[Check::Any(RESULTS, &[Method::ToolsList], schema)],
    ..Rule::BLANK
};

fn schema(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(known) = revision(context) else { return };
    for tool in context.tools() {
        let name = tool.text("name").unwrap_or_default();
        for member in ["inputSchema", "outputSchema"] {
            let Some(text) = tool.get(member) else { continue };
            if !text.starts_with('{') {
                report.add(format!("{name}: {member} is not an object"));
                continue;
            }
            let is_object = Object::read(text).text("type").is_some_and(|kind| kind == "object");
            // From 2026-07-28 on, the output may be any JSON value.
            let may_be_other = member == "outputSchema" && known >= Revision::V2026_07_28;
            if !is_object && !may_be_other {
                report.add(format!("{name}: the type of {member} is not \"object\""));
            } else if let Verdict::NoSchema(why) = context.schemas.borrow_mut().schema(known, text) {
                report.add(format!("{name}: {member} is not a JSON Schema: {why}"));
            }
        }
    }
}

static STRUCTURED_MISSING: Rule = Rule {
    id: "tools-structured-missing",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_06_18),
    title: "A tool with an outputSchema returned no structuredContent",
    spec: "server/tools \"Output Schema\": \"Servers MUST provide structured results that conform to this schema\"",
    why: "Clients that rely on the schema treat the call as failed.",
    example: "{\"content\":[…]} of a tool that has an outputSchema",
    remedy: "Add structuredContent to every successful result, or remove the outputSchema.",
    checks: &[Check::Message(RESULTS, &[Method::ToolsCall], structured_missing)],
};

/// The outputSchema that a result must follow. `None` if there is none, or if the result is an
/// error, a task or incomplete.
fn promised_schema<'s>(context: &MessageContext<'s, '_>) -> Option<&'s str> {
    let request = context.request?;
    let is_whole = !request.is_task
        && context.body().get("isError") != Some("true")
        && context.body().text("resultType").is_none_or(|kind| kind == "complete");
    let tool = context.history.tools.get(request.subject.as_deref()?)?;
    tool.output.as_deref().filter(|schema| is_whole && *schema != "null")
}

fn structured_missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if promised_schema(context).is_some() && context.body().get("structuredContent").is_none() {
        let name = tool_name(context);
        report.add(format!("{name} has an outputSchema, but its result has no structuredContent"));
    }
}

static STRUCTURED_MISMATCH: Rule = Rule {
    id: "tools-structured-mismatch",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_06_18),
    title: "structuredContent does not match the tool's outputSchema",
    spec: "server/tools \"Output Schema\": \"Servers MUST provide structured results that conform to this schema\"",
    why: "Clients that validate treat the call as failed. Others work with values that they do not expect.",
    example: "{\"temperature\":\"22\"} although the schema requires a number",
    remedy: "Validate the result before sending it, or correct the schema.",
    checks: &[Check::Message(RESULTS, &[Method::ToolsCall], violation)],
};

/// The outputSchema of the called tool, and the structured content.
fn structured<'c>(context: &'c MessageContext<'_, '_>) -> Option<(&'c str, &'c str)> {
    Some((promised_schema(context)?, context.body().get("structuredContent")?))
}

static STRUCTURED_NO_TEXT: Rule = Rule {
    id: "tools-structured-no-text",
    severity: Severity::Info,
    revisions: Revisions::since(V2025_06_18),
    title: "structuredContent without the same content as text",
    spec: "server/tools \"Structured Content\": \"a tool that returns structured content SHOULD also return the serialized JSON in a TextContent block\"",
    why: "Clients that do not support structuredContent show nothing.",
    example: "{\"content\":[],\"structuredContent\":{…}}",
    remedy: "Add the JSON as a text block.",
    checks: &[Check::Message(RESULTS, &[Method::ToolsCall], structured_no_text)],
};

fn structured_no_text(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_structured = context.body().get("structuredContent").is_some_and(|value| value != "null");
    // Any text block may contain the JSON: a server may format it differently.
    let has_text = || {
        context.body().get("content").is_some_and(|content| {
            let is_text = |block: &&str| Object::read(block).text("type").is_some_and(|kind| kind == "text");
            json::array(content, 64).iter().any(is_text)
        })
    };
    if is_structured && !has_text() {
        report.add("the result has no text block");
    }
}

static ERROR_CHANNEL: Rule = Rule {
    id: "tools-error-channel",
    severity: Severity::Info,
    title: "A failure was reported in a way that the revision does not intend",
    spec: "server/tools \"Error Handling\"; 2025-11-25 changelog (SEP-1303)",
    why: "Protocol errors are for clients, and isError is for models. A model cannot correct a mistake that it does not see.",
    example: "an unknown tool answered with isError, or, from 2025-11-25 on, invalid arguments with -32602",
    remedy: "Answer -32602 for an unknown tool. Use isError for mistakes that the model can correct.",
    checks: &[
        Check::Any(RESULTS, &[Method::ToolsCall], unknown_as_result),
        Check::Message(ERRORS, &[Method::ToolsCall], invalid_as_error),
    ],
    ..Rule::BLANK
};

fn unknown_as_result(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(name) = context.request.and_then(|request| request.subject.as_deref()) else { return };
    let tools = &context.history.tools;
    let is_unknown = tools.is_complete && tools.get(name).is_none();
    if is_unknown && context.body().get("isError") == Some("true") {
        report.add(format!("the unknown tool {name:?} was answered with isError"));
    }
}

fn invalid_as_error(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_after_termination = context.revisions().within(Revisions::since(V2025_11_25));
    let is_invalid = context.request.is_some_and(|request| request.breaks.contains(&ARGUMENTS.id));
    if is_after_termination && is_invalid && context.body().get("code") == Some("-32602") {
        report.add("invalid arguments were answered with -32602");
    }
}

pub(super) static NAME: Rule = Rule {
    id: "tools-name-invalid",
    severity: Severity::Warning,
    title: "A tool's name contains characters that are not allowed, or is used twice",
    spec: "2025-11-25 server/tools \"Tool Names\"; before: unique within a server",
    why: "Model providers refuse such names. If two tools have the same name, only one of them can be called.",
    example: "\"name\":\"get weather!\"",
    remedy: "Use 1 to 128 of A-Z, a-z, 0-9, _, - and the dot.",
    checks: &[Check::Any(RESULTS, &[Method::ToolsList], name)],
    ..Rule::BLANK
};

fn name(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let has_grammar = context.revisions().within(Revisions::between(V2025_11_25, V2026_07_28));
    let tools = context.tools();
    let mut names: Vec<_> = tools.iter().filter_map(|tool| tool.text("name")).collect();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    for name in names.iter().filter(|_| has_grammar) {
        if name.is_empty() || name.len() > 128 || !name.bytes().all(is_allowed) {
            report.add(format!("the tool name {:?} is not allowed", &name[..name.floor_char_boundary(160)]));
        }
    }
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
        report.add(format!("the tool {:?} is listed twice", pair[0]));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const LIST: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

    fn listed(tools: &str) -> String {
        format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}]}}}}"#)
    }

    const ADD: &str = r#"{"name":"add","inputSchema":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},"outputSchema":{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}}"#;

    /// A session that lists `add`, and then has this call and response.
    fn called(version: &str, params: &str, answer: &str) -> Vec<String> {
        let call = format!(r#"> {{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#);
        let answer = format!(r#"< {{"jsonrpc":"2.0","id":2,{answer}}}"#);
        session(version, &[LIST, &listed(ADD), &call, &answer])
    }

    const GOOD: &str = r#"{"name":"add","arguments":{"a":1}}"#;
    const BAD: &str = r#"{"name":"add","arguments":{"a":"1"}}"#;
    const SUM: &str = r#""result":{"content":[{"type":"text","text":"2"}],"structuredContent":{"sum":2}}"#;

    #[test]
    fn called_tools_were_listed() {
        let unknown = called("2025-06-18", r#"{"name":"sub"}"#, r#""error":{"code":-32602,"message":"x"}"#);
        fires("tools-call-unknown", &unknown);
        silent("tools-call-unknown", &called("2025-06-18", GOOD, SUM));
        let as_result = called("2025-06-18", r#"{"name":"sub"}"#, r#""result":{"content":[],"isError":true}"#);
        fires("tools-error-channel", &as_result);
        silent("tools-error-channel", &unknown);
        let call = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
        assert_eq!(fires("tools-call-unknown", &session("2025-06-18", &[call])).severity.name(), "info");
    }

    #[cfg(feature = "schema")]
    #[test]
    fn arguments_and_results_follow_their_schemas() {
        fires("tools-arguments-invalid", &called("2025-06-18", BAD, SUM));
        fires("tools-arguments-invalid-accepted", &called("2025-06-18", BAD, SUM));
        let refused = r#""error":{"code":-32602,"message":"x"}"#;
        fires("tools-error-channel", &called("2025-11-25", BAD, refused));
        silent("tools-error-channel", &called("2025-06-18", BAD, refused));
        silent("tools-arguments-invalid-accepted", &called("2025-06-18", BAD, refused));
        fires("tools-structured-mismatch", &called("2025-06-18", GOOD, &SUM.replace("\"sum\":2", "\"sum\":\"2\"")));
        let good = called("2025-06-18", GOOD, SUM);
        for rule in ["tools-arguments-invalid", "tools-arguments-invalid-accepted", "tools-structured-mismatch"] {
            silent(rule, &good);
        }
        let list = |tool: &str| session("2025-11-25", &[LIST, &listed(tool)]);
        fires("tools-schema-invalid", &list(r#"{"name":"a","inputSchema":{"type":"object","properties":7}}"#));
        silent("tools-schema-invalid", &list(ADD));
    }

    #[test]
    fn structured_content() {
        fires("tools-structured-missing", &called("2025-06-18", GOOD, r#""result":{"content":[]}"#));
        silent("tools-structured-missing", &called("2025-06-18", GOOD, r#""result":{"content":[],"isError":true}"#));
        silent("tools-structured-missing", &called("2025-06-18", GOOD, SUM));
        let bare = r#""result":{"content":[],"structuredContent":{"sum":2}}"#;
        fires("tools-structured-no-text", &called("2025-06-18", GOOD, bare));
        silent("tools-structured-no-text", &called("2025-06-18", GOOD, SUM));
    }

    #[test]
    fn tools_are_named_and_described() {
        let list = |version: &str, tools: &str| session(version, &[LIST, &listed(tools)]);
        fires("tools-schema-invalid", &list("2025-06-18", r#"{"name":"a","inputSchema":null}"#));
        fires("tools-schema-invalid", &list("2025-06-18", r#"{"name":"a","inputSchema":{}}"#));
        fires("tools-name-invalid", &list("2025-11-25", r#"{"name":"a b","inputSchema":{"type":"object"}}"#));
        fires("tools-name-invalid", &list("2025-06-18", &format!("{ADD},{ADD}")));
        silent("tools-name-invalid", &list("2025-06-18", r#"{"name":"a b","inputSchema":{"type":"object"}}"#));
        silent("tools-name-invalid", &list("2025-11-25", ADD));
        silent("tools-schema-invalid", &list("2025-06-18", ADD));
    }
}
