//! Findings as JUnit XML, for continuous integration. Each rule that was broken is a test case.

use crate::findings::Severity;
use crate::store::FindingRow;
use crate::view::expectations::{Breach, Judgement};
use crate::view::junit::{self, Case, Outcome};

/// Maximum number of findings of a rule that its test case lists. Services cut long texts
/// in worse ways.
const SHOWN: usize = 100;

/// A suite named `target`. Findings of severity `fail_on` or worse are failures; the others are
/// output of passed cases. Each expectation is a test case too.
pub fn suite(
    target: &str,
    findings: &[(Severity, FindingRow)],
    fail_on: Option<Severity>,
    judgements: &[Judgement],
) -> String {
    let mut rules: Vec<&str> = findings.iter().map(|(_, row)| row.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut cases: Vec<Case> = judgements.iter().map(expectation).collect();
    cases.extend(rules.into_iter().map(|rule| case(rule, findings, fail_on)));
    if cases.is_empty() {
        let (class, name) = ("mcptap".to_owned(), "no findings".to_owned());
        cases.push(Case { class, name, seconds: None, outcome: Outcome::Passed(String::new()) });
    }
    junit::suite(target, &cases)
}

fn case(rule: &str, findings: &[(Severity, FindingRow)], fail_on: Option<Severity>) -> Case {
    let of_rule: Vec<_> = findings.iter().filter(|(_, row)| row.rule == rule).collect();
    let worst = of_rule.iter().map(|(severity, _)| *severity).max().unwrap_or(Severity::Info);
    let text: Vec<String> = of_rule.iter().take(SHOWN).map(|(severity, row)| line(*severity, row)).collect();
    let text = text.join("\n");
    let layer = crate::findings::rule(rule).map_or("", |rule| rule.layer());
    let outcome = if fail_on.is_some_and(|bound| worst >= bound) {
        let message = of_rule.first().map(|(_, row)| row.title.clone()).unwrap_or_default();
        Outcome::Failed { kind: worst.name(), message, text }
    } else {
        Outcome::Passed(text)
    };
    Case { class: format!("mcptap.{layer}"), name: rule.to_owned(), seconds: None, outcome }
}

fn expectation(judgement: &Judgement) -> Case {
    let outcome = if judgement.holds {
        Outcome::Passed(judgement.sentence.clone())
    } else {
        let lines: Vec<String> = judgement.breaches.iter().map(Breach::line).chain(judgement.rest()).collect();
        Outcome::Failed { kind: "expectation", message: judgement.sentence.clone(), text: lines.join("\n") }
    };
    Case { class: "mcptap.expectation".to_owned(), name: judgement.expectation.clone(), seconds: None, outcome }
}

fn line(severity: Severity, row: &FindingRow) -> String {
    let session = row.session.map(|session| format!("session {}, ", session.0)).unwrap_or_default();
    let messages: Vec<String> = row.messages.iter().map(|number| number.0.to_string()).collect();
    let place = if messages.is_empty() { String::new() } else { format!("message {}: ", messages.join(" ")) };
    format!("{}: {session}{place}{}", severity.name(), row.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_findings_are_one_passed_test() {
        assert!(suite("x", &[], None, &[]).contains("tests=\"1\" failures=\"0\""));
    }
}
