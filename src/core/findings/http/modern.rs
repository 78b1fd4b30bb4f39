//! Rules about HTTP in 2026-07-28: headers that repeat the body, and statuses that
//! repeat the error.

use super::is_streamable;
use crate::decode::{Exchange, Kind};
use crate::findings::mcp_exchange::{ExchangeMessage, is_success};
use crate::findings::{Check, History, McpExchange, Report, Rule, Severity};
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] =
    &[&METHOD, &NAME, &ENCODING, &MISMATCH_ACCEPTED, &ERROR_STATUS, &LEGACY_VERB, &CANCEL];

static METHOD: Rule = Rule {
    id: "http-header-method",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "Mcp-Method is missing or differs from the method in the body",
    spec: "2026-07-28 basic/transports/streamable-http \"Standard Request Headers\", \"Server Validation\"",
    why: "Proxies route and limit by the header. Servers must answer 400 with -32020.",
    example: "Mcp-Method: tools/list with the body {\"method\":\"tools/call\"}",
    remedy: "Fill the header from the body of each request.",
    checks: &[Check::Response(method)],
};

/// The fault of `Mcp-Method`, if there is one.
fn method_fault(exchange: &Exchange, request: &ExchangeMessage) -> Option<String> {
    let named = request.method_name.as_deref().unwrap_or_default();
    match exchange.request.fields.get("mcp-method") {
        None => Some(format!("{named} was sent without Mcp-Method")),
        Some(header) if header != named => Some(format!("Mcp-Method is {header}, but the method is {named}")),
        Some(_) => None,
    }
}

fn method(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(request) = mcp.request().filter(|_| is_streamable(history)) else { return };
    if let Some(fault) = method_fault(exchange, request) {
        report.add(fault);
    }
}

static NAME: Rule = Rule {
    id: "http-header-name",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "Mcp-Name is missing or differs from the name in the body",
    spec: "2026-07-28 basic/transports/streamable-http \"Standard Request Headers\"",
    why: "Proxies route and limit by the header. Servers must answer 400 with -32020.",
    example: "Mcp-Name: add with the body {\"method\":\"tools/call\",\"params\":{\"name\":\"delete\"}}",
    remedy: "Fill the header from params.name or params.uri, as =?base64?…?= if it is not plain ASCII.",
    checks: &[Check::Response(name)],
};

/// The decoded value of a header ("Value Encoding": `=?base64?{Base64EncodedValue}?=`). `None` if
/// it cannot be decoded.
pub(in crate::findings) fn decoded(header: &str) -> Option<String> {
    use base64::Engine;
    let Some(coded) = header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(header.to_owned());
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(coded).ok()?;
    String::from_utf8(bytes).ok()
}

fn name_fault(exchange: &Exchange, request: &ExchangeMessage) -> Option<String> {
    let subject = request.subject.as_deref()?;
    match exchange.request.fields.get("mcp-name") {
        // For tasks only the extension requires the header.
        None if matches!(request.method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel) => None,
        None => Some(format!("{subject:?} was requested without Mcp-Name")),
        Some(header) => {
            let name = decoded(header)?;
            (name != subject).then(|| format!("Mcp-Name is {name:?}, but the body has {subject:?}"))
        }
    }
}

fn name(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(request) = mcp.request().filter(|_| is_streamable(history)) else { return };
    if let Some(fault) = name_fault(exchange, request) {
        report.add(fault);
    }
}

static ENCODING: Rule = Rule {
    id: "http-header-encoding",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The value of Mcp-Name or Mcp-Param is not encoded correctly",
    spec: "2026-07-28 basic/transports/streamable-http \"Value Encoding\"",
    why: "HTTP fields are ASCII. Proxies change or refuse other bytes, and the header no longer matches the body.",
    example: "Mcp-Name: café; or =?base64?%%?=",
    remedy: "Encode such values as =?base64?{base64 of the UTF-8 bytes}?=.",
    checks: &[Check::Response(encoding)],
};

fn encoding(exchange: &Exchange, _: &McpExchange, history: &History, report: &mut Report<'_>) {
    if !is_streamable(history) {
        return;
    }
    for (name, value) in exchange.request.fields.iter() {
        let lower = name.to_ascii_lowercase();
        if lower != "mcp-name" && !lower.starts_with("mcp-param-") {
            continue;
        }
        if !value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
            report.add(format!("{name} is not ASCII"));
        } else if decoded(value).is_none() {
            report.add(format!("{name} cannot be decoded"));
        }
    }
}

static MISMATCH_ACCEPTED: Rule = Rule {
    id: "http-header-mismatch-accepted",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The server accepted a request whose headers are missing or contradict its body",
    spec: "2026-07-28 basic/transports/streamable-http \"Server Validation\": MUST reject with 400 and -32020",
    why: "An attacker can pass a proxy with one method in the header, and run another one in the body.",
    example: "Mcp-Method: tools/list with the body of a tools/call, answered with 200",
    remedy: "Compare Mcp-Method, Mcp-Name and MCP-Protocol-Version with the body, and answer 400 with -32020.",
    checks: &[Check::Exchange(mismatch_accepted)],
};

fn mismatch_accepted(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(request) = mcp.request().filter(|_| is_streamable(history) && is_success(exchange)) else { return };
    let version = match (mcp.version.as_deref(), request.version.as_deref()) {
        (Some(header), Some(body)) if header != body => Some(format!("the header is {header}, but _meta has {body}")),
        _ => None,
    };
    let fault = method_fault(exchange, request).or_else(|| name_fault(exchange, request)).or(version);
    let was_taken = mcp.answer().is_some_and(|answer| answer.kind == Kind::Response);
    if let (Some(fault), true) = (fault, was_taken) {
        report.add(format!("answered with a result: {fault}"));
    }
}

