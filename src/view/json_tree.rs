//! JSON on several lines or on one. Only blanks change: numbers, escapes and the order of members
//! stay as they were written.

use crate::decode::json::{closing_quote, is_json};

use super::safe;

/// Columns of one level of indentation, and the number of levels that are indented. Deeper levels
/// would leave the screen.
const INDENT: usize = 2;
const LEVELS: usize = 60;

/// The JSON text with one member or element a line, safe for a terminal. `None` where it
/// is not JSON.
pub fn shown(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok().filter(|text| is_json(text))?;
    let lines: Vec<_> = pretty(text).split('\n').map(|line| safe::visible(line).into_owned()).collect();
    Some(lines.join("\n"))
}

/// The JSON text with one member or element a line.
pub fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', INDENT * depth.min(LEVELS)));
    };
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                match tokens.next_if(|next| matches!(*next, "}" | "]")) {
                    Some(closing) => out.push_str(closing),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push_str(token);
                new_line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            token => out.push_str(token),
        }
    }
    out
}

/// The JSON text without blanks between its values. On STDIO a message has to be one line:
/// "Messages are delimited by newlines, and MUST NOT contain embedded newlines" (2025-06-18
/// basic/transports).
pub fn compact(text: &str) -> String {
    tokens(text).collect()
}

/// The tokens of a JSON text: a whole string, or one other character. Blanks between tokens
/// are left out.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let end = match rest.chars().next()? {
            '"' => (closing_quote(rest.as_bytes(), 1).0 + 1).min(rest.len()),
            other => other.len_utf8(),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_keep_their_order_and_spelling() {
        let text = shown(br#"{"b":1.0,"a":[],"c":[1,{"d":"x\u001b, {"}]}"#).unwrap();
        assert_eq!(
            text,
            "{\n  \"b\": 1.0,\n  \"a\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x\\u001b, {\"\n    }\n  ]\n}"
        );
        assert_eq!(shown("\"\u{9b}\"".as_bytes()).unwrap(), "\"⟦U+009B⟧\"");
        assert_eq!(shown(b"no"), None);
    }

    #[test]
    fn only_blanks_change() {
        let text = r#"{"b" : [1.0, 2e400, {}], "a":"\" , \u0041", "c":[ ]}"#;
        insta::assert_snapshot!(pretty(text), @r#"
        {
          "b": [
            1.0,
            2e400,
            {}
          ],
          "a": "\" , \u0041",
          "c": []
        }
        "#);
        assert_eq!(compact(&pretty(text)), r#"{"b":[1.0,2e400,{}],"a":"\" , \u0041","c":[]}"#);
    }

    proptest! {
        /// Any text, JSON or not, keeps everything but its blanks. JSON becomes one line.
        #[test]
        fn nothing_is_lost(text in r#"[\[\]{}:, \n"\\a1]{0,40}"#) {
            prop_assert_eq!(compact(&pretty(&text)), compact(&text));
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert!(!compact(&text).contains('\n'));
            }
        }
    }
}
