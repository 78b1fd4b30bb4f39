//! Rules about batches: arrays of messages, which only 2025-03-26 allows.

use crate::decode::{Exchange, Kind};
use crate::findings::mcp_exchange::{is_success, media_type};
use crate::findings::message_facts::Evidence;
use crate::findings::{Check, History, MESSAGES, McpExchange, MessageContext, REQUESTS, Report, Rule, Severity};
use crate::mcp::revision::Revision::{V2024_11_05, V2025_03_26};
use crate::mcp::{Message, Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[&UNSUPPORTED, &EMPTY, &MIXED, &INITIALIZE, &INCOMPLETE];

const BATCHES: Revisions = Revisions::only(V2025_03_26);

static UNSUPPORTED: Rule = Rule {
    id: "jsonrpc-batch-unsupported",
    severity: Severity::Error,
    revisions: Revisions::ALL.without(BATCHES),
    title: "A batch in a revision that has no batches",
    spec: "2025-06-18 changelog 1; basic/transports: \"a single JSON-RPC request, notification, or response\"",
    why: "The receiver answers one error for the whole batch, or nothing.",
    example: "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}] under 2025-06-18",
    remedy: "Send messages one by one. Only 2025-03-26 has batches.",
    checks: &[Check::Any(MESSAGES, &[], unsupported)],
};

fn unsupported(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((batch, 0)) = context.message.batch else { return };
    let in_force = context.in_force;
    if in_force.revisions.within(Revisions::only(V2024_11_05)) {
        report.add_as(Severity::Warning, format!("batch {batch}: 2024-11-05 does not mention batches"));
    } else if let Some(revision) = in_force.revisions.single().filter(|revision| *revision != V2025_03_26) {
        report.add(format!("batch {batch}: {} has no batches", revision.name()));
    } else if in_force.evidence == Evidence::Era && context.history.handshake.answered.is_some() {
        report.add(format!("batch {batch}: no revision with batches was negotiated"));
    }
}

pub(super) static EMPTY: Rule = Rule {
    id: "jsonrpc-batch-empty",
    severity: Severity::Error,
    revisions: BATCHES,
    title: "A batch without members",
    spec: "JSON-RPC 2.0 section 6: \"an Array with at least one value\"",
    why: "It must be answered with one error. Many implementations answer nothing or fail.",
    example: "[]",
    remedy: "Send nothing if there is nothing to send.",
    ..Rule::BLANK
};

/// Whether an invalid message is an empty array.
pub(super) fn is_empty(message: &Message) -> bool {
    let text = message.raw.trim_ascii();
    text.first() == Some(&b'[') && text.last() == Some(&b']') && text[1..text.len() - 1].trim_ascii().is_empty()
}

static MIXED: Rule = Rule {
    id: "jsonrpc-batch-mixed",
    severity: Severity::Error,
    revisions: BATCHES,
    title: "A batch contains responses together with requests or notifications",
    spec: "2025-03-26 basic/transports \"Sending Messages to the Server\" 3; schema JSONRPCBatchRequest, JSONRPCBatchResponse",
    why: "The schema has no such array. Strict receivers refuse all of it, including the responses.",
    example: "[{\"id\":1,\"result\":{}},{\"id\":2,\"method\":\"ping\"}]",
    remedy: "Send responses in one array and requests in another.",
    checks: &[Check::Message(MESSAGES, &[], mixed)],
};

fn mixed(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let (Some((number, _)), Some(batch)) = (context.message.batch, context.history.batch) else { return };
    let is_response = matches!(context.message.kind, Kind::Response | Kind::Error);
    // Reported once: at the first message of the other kind.
    if number == batch.number && batch.has_requests != batch.has_responses && is_response != batch.has_responses {
        report.add(format!("batch {number} contains both"));
    }
}

static INITIALIZE: Rule = Rule {
    id: "jsonrpc-batch-initialize",
    severity: Severity::Error,
    revisions: BATCHES,
    title: "initialize was sent inside a batch",
    spec: "2025-03-26 basic/lifecycle \"Initialization\": \"MUST NOT be part of a JSON-RPC batch\"",
    why: "Nothing else may be sent before the handshake is complete, and servers of other revisions cannot read a batch.",
    example: "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",…}]",
    remedy: "Send initialize alone and wait for its response.",
    checks: &[Check::Message(REQUESTS, &[Method::Initialize], initialize)],
};

