//! Rules about changes of the whole list of tools.

use std::collections::BTreeMap;

use crate::findings::history::Listing;
use crate::findings::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::mcp::{Method, Revisions};

pub(in crate::findings) const RULES: &[&Rule] = &[&CHANGED_SILENTLY, &ORDER_UNSTABLE];

/// Limit of tool names in one finding.
const NAMED: usize = 5;

static CHANGED_SILENTLY: Rule = Rule {
    id: "tools-changed-silently",
    severity: Severity::Info,
    title: "The list of tools changed within a session without a notification",
    spec: "server/tools \"List Changed Notification\"",
    why: "Clients keep the old list. A description that changes after a person has read it is also how a tool is turned against them.",
    example: "the description of add differs between two tools/list results, with no notifications/tools/list_changed between",
    remedy: "Declare tools.listChanged and send the notification. Clients should show the changes before they use the tools.",
    checks: &[Check::Any(RESULTS, &[Method::ToolsList], changed_silently)],
    ..Rule::BLANK
};

/// The previous listing, and the one that this result completes.
fn listings<'s>(context: &MessageContext<'s, '_>) -> Option<(&'s Listing, Listing)> {
    let before = context.history.listings.tools.as_ref()?;
    let now = context.history.listings.completed(context, context.request?.cursor.as_deref())?;
    Some((before, now))
}

fn changed_silently(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    // A server may show other tools to another client.
    if !context.is_one_client() || context.history.has_gaps {
        return;
    }
    let Some((before, now)) = listings(context) else { return };
    if context.history.listings.is_announced_since(before) {
        return;
    }
    let known: BTreeMap<_, _> = before.tools.iter().map(|(name, tool)| (name, tool)).collect();
    let current: BTreeMap<_, _> = now.tools.iter().map(|(name, tool)| (name, tool)).collect();
    let named = |names: Vec<&String>, what: &str| {
        let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
        let more = names.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{what} {}{rest}", shown.join(", ")))
    };
    let changed = current.iter().filter(|(name, tool)| known.get(*name).is_some_and(|before| before != *tool));
    let changes = [
        named(changed.map(|(name, _)| *name).collect(), "changed"),
        named(current.keys().filter(|name| !known.contains_key(*name)).copied().collect(), "added"),
        named(known.keys().filter(|name| !current.contains_key(*name)).copied().collect(), "removed"),
    ];
    let text: Vec<String> = changes.into_iter().flatten().collect();
    if !text.is_empty() {
        report.add_about(&[before.number], text.join("; "));
    }
}

static ORDER_UNSTABLE: Rule = Rule {
    id: "tools-order-unstable",
    severity: Severity::Info,
    revisions: Revisions::MODERN,
    title: "The same tools came in another order",
    spec: "2026-07-28 server/tools \"Capabilities\": the order SHOULD be deterministic",
    why: "The list is at the start of the model's prompt. Another order makes the prompt cache useless, which costs time and money.",
    example: "[add, sub], and [sub, add] on the next tools/list",
    remedy: "Sort the tools, by name or by order of registration.",
    checks: &[Check::Message(RESULTS, &[Method::ToolsList], order_unstable)],
};

fn order_unstable(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let Some((before, now)) = listings(context) else { return };
    let names = |listing: &Listing| listing.tools.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let (mut known, mut current) = (names(before), names(&now));
    if known == current {
        return;
    }
    let first = known.iter().zip(&current).find(|(known, current)| known != current);
    let text = first.map(|(known, current)| format!("{current:?} is where {known:?} was"));
    known.sort_unstable();
    current.sort_unstable();
    if let Some(text) = text.filter(|_| known == current) {
        report.add_about(&[before.number], text);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, modern, session, silent};

    const CHANGED: &str = r#"< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

    fn ask(id: u32, params: &str) -> String {
        format!(r#"> {{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#)
    }

    fn answer(id: u32, tools: &[&str], more: &str) -> String {
        let tools: Vec<String> = tools
            .iter()
            .map(|name| {
                format!(r#"{{"name":"{}","description":"{name}","inputSchema":{{"type":"object"}}}}"#, &name[..1])
            })
            .collect();
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{}]{more}}}}}"#, tools.join(","))
    }

    #[test]
    fn a_list_changes_with_notice() {
        let rule = "tools-changed-silently";
        let twice = |then: &[&str], between: &[&str]| {
            let first = [ask(1, "{}"), answer(1, &["a", "b"], "")];
            let last = [ask(2, "{}"), answer(2, then, "")];
            let steps: Vec<&str> = first.iter().map(String::as_str).chain(between.iter().copied()).collect();
            session("2025-06-18", &steps.into_iter().chain(last.iter().map(String::as_str)).collect::<Vec<_>>())
        };
        assert_eq!(fires(rule, &twice(&["a", "bee", "c"], &[])).text, r#"changed "b"; added "c""#);
        silent(rule, &twice(&["a", "bee"], &[CHANGED]));
        silent(rule, &twice(&["b", "a"], &[]));
        let paged = [
            ask(1, "{}"),
            answer(1, &["a", "b"], ""),
            ask(2, "{}"),
            answer(2, &["a"], r#","nextCursor":"x""#),
            ask(3, r#"{"cursor":"x"}"#),
            answer(3, &["b"], ""),
        ];
        silent(rule, &session("2025-06-18", &paged.each_ref().map(String::as_str)));
    }

    #[test]
    fn the_order_of_a_list_is_stable() {
        let more = r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#;
        let twice = |then: &[&str]| {
            [ask(1, &modern("")), answer(1, &["a", "b"], more), ask(2, &modern("")), answer(2, then, more)]
        };
        fires("tools-order-unstable", &twice(&["b", "a"]));
        silent("tools-order-unstable", &twice(&["a", "b"]));
        silent("tools-order-unstable", &twice(&["b", "c"]));
    }
}
