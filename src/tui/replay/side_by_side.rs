//! Two answers side by side. Equal lines share a row; rows are marked where the comparison
//! found a difference.
//!
//! ```text
//!   content:                        content:
//!     - type: "text"                  - type: "text"
//! ≠     text: "21 °C, sunny"      ≠     text: "19 °C, rain"    differs: /content/0/text
//!   isError: false                  isError: false
//! ```

use std::time::Duration;

use serde_json::Value;
use similar::DiffOp;

use crate::compare::difference::escaped;
use crate::compare::{Answer, Change, Difference, alignment};
use crate::view::safe;

/// Limit of the lines of one answer. A last line says that there are more.
const LINES: usize = 5_000;

/// Length at which a line of text is broken, in characters, so that one difference does not mark
/// a whole page.
const BROKEN: usize = 240;

/// Time limit of the alignment, because the drawing thread does it. After that the
/// alignment is coarser.
const LINING_UP: Duration = Duration::from_millis(15);

/// The comparison of the two sides of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMatch {
    Same,
    Differs,
    /// The sides differ, but the rules of the comparison tolerate it.
    Tolerated,
}

/// A line of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignedRow {
    /// The line of the recorded answer.
    pub old: Option<String>,
    /// The line of the new answer.
    pub new: Option<String>,
    pub matching: RowMatch,
}

struct AnswerLine {
    /// JSON Pointer of the value in the line.
    path: String,
    text: String,
}

/// Aligns two answers.
pub fn align(old: &Answer, new: &Answer, differences: &[Difference]) -> Vec<AlignedRow> {
    let (old_lines, new_lines) = (lines_of(old), lines_of(new));
    let texts = |lines: &[AnswerLine]| lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
    let (old_texts, new_texts) = (texts(&old_lines), texts(&new_lines));
    let deadline = std::time::Instant::now().checked_add(LINING_UP);
    let operations = alignment::align(&old_texts, &new_texts, deadline);
    // Answers of different kinds (an error in place of a result) have no common paths, so
    // all lines differ.
    let kinds_differ = std::mem::discriminant(old) != std::mem::discriminant(new);
    let mut rows = Vec::new();
    for operation in operations {
        let (from, to) = (&old_lines[operation.old_range()], &new_lines[operation.new_range()]);
        let matching = match operation {
            DiffOp::Equal { .. } => RowMatch::Same,
            _ if kinds_differ
                || any_is_changed(from, differences, |change| !matches!(change, Change::Added(_)))
                || any_is_changed(to, differences, |change| !matches!(change, Change::Removed(_))) =>
            {
                RowMatch::Differs
            }
            _ => RowMatch::Tolerated,
        };
        let text = |lines: &[AnswerLine], at: usize| lines.get(at).map(|line| line.text.clone());
        rows.extend((0..from.len().max(to.len())).map(|at| AlignedRow {
            old: text(from, at),
            new: text(to, at),
            matching,
        }));
    }
    rows
}

/// Whether a line is inside a changed value. `affects` selects the changes of the answer to which
/// the lines belong.
fn any_is_changed(lines: &[AnswerLine], differences: &[Difference], affects: fn(&Change) -> bool) -> bool {
    let is_inside = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let relevant = || differences.iter().filter(|difference| affects(&difference.change));
    let is_changed = |line: &AnswerLine| {
        relevant().any(|difference| line.path.strip_prefix(&*difference.path).is_some_and(is_inside))
    };
    lines.iter().any(is_changed)
}

fn lines_of(answer: &Answer) -> Vec<AnswerLine> {
    match answer {
        Answer::Result(value) | Answer::ToolError(value) | Answer::Error(value) => lines(value),
        Answer::Unreadable(text) | Answer::Nothing(text) => {
            broken(text).into_iter().map(|text| AnswerLine { path: String::new(), text }).collect()
        }
    }
}

/// A value that has not been written as lines yet.
struct PendingValue<'v> {
    /// The text before it on its line.
    prefix: String,
    /// Indentation of its children, in columns.
    indent: usize,
    path: String,
    value: &'v Value,
}

/// A value as lines: one for each member or element, with texts unescaped.
fn lines(value: &Value) -> Vec<AnswerLine> {
    let mut lines = Vec::new();
    let mut pending = vec![PendingValue { prefix: String::new(), indent: 0, path: String::new(), value }];
    while let Some(PendingValue { prefix, indent, path, value }) = pending.pop() {
        if lines.len() >= LINES {
            lines.push(AnswerLine { path: String::new(), text: "… the rest is too long to show".to_owned() });
            break;
        }
        // After a bullet the first child is on the same line. After a name it is below.
        let is_inline = prefix.is_empty() || prefix.ends_with("- ");
        let children: Vec<(String, String, &Value)> = match value {
            Value::Object(members) => {
                let path = |name: &String| format!("{path}/{}", escaped(name));
                members.iter().map(|(name, value)| (format!("{name}: "), path(name), value)).collect()
            }
            Value::Array(elements) => {
                let element = |(at, value)| ("- ".to_owned(), format!("{path}/{at}"), value);
                elements.iter().enumerate().map(element).collect()
            }
            _ => Vec::new(),
        };
        if children.is_empty() {
            scalar(&mut lines, &prefix, indent, &path, value);
            continue;
        }
        let inner = if is_inline { prefix.len() } else { indent };
        if !is_inline {
            lines.push(AnswerLine { path: path.clone(), text: safe::visible(prefix.trim_end()).into_owned() });
        }
        for (at, (name, path, value)) in children.into_iter().enumerate().rev() {
            let prefix = if at == 0 && is_inline { prefix.clone() } else { " ".repeat(inner) };
            pending.push(PendingValue { prefix: format!("{prefix}{name}"), indent: inner + 2, path, value });
        }
    }
    lines
}

