//! Differences between a message and its definition, sorted by the rule that reports them. Each
//! difference is reported once.

use super::{MessageContext, Report};
use crate::decode::Kind;
use crate::mcp::Method;
use crate::mcp::shape::{Mismatch, MismatchKind};

/// The topic of a difference. It selects the most specific rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// No specific topic: `schema-request-invalid` and its siblings.
    Schema,
    /// A URI or URI template of a resource or root.
    Uri,
    /// The base64 text or the `mimeType` of an image, audio or blob.
    Binary,
    /// The schema of an elicitation's form.
    Form,
    Url,
    Cache,
    ResultType,
    /// The members of `_meta` that every request of 2026-07-28 must have.
    Meta,
    /// An input request inside a result.
    InputRequest,
    /// The schemas of a listed tool.
    ToolSchema,
    /// Too many values in a completion.
    Completion,
    /// A root whose URI is not a `file:` URI.
    Root,
}

impl Topic {
    /// The topic of this difference.
    fn of(context: &MessageContext<'_, '_>, mismatch: &Mismatch) -> Topic {
        let path = mismatch.path.as_str();
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_format = mismatch.kind == MismatchKind::Format;
        let is_missing = mismatch.kind == MismatchKind::Missing;
        let is_result = context.message.kind == Kind::Response;
        match name {
            "ttlMs" | "cacheScope" if path.starts_with("/result/") && path.matches('/').count() == 2 => Topic::Cache,
            _ if path == "/result/resultType" => Topic::ResultType,
            _ if context.revisions().iter().all(|revision| revision.is_stateless()) && is_required_meta(path) => {
                Topic::Meta
            }
            _ if path.contains("/requestedSchema") => Topic::Form,
            "url" | "elicitationId" if path.contains("/params/") && is_elicitation(context) => Topic::Url,
            _ if is_result && path.starts_with("/result/inputRequests") => Topic::InputRequest,
            // A missing schema is not an invalid one.
            "inputSchema" if is_missing => Topic::Schema,
            _ if context.method == Method::ToolsList
                && (path.contains("/inputSchema") || path.contains("/outputSchema")) =>
            {
                Topic::ToolSchema
            }
            _ if path == "/result/completion/values" && mismatch.kind == MismatchKind::Value => Topic::Completion,
            "uri" if is_format && context.method == Method::RootsList && !mismatch.found.contains("file:") => {
                Topic::Root
            }
            "uri" | "uriTemplate" if is_format => Topic::Uri,
            "data" | "blob" if is_format => Topic::Binary,
            "mimeType" if is_missing => Topic::Binary,
            _ => Topic::Schema,
        }
    }
}

/// Whether the path is a member of `_meta` that 2026-07-28 requires, or an object that
/// should contain it.
fn is_required_meta(path: &str) -> bool {
    let key = path.strip_prefix("/params/_meta/io.modelcontextprotocol~1");
    matches!(path, "/params" | "/params/_meta") || matches!(key, Some("protocolVersion" | "clientCapabilities"))
}

fn is_elicitation(context: &MessageContext<'_, '_>) -> bool {
    context.method == Method::ElicitationCreate || context.message.kind == Kind::Response
}

/// The differences of this topic.
pub fn mismatches_of_topic<'s>(
    context: &'s MessageContext<'_, '_>,
    topic: Topic,
) -> impl Iterator<Item = &'s Mismatch> {
    context.mismatches().iter().filter(move |mismatch| Topic::of(context, mismatch) == topic)
}

/// Differences that one finding describes. Further ones are counted.
const DESCRIBED: usize = 3;

/// Reports the differences of this topic as one finding.
pub fn report_mismatches(context: &MessageContext<'_, '_>, topic: Topic, report: &mut Report<'_>) {
    let found: Vec<&Mismatch> = mismatches_of_topic(context, topic).collect();
    let mut text: Vec<String> = found.iter().take(DESCRIBED).map(|mismatch| mismatch.to_string()).collect();
    if found.len() > DESCRIBED {
        text.push(format!("{} more", found.len() - DESCRIBED));
    }
    if !text.is_empty() {
        report.add(text.join("; "));
    }
}
