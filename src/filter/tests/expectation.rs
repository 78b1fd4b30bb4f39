//! Expectations by examples: the place of each error, and filters that contain the keywords.

use super::*;
use crate::filter::{Comparison, Expectation, Quantity, Requirement};

fn parsed(text: &str) -> Requirement {
    Expectation::parse(text).unwrap_or_else(|error| panic!("{}", error.render(100))).requirement
}

/// The column of the error, its length, and the first expected word.
fn wrong(text: &str) -> (usize, usize, String) {
    let error = Expectation::parse(text).expect_err(text);
    (error.column, error.length, error.expected.first().cloned().unwrap_or_default())
}

#[test]
fn every_form_is_read() {
    let add = Filter::parse("tool = add").expect("a filter");
    assert_eq!(parsed("some tool = add"), Requirement::Some(add.clone()));
    assert_eq!(parsed("  no   tool = add "), Requirement::No(add.clone()));
    let broken = Filter::parse("tool = add and not (latency < 2s)").expect("a filter");
    assert_eq!(parsed("every tool = add has latency < 2s"), Requirement::Every { selected: add.clone(), broken });
    let Requirement::Quantity { quantity, comparison, bound, selected } = parsed("count<=3 where tool = add") else {
        panic!("a quantity")
    };
    assert_eq!((quantity, comparison, bound, selected), (Quantity::Count, Comparison::LessOrEqual, 3, add));
    let bounds = [
        ("p95 latency < 200ms", 200_000_000),
        ("max size <= 4KB where kind = response", 4_000),
        ("sum elapsed > 0 where tool", 0),
        ("tools.bytes < 20KiB", 20 << 10),
        ("tools.tokens < 5000", 5_000),
        ("tools.count = 7", 7),
    ];
    for (text, wanted) in bounds {
        assert!(matches!(parsed(text), Requirement::Quantity { bound, .. } if bound == wanted), "{text}");
    }
}

#[test]
fn keywords_in_values_quotes_and_parentheses_are_no_keywords() {
    for text in [
        "every tool = has has status = ok",
        "every \"has\" has status = ok",
        "every (quito has) has status = ok",
        "every tool in {has, add} has (has)",
    ] {
        assert!(matches!(parsed(text), Requirement::Every { .. }), "{text}");
    }
}

#[test]
fn an_error_names_its_place() {
    for (text, place) in [
        ("", (1, 0, "some, no, every, count, or a statistic such as p95 latency")),
        ("sme tool = add", (1, 3, "some")),
        ("some", (5, 0, "a filter such as tool = add")),
        ("some tol = add", (6, 3, "tool")),
        ("no status = toolerror", (13, 9, "tool-error")),
        ("every tool = add", (17, 0, "has, and the filter that every such message has to pass")),
        ("every tool = add has latncy < 1s", (22, 6, "latency")),
        ("every tool = add has", (21, 0, "a filter such as tool = add")),
        ("p96 latency < 1s", (1, 3, "p50")),
        ("p95 latncy < 1s", (5, 6, "latency")),
        ("p95 latency", (12, 0, "a comparison such as <")),
        ("p95 latency < 200", (15, 3, "a duration such as 200ms, 1.5s, 30us or 2m")),
        ("p95 latency in 200ms", (13, 2, "")),
        ("count <= three", (10, 5, "a whole number such as 12")),
        ("count <= 3 wher tool = add", (12, 1, "where, or the end")),
        ("tools.bytes < 4KB where tool = add", (19, 5, "")),
        ("天気 = x", (1, 2, "some")),
    ] {
        let (column, length, expected) = wrong(text);
        let near = text.starts_with("p96") || text.starts_with('天');
        assert_eq!((column, length), (place.0, place.1), "{text}");
        assert!(near || expected == place.2, "{text}: {expected}");
    }
}

#[test]
fn an_expectation_is_bounded() {
    assert!(Expectation::parse(&format!("some {}", "x".repeat(10_000))).is_err());
    let many = vec!["tool"; 300].join(" or ");
    assert!(Expectation::parse(&format!("some {many}")).is_ok());
    assert!(Expectation::parse(&format!("every {many} has {many}")).is_err());
}

/// Every line of the manual's examples, and the last column of its table of wishes.
#[test]
fn the_examples_of_the_manual_are_expectations() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md");
    let page = std::fs::read_to_string(path).expect("docs/ci.md");
    let block = page.split("```expectation\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let lines = block.lines().map(|line| line.split("   ").next().unwrap_or_default());
    let table =
        page.split("| wish | expectation |\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a table");
    let wishes = table.lines().skip(1).filter_map(|line| line.split('`').nth(1));
    let all: Vec<&str> = lines.chain(wishes).collect();
    assert!(all.len() > 10);
    for text in all {
        Expectation::parse(text).unwrap_or_else(|error| panic!("{}", error.render(100)));
    }
}