static ERROR_STATUS: Rule = Rule {
    id: "http-error-status",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "The HTTP status does not match the JSON-RPC error",
    spec: "2026-07-28 basic/transports/streamable-http \"Server Validation\", \"Protocol Version Header\"",
    why: "Proxies and clients of both eras decide by the status. A wrong one can make a client fall back, or not.",
    example: "-32601 with status 200",
    remedy: "Send 404 for -32601. Send 400 for -32020, -32021, -32022 and for missing _meta.",
    checks: &[Check::Exchange(error_status)],
};

fn error_status(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    let Some(status) = exchange.status.filter(|_| is_streamable(history)) else { return };
    // An error on a stream that was opened with 200 comes too late for another status.
    let is_stream = crate::findings::mcp_exchange::is_event_stream(exchange);
    let Some(code) = mcp.received.first().and_then(|got| got.code).filter(|_| !is_stream) else { return };
    let wanted = match code {
        -32_601 => 404,
        -32_022..=-32_020 => 400,
        _ => return,
    };
    if status != wanted {
        report.add(format!("{code} was sent with status {status} instead of {wanted}"));
    }
}

static LEGACY_VERB: Rule = Rule {
    id: "http-legacy-verb",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "GET, DELETE, Mcp-Session-Id or Last-Event-ID, which this revision does not have",
    spec: "2026-07-28 basic/transports/streamable-http \"Earlier Streamable HTTP Revisions\"",
    why: "They are ignored. A client that relies on sessions or resumption loses both.",
    example: "Mcp-Session-Id in a request of 2026-07-28",
    remedy: "Leave them out. Answer GET and DELETE with 405.",
    checks: &[Check::Response(legacy_verb)],
};

fn legacy_verb(exchange: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if !is_streamable(history) {
        return;
    }
    let request = &exchange.request.fields;
    match exchange.method.as_deref() {
        Some(verb @ ("GET" | "DELETE")) if exchange.status != Some(405) => {
            report.add(format!("{verb} was answered with {}", exchange.status.unwrap_or_default()));
        }
        _ if request.get("mcp-session-id").is_some() => report.add("the request names a session"),
        _ if mcp.resumes => report.add("the request asks to resume a stream"),
        _ if exchange.response.fields.get("mcp-session-id").is_some() => report.add("the server assigned a session id"),
        _ => {}
    }
}

static CANCEL: Rule = Rule {
    id: "http-cancel-notification",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "A cancellation was posted; closing the stream is the correct signal",
    spec: "2026-07-28 basic/transports/streamable-http \"Sending Messages\" (note)",
    why: "The server does not look for it, and continues to work.",
    example: "POST of notifications/cancelled",
    remedy: "Close the response stream of the request.",
    checks: &[Check::Response(cancel)],
};

fn cancel(_: &Exchange, mcp: &McpExchange, history: &History, report: &mut Report<'_>) {
    if is_streamable(history) && mcp.sent.iter().any(|sent| sent.method == Method::Cancelled) {
        report.add("notifications/cancelled was posted");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, json, modern, post, silent};

    const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#;

    fn call(headers: &str, answer: &str) -> Vec<String> {
        let params = modern(r#""name":"add""#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        vec![post(&format!("MCP-Protocol-Version: 2026-07-28\n{headers}"), &body), answer.to_owned()]
    }

    const GOOD: &str = "Mcp-Method: tools/call\nMcp-Name: add\n";

    #[test]
    fn headers_repeat_the_body() {
        let fine = call(GOOD, &json(200, "", RESULT));
        fires("http-header-method", &call("Mcp-Method: tools/list\nMcp-Name: add\n", &json(200, "", RESULT)));
        fires("http-header-method", &call("", &json(200, "", RESULT)));
        fires("http-header-name", &call("Mcp-Method: tools/call\nMcp-Name: sub\n", &json(200, "", RESULT)));
        fires("http-header-mismatch-accepted", &call("", &json(200, "", RESULT)));
        silent("http-header-mismatch-accepted", &call("", "< 400\n\n"));
        fires("http-header-encoding", &call("Mcp-Method: tools/call\nMcp-Name: =?base64?%%?=\n", "< 400\n\n"));
        for rule in ["http-header-method", "http-header-name", "http-header-mismatch-accepted", "http-header-encoding"]
        {
            silent(rule, &fine);
            silent(rule, &call("Mcp-Method: tools/call\nMcp-Name: =?base64?YWRk?=\n", &json(200, "", RESULT)));
        }
    }

    #[test]
    fn statuses_repeat_the_error() {
        let error = |code: i64| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"x"}}}}"#);
        fires("http-error-status", &call(GOOD, &json(200, "", &error(-32_601))));
        fires("http-error-status", &call(GOOD, &json(404, "", &error(-32_020))));
        silent("http-error-status", &call(GOOD, &json(404, "", &error(-32_601))));
        silent("http-error-status", &call(GOOD, &json(200, "", &error(-32_603))));
    }

    #[test]
    fn removed_features() {
        fires("http-legacy-verb", &call(&format!("{GOOD}Mcp-Session-Id: x\n"), &json(200, "", RESULT)));
        silent("http-legacy-verb", &call(GOOD, &json(200, "", RESULT)));
        let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let cancel = post("MCP-Protocol-Version: 2026-07-28\n", body);
        fires("http-cancel-notification", &[cancel, "< 202\n\n".to_owned()]);
        silent("http-cancel-notification", &call(GOOD, &json(200, "", RESULT)));
    }
}
