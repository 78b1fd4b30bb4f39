//! Rules about images, audio and blobs.

use super::mismatch::{Topic, report_mismatches};
use super::{Check, MESSAGES, Rule, Severity};

pub(super) const RULES: &[&Rule] = &[&BINARY];

static BINARY: Rule = Rule {
    id: "content-binary-invalid",
    severity: Severity::Error,
    title: "Binary content is not base64 or does not state its type",
    spec: "server/tools \"Image Content\", \"Audio Content\"; server/resources \"Binary Content\"; schema ImageContent, AudioContent, BlobResourceContents",
    why: "The client cannot decode it, or does not know its type. The model gets an error instead of the content.",
    example: "{\"type\":\"image\",\"data\":\"data:image/png;base64,iVBO…\"}",
    remedy: "Send standard base64 (RFC 4648 section 4) without a data: prefix or line breaks, and the mimeType.",
    checks: &[Check::Any(MESSAGES, &[], |context, report| report_mismatches(context, Topic::Binary, report))],
    ..Rule::BLANK
};

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    #[test]
    fn binary_content_is_base64_of_a_type() {
        let rule = "content-binary-invalid";
        let call = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let with = |block: &str| {
            let answer = format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"content":[{block}]}}}}"#);
            session("2025-06-18", &[call, &answer])
        };
        fires(rule, &with(r#"{"type":"image","data":"data:image/png;base64,AAAA","mimeType":"image/png"}"#));
        fires(rule, &with(r#"{"type":"audio","data":"AAAA"}"#));
        silent("schema-result-invalid", &with(r#"{"type":"audio","data":"AAAA"}"#));
        silent(rule, &with(r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#));
        silent(rule, &with(r#"{"type":"text","text":"data:"}"#));
    }
}
