//! Rules about error objects and their codes.

use super::envelope::type_of;
use crate::findings::{Check, ERRORS, MessageContext, Report, Rule, Severity};
use crate::mcp::Revisions;
use crate::mcp::revision::Revision::{V2024_11_05, V2025_06_18};

pub(in crate::findings) const RULES: &[&Rule] = &[&OBJECT, &ID_NULL, &WITHOUT_ID, &RESERVED];
pub(in crate::findings) const CODES: &[&Rule] = &[&RETIRED, &MCP_RESERVED, &LEGACY_RANGE, &LSP];

static OBJECT: Rule = Rule {
    id: "jsonrpc-error-object",
    severity: Severity::Error,
    title: "\"error\" lacks an integer \"code\" or a string \"message\"",
    spec: "basic/index \"Error Responses\": \"MUST include an error field with a code and message\"",
    why: "Clients that validate refuse the message, and the user sees a parse error instead of the real problem.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"not found\"}",
    remedy: "Send {\"code\":-32603,\"message\":\"…\"}. Put details into \"data\".",
    checks: &[Check::Message(ERRORS, &[], object)],
    ..Rule::BLANK
};

fn object(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let error = context.body_text().unwrap_or_default();
    if !error.starts_with('{') {
        return report.add(format!("the error is {}", type_of(error)));
    }
    match context.body().get("code") {
        None => report.add("the error has no code"),
        Some(code) if code.parse::<i64>().is_err() => report.add(format!("the code is {}", shortened(code))),
        Some(_) => {}
    }
    match context.body().get("message") {
        None => report.add("the error has no message"),
        Some(message) if !message.starts_with('"') => report.add(format!("the message is {}", type_of(message))),
        Some(_) => {}
    }
}

/// A JSON value, cut to fit into a sentence.
fn shortened(json: &str) -> &str {
    &json[..json.floor_char_boundary(40)]
}

static ID_NULL: Rule = Rule {
    id: "jsonrpc-error-id-null",
    severity: Severity::Info,
    title: "An error response has \"id\": null",
    spec: "JSON-RPC 2.0 section 5; schema JSONRPCError, JSONRPCErrorResponse",
    why: "JSON-RPC uses null for a request whose id could not be read. The MCP schema does not allow null, and strict clients refuse it.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}",
    remedy: "From 2025-11-25 on, leave out the id. Earlier revisions define nothing better.",
    checks: &[Check::Message(ERRORS, &[], id_null)],
    ..Rule::BLANK
};

fn id_null(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.message.id.as_deref() == Some("null") {
        report.add("the error answers the id null");
    }
}

static WITHOUT_ID: Rule = Rule {
    id: "jsonrpc-error-without-id",
    severity: Severity::Error,
    title: "An error response has no id although its request could be read",
    spec: "basic/index \"Error Responses\"",
    why: "The client cannot match it to the request, which waits until it times out.",
    example: "POST with \"id\":1 answered with {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32602,…}}",
    remedy: "Copy the id. Leave it out only if the request could not be read.",
    checks: &[Check::Message(ERRORS, &[], without_id)],
    ..Rule::BLANK
};

fn without_id(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.message.id.is_some() || context.is_from_client() {
        return;
    }
    // The schemas of these revisions require the id of every JSONRPCError.
    if context.exchange.is_none() && context.revisions().within(Revisions::between(V2024_11_05, V2025_06_18)) {
        return report.add("an error without \"id\" answers nothing");
    }
    let Some(request) = context.exchange.and_then(|mcp| mcp.request()) else { return };
    if let Some(id) = request.id.as_deref().filter(|id| *id != "null") {
        report.add_about(&[request.number], format!("the request (message {}) has the id {id}", request.number.0));
    }
}

static RESERVED: Rule = Rule {
    id: "jsonrpc-error-code-reserved",
    severity: Severity::Warning,
    title: "An error code that JSON-RPC reserves but does not define",
    spec: "JSON-RPC 2.0 section 5.1: \"-32768 to -32000 are reserved for pre-defined errors\"",
    why: "A later version may give it another meaning.",
    example: "\"code\":-32604",
    remedy: "Use a defined code, or one outside -32768 to -32000.",
    checks: &[Check::Message(ERRORS, &[], reserved)],
    ..Rule::BLANK
};

fn code(context: &MessageContext<'_, '_>) -> Option<i64> {
    context.body().get("code")?.parse().ok()
}

fn reserved(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(code @ -32_768..=-32_100) = code(context) else { return };
    let is_defined = matches!(code, -32_700 | -32_603..=-32_600);
    if !is_defined {
        report.add(format!("{code} is reserved and not defined"));
    }
}

static RETIRED: Rule = Rule {
    id: "error-code-retired",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "An error code of earlier revisions that must no longer be sent",
    spec: "2026-07-28 basic/index \"Error Codes\": \"MUST NOT emit these codes\"",
    why: "Clients of this revision do not know the code: a missing resource looks like a failure of the server.",
    example: "\"code\":-32002 under 2026-07-28",
    remedy: "Send -32602 for a resource that does not exist, and an InputRequiredResult for an elicitation.",
    checks: &[Check::Message(ERRORS, &[], retired)],
};

