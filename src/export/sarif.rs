//! SARIF 2.1.0: findings for code-scanning services and editors.

use serde_json::{Value, json};

use super::json::text::write_json;
use crate::findings::{Rule, Severity};
use crate::store::FindingRow;

/// A log of one run over `target`: the broken rules with their manuals, and a result for each
/// finding with the severity that the project gives it.
pub fn log(target: &str, version: &str, findings: &[(Severity, FindingRow)]) -> Value {
    let mut rules: Vec<(&str, &FindingRow)> = Vec::new();
    for (_, row) in findings {
        if !rules.iter().any(|(id, _)| *id == row.rule) {
            rules.push((&row.rule, row));
        }
    }
    let results: Vec<Value> = findings
        .iter()
        .map(|(severity, row)| {
            let index = rules.iter().position(|(id, _)| *id == row.rule);
            json!({
                "ruleId": row.rule,
                "ruleIndex": index,
                "level": level(*severity),
                "message": { "text": row.text },
                "occurrenceCount": row.repeated.max(1),
                "locations": [{
                    "physicalLocation": { "artifactLocation": { "uri": target } },
                    "logicalLocations": logical(row),
                }],
                "properties": {
                    "packets": row.packets.iter().map(|packet| packet.0).collect::<Vec<_>>(),
                    "specification": row.spec,
                },
            })
        })
        .collect();
    let rules: Vec<Value> = rules.into_iter().map(|(id, row)| describe(id, row)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "mcptap", "semanticVersion": version, "rules": rules } },
            "results": results,
        }],
    })
}

/// The log as text: a member a line, and nothing in it acts on a terminal.
pub fn text(log: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    for line in format!("{log:#}").lines() {
        write_json(&mut text, line);
        text.push(b'\n');
    }
    text
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// A rule, with its manual if this program knows it.
fn describe(id: &str, row: &FindingRow) -> Value {
    let known: Option<&Rule> = crate::findings::rule(id);
    let level = level(known.map_or(row.severity, |rule| rule.severity));
    let mut rule = json!({
        "id": id,
        "shortDescription": { "text": row.title },
        "defaultConfiguration": { "level": level },
    });
    if let Some(known) = known {
        rule["fullDescription"] = json!({ "text": known.why });
        rule["help"] = json!({ "text": format!("{} Specification: {}", known.remedy, known.spec) });
        rule["properties"] = json!({ "tags": [known.layer] });
    }
    rule
}

fn logical(row: &FindingRow) -> Vec<Value> {
    let session = row.session.map(|session| format!("session {}", session.0));
    if row.messages.is_empty() {
        return session.into_iter().map(|name| json!({ "fullyQualifiedName": name, "kind": "object" })).collect();
    }
    let prefix = session.map(|session| format!("{session}/")).unwrap_or_default();
    let name = |number| format!("{prefix}message {number}");
    row.messages.iter().map(|number| json!({ "fullyQualifiedName": name(number.0), "kind": "element" })).collect()
}
