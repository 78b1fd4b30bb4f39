//! Rules about sampling.

use std::collections::BTreeSet;

use super::{Check, MessageContext, REQUESTS, RESULTS, Report, Rule, Severity};
use crate::decode::json::{self, Object};
use crate::mcp::revision::Revision::V2025_11_25;
use crate::mcp::{Method, Revisions};

pub(super) const RULES: &[&Rule] = &[&TOOL_RESULTS];

/// Limits of the checked messages of a request, and of the blocks of a message.
const MESSAGES: usize = 4_096;
const BLOCKS: usize = 1_024;

static TOOL_RESULTS: Rule = Rule {
    id: "sampling-tool-results",
    severity: Severity::Error,
    revisions: Revisions::since(V2025_11_25),
    title: "Tool uses and tool results in a sampling request do not match",
    spec: "client/sampling \"Message Content Constraints\": \"Tool Result Messages\", \"Tool Use and Result Balance\"",
    why: "Model providers refuse such conversations with an error.",
    example: "a user message with a tool_result and a text; a tool_use without an answer in the next message",
    remedy: "Answer all tool_use blocks in the next user message, and put nothing else into it.",
    checks: &[
        Check::Message(REQUESTS, &[Method::SamplingCreateMessage], request),
        Check::Message(RESULTS, &[Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead], embedded),
    ],
};

fn request(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    if let Some(fault) = context.body().get("messages").and_then(fault) {
        report.add(fault);
    }
}

/// From 2026-07-28 on, a result contains the request.
fn embedded(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    for params in context.input_requests("sampling/createMessage") {
        if let Some(fault) = params.get("messages").and_then(fault) {
            report.add(fault);
        }
    }
}

/// The first message of a conversation whose tool uses and tool results do not match.
fn fault(messages: &str) -> Option<String> {
    // Most conversations use no tools. This check makes them cheap.
    let names_any = |name: &[u8]| memchr::memmem::find(messages.as_bytes(), name).is_some();
    if !names_any(b"tool_use") && !names_any(b"tool_result") {
        return None;
    }
    // Ids of tool uses whose results must be in the next message.
    let mut open: BTreeSet<String> = BTreeSet::new();
    let messages = json::array(messages, MESSAGES + 1);
    let is_whole = messages.len() <= MESSAGES;
    for (index, message) in messages.into_iter().take(MESSAGES).enumerate() {
        let message = Object::read(message);
        let content = message.get("content").unwrap_or_default();
        let blocks = if content.starts_with('[') { json::array(content, BLOCKS + 1) } else { vec![content] };
        if blocks.len() > BLOCKS {
            return None;
        }
        let blocks: Vec<Object<'_>> = blocks.into_iter().map(Object::read).collect();
        let of = |kind: &'static str, id: &'static str| {
            let is_kind = move |block: &&Object<'_>| block.text("type").is_some_and(|name| name == kind);
            blocks.iter().filter(is_kind).map(move |block| block.text(id).unwrap_or_default().into_owned())
        };
        let results: Vec<String> = of("tool_result", "toolUseId").collect();
        if !results.is_empty() && results.len() < blocks.len() {
            return Some(format!("message {index} mixes tool_result with other content"));
        }
        if let Some(id) = results.iter().find(|id| !open.remove(*id)) {
            return Some(format!(
                "the tool_result {id:?} in message {index} answers no tool_use of the message before"
            ));
        }
        if let Some(id) = open.first() {
            return Some(format!("message {index} does not answer the tool_use {id:?}"));
        }
        open = of("tool_use", "id").collect();
    }
    open.first().filter(|_| is_whole).map(|id| format!("the tool_use {id:?} is not answered"))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session_of, silent};

    #[test]
    fn tool_uses_and_results_balance() {
        let rule = "sampling-tool-results";
        let with = |messages: &str| {
            let request = format!(
                r#"< {{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{{"maxTokens":9,"messages":[{messages}]}}}}"#
            );
            session_of("2025-11-25", r#"{"sampling":{"tools":{}}}"#, "{}", &[&request])
        };
        let ask = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;
        let result = r#"{"type":"tool_result","toolUseId":"a","content":[]}"#;
        let text = r#"{"type":"text","text":"x"}"#;
        let user = |blocks: &str| format!(r#"{{"role":"user","content":{blocks}}}"#);
        silent(rule, &with(&format!("{ask},{},{}", user(result), user(text))));
        silent(rule, &with(&user(text)));
        fires(rule, &with(&format!("{ask},{}", user(&format!("[{result},{text}]")))));
        fires(rule, &with(&format!("{ask},{}", user(text))));
        fires(rule, &with(&user(result)));
        fires(rule, &with(ask));
    }
}
