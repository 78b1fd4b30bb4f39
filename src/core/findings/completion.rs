//! Rules about completion (server/utilities/completion).

use super::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::decode::json::array;
use crate::mcp::Method;

pub(super) const RULES: &[&Rule] = &[&TOO_MANY];

/// "Maximum 100 items per response" (server/utilities/completion "Completion Results").
const MOST: usize = 100;

static TOO_MANY: Rule = Rule {
    id: "completion-too-many",
    severity: Severity::Error,
    title: "More than 100 values in a completion",
    spec: "server/utilities/completion \"Completion Results\": \"Maximum 100 items per response\"; schema CompleteResult: \"Must not exceed 100 items\"",
    why: "Clients that validate refuse the whole response.",
    example: "\"completion\":{\"values\":[ … 250 values … ]}",
    remedy: "Send the best 100 values, and use hasMore and total for the rest.",
    checks: &[Check::Message(RESULTS, &[Method::CompletionComplete], too_many)],
    ..Rule::BLANK
};

fn too_many(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let completion = context.body().object("completion");
    if array(completion.get("values").unwrap_or_default(), MOST + 1).len() > MOST {
        report.add("the completion has more than 100 values");
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    #[test]
    fn a_hundred_values_are_enough() {
        let completed = |count: usize| {
            let values = vec!["\"a\""; count].join(",");
            let ask = r#"> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}}"#;
            let answer = format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"completion":{{"values":[{values}]}}}}}}"#);
            session("2025-06-18", &[ask, &answer])
        };
        fires("completion-too-many", &completed(101));
        silent("completion-too-many", &completed(100));
    }
}
