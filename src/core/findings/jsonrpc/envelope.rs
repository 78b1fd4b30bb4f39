//! Rules about the members of a message and their types.

use crate::decode::json::scan::JsonType;
use crate::findings::{ASKS, Check, MessageContext, NOTIFICATIONS, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[
    &INVALID_JSON,
    &NOT_UTF8,
    &NOT_A_MESSAGE,
    &VERSION,
    &RESULT_AND_ERROR,
    &METHOD_AND_RESULT,
    &RESULT_NOT_OBJECT,
    &PARAMS_NOT_OBJECT,
    &NOTIFICATION_WITH_ID,
    &REQUEST_WITHOUT_ID,
    &RESERVED_PREFIX,
    &DUPLICATE_KEY,
];

pub(super) static INVALID_JSON: Rule = Rule {
    id: "jsonrpc-invalid-json",
    severity: Severity::Error,
    title: "The text of a message is not valid JSON",
    spec: "JSON-RPC 2.0 section 5.1; basic/transports \"stdio\"",
    why: "The receiver cannot read it. Over HTTP it answers -32700; on a pipe most receivers drop the line or end the session.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",}",
    remedy: "Write each message with a JSON library, whole and alone. Nothing else belongs in the stream.",
    ..Rule::BLANK
};

pub(super) static NOT_UTF8: Rule = Rule {
    id: "jsonrpc-not-utf8",
    severity: Severity::Error,
    revisions: Revisions::ALL,
    title: "The text of a message is not valid UTF-8",
    spec: "basic/transports (introduction): \"JSON-RPC messages MUST be UTF-8 encoded\"",
    why: "Receivers refuse it, or replace the invalid bytes silently, which changes names, paths and results.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"caf\\xe9\"}} in Latin-1",
    remedy: "Set the encoding of the stream to UTF-8. On Windows, pipes often use the code page of the console.",
    ..Rule::BLANK
};

pub(super) static NOT_A_MESSAGE: Rule = Rule {
    id: "jsonrpc-not-a-message",
    severity: Severity::Error,
    title: "A JSON value is not a request, notification or response",
    spec: "JSON-RPC 2.0 sections 4 and 5; basic/index \"Messages\"",
    why: "It cannot be answered or matched to a request. Receivers log an error or drop the connection.",
    example: "{\"level\":\"info\",\"msg\":\"started\"} on the server's stdout",
    remedy: "Send only objects with \"method\", or with \"id\" and \"result\" or \"error\". Write logs to stderr.",
    ..Rule::BLANK
};

pub(super) static VERSION: Rule = Rule {
    id: "jsonrpc-version-field",
    severity: Severity::Error,
    title: "\"jsonrpc\" is missing or is not exactly \"2.0\"",
    spec: "JSON-RPC 2.0 sections 4 and 5; schema JSONRPCMessage",
    why: "Official SDKs validate this member and refuse the message. A peer that works with one client fails with another.",
    example: "{\"id\":1,\"method\":\"tools/list\"}",
    remedy: "Add \"jsonrpc\":\"2.0\" to every message, also to responses and notifications.",
    ..Rule::BLANK
};

pub(super) static RESULT_AND_ERROR: Rule = Rule {
    id: "jsonrpc-result-and-error",
    severity: Severity::Error,
    title: "A response has both \"result\" and \"error\"",
    spec: "JSON-RPC 2.0 section 5; basic/index \"Responses\"",
    why: "One client shows a success and another a failure, and both are right.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":null}",
    remedy: "Leave out the other member. A member that is null is not absent.",
    ..Rule::BLANK
};

static METHOD_AND_RESULT: Rule = Rule {
    id: "jsonrpc-method-and-result",
    severity: Severity::Error,
    title: "One object contains \"method\" together with \"result\" or \"error\"",
    spec: "JSON-RPC 2.0 sections 4 and 5; schema JSONRPCMessage",
    why: "It is a request and a response at the same time. Receivers interpret it differently.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":{}}",
    remedy: "Do not echo the method in a response.",
    checks: &[Check::Message(ASKS, &[], method_and_result)],
    ..Rule::BLANK
};