fn initialize(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some((number, index)) = context.message.batch {
        report.add(format!("initialize is member {index} of batch {number}"));
    }
}

static INCOMPLETE: Rule = Rule {
    id: "jsonrpc-batch-response-incomplete",
    severity: Severity::Warning,
    revisions: BATCHES,
    title: "A batch was answered with too few or too many responses",
    spec: "JSON-RPC 2.0 section 6: \"A Response object SHOULD exist for each Request object\"",
    why: "The requests without a response wait until they time out.",
    example: "a POST of three requests answered with an array of two responses",
    remedy: "Answer each request of the batch in one array or stream. Never answer its notifications.",
    checks: &[Check::Exchange(incomplete)],
};

fn incomplete(exchange: &Exchange, mcp: &McpExchange, _: &History, report: &mut Report<'_>) {
    let is_whole = exchange.request.complete && exchange.response.complete && is_success(exchange);
    let is_json = media_type(&exchange.response).as_deref() == Some("application/json");
    // Only the first 64 messages of each direction are remembered.
    if !is_whole || !is_json || mcp.sent.len() < 2 || mcp.sent.len().max(mcp.received.len()) >= 64 {
        return;
    }
    // An invalid member is answered with an error whose id is null.
    let requests = mcp.sent.iter().filter(|sent| matches!(sent.kind, Kind::Request | Kind::Invalid)).count();
    let responses = mcp.received.iter().filter(|got| matches!(got.kind, Kind::Response | Kind::Error)).count();
    if requests != responses {
        report.add(format!("{requests} requests, {responses} responses"));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, header, http_session, json, post, session, silent};

    const BATCH: &str = r#"> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;

    #[test]
    fn only_one_revision_has_batches() {
        fires("jsonrpc-batch-unsupported", &session("2025-06-18", &[BATCH]));
        fires("jsonrpc-batch-unsupported", &session("2025-09-22", &[BATCH]));
        let found = fires("jsonrpc-batch-unsupported", &session("2024-11-05", &[BATCH]));
        assert_eq!(found.severity.name(), "warning");
        silent("jsonrpc-batch-unsupported", &session("2025-03-26", &[BATCH]));
    }

    #[test]
    fn contents_of_a_batch() {
        fires("jsonrpc-batch-empty", &session("2025-03-26", &["> []"]));
        let mixed = r#"> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":9,"result":{}}]"#;
        fires("jsonrpc-batch-mixed", &session("2025-03-26", &[mixed]));
        silent("jsonrpc-batch-empty", &session("2025-03-26", &[BATCH]));
        silent("jsonrpc-batch-mixed", &session("2025-03-26", &[BATCH]));
        let handshake = session("2025-03-26", &[]);
        fires("jsonrpc-batch-initialize", &[format!("> [{}]", &handshake[0][2..])]);
        silent("jsonrpc-batch-initialize", &handshake);
    }

    #[test]
    fn each_request_of_a_batch_is_answered() {
        let request = post(&header("2025-03-26", true), &BATCH[2..]);
        let answer = |ids: &[u32]| {
            let answers: Vec<_> =
                ids.iter().map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).collect();
            json(200, "", &format!("[{}]", answers.join(",")))
        };
        let rule = "jsonrpc-batch-response-incomplete";
        fires(rule, &http_session("2025-03-26", true, &[request.clone(), answer(&[1])]));
        silent(rule, &http_session("2025-03-26", true, &[request, answer(&[2, 1])]));
    }
}
