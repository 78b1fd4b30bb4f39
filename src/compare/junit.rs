//! A comparison as JUnit XML with one test case per request.

use super::report::{Outcome, Pair, Report};
use super::text::{self, Style};
use crate::view::junit::{self, Case};
use crate::view::paint::Paint;

/// Width of the text inside a failure, in columns.
const WIDTH: usize = 120;

/// The report as JUnit XML.
pub fn report(report: &Report) -> String {
    let cases: Vec<Case> = report.pairs.iter().map(case).collect();
    junit::suite(&format!("mcptap {} against {}", report.old, report.new), &cases)
}

fn case(pair: &Pair) -> Case {
    let number = pair.old.or(pair.new).map(|party| format!(" #{}", party.number)).unwrap_or_default();
    let why = pair.why.clone().unwrap_or_default();
    let outcome = match pair.outcome {
        Outcome::Same => junit::Outcome::Passed(String::new()),
        Outcome::Skipped => junit::Outcome::Skipped(why),
        outcome => {
            let mut text = String::new();
            let style = Style { paint: Paint { on: false }, width: WIDTH, side_by_side: false, all: false };
            text::pair(&mut text, pair, style);
            let kind = outcome.name();
            junit::Outcome::Failed { kind, message: if why.is_empty() { kind.to_owned() } else { why }, text }
        }
    };
    Case {
        class: pair.label.method.to_string(),
        name: format!("{}{number}", pair.label),
        seconds: Some(pair.new.and_then(|new| new.latency).unwrap_or(0) as f64 / 1e9),
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Label, Party};

    #[test]
    fn every_request_is_a_case() {
        let pair = |outcome, why: Option<&str>| Pair {
            label: Label { method: "tools/call".into(), subject: Some("a<b".into()) }.into(),
            old: Some(Party { number: 3, latency: None }),
            new: Some(Party { number: 4, latency: Some(1_500_000) }),
            outcome,
            differences: Vec::new(),
            why: why.map(str::to_owned),
        };
        let pairs = vec![
            pair(Outcome::Same, None),
            pair(Outcome::Skipped, Some("destructive")),
            pair(Outcome::Missing, Some("the server \u{1}ended")),
        ];
        let xml = report(&Report { old: "a".into(), new: "b".into(), pairs, ..Report::default() });
        assert!(xml.contains(r#"<testsuites tests="3" failures="1" errors="0" skipped="1" time="0.004500">"#), "{xml}");
        assert!(xml.contains(r#"name="tools/call a&lt;b #3" time="0.001500""#), "{xml}");
        assert!(xml.contains(r#"<skipped message="destructive"/>"#), "{xml}");
        assert!(xml.contains("<failure type=\"missing\" message=\"the server ␁ended\">"), "{xml}");
    }
}
