//! Secrets outside of messages. Some are recognised by their name: parameters and members of OAuth
//! requests and responses, and keys that servers accept in the query of a URI. Tokens are
//! recognised by their shape, wherever they are. `secret_name` and `secret_shape` know them.

use std::borrow::Cow;
use std::ops::Range;

use super::json::closing_quote;
use super::mask::Mask;
use super::secret_name::is_secret;
use super::secret_shape;

/// The ranges of secrets in a body: JSON, or parameters of a form.
pub fn in_body(text: &[u8]) -> Vec<Range<usize>> {
    let named = match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => in_json(text),
        _ => in_parameters(text, 0),
    };
    union(named, in_text(text))
}

/// The ranges of secrets in a URI: values in its query and its fragment, and tokens anywhere.
pub fn in_uri(uri: &[u8]) -> Vec<Range<usize>> {
    let named = memchr::memchr2(b'?', b'#', uri).map(|mark| in_parameters(uri, mark + 1)).unwrap_or_default();
    union(named, in_text(uri))
}

/// The ranges of tokens in any text, by their shape. A value that was masked with a tag counts as
/// one, so that it keeps its tag.
pub fn in_text(text: &[u8]) -> Vec<Range<usize>> {
    secret_shape::in_text(text)
}

/// The URI with each of its secrets replaced by the mask of its value.
pub fn masked_uri(uri: &str, mask: impl Fn(&[u8]) -> Mask) -> Cow<'_, str> {
    masked(uri, in_uri(uri.as_bytes()), mask)
}

/// The URI with its secrets masked, without tags. Only so are one that was masked before and one
/// that was not masked equal.
pub fn comparable(uri: &str) -> Cow<'_, str> {
    masked_uri(uri, |_| Mask::PLAIN)
}

/// The text with the given ranges replaced, each by the mask of its value.
pub fn masked(text: &str, secrets: Vec<Range<usize>>, mask: impl Fn(&[u8]) -> Mask) -> Cow<'_, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    for secret in secrets {
        let mask = mask(&bytes[secret.clone()]);
        mask.cover(&mut bytes[secret]);
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Joins ranges that overlap. Both lists are disjoint and in order, and so is the result.
pub fn union(one: Vec<Range<usize>>, other: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if one.is_empty() || other.is_empty() {
        return if one.is_empty() { other } else { one };
    }
    let mut all = [one, other].concat();
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for range in all {
        match joined.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

/// The ranges of secret values in `name=value&name=value`, from `start` on.
fn in_parameters(text: &[u8], start: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = start;
    while begin < text.len() {
        let rest = &text[begin..];
        let end =
            begin + rest.iter().position(|byte| matches!(byte, b'&' | b'#' | b'\r' | b'\n')).unwrap_or(rest.len());
        if let Some(equals) = memchr::memchr(b'=', &text[begin..end])
            && is_secret(&text[begin..begin + equals])
        {
            found.push(begin + equals + 1..end);
        }
        begin = end + 1;
    }
    found
}

/// The ranges of secret strings in JSON, at any depth. A string that the text cuts off extends
/// to its end.
fn in_json(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((string, behind)) = next_string(text, at) {
        at = behind;
        let is_member = |colon: &usize| text[*colon] == b':' && is_secret(&text[string.clone()]);
        if let Some(colon) = next_non_blank(text, behind).filter(is_member)
            && let Some(quote) = next_non_blank(text, colon + 1).filter(|quote| text[*quote] == b'"')
            && let Some((value, behind)) = next_string(text, quote)
        {
            found.push(value);
            at = behind;
        }
    }
    found
}

/// Offset of the next byte that is not blank.
fn next_non_blank(text: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.iter().position(|byte| !byte.is_ascii_whitespace()).map(|at| from + at)
}

/// The range of the next string between its quotation marks, and the offset after the closing mark.
fn next_string(text: &[u8], from: usize) -> Option<(Range<usize>, usize)> {
    let start = from + memchr::memchr(b'"', text.get(from..)?)? + 1;
    let quote = closing_quote(text, start).0;
    Some((start..quote, quote + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(text: &str) -> String {
        super::masked(text, in_body(text.as_bytes()), |_| Mask::PLAIN).into_owned()
    }

    fn masked_uri(uri: &str) -> Cow<'_, str> {
        super::masked_uri(uri, |_| Mask::PLAIN)
    }

    #[test]
    fn secrets_of_a_token_request_are_found() {
        assert_eq!(
            masked("grant_type=authorization_code&code=abc&code_verifier=xyz&client_id=me&redirect_uri=http%3A%2F%2Fx"),
            "grant_type=authorization_code&code=***&code_verifier=***&client_id=me&redirect_uri=http%3A%2F%2Fx"
        );
        assert_eq!(masked("refresh_token=abc"), "refresh_token=***");
        assert_eq!(masked("codes=1&token_type=x&=y&code"), "codes=1&token_type=x&=y&code");
    }

    #[test]
    fn tokens_are_found_in_json() {
        assert_eq!(
            masked(r#"{"access_token":"a\"b","token_type":"Bearer", "Refresh_Token" : "c", "expires_in":3600}"#),
            r#"{"access_token":"****","token_type":"Bearer", "Refresh_Token" : "*", "expires_in":3600}"#
        );
        assert_eq!(
            masked(r#"[{"code":-32600,"x":{"client_secret":"s"}},"token"]"#),
            r#"[{"code":-32600,"x":{"client_secret":"*"}},"token"]"#
        );
        assert_eq!(masked(r#"{"password":"cut"#), r#"{"password":"***"#);
        assert_eq!(masked(r#"{"password":"cut\"#), r#"{"password":"****"#);
        assert_eq!(masked(r#"{"say":"\"token\":\"no\""}"#), r#"{"say":"\"token\":\"no\""}"#);
    }

    #[test]
    fn a_uri_is_masked_after_its_path() {
        assert_eq!(masked_uri("/cb?code=ab&state=1#access_token=x"), "/cb?code=**&state=1#access_token=*");
        assert_eq!(masked_uri("/token=1/code?x=token"), "/token=1/code?x=token");
        let given = "/mcp?tavilyApiKey=a&sig=b&max_tokens=3&software_statement=c";
        assert_eq!(masked_uri(given), "/mcp?tavilyApiKey=*&sig=*&max_tokens=3&software_statement=*");
        assert!(matches!(masked_uri("/mcp?session_id=1"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_token_is_found_under_any_name_and_once() {
        let (token, stars) = ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "*".repeat(40));
        for (text, expected) in [
            (r#"{"x":"#.to_owned() + "\"" + token + "\"}", format!("{{\"x\":\"{stars}\"}}")),
            (format!("x={token}&token=a+{token}"), format!("x={stars}&token=**{stars}")),
        ] {
            assert_eq!(masked(&text), expected);
        }
        assert_eq!(masked_uri(&format!("/u/{token}/mcp?x=1")), format!("/u/{stars}/mcp?x=1"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched(text: Vec<u8>) {
            for found in [in_json(&text), in_parameters(&text, 0), in_uri(&text), in_body(&text)] {
                prop_assert!(found.iter().all(|range| range.end <= text.len()));
                prop_assert!(found.windows(2).all(|two| two[0].end <= two[1].start));
            }
        }
    }
}
