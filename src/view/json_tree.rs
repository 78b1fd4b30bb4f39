//! JSON over several lines, members in the order and spelling of the text, safe for a terminal.

use super::safe;

/// Blanks for each level.
const INDENT: usize = 2;

/// The text over several lines; `None` where it is no JSON. Nothing is parsed into values: numbers and escapes stay as they are.
pub fn pretty(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth: usize = 0;
    let mut rest = text.chars().peekable();
    let mut string = String::new();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                string.clear();
                string.push('"');
                let mut escaped = false;
                for c in rest.by_ref() {
                    string.push(c);
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' => break,
                        _ => {}
                    }
                }
                out.push_str(&safe::visible(&string));
            }
            '{' | '[' => {
                while rest.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                out.push(c);
                match rest.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    Some(out)
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    // Deep nesting is shown flat beyond what a screen is wide.
    out.extend(std::iter::repeat_n(' ', depth.min(60) * INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_spelling() {
        let said = pretty(br#"{"b":1.0,"a":[],"c":[1,{"d":"x\u001b, {"}]}"#).unwrap();
        assert_eq!(
            said,
            "{\n  \"b\": 1.0,\n  \"a\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x\\u001b, {\"\n    }\n  ]\n}"
        );
        assert_eq!(pretty(b"no"), None);
    }
}
