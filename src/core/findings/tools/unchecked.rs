//! Schemas and values of tools that mcptap does not check, because a check would exceed a bound.

use super::{call_verdict, schema_and_value, tool_name};
use crate::findings::schema::revision;
use crate::findings::{Check, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::Method;
use crate::mcp::contract::{UncheckedReason, Verdict};

pub(in crate::findings) const RULES: &[&Rule] = &[&UNCHECKED];

pub(in crate::findings) static UNCHECKED: Rule = Rule {
    id: "tools-schema-unchecked",
    severity: Severity::Info,
    title: "A value was not checked against the schema of its tool",
    spec: "server/tools \"Tool\"",
    why: "Other rules are silent about such a tool, although its arguments or results may be wrong. Clients may not check them either.",
    example: "a pattern with look-ahead; a $ref to another document; a schema larger than 256 KiB; references that multiply the work",
    remedy: "Use patterns without look-around, and references inside the schema only. Keep schemas small.",
    checks: &[
        Check::Any(RESULTS, &[Method::ToolsList], schemas),
        Check::Any(REQUESTS, &[Method::ToolsCall], value),
        Check::Any(RESULTS, &[Method::ToolsCall], value),
    ],
    ..Rule::BLANK
};

/// The schemas of a list that cannot be used.
fn schemas(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(known) = revision(context) else { return };
    for tool in context.tools() {
        for member in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(member).filter(|schema| schema.starts_with('{')) else { continue };
            if let Verdict::Unchecked(why) = context.schemas.borrow_mut().schema(known, schema)
                && why != UncheckedReason::NotBuilt
            {
                let name = tool.text("name").unwrap_or_default();
                report.add(format!("{name}: nothing is checked against the {member}: {why}"));
            }
        }
    }
}

/// A value that is too large for its schema, or whose check would need too much work. If the schema
/// itself cannot be used, the list has the finding.
fn value(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(Verdict::Unchecked(why)) = call_verdict(context) else { return };
    let Some((known, (schema, _))) = revision(context).zip(schema_and_value(context)) else { return };
    if context.schemas.borrow_mut().schema(known, schema) == Verdict::Holds {
        report.add(format!("{}: not checked against the schema: {why}", tool_name(context)));
    }
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const RULE: &str = "tools-schema-unchecked";

    /// A session that lists a tool with this schema and calls it with these arguments.
    fn called(schema: &str, arguments: &str) -> Vec<String> {
        let lines = [
            r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
            format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"add","inputSchema":{schema}}}]}}}}"#),
            format!(
                r#"> {{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"add","arguments":{arguments}}}}}"#
            ),
            r#"< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#.to_owned(),
        ];
        session("2025-11-25", &lines.each_ref().map(String::as_str))
    }

    #[test]
    fn a_schema_beyond_the_bounds_is_reported_once() {
        let pattern = r#"{"type":"object","properties":{"a":{"pattern":"^(?!a)b"}}}"#;
        let finding = fires(RULE, &called(pattern, r#"{"a":"b"}"#));
        assert_eq!(
            finding.text,
            "add: nothing is checked against the inputSchema: a pattern of the schema needs an engine without bounds"
        );
        let away = r#"{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}"#;
        assert!(fires(RULE, &called(away, "{}")).text.contains("https://example.com/a"));
        silent(RULE, &called(r#"{"type":"object"}"#, r#"{"a":"b"}"#));
    }

    #[test]
    fn a_value_beyond_the_bounds_is_reported() {
        let twice =
            r##"{"type":"object","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}"##;
        let nested = format!("{}1{}", r#"{"a":"#.repeat(60), "}".repeat(60));
        let finding = fires(RULE, &called(twice, &nested));
        assert_eq!(finding.text, "add: not checked against the schema: the schema asks for too much work");
        silent(RULE, &called(twice, r#"{"a":{"a":{}}}"#));
    }
}
