//! Rules about the `data` of errors that MCP defines.

use crate::decode::json::{Object, array};
use crate::findings::{Check, ERRORS, MessageContext, Report, Rule, Severity};
use crate::mcp::Revisions;
use crate::mcp::revision::Revision::V2025_11_25;

pub(in crate::findings) const RULES: &[&Rule] = &[&SHAPE];

/// Limit of checked list elements. Real lists have a few.
const CHECKED: usize = 64;

static SHAPE: Rule = Rule {
    id: "error-data-shape",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "An error that MCP defines lacks its required data",
    spec: "2025-11-25 client/elicitation \"URL Elicitation Required Error\"; 2026-07-28 basic/versioning \"Protocol Version Negotiation\", basic/index \"_meta\"; schema",
    why: "The client needs the data. Without it, it can neither ask the user, nor choose another revision, nor declare its capabilities.",
    example: "{\"code\":-32022,\"message\":\"Unsupported protocol version\"} without data.supported",
    remedy: "For -32042 send data.elicitations, each with mode url and an elicitationId. For -32022 send data.supported and data.requested. For -32021 send data.requiredCapabilities.",
    checks: &[Check::Message(ERRORS, &[], shape)],
};

fn shape(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let is_modern = context.revisions().within(Revisions::MODERN);
    let code = context.body().get("code").unwrap_or_default();
    let data = context.body().object("data");
    let fault = match code {
        "-32042" if !is_modern => elicitations(&data),
        "-32022" if is_modern => unsupported(&data),
        "-32021" if is_modern => {
            let is_object = data.get("requiredCapabilities").is_some_and(|value| value.starts_with('{'));
            (!is_object).then_some("no object data.requiredCapabilities")
        }
        _ => None,
    };
    if let Some(fault) = fault {
        report.add(format!("{code} has {fault}"));
    }
}

fn elicitations(data: &Object<'_>) -> Option<&'static str> {
    let listed = array(data.get("elicitations").unwrap_or_default(), CHECKED);
    let is_url = |one: &&str| {
        let one = Object::read(one);
        one.text("mode").is_some_and(|mode| mode == "url") && one.text("elicitationId").is_some()
    };
    match listed.as_slice() {
        [] => Some("no data.elicitations"),
        listed if !listed.iter().all(is_url) => Some("an elicitation without mode url or elicitationId"),
        _ => None,
    }
}

fn unsupported(data: &Object<'_>) -> Option<&'static str> {
    let supported = array(data.get("supported").unwrap_or_default(), CHECKED);
    if supported.is_empty() || !supported.iter().all(|version| version.starts_with('"')) {
        return Some("no list of versions in data.supported");
    }
    data.text("requested").is_none().then_some("no version in data.requested")
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    #[test]
    fn errors_carry_what_clients_act_by() {
        let rule = "error-data-shape";
        let call = |params: &str| format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let error = |code: i32, data: &str| {
            format!(r#"< {{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"x"{data}}}}}"#)
        };
        let stateless = |code: i32, data: &str| vec![call(&modern(r#""name":"a""#)), error(code, data)];
        fires(rule, &stateless(-32_022, ""));
        fires(rule, &stateless(-32_022, r#","data":{"supported":["2026-07-28"]}"#));
        silent(rule, &stateless(-32_022, r#","data":{"supported":["2026-07-28"],"requested":"2099-01-01"}"#));
        fires(rule, &stateless(-32_021, r#","data":{}"#));
        silent(rule, &stateless(-32_021, r#","data":{"requiredCapabilities":{"sampling":{}}}"#));
        let legacy = |data: &str| session("2025-11-25", &[&call(r#"{"name":"a"}"#), &error(-32_042, data)]);
        fires(rule, &legacy(r#","data":{"elicitations":[{"mode":"url","url":"https://a","message":"m"}]}"#));
        silent(
            rule,
            &legacy(r#","data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://a","message":"m"}]}"#),
        );
    }
}