fn method_and_result(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let envelope = &context.message.envelope;
    if envelope.result.is_some() || envelope.error.is_some() {
        report.add(format!("{} also has a member of a response", context.method_name()));
    }
}

static RESULT_NOT_OBJECT: Rule = Rule {
    id: "jsonrpc-result-not-object",
    severity: Severity::Error,
    title: "\"result\" is not an object",
    spec: "schema Result (type object)",
    why: "JSON-RPC allows any value, but MCP does not. Clients that validate results refuse null, arrays and scalars.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}",
    remedy: "Send {} for an empty result. Put other values into a member: {\"content\":[…]}.",
    checks: &[Check::Message(RESULTS, &[], result_not_object)],
    ..Rule::BLANK
};

fn result_not_object(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(result) = context.body_text().filter(|result| !result.starts_with('{')) {
        report.add(format!("the result is {}", type_of(result)));
    }
}

static PARAMS_NOT_OBJECT: Rule = Rule {
    id: "jsonrpc-params-not-object",
    severity: Severity::Error,
    title: "\"params\" is present and is not an object",
    spec: "basic/index \"Requests\" and \"Notifications\"; schema JSONRPCRequest",
    why: "JSON-RPC allows arrays, but MCP does not. The receiver answers -32602 or finds no parameters.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
    remedy: "Send parameters by name, or leave out \"params\".",
    checks: &[Check::Message(ASKS, &[], params_not_object)],
    ..Rule::BLANK
};

fn params_not_object(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(params) = context.body_text().filter(|params| !params.starts_with('{')) {
        report.add(format!("the params of {} are {}", context.method_name(), type_of(params)));
    }
}

static NOTIFICATION_WITH_ID: Rule = Rule {
    id: "jsonrpc-notification-with-id",
    severity: Severity::Error,
    title: "A notification has an \"id\"",
    spec: "basic/index \"Notifications\": \"Notifications MUST NOT include an ID\"",
    why: "With an id it is a request. The receiver answers with an error because it does not know the method, or the sender waits forever.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"notifications/initialized\"}",
    remedy: "Leave out \"id\", even if it would be null.",
    checks: &[Check::Message(REQUESTS, &[], notification_with_id)],
    ..Rule::BLANK
};

fn notification_with_id(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.method_name().starts_with("notifications/") {
        report.add(format!("{} was sent with the id {}", context.method_name(), context.id()));
    }
}

static REQUEST_WITHOUT_ID: Rule = Rule {
    id: "jsonrpc-request-without-id",
    severity: Severity::Error,
    title: "A request was sent without \"id\"",
    spec: "basic/index \"Requests\": \"Requests MUST include a string or integer ID\"",
    why: "Without an id it is a notification, and nobody will answer it.",
    example: "{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\"}",
    remedy: "Use an id that no earlier request of the session had.",
    checks: &[Check::Message(NOTIFICATIONS, &[], request_without_id)],
    ..Rule::BLANK
};

fn request_without_id(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.method != Method::Other && !context.method.is_notification() {
        report.add(format!("{} has no id and will not be answered", context.method_name()));
    }
}

static RESERVED_PREFIX: Rule = Rule {
    id: "jsonrpc-method-reserved-prefix",
    severity: Severity::Warning,
    title: "The name of a method begins with \"rpc.\"",
    spec: "JSON-RPC 2.0 section 4: such names are \"reserved for rpc-internal methods and extensions\"",
    why: "Libraries may take it for one of their own methods.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.discover\"}",
    remedy: "Choose another name, with your own prefix.",
    checks: &[Check::Message(ASKS, &[Method::Other], reserved_prefix)],
    ..Rule::BLANK
};

fn reserved_prefix(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if context.method_name().starts_with("rpc.") {
        report.add(format!("the method {} is reserved", context.method_name()));
    }
}

