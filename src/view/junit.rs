//! JUnit XML for build servers and continuous integration.

use std::fmt::Write;

use super::safe;

/// A test case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The group in which services list the case.
    pub class: String,
    /// The name of the case.
    pub name: String,
    /// The duration in seconds, where it is known.
    pub seconds: Option<f64>,
    /// The result of the case.
    pub outcome: Outcome,
}

/// The result of a test case.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The case passed, with this output.
    Passed(String),
    /// The case was skipped for this reason.
    Skipped(String),
    /// The case failed.
    Failed {
        /// A word for the kind of failure.
        kind: &'static str,
        /// The failure in one line.
        message: String,
        /// The failure in full.
        text: String,
    },
}

/// A document with one suite of test cases.
pub fn suite(name: &str, cases: &[Case]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let seconds: f64 = cases.iter().filter_map(|case| case.seconds).sum();
    let totals = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.6}\"",
        cases.len()
    );
    let name = escaped(name);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {totals}>\n  <testsuite name=\"{name}\" {totals}>\n"
    );
    cases.iter().for_each(|case| write_case(&mut out, case));
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn write_case(out: &mut String, case: &Case) {
    let time = case.seconds.map(|seconds| format!(" time=\"{seconds:.6}\"")).unwrap_or_default();
    let body = match &case.outcome {
        Outcome::Passed(text) if text.is_empty() => String::new(),
        Outcome::Passed(text) => format!("<system-out>{}</system-out>", escaped(text)),
        Outcome::Skipped(why) => format!("<skipped message=\"{}\"/>", escaped(why)),
        Outcome::Failed { kind, message, text } => {
            format!("<failure type=\"{kind}\" message=\"{}\">{}</failure>", escaped(message), escaped(text))
        }
    };
    let (class, name) = (escaped(&case.class), escaped(&case.name));
    let _ = writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\"{time}>{body}</testcase>");
}

/// Escapes a text. XML 1.0 section 2.2 forbids most control characters even when escaped, so they
/// become symbols first.
fn escaped(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(safe::visible).collect();
    let mut escaped = String::with_capacity(text.len());
    for character in lines.join("\n").chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_text() {
        assert_eq!(escaped("a<b>&\"c\"\n\u{1b}[2J\u{ffff}"), "a&lt;b&gt;&amp;&quot;c&quot;\n␛[2J\u{fffd}");
    }
}
