//! Rules about elicitation: what a server may ask a user for, and the responses.

use super::history::{Elicitation, Retry};
use super::mismatch::{Topic, report_mismatches};
use super::schema::revision;
use super::{Check, MessageContext, NOTIFICATIONS, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::{self, Object};
use crate::mcp::contract::Verdict;
use crate::mcp::revision::Revision::{V2025_06_18, V2025_11_25};
use crate::mcp::{Method, Revisions};

pub(super) const RULES: &[&Rule] = &[&SCHEMA, &CONTENT, &URL, &SENSITIVE];

/// The methods whose results may hold elicitations, from 2026-07-28 on.
const ASKING: [Method; 3] = [Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead];

/// The params of each elicitation in a message: its own, or those inside
/// an `input_required` result.
fn elicitations<'a>(context: &MessageContext<'_, 'a>) -> Vec<Object<'a>> {
    if context.method == Method::ElicitationCreate {
        return vec![context.body().clone()];
    }
    context.input_requests("elicitation/create")
}

static SCHEMA: Rule = Rule {
    id: "elicitation-schema",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_06_18),
    title: "The schema of a form is nested, or has a property that forms cannot have",
    spec: "client/elicitation \"Requested Schema\": flat objects with primitive properties only",
    why: "The client cannot draw the form, so the user is never asked.",
    example: "\"properties\":{\"address\":{\"type\":\"object\",…}}",
    remedy: "Request strings, numbers, booleans and choices, one property each.",
    checks: &[Check::Message(REQUESTS, &[Method::ElicitationCreate], schema), Check::Message(RESULTS, &ASKING, schema)],
};

fn schema(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    report_mismatches(context, Topic::Form, report);
}

static CONTENT: Rule = Rule {
    id: "elicitation-content",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_06_18),
    title: "The response to an elicitation does not match its form or its action",
    spec: "client/elicitation \"Response Actions\"; \"Form Mode Security\" (SHOULD validate)",
    why: "The server works with unexpected values, or with the data of a user who declined.",
    example: "{\"action\":\"accept\",\"content\":{}} although \"name\" is required; {\"action\":\"decline\",\"content\":{…}}",
    remedy: "Validate against requestedSchema before you respond. Send content only with accept, and only for a form.",
    checks: &[
        Check::Message(RESULTS, &[Method::ElicitationCreate], answered),
        Check::Message(REQUESTS, &ASKING, retry_content),
    ],
};

fn answered(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(request) = context.request.filter(|request| !request.is_task) else { return };
    let Some(form) = context.history.elicitations.by_request(request.number) else { return };
    if let Some(fault) = fault(context, context.body(), form) {
        report.add_about(&[request.number], fault);
    }
}

/// From 2026-07-28 on, the retry contains the responses.
fn retry_content(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(responses) = context.body().get("inputResponses").map(Object::read) else { return };
    let round = Retry::of(context).and_then(|retry| context.history.rounds.of(context.method, &retry));
    let Some(round) = round else { return };
    for wanted in &round.inputs {
        let answer = responses.object(&wanted.key);
        if answer.get("action").is_some()
            && let Some(form) = &wanted.form
            && let Some(fault) = fault(context, &answer, form)
        {
            report.add_about(&[round.number], format!("{}: {fault}", wanted.key));
        }
    }
}

fn fault(context: &MessageContext<'_, '_>, answer: &Object<'_>, form: &Elicitation) -> Option<String> {
    let action = answer.text("action")?;
    // An empty object counts as no content.
    let content = answer.get("content").filter(|content| Object::read(content).iter().next().is_some());
    if action != "accept" || form.is_url {
        let reason = if form.is_url { "an elicitation by URL" } else { &action };
        return content.map(|_| format!("content was sent with {reason}"));
    }
    match context.schemas.borrow_mut().check(revision(context)?, form.schema.as_deref()?, content.unwrap_or("{}")) {
        Verdict::Broken(violations) => violations.first().map(|violation| format!("content {violation}")),
        _ => None,
    }
}

static URL: Rule = Rule {
    id: "elicitation-url",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "An elicitation by URL has no valid URL or id, or an unknown elicitation was completed",
    spec: "client/elicitation \"URL Mode Elicitation Requests\", \"Safe URL Handling\"; 2025-11-25 \"Completion Notifications\"",
    why: "The client cannot open the page, opens it without encryption, or waits for a completion that it cannot match.",
    example: "\"mode\":\"url\",\"url\":\"/authorize\"",
    remedy: "Send an absolute https URL. In 2025-11-25 also send an elicitationId, and repeat it in notifications/elicitation/complete.",
    checks: &[
        Check::Message(REQUESTS, &[Method::ElicitationCreate], url),
        Check::Message(RESULTS, &ASKING, url),
        Check::Message(NOTIFICATIONS, &[Method::ElicitationComplete], complete),
    ],
};

fn url(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    report_mismatches(context, Topic::Url, report);
    for params in elicitations(context) {
        let Some(url) = params.text("url").filter(|_| params.text("mode").is_some_and(|mode| mode == "url")) else {
            continue;
        };
        // "SHOULD use HTTPS URLs in non-development environments": the local machine
        // counts as development.
        if url.strip_prefix("http://").is_some_and(|rest| !is_local(rest)) {
            report.add_as(Severity::Warning, "the URL is not https");
        }
    }
}

/// Whether the text after `http://` begins with the local machine.
fn is_local(rest: &str) -> bool {
    let ends = |after: &str| after.is_empty() || after.starts_with([':', '/', '?', '#']);
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| rest.strip_prefix(host).is_some_and(ends))
}

