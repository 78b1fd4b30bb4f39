//! Rules about trace context in `_meta` (2026-07-28 basic/index "OpenTelemetry trace context";
//! a convention before).

use super::{ASKS, Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::mcp::Revisions;
use crate::mcp::revision::Revision::V2025_11_25;
use crate::mcp::trace::TraceParent;

pub(super) const RULES: &[&Rule] = &[&MALFORMED];

static MALFORMED: Rule = Rule {
    id: "trace-context-malformed",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_11_25),
    title: "traceparent, tracestate or baggage in _meta is malformed",
    spec: "2026-07-28 basic/index \"OpenTelemetry trace context\"; W3C Trace Context sections 3.2 and 3.3; W3C Baggage section 3.2",
    why: "Receivers drop it and start their own trace. The call is missing in the caller's trace.",
    example: "\"_meta\":{\"traceparent\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}",
    remedy: "Inject with a W3C propagator: 00-{32 hex digits}-{16 hex digits}-{2 hex digits}.",
    checks: &[Check::Message(ASKS, &[], malformed), Check::Message(RESULTS, &[], malformed)],
};

/// Whether a text is a list of members separated by commas, each with a key, an equals sign and a
/// value (W3C Trace Context section 3.3.1, W3C Baggage section 3.2.1). Members may be empty.
fn is_list(text: &str) -> bool {
    let is_member = |member: &str| {
        let pair = member.split(';').next().unwrap_or_default().split_once('=');
        pair.is_some_and(|(key, _)| {
            let key = key.trim();
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
        })
    };
    text.split(',').map(str::trim).filter(|member| !member.is_empty()).all(is_member)
}

fn malformed(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for name in ["traceparent", "tracestate", "baggage"] {
        let Some(value) = context.meta().get(name) else { continue };
        let text = crate::decode::json::string(value);
        let is_valid =
            |text: &str| if name == "traceparent" { TraceParent::read(text).is_some() } else { is_list(text) };
        if !text.as_deref().is_some_and(is_valid) {
            // 2026-07-28: "MUST follow the W3C format". Earlier revisions do not
            // define these names.
            let is_modern = context.revisions().within(Revisions::MODERN);
            let severity = if is_modern { MALFORMED.severity } else { Severity::Info };
            report.add_as(severity, format!("{name} is {}", &value[..value.floor_char_boundary(80)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    #[test]
    fn trace_context_has_the_form_of_w3c() {
        let with = |meta: &str| {
            let ping = format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{{meta}}}}}}}"#);
            session("2025-11-25", &[&ping])
        };
        let rule = "trace-context-malformed";
        fires(rule, &with(r#""traceparent":"4bf9""#));
        fires(rule, &with(r#""tracestate":"rojo""#));
        fires(rule, &with(r#""baggage":1"#));
        silent(
            rule,
            &with(
                r#""traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"rojo=1,, congo=t61","baggage":"user=alice;secret,x=%20""#,
            ),
        );
    }
}