fn retired(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(code @ (-32_002 | -32_042)) = code(context) {
        report.add(format!("{code} is retired"));
    }
}

static MCP_RESERVED: Rule = Rule {
    id: "error-code-mcp-reserved",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "An error code that MCP reserves but does not define",
    spec: "2026-07-28 basic/index \"Error Codes\": -32020 to -32099 are reserved for this specification",
    why: "A later revision may give it another meaning, and clients will act on that meaning.",
    example: "\"code\":-32050",
    remedy: "Use -32603 or a code outside -32768 to -32000.",
    checks: &[Check::Message(ERRORS, &[], mcp_reserved)],
};

fn mcp_reserved(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // The defined codes are -32020 HeaderMismatch, -32021 MissingRequiredClientCapability and
    // -32022 UnsupportedProtocolVersion. -32042 is retired.
    match code(context) {
        Some(code @ -32_099..=-32_023) if code != -32_042 => report.add(format!("{code} is reserved and not defined")),
        _ => {}
    }
}

static LEGACY_RANGE: Rule = Rule {
    id: "error-code-legacy-range",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "An error code between -32000 and -32019, which has no common meaning",
    spec: "2026-07-28 basic/index \"Error Codes\": \"new implementations SHOULD NOT use\" them",
    why: "Implementations used these codes for different purposes, so a client cannot act on them.",
    example: "\"code\":-32000",
    remedy: "Use -32603 or a code outside -32768 to -32000.",
    checks: &[Check::Message(ERRORS, &[], legacy_range)],
};

fn legacy_range(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    match code(context) {
        Some(code @ -32_019..=-32_000) if code != -32_002 => report.add(format!("{code} has no portable meaning")),
        _ => {}
    }
}

static LSP: Rule = Rule {
    id: "error-code-lsp",
    severity: Severity::Info,
    title: "An error code of the Language Server Protocol, which no revision of MCP defines",
    spec: "LSP 3.17 ErrorCodes; absent from all MCP schemas",
    why: "The code has no meaning in MCP. A cancelled request should not be answered at all.",
    example: "\"code\":-32800 in the response to a cancelled request",
    remedy: "Do not answer a cancelled request. Use the codes of MCP otherwise.",
    checks: &[Check::Message(ERRORS, &[], lsp)],
    ..Rule::BLANK
};

fn lsp(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let name = match code(context) {
        Some(-32_800) => "RequestCancelled",
        Some(-32_801) => "ContentModified",
        Some(-32_802) => "ServerCancelled",
        Some(-32_803) => "RequestFailed",
        _ => return,
    };
    report
        .add(format!("{} is LSP's {name}, and in no revision of MCP", context.body().get("code").unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, modern, post, session, silent};

    fn answered(error: &str) -> Vec<String> {
        let answer = format!(r#"< {{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        session("2025-06-18", &[r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#, &answer])
    }

    fn answered_modern(code: i64) -> Vec<String> {
        vec![
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, modern("")),
            format!(r#"< {{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"x"}}}}"#),
        ]
    }

    #[test]
    fn an_error_is_an_object_with_code_and_message() {
        for error in [r#""x""#, r#"{"message":"x"}"#, r#"{"code":1.5,"message":"x"}"#, r#"{"code":1}"#] {
            fires("jsonrpc-error-object", &answered(error));
        }
        silent("jsonrpc-error-object", &answered(r#"{"code":-1,"message":"x","data":[]}"#));
    }

    #[test]
    fn an_error_names_its_request() {
        fires(
            "jsonrpc-error-id-null",
            &session("2025-06-18", &[r#"< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#]),
        );
        silent("jsonrpc-error-id-null", &answered(r#"{"code":1,"message":"x"}"#));
        let ping = post(&header("2025-11-25", true), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let answer =
            |id: &str| json(400, "", &format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":1,"message":"x"}}}}"#));
        fires("jsonrpc-error-without-id", &http_session("2025-11-25", true, &[ping.clone(), answer("")]));
        silent("jsonrpc-error-without-id", &http_session("2025-11-25", true, &[ping, answer("\"id\":1,")]));
        let lost = r#"< {"jsonrpc":"2.0","error":{"code":-32603,"message":"x"}}"#;
        fires("jsonrpc-error-without-id", &session("2025-06-18", &[lost]));
        silent("jsonrpc-error-without-id", &session("2025-11-25", &[lost]));
    }

    #[test]
    fn codes() {
        let coded = |code: i64| answered(&format!(r#"{{"code":{code},"message":"x"}}"#));
        fires("jsonrpc-error-code-reserved", &coded(-32_604));
        fires("error-code-lsp", &coded(-32_800));
        for code in [-32_700, -32_600, -32_603, -32_099, -32_000, 5] {
            silent("jsonrpc-error-code-reserved", &coded(code));
            silent("error-code-lsp", &coded(code));
        }
        fires("error-code-retired", &answered_modern(-32_002));
        fires("error-code-retired", &answered_modern(-32_042));
        silent("error-code-retired", &coded(-32_002));
        fires("error-code-mcp-reserved", &answered_modern(-32_050));
        silent("error-code-mcp-reserved", &answered_modern(-32_022));
        fires("error-code-legacy-range", &answered_modern(-32_000));
        silent("error-code-legacy-range", &answered_modern(-32_602));
    }
}
