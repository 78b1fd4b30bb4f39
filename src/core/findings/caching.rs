//! Rules about the caching of results (2026-07-28 server/utilities/caching).

use super::mismatch::{Topic, mismatches_of_topic};
use super::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::mcp::Revisions;
use crate::mcp::shape::MismatchKind;

pub(super) const RULES: &[&Rule] = &[&MISSING, &INVALID];

static MISSING: Rule = Rule {
    id: "cache-hints-missing",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "A cacheable result does not state how long, or for whom, it may be cached",
    spec: "2026-07-28 server/utilities/caching \"Cacheable Results\": ttlMs and cacheScope",
    why: "Typed clients refuse the result. Others request it again before every use, or share private data.",
    example: "a result of tools/list without \"ttlMs\"",
    remedy: "Send \"ttlMs\":0 and \"cacheScope\":\"private\" if nothing better is known.",
    checks: &[Check::Message(RESULTS, &[], missing)],
};

fn missing(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let missing = mismatches_of_topic(context, Topic::Cache).filter(|mismatch| mismatch.kind == MismatchKind::Missing);
    let names: Vec<&str> = missing.filter_map(|mismatch| mismatch.path.rsplit('/').next()).collect();
    if !names.is_empty() {
        report.add(format!("{} of {} missing", names.join(" and "), context.method_name()));
    }
}

static INVALID: Rule = Rule {
    id: "cache-hints-invalid",
    severity: Severity::Error,
    revisions: Revisions::MODERN,
    title: "ttlMs or cacheScope is invalid, or the pages of one list have different scopes",
    spec: "2026-07-28 server/utilities/caching \"TTL\", \"Interaction with Pagination\"",
    why: "Caches drop the result, or share one page of a private list with everybody.",
    example: "\"ttlMs\":-1; \"cacheScope\":\"user\"; page 1 public and page 2 private",
    remedy: "Send a whole number of milliseconds, at least 0, and the same scope for all pages.",
    checks: &[Check::Message(RESULTS, &[], invalid)],
};

fn invalid(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let wrong = mismatches_of_topic(context, Topic::Cache).filter(|mismatch| mismatch.kind != MismatchKind::Missing);
    let text: Vec<String> = wrong.map(|mismatch| mismatch.to_string()).collect();
    if !text.is_empty() {
        return report.add(text.join("; "));
    }
    let Some(request) = context.request.filter(|_| context.method.is_paged()) else { return };
    let Some(page) = context.history.listings.before(context.method, request.cursor.as_deref()) else { return };
    if let (Some(before), Some(now)) = (page.scope.as_deref(), context.body().get("cacheScope"))
        && before != now
    {
        report.add_about(&[page.number], format!("this page is {now}, but the previous page was {before}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, silent};

    fn listed(hints: &str) -> [String; 2] {
        [
            format!(r#"> {{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, modern("")),
            format!(r#"< {{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[]{hints}}}}}"#),
        ]
    }

    #[test]
    fn results_state_their_cache_hints() {
        let good = r#","ttlMs":0,"cacheScope":"public""#;
        fires("cache-hints-missing", &listed(r#","ttlMs":0"#));
        silent("schema-result-invalid", &listed(r#","ttlMs":0"#));
        silent("cache-hints-missing", &listed(good));
        fires("cache-hints-invalid", &listed(&good.replace('0', "-1")));
        fires("cache-hints-invalid", &listed(&good.replace("public", "user")));
        silent("cache-hints-invalid", &listed(good));
    }

    #[test]
    fn pages_have_one_scope() {
        let pages = |last: &str| {
            let first = listed(r#","ttlMs":0,"cacheScope":"public","nextCursor":"c""#);
            let next = listed(&format!(r#","ttlMs":0,"cacheScope":"{last}""#));
            let more = next[0].replace("\"id\":1", "\"id\":2").replace("\"params\":{", "\"params\":{\"cursor\":\"c\",");
            [first[0].clone(), first[1].clone(), more, next[1].replace("\"id\":1", "\"id\":2")]
        };
        fires("cache-hints-invalid", &pages("private"));
        silent("cache-hints-invalid", &pages("public"));
    }
}
