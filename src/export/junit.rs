//! JUnit XML: findings as continuous-integration services show test results. One test case a rule that was broken.

use std::fmt::Write;

use crate::findings::Severity;
use crate::store::FindingRow;
use crate::view::safe;

/// Findings of one rule that a test case tells of; services cut long texts themselves, and worse.
const TOLD: usize = 100;

/// A suite named `target`; findings from `fail_on` on are failures, milder ones output.
pub fn suite(target: &str, findings: &[(Severity, FindingRow)], fail_on: Option<Severity>) -> String {
    let mut rules: Vec<&str> = findings.iter().map(|(_, row)| row.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut cases = String::new();
    let mut failures = 0;
    for rule in &rules {
        let of_rule: Vec<_> = findings.iter().filter(|(_, row)| row.rule == *rule).collect();
        let worst = of_rule.iter().map(|(severity, _)| *severity).max().unwrap_or(Severity::Info);
        let fails = fail_on.is_some_and(|bound| worst >= bound);
        failures += usize::from(fails);
        let text: Vec<String> = of_rule.iter().take(TOLD).map(|(severity, row)| line(*severity, row)).collect();
        let (title, text) = (escaped(&of_rule[0].1.title), escaped(&text.join("\n")));
        let layer = crate::findings::rule(rule).map_or("", |rule| rule.layer);
        let body = if fails {
            format!("<failure message=\"{title}\" type=\"{}\">{text}</failure>", worst.name())
        } else {
            format!("<system-out>{text}</system-out>")
        };
        let _ =
            writeln!(cases, "  <testcase classname=\"mcptap.{layer}\" name=\"{}\">{body}</testcase>", escaped(rule));
    }
    if rules.is_empty() {
        cases.push_str("  <testcase classname=\"mcptap\" name=\"no findings\"/>\n");
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\">\n{cases}</testsuite>\n",
        escaped(target),
        rules.len().max(1)
    )
}

fn line(severity: Severity, row: &FindingRow) -> String {
    let session = row.session.map(|session| format!("session {}, ", session.0)).unwrap_or_default();
    let messages: Vec<String> = row.messages.iter().map(|number| number.0.to_string()).collect();
    let place = if messages.is_empty() { String::new() } else { format!("message {}: ", messages.join(" ")) };
    format!("{}: {session}{place}{}", severity.name(), row.text)
}

/// XML 1.0 section 2.2 forbids most control characters, escaped or not: what acts is made visible first.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            escaped.push('\n');
        }
        for character in safe::visible(line).chars() {
            match character {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
                other => escaped.push(other),
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_text() {
        assert_eq!(escaped("a<b>&\"c\"\n\u{1b}[2J"), "a&lt;b&gt;&amp;&quot;c&quot;\n␛[2J");
    }

    #[test]
    fn no_findings_are_one_passed_test() {
        assert!(suite("x", &[], None).contains("tests=\"1\" failures=\"0\""));
    }
}
