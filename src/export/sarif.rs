//! SARIF 2.1.0: findings for code-scanning services and editors.
//!
//! A log also keeps to what GitHub requires of one: the rules of Microsoft's validator for it
//! (`sarif-multitool validate --rule-kind "Sarif;Ghas"`).

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::json::text::write_json;
use crate::findings::{Rule, Severity};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::FindingRow;
use crate::view::expectations::{Breach, Judgement};

/// The manual of the program, and of its rules.
const MANUAL: &str = "https://github.com/mcptap/mcptap";
const RULES: &str = "https://github.com/mcptap/mcptap/blob/main/docs/findings.md";
const EXPECTATIONS: &str = "https://github.com/mcptap/mcptap/blob/main/docs/ci.md";

/// The id under which broken expectations are reported.
const EXPECTATION: &str = "expectation";

/// A log of one run over `target`, a relative path: the broken rules with their manuals, and a
/// result for each finding with the severity that the project gives it. Each broken expectation is
/// a result too.
pub fn log(target: &str, version: &str, findings: &[(Severity, FindingRow)], judgements: &[Judgement]) -> Value {
    let mut rules: Vec<(&str, &FindingRow)> = Vec::new();
    for (_, row) in findings {
        if !rules.iter().any(|(id, _)| *id == row.rule) {
            rules.push((&row.rule, row));
        }
    }
    let mut results = Results { uri: uri(target), fingerprints: HashMap::new(), written: Vec::new() };
    for (severity, row) in findings {
        let index = rules.iter().position(|(id, _)| *id == row.rule);
        let places: Vec<_> = row.messages.iter().map(|number| (row.session, *number)).collect();
        let places = if places.is_empty() { session_name(row.session) } else { message_names(&places) };
        let result = results.add((&row.rule, index), level(*severity), &row.text, places);
        result["occurrenceCount"] = row.repeated.max(1).into();
        result["properties"] = json!({
            "packets": row.packets.iter().map(|packet| packet.0).collect::<Vec<_>>(),
            "specification": row.spec,
        });
    }
    let broken: Vec<&Judgement> = judgements.iter().filter(|judgement| !judgement.holds).collect();
    for judgement in &broken {
        let places: Vec<_> = judgement.breaches.iter().map(|breach| (Some(breach.session), breach.message)).collect();
        let first: Vec<String> = judgement.breaches.iter().take(1).map(Breach::line).collect();
        let text = format!("{}: {}. {}", judgement.expectation, judgement.sentence, first.concat());
        let result = results.add((EXPECTATION, Some(rules.len())), "error", text.trim(), message_names(&places));
        let packets = judgement.breaches.iter().flat_map(|breach| &breach.packets).map(|packet| packet.0);
        result["properties"] = json!({ "packets": packets.collect::<Vec<_>>() });
    }
    let mut rules: Vec<Value> = rules.into_iter().map(|(id, row)| describe(id, row)).collect();
    if !broken.is_empty() {
        rules.push(json!({
            "id": EXPECTATION,
            "name": "BrokenExpectation",
            "shortDescription": { "text": "The recording does not satisfy an expectation." },
            "fullDescription": { "text": "The project expects something of the traffic, which the recording does not satisfy." },
            "help": { "text": "Look at the message that the result names, with mcptap show." },
            "helpUri": EXPECTATIONS,
            "defaultConfiguration": { "level": "error" },
        }));
    }
    let driver = json!({
        "name": "mcptap",
        "semanticVersion": version,
        "version": version,
        "informationUri": MANUAL,
        "rules": rules,
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results.written }],
    })
}

/// The results of a run.
struct Results {
    uri: String,
    /// The number of results with a fingerprint.
    fingerprints: HashMap<String, u64>,
    written: Vec<Value>,
}

impl Results {
    /// Adds a result, to which the caller may add members.
    fn add(
        &mut self,
        (rule, index): (&str, Option<usize>),
        level: &str,
        text: &str,
        logical: Vec<Value>,
    ) -> &mut Value {
        // A service recognises a finding in the next run by its fingerprint. Numbers in the text
        // (of messages, times, ports) differ between runs, so they are left out.
        let words: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let hash = digest(&SHA256, format!("{rule}\n{words}").as_bytes());
        let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let count = self.fingerprints.entry(hash.clone()).or_default();
        *count += 1;
        self.written.push(json!({
            "ruleId": rule,
            "ruleIndex": index,
            "level": level,
            "message": { "text": text },
            "locations": [{
                // GitHub requires a line. A capture has none, so it is the first.
                "physicalLocation": { "artifactLocation": { "uri": self.uri }, "region": { "startLine": 1 } },
                "logicalLocations": logical,
            }],
            "partialFingerprints": { "primaryLocationLineHash": format!("{hash}:{count}") },
        }));
        let last = self.written.len() - 1;
        &mut self.written[last]
    }
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

/// A relative path as a URI reference (RFC 3986 section 4.2).
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(byte.into()),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
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
        "name": pascal(id),
        "shortDescription": { "text": format!("{}.", row.title) },
        "fullDescription": { "text": format!("{}.", row.title) },
        "helpUri": format!("{RULES}#{id}"),
        "defaultConfiguration": { "level": level },
    });
    if let Some(known) = known {
        rule["fullDescription"] = json!({ "text": known.why });
        rule["help"] = json!({ "text": format!("{} Specification: {}", known.remedy, known.spec) });
        rule["properties"] = json!({ "tags": [known.layer()] });
    }
    rule
}

/// The id of a rule as a name that reads well: `http-bare-line-feed` is `HttpBareLineFeed`.
fn pascal(id: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    id.split('-').map(word).collect()
}

fn session_name(session: Option<SessionNumber>) -> Vec<Value> {
    let name = session.map(|session| format!("session {}", session.0));
    name.into_iter().map(|name| json!({ "fullyQualifiedName": name, "kind": "object" })).collect()
}

fn message_names(places: &[(Option<SessionNumber>, MessageNumber)]) -> Vec<Value> {
    let name = |(session, number): &(Option<SessionNumber>, MessageNumber)| {
        let session = session.map(|session| format!("session {}/", session.0)).unwrap_or_default();
        json!({ "fullyQualifiedName": format!("{session}message {}", number.0), "kind": "element" })
    };
    places.iter().map(name).collect()
}
