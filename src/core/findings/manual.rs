//! The manual of the rules: one page a rule, and all of them as `docs/findings.md`.

use std::fmt::Write;

use super::{Rule, all};
use crate::mcp::revision::Revisions;

/// The revisions that a rule is part of, in words.
pub fn revisions(rule: &Rule) -> String {
    if rule.revisions == Revisions::ALL {
        return "all revisions".to_owned();
    }
    let names: Vec<&str> = rule.revisions.iter().map(|revision| revision.name()).collect();
    names.join(", ")
}

/// `docs/findings.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Findings\n\n\
         <!-- Made from the rules: UPDATE_EXPECT=1 cargo test -p mcptap-core findings::manual -->\n\n\
         What mcptap says about a conversation, rule by rule. `mcptap check` groups findings by rule, `mcptap rules RULE` prints one \
         page of this manual.\n\n\
         ## How rules look\n\n\
         - **The revision in force** is decided for each request: by its own `_meta` (2026-07-28 on); by the answer to `initialize`, \
         and until that came by what it asked for; by `MCP-Protocol-Version`. Where nothing says it, a rule speaks only if it is part \
         of every revision that may be in force. Both eras may mix on one endpoint.\n\
         - **What was not captured** is held against nobody: rules about what should have come before are silent where a capture \
         begins in the middle of a session, and milder where bytes are missing.\n\
         - **Severity**: *error* is against a MUST or loses data, *warning* is probably not meant, *info* is worth knowing. Where an \
         older revision says SHOULD, or the evidence is thin, a finding is milder than its rule.\n\
         - **Repetition**: a hundred findings of one rule in one session are listed, and of a method whose capability is not declared \
         the first; further ones are counted, and said once at the \
         end with `repeated`.\n\n",
    );
    let rules: Vec<&Rule> = all().collect();
    let mut layers: Vec<&str> = Vec::new();
    for rule in &rules {
        if !layers.contains(&rule.layer) {
            layers.push(rule.layer);
        }
    }
    let _ = writeln!(text, "## The {} rules\n", rules.len());
    for layer in &layers {
        let _ = writeln!(text, "### {layer}\n\n| rule | severity | what |\n|---|---|---|");
        for rule in rules.iter().filter(|rule| rule.layer == *layer) {
            let title = rule.title.replace('|', "\\|");
            let _ = writeln!(text, "| [`{0}`](#{0}) | {1} | {title} |", rule.id, rule.severity.name());
        }
        text.push('\n');
    }
    text.push_str("## The manual\n");
    for rule in rules {
        let _ = write!(
            text,
            "\n### {}\n\n{}. *{}, {}.*\n\n- Why it matters: {}\n- Example: {}\n- What to do: {}\n- Specification: {}\n",
            rule.id,
            rule.title,
            rule.severity.name(),
            revisions(rule),
            rule.why,
            rule.example,
            rule.remedy,
            rule.spec,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let document = document();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &document).expect("the document is written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == document,
            "docs/findings.md is stale: UPDATE_EXPECT=1 cargo test -p mcptap-core findings::manual"
        );
    }
}
