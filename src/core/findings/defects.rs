//! Known mistakes of servers and clients, each as a conversation with the rules that must fire. No
//! other rule may fire.
//!
//! `defects.txt` has a block for each mistake. It begins with `# ` and a name. The next line is `=
//! ` and the expected rules, with `*` and a number if one fires several times. Then come the steps
//! of [`findings`](super::testing::findings), one a line, with `\n` for a line end inside a step.
//!
//! The lines before the first block define abbreviations. `$name` stands for a text, and `&name`
//! for all steps that are defined with it.

use std::collections::BTreeMap;

use super::testing::findings;

const CASES: &str = include_str!("defects.txt");

/// A test case: its name, the expected rules, and its steps.
type DefectCase = (&'static str, &'static str, Vec<String>);

fn cases() -> Vec<DefectCase> {
    let (head, cases) = CASES.split_once("\n# ").expect("a head");
    let short =
        |sign: char| head.lines().filter(move |line| line.starts_with(sign)).filter_map(|line| line.split_once(' '));
    let written = |line: &str| {
        let line = short('$').fold(line.to_owned(), |line, (name, text)| line.replace(name, text));
        line.replace("\\r", "\r").replace("\\n", "\n")
    };
    let case = |case: &'static str| {
        let mut lines = case.lines().filter(|line| !line.is_empty());
        let name = lines.next().expect("a name");
        let expected = lines.next().and_then(|line| line.strip_prefix('=')).expect("what is expected");
        let mut steps = Vec::new();
        for line in lines {
            let before = steps.len();
            steps.extend(short('&').filter(|(name, _)| *name == line).map(|(_, step)| written(step)));
            if steps.len() == before {
                steps.push(written(line));
            }
        }
        (name, expected.trim(), steps)
    };
    cases.split("\n# ").map(case).collect()
}

#[test]
fn each_defect_has_its_findings() {
    let mut wrong = String::new();
    let mut names = Vec::new();
    for (name, expected, steps) in cases() {
        names.push(name);
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for finding in findings(&steps) {
            *rules.entry(finding.rule.id).or_default() += 1;
        }
        let rules =
            rules.into_iter().map(|(rule, times)| if times == 1 { rule.to_owned() } else { format!("{rule}*{times}") });
        let reported = rules.collect::<Vec<_>>().join(" ");
        if reported != expected {
            wrong += &format!("{name}\n  expected {expected}\n  said     {reported}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    names.sort_unstable();
    names.dedup();
    assert!(names.len() > 200, "names are unique: {}", names.len());
}