fn scalar(lines: &mut Vec<AnswerLine>, prefix: &str, indent: usize, path: &str, value: &Value) {
    let mut push =
        |text: String| lines.push(AnswerLine { path: path.to_owned(), text: safe::visible(&text).into_owned() });
    match value {
        Value::String(text) if text.contains('\n') || text.len() > BROKEN => {
            push(format!("{prefix}|"));
            let blanks = " ".repeat(indent.max(2));
            broken(text).into_iter().for_each(|line| push(format!("{blanks}{line}")));
        }
        value => push(format!("{prefix}{value}")),
    }
}

/// The lines of a text, with long ones broken.
fn broken(text: &str) -> Vec<String> {
    text.lines().take(LINES).flat_map(|line| safe::wrap(line, BROKEN)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::compare::{Label, Rules, compare_answers};

    fn beside(old: Value, new: Value, rules: &Rules) -> String {
        let (old, new) = (Answer::Result(old), Answer::Result(new));
        let verdict = compare_answers(&Label::default(), &old, &new, rules);
        let sign = |matching| match matching {
            RowMatch::Same => ' ',
            RowMatch::Differs => '▌',
            RowMatch::Tolerated => '~',
        };
        let side = |side: &Option<String>| side.clone().unwrap_or_default();
        let row = |row: &AlignedRow| format!("{} {:<30} | {}", sign(row.matching), side(&row.old), side(&row.new));
        align(&old, &new, &verdict.differences).iter().map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn differences_are_marked_in_their_rows() {
        let answer = |text: &str, degrees: u64, at: &str| {
            json!({"content": [{"type": "text", "text": text}], "isError": false,
                "structuredContent": {"degrees": degrees, "at": at, "days": [[1, 2], {}]}})
        };
        let rules = Rules { ignored: vec!["/structuredContent/at".parse().unwrap()], ..Rules::default() };
        let text = beside(answer("sunny\n21 °C", 21, "09:00"), answer("sunny\n19 °C", 19, "09:01"), &rules);
        insta::assert_snapshot!(text, @r#"
          content:                       | content:
            - text: |                    |   - text: |
                sunny                    |       sunny
        ▌       21 °C                    |       19 °C
              type: "text"               |     type: "text"
          isError: false                 | isError: false
          structuredContent:             | structuredContent:
        ~   at: "09:00"                  |   at: "09:01"
            days:                        |   days:
              - - 1                      |     - - 1
                - 2                      |       - 2
              - {}                       |     - {}
        ▌   degrees: 21                  |   degrees: 19
        "#);
    }

    #[test]
    fn an_element_that_went_leaves_a_gap() {
        let text = beside(
            json!({"tools": [{"name": "a"}, {"name": "b"}]}),
            json!({"tools": [{"name": "b"}]}),
            &Rules::default(),
        );
        insta::assert_snapshot!(text, @r#"
          tools:                         | tools:
        ▌   - name: "a"                  | 
            - name: "b"                  |   - name: "b"
        "#);
    }

    #[test]
    fn another_kind_of_answer_differs_completely() {
        let old = Answer::Result(json!({"a": 1}));
        let all = align(&old, &Answer::Nothing("no answer within 30 s".into()), &[]);
        assert!(all.iter().all(|row| row.matching == RowMatch::Differs), "{all:?}");
        let deep = (0..100).fold(json!(1), |value, _| json!([value]));
        assert_eq!(align(&Answer::Result(deep.clone()), &Answer::Result(deep), &[]).len(), 1);
    }

    proptest! {
        /// Nothing that acts on a terminal is in a line. Each side is complete and in order.
        #[test]
        fn sides_are_complete(old in prop::collection::vec("[ab\u{1b}\u{202e}\n]{0,4}", 0..6), new in prop::collection::vec("[ab\n]{0,4}", 0..6)) {
            let (old, new) = (json!(old), json!(new));
            let all = align(&Answer::Result(old.clone()), &Answer::Result(new), &[]);
            let left: Vec<String> = all.iter().filter_map(|row| row.old.clone()).collect();
            let own: Vec<String> = lines(&old).into_iter().map(|line| line.text).collect();
            prop_assert_eq!(&left, &own);
            let acts = left.iter().any(|line| line.contains(['\u{1b}', '\u{202e}']));
            prop_assert!(!acts);
        }
    }
}
