//! Rules about prompts.

use super::{Check, ERRORS, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::Object;
use crate::mcp::Method;

pub(super) const RULES: &[&Rule] = &[&ARGUMENTS];

static ARGUMENTS: Rule = Rule {
    id: "prompts-arguments",
    severity: Severity::Warning,
    title: "A prompt was requested that is not listed, or without a required argument",
    spec: "server/prompts \"Error Handling\": invalid prompt name and missing required arguments are -32602 (SHOULD)",
    why: "The request fails, or the text of the prompt has a gap.",
    example: "prompts/get of review without arguments, although code is required",
    remedy: "Ask the user for every required argument before prompts/get. Answer -32602 if one is missing.",
    checks: &[
        Check::Any(REQUESTS, &[Method::PromptsGet], arguments),
        Check::Any(RESULTS, &[Method::PromptsGet], accepted),
        Check::Any(ERRORS, &[Method::PromptsGet], answered),
    ],
    ..Rule::BLANK
};

fn arguments(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(name) = context.body().text("name") else { return };
    let prompts = &context.history.prompts;
    let Some(required) = prompts.required(&name) else {
        if prompts.is_complete {
            report.add(format!("the server listed no prompt {name:?}"));
        }
        return;
    };
    let given = context.body().get("arguments").map(Object::read).unwrap_or_default();
    if let Some(missing) = required.iter().find(|name| given.get(name).is_none()) {
        report.add(format!("{name} requires the argument {missing:?}"));
    }
}

/// Whether the request of this response broke the rule.
fn request_broke_rule(context: &MessageContext<'_, '_>) -> bool {
    context.request.is_some_and(|request| request.breaks.contains(&ARGUMENTS.id))
}

fn accepted(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // From 2026-07-28 on, the result may ask for the missing argument.
    let asks_for_input = context.has_result_type("input_required");
    if request_broke_rule(context) && !asks_for_input {
        report.add_as(Severity::Info, "the server answered with a result");
    }
}

fn answered(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let code = context.body().get("code").unwrap_or_default();
    if request_broke_rule(context) && !matches!(code, "-32602" | "-32601") {
        report.add_as(Severity::Info, format!("the error code is {code}, and -32602 is recommended"));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{findings, fires, session, silent};

    const LIST: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#;
    const LISTED: &str = r#"< {"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"review","arguments":[{"name":"code","required":true},{"name":"tone"}]}]}}"#;

    fn got(params: &str, answer: &str) -> Vec<String> {
        let get = format!(r#"> {{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{params}}}"#);
        session("2025-06-18", &[LIST, LISTED, &get, &format!(r#"< {{"jsonrpc":"2.0","id":2,{answer}}}"#)])
    }

    #[test]
    fn prompts_get_what_they_require() {
        let rule = "prompts-arguments";
        let (result, refused) = (r#""result":{"messages":[]}"#, r#""error":{"code":-32602,"message":"m"}"#);
        silent(rule, &got(r#"{"name":"review","arguments":{"code":"x"}}"#, result));
        fires(rule, &got(r#"{"name":"review","arguments":{"tone":"x"}}"#, refused));
        fires(rule, &got(r#"{"name":"rewiev"}"#, refused));
        let count = |answer: &str| {
            let found = findings(&got(r#"{"name":"review"}"#, answer));
            found.iter().filter(|finding| finding.rule.id == rule).count()
        };
        assert_eq!([count(refused), count(result), count(&refused.replace("-32602", "0"))], [1, 2, 2]);
        let get = r#"> {"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"review"}}"#;
        silent(rule, &session("2025-06-18", &[get]));
    }
}
