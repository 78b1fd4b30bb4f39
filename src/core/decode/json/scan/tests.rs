use proptest::prelude::*;

use super::*;
use crate::decode::json::is_json;

fn value(text: &str, max_depth: usize) -> Result<Range<usize>, Stop> {
    let mut reader = JsonScanner::checking(text, max_depth);
    let value = reader.value()?;
    reader.end().map(|()| value)
}

#[test]
fn valid_and_invalid_json() {
    for json in
        ["0", "-0.5e+7", "1E0", "\"\\u00e9\\\\ /\\/\"", "[ ]", "{ }", r#"{"a":[1,{"b":null}],"":"é"}"#, " true "]
    {
        assert_eq!(value(json, 8), Ok(json.len() - json.trim_start().len()..json.trim_end().len()), "{json}");
    }
    let long = "x".repeat(100);
    for text in [
        "",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nulll",
        "[1,]",
        "[1 2]",
        "[}",
        "{\"a\"}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1]",
        "\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "[1]]",
        "{,}",
        &format!("\"{long}\u{1}{long}\""),
        &format!("\"{long}"),
    ] {
        assert_eq!(value(text, 8), Err(Stop::NotJson), "{text}");
    }
}

#[test]
fn nesting_is_followed_up_to_the_limit() {
    assert_eq!(value("[[[]]]", 3), Ok(0..6));
    assert_eq!(value("[[{}]]", 2), Err(Stop::TooDeep));
    assert_eq!(value(&"[".repeat(1_000_000), 512), Err(Stop::TooDeep));
    let mut reader = JsonScanner::checking(r#"{"a":{"b":[]}}"#, 2);
    assert_eq!((reader.enter(b'{'), reader.name()), (Ok(()), Ok(Some(("\"a\"", false)))));
    assert_eq!(reader.object(), Err(Stop::TooDeep));
}

#[test]
fn both_scanners_find_the_same_members() {
    let text = r#" {"a" : 1 , "b\"" :[2, {}] ,"c":{"d":"}"}}"#;
    let (range, index) = JsonScanner::checking(text, 8).object().unwrap();
    assert_eq!(index, Index::of(&text[range]));
}

/// The end of the value at offset `at`, found without checking.
fn end_of_value(text: &str, at: usize) -> Option<usize> {
    Some(JsonScanner::trusting(text, at).value().ok()?.end)
}

#[test]
fn the_end_of_a_value_is_found() {
    for value in [r#""a\"b\\""#, r#"{"a}":["]",{}],"b":1}"#, "[]", "-1.5e3", "true", "null"] {
        assert_eq!(end_of_value(&format!("{value} ,1"), 0), Some(value.len()), "{value}");
        assert_eq!(end_of_value(value, 0), Some(value.len()), "{value}");
    }
    assert_eq!(end_of_value(r#"["never"#, 0), None);
    assert_eq!(end_of_value(r#"["never""#, 0), None);
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_eq!(end_of_value(&deep, 0), Some(deep.len()));
}

proptest! {
    #[test]
    fn no_step_leaves_the_text(text in r#"[\[\]{}"\\,:a1é ]{0,40}"#) {
        for at in 0..text.len() {
            let end = end_of_value(&text, at);
            prop_assert!(end.is_none_or(|end| end <= text.len()));
            if text.is_char_boundary(at) && is_json(&text[at..]) {
                let mut reader = JsonScanner::trusting(&text, at);
                reader.blanks();
                let start = reader.at;
                prop_assert_eq!(text[start..].trim_end().len(), reader.value().unwrap().end - start);
            }
        }
    }

    #[test]
    fn serde_json_agrees(text in r#"[\[\]{}"\\,:0-2.eE+a\-tu é\n]{0,16}"#) {
        prop_assert_eq!(value(&text, 64).is_ok(), is_json(&text), "{}", text);
    }

    #[test]
    fn serde_json_agrees_on_text_that_is_nearly_json(
        text in r#"\{"a":\[?(-?[0-9]{1,3}(\.[0-9]+)?|"[a-z\\"é ]{0,60}"|true|\{\}|\{"b":null\})\]?,?("c":[01]+)?\}"#,
    ) {
        prop_assert_eq!(value(&text, 64).is_ok(), is_json(&text), "{}", text);
    }
}
