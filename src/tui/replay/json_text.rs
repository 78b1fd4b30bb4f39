//! JSON text for the editor and back: only blanks change, so that numbers, escapes and the order of members stay as they were written.

use std::iter::Peekable;
use std::str::Chars;

/// Columns by which what is inside stands further right, and the levels that still do: behind them the screen has no room.
const INDENT: usize = 2;
const LEVELS: usize = 24;

/// One member or element a line.
pub fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut chars = text.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', INDENT * depth.min(LEVELS)));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => string(c, &mut chars, &mut out),
            '{' | '[' => {
                out.push(c);
                skip_blanks(&mut chars);
                match chars.peek() {
                    Some('}' | ']') => out.extend(chars.next()),
                    _ => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Without blanks between values: on STDIO a message is one line ("Messages are delimited by newlines, and MUST NOT contain embedded
/// newlines", 2025-06-18 basic/transports).
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => string(c, &mut chars, &mut out),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Copies a string up to its end.
fn string(quote: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push(quote);
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\\' => out.extend(chars.next()),
            '"' => return,
            _ => {}
        }
    }
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(char::is_ascii_whitespace).is_some() {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        /// Whatever is written, JSON or not: the same text but for blanks, on one line.
        #[test]
        fn nothing_is_lost(text in r#"[\[\]{}:, \n"\\a1]{0,40}"#) {
            prop_assert_eq!(compact(&pretty(&text)), compact(&text));
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert!(!compact(&text).contains('\n'));
            }
        }
    }
}
