//! A comparison as JUnit XML: a test case for each request, as build servers read it.

use std::fmt::Write;

use super::report::{Outcome, Pair, Report};
use super::text::{self, Style};
use crate::view::paint::Paint;

/// Columns of the text inside a failure.
const WIDTH: usize = 120;

/// The report as JUnit XML.
pub fn report(report: &Report) -> String {
    let count = |wanted: fn(Outcome) -> bool| report.pairs.iter().filter(|pair| wanted(pair.outcome)).count();
    let seconds: f64 = report.pairs.iter().map(seconds).sum();
    let (failures, skipped) = (count(Outcome::differs), count(|outcome| outcome == Outcome::Skipped));
    let tests = report.pairs.len();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\" time=\"{seconds:.6}\">\n  \
         <testsuite name=\"mcptap {} against {}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
         time=\"{seconds:.6}\">",
        escaped(&report.old),
        escaped(&report.new)
    );
    report.pairs.iter().for_each(|pair| case(&mut out, pair));
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, pair: &Pair) {
    let number = pair.old.or(pair.new).map(|party| format!(" #{}", party.number)).unwrap_or_default();
    let name = escaped(&format!("{}{number}", pair.label));
    let head = format!(
        "<testcase classname=\"{}\" name=\"{name}\" time=\"{:.6}\"",
        escaped(&pair.label.method),
        seconds(pair)
    );
    let why = pair.why.as_deref().unwrap_or_default();
    let _ = match pair.outcome {
        Outcome::Same => writeln!(out, "    {head}/>"),
        Outcome::Skipped => {
            writeln!(out, "    {head}>\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(why))
        }
        outcome => {
            let mut body = String::new();
            let style = Style { paint: Paint { on: false }, width: WIDTH, side_by_side: false, all: false };
            text::pair(&mut body, pair, style);
            let message = if why.is_empty() { outcome.name() } else { why };
            let (message, body) = (escaped(message), escaped(&body));
            let kind = outcome.name();
            writeln!(
                out,
                "    {head}>\n      <failure type=\"{kind}\" message=\"{message}\">{body}</failure>\n    </testcase>"
            )
        }
    };
}

fn seconds(pair: &Pair) -> f64 {
    pair.new.and_then(|new| new.latency).unwrap_or(0) as f64 / 1e9
}

/// Text for XML 1.0, which has no way to write most control characters (section 2.2).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
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
        assert!(xml.contains(r#"<testsuites tests="3" failures="1" skipped="1" time="0.004500">"#), "{xml}");
        assert!(xml.contains(r#"name="tools/call a&lt;b #3""#), "{xml}");
        assert!(xml.contains(r#"<skipped message="destructive"/>"#), "{xml}");
        assert!(xml.contains("<failure type=\"missing\" message=\"the server \u{fffd}ended\">"), "{xml}");
    }
}