pub(super) static DUPLICATE_KEY: Rule = Rule {
    id: "jsonrpc-duplicate-key",
    severity: Severity::Warning,
    title: "An object has two members of the same name",
    spec: "RFC 8259 section 4: \"The names within an object SHOULD be unique\"",
    why: "Parsers disagree about which one counts. A gateway may check one value while the server uses the other.",
    example: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"tools/call\"}",
    remedy: "Send each member once. If an intermediary lets both through, treat it as an attack until it is explained.",
    checks: &[Check::Message(ASKS, &[], duplicate_key)],
    ..Rule::BLANK
};

/// Checks the members of `params`. The parser of the envelope checks the others. Results are not
/// checked: they are long, and parsing each would cost more than the rule is worth.
fn duplicate_key(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let names = || context.body().iter().map(|(name, _)| name);
    let twice = names().enumerate().take(64).find(|(at, name)| names().take(*at).any(|earlier| earlier == *name));
    if let Some((_, name)) = twice {
        report.add(format!("the member {name} occurs twice; the last one counts"));
    }
}

/// The type of a JSON value, with an article.
pub(super) fn type_of(json: &str) -> &'static str {
    JsonType::of(json).map_or("a number", JsonType::name)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    fn with(line: &str) -> Vec<String> {
        session("2025-06-18", &[line])
    }

    #[test]
    fn invalid_messages() {
        fires("stdio-stdout-not-mcp", &with("< Listening on port 3000"));
        fires("stdio-stdin-not-mcp", &with(r#"> {"jsonrpc":"2.0""#));
        let post = |body: &str| crate::findings::testing::post("Mcp-Session-Id: x\n", body);
        fires("jsonrpc-invalid-json", &[post("{,}"), "< 400\n\n".to_owned()]);
        fires("jsonrpc-not-a-message", &[post("{}"), "< 400\n\n".to_owned()]);
        silent("jsonrpc-invalid-json", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        silent("jsonrpc-not-a-message", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        silent("jsonrpc-not-utf8", &with(r#"> {"jsonrpc":"2.0","id":"é","method":"ping"}"#));
    }

    #[test]
    fn the_version_field() {
        fires("jsonrpc-version-field", &with(r#"> {"id":1,"method":"ping"}"#));
        fires("jsonrpc-version-field", &with(r#"> {"jsonrpc":2.0,"id":1,"method":"ping"}"#));
        silent("jsonrpc-version-field", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    }

    #[test]
    fn members_that_exclude_each_other() {
        let request = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let answer = r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#;
        fires(
            "jsonrpc-result-and-error",
            &session(
                "2025-06-18",
                &[request, r#"< {"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#],
            ),
        );
        silent("jsonrpc-result-and-error", &session("2025-06-18", &[request, answer]));
        fires("jsonrpc-method-and-result", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#));
        silent("jsonrpc-method-and-result", &session("2025-06-18", &[request, answer]));
    }

    #[test]
    fn params_and_results_are_objects() {
        let request = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let answer = |result: &str| format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let found = fires("jsonrpc-result-not-object", &session("2025-06-18", &[request, &answer("null")]));
        assert_eq!(found.text, "the result is null");
        silent("jsonrpc-result-not-object", &session("2025-06-18", &[request, &answer("{}")]));
        fires("jsonrpc-params-not-object", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#));
        silent("jsonrpc-params-not-object", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping","params":{}}"#));
    }

    #[test]
    fn ids_where_they_belong() {
        fires(
            "jsonrpc-notification-with-id",
            &with(r#"> {"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#),
        );
        fires("jsonrpc-request-without-id", &with(r#"> {"jsonrpc":"2.0","method":"tools/list"}"#));
        let fine = with(r#"> {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        silent("jsonrpc-notification-with-id", &fine);
        silent("jsonrpc-request-without-id", &fine);
    }

    #[test]
    fn names() {
        fires("jsonrpc-method-reserved-prefix", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#));
        silent("jsonrpc-method-reserved-prefix", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"rpcs/discover"}"#));
        fires("jsonrpc-duplicate-key", &with(r#"> {"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#));
        fires(
            "jsonrpc-duplicate-key",
            &with(r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#),
        );
        silent("jsonrpc-duplicate-key", &with(r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    }
}
