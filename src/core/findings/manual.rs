//! The manual of the rules: one page for each rule, and all of them as `docs/findings.md`.

use super::Rule;
use crate::mcp::Revisions;

/// The names of the revisions that contain a rule.
pub fn revisions(rule: &Rule) -> String {
    if rule.revisions == Revisions::ALL {
        return "all revisions".to_owned();
    }
    let names: Vec<&str> = rule.revisions.iter().map(|revision| revision.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::findings::all;

    /// The content of `docs/findings.md`.
    fn document() -> String {
        let mut text = String::from(
            "# Findings\n\n\
             <!-- Made from the rules: UPDATE_EXPECT=1 cargo test -p mcptap-core findings::manual -->\n\n\
             A finding is a place where traffic breaks a rule. `mcptap check` groups findings by rule, and `mcptap rules RULE` prints \
             the page of one rule.\n\n\
             ## How rules work\n\n\
             - **The revision in force** is decided for each request. The first source that names a revision counts: the `_meta` of \
             the request (2026-07-28 on), the response to `initialize`, the version that `initialize` requested, and \
             `MCP-Protocol-Version`. If no source names a revision, a rule applies only if it is part of every revision that may be \
             in force. Both eras may be mixed on one endpoint.\n\
             - **Traffic that was not captured** is not an error. Rules about earlier messages are silent if the capture begins in \
             the middle of a session. They are milder if bytes are missing.\n\
             - **Severity**: *error* breaks a MUST or loses data, *warning* is probably unintended, *info* is worth knowing. A \
             finding is milder than its rule if an older revision says SHOULD, or if the evidence is weak.\n\
             - **Repetition**: up to a hundred findings of one rule are listed for each session. If a capability is not declared, only \
             the first use of each method is listed. Further findings are counted, and reported once at the end with `repeated`.\n\n",
        );
        let rules: Vec<&Rule> = all().collect();
        let mut layers: Vec<&str> = Vec::new();
        for rule in &rules {
            if !layers.contains(&rule.layer()) {
                layers.push(rule.layer());
            }
        }
        let _ = writeln!(text, "## The {} rules\n", rules.len());
        for layer in &layers {
            let _ = writeln!(text, "### {layer}\n\n| rule | severity | what |\n|---|---|---|");
            for rule in rules.iter().filter(|rule| rule.layer() == *layer) {
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