fn complete(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some(id) = context.body().text("elicitationId") else { return };
    if context.history.is_whole() && context.is_one_client() && context.history.elicitations.is_unknown(&id) {
        report.add(format!("no elicitation {id:?} was issued"));
    }
}

static SENSITIVE: Rule = Rule {
    id: "elicitation-sensitive",
    severity: Severity::Warning,
    revisions: Revisions::since(V2025_06_18),
    title: "A form asks for a value that looks like a secret",
    spec: "client/elicitation \"User Interaction Model\": servers MUST NOT request sensitive information through forms",
    why: "The input of a form passes through the client and the model's context, and is logged on the way.",
    example: "\"properties\":{\"password\":{\"type\":\"string\"}}",
    remedy: "Use an elicitation by URL (2025-11-25 on) that opens a page of the service that needs the secret.",
    checks: &[
        Check::Message(REQUESTS, &[Method::ElicitationCreate], sensitive),
        Check::Message(RESULTS, &ASKING, sensitive),
    ],
};

/// Words that name a secret. They must be the whole name of a property, or, if longer than 3
/// letters, its end.
const SECRETS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "clientsecret",
    "secretkey",
    "privatekey",
    "creditcard",
    "cardnumber",
    "cvv",
    "ssn",
];

fn sensitive(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for params in elicitations(context) {
        for (name, property) in params.object("requestedSchema").object("properties").iter() {
            let Some(name) = json::string(name) else { continue };
            let property = Object::read(property);
            // The user does not type a choice or a switch ("remember password?").
            let is_typed = property.text("type").is_some_and(|kind| matches!(&*kind, "string" | "integer" | "number"));
            let is_free = property.get("enum").is_none() && property.get("oneOf").is_none();
            let plain: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
            let is_named = SECRETS.iter().any(|word| plain == *word || (word.len() > 3 && plain.ends_with(word)));
            let is_password = property.text("format").is_some_and(|format| format == "password");
            if is_typed && is_free && (is_named || is_password) {
                report.add(format!("the form asks for {name:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session_of, silent};

    const CLIENT: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;

    fn request(params: &str, answer: &str) -> Vec<String> {
        let request = format!(r#"< {{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{params}}}"#);
        let answer = format!(r#"> {{"jsonrpc":"2.0","id":1,"result":{answer}}}"#);
        session_of("2025-11-25", CLIENT, "{}", &[&request, &answer])
    }

    fn form(properties: &str) -> String {
        format!(
            r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{{properties}}},"required":["n"]}}}}"#
        )
    }

    const GOOD: &str = r#"{"action":"accept","content":{"n":"x"}}"#;
    const NAME: &str = r#""n":{"type":"string"}"#;

    #[test]
    fn forms_are_flat_and_ask_for_no_secrets() {
        fires("elicitation-schema", &request(&form(r#""n":{"type":"object"}"#), GOOD));
        silent("schema-request-invalid", &request(&form(r#""n":{"type":"object"}"#), GOOD));
        silent("elicitation-schema", &request(&form(NAME), GOOD));
        fires("elicitation-sensitive", &request(&form(r#""db_password":{"type":"string"}"#), GOOD));
        silent("elicitation-sensitive", &request(&form(r#""save_password":{"type":"boolean"}"#), GOOD));
        silent("elicitation-sensitive", &request(&form(NAME), GOOD));
    }

    #[cfg(feature = "schema")]
    #[test]
    fn responses_match_their_form() {
        let rule = "elicitation-content";
        silent(rule, &request(&form(NAME), GOOD));
        fires(rule, &request(&form(NAME), r#"{"action":"accept"}"#));
        fires(rule, &request(&form(NAME), r#"{"action":"accept","content":{"n":7}}"#));
        fires(rule, &request(&form(NAME), r#"{"action":"decline","content":{"n":"x"}}"#));
        silent(rule, &request(&form(NAME), r#"{"action":"cancel"}"#));
    }

    #[cfg(feature = "schema")]
    #[test]
    fn answers_come_with_the_retry() {
        let rule = "elicitation-content";
        let round = |answer: &str| {
            let wanted = format!(r#"{{"k":{{"method":"elicitation/create","params":{}}}}}"#, form(NAME));
            let call = |id: u32, more: &str| {
                let params = modern(&format!(r#""name":"t"{more}"#));
                format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
            };
            let answer = format!(r#","requestState":"s","inputResponses":{{"k":{answer}}}"#);
            let asks = format!(
                r#"< {{"jsonrpc":"2.0","id":1,"result":{{"resultType":"input_required","requestState":"s","inputRequests":{wanted}}}}}"#
            );
            [call(1, ""), asks, call(2, &answer)]
        };
        silent(rule, &round(GOOD));
        fires(rule, &round(r#"{"action":"accept","content":{"n":7}}"#));
    }

    #[test]
    fn urls_are_urls() {
        let rule = "elicitation-url";
        let by = |url: &str| format!(r#"{{"mode":"url","message":"m","url":"{url}","elicitationId":"e"}}"#);
        silent(rule, &request(&by("https://a.example/x"), r#"{"action":"accept"}"#));
        silent(rule, &request(&by("http://localhost:9/x"), r#"{"action":"accept"}"#));
        fires(rule, &request(&by("/authorize"), r#"{"action":"accept"}"#));
        fires(rule, &request(&by("http://a.example/x"), r#"{"action":"accept"}"#));
        let complete = |id: &str| {
            let done = format!(
                r#"< {{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{{"elicitationId":"{id}"}}}}"#
            );
            let mut steps = request(&by("https://a.example/x"), r#"{"action":"accept"}"#);
            steps.push(done);
            steps
        };
        silent(rule, &complete("e"));
        fires(rule, &complete("f"));
    }
}
