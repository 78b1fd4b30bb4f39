//! Secrets that are recognised by their name: parameters and members of OAuth requests and
//! responses, and keys that servers accept in the query of a URI. `secret_name` knows the names.

use std::borrow::Cow;
use std::ops::Range;

use super::json::closing_quote;
use super::secret_name::is_secret;

/// The byte that replaces every byte of a secret. Lengths and offsets stay as they were.
pub const MASK: u8 = b'*';

/// The ranges of secret values in a body: JSON, or parameters of a form.
pub fn in_body(text: &[u8]) -> Vec<Range<usize>> {
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => in_json(text),
        _ => in_parameters(text, 0),
    }
}

/// The ranges of secret values in the query and the fragment of a URI.
pub fn in_uri(uri: &[u8]) -> Vec<Range<usize>> {
    memchr::memchr2(b'?', b'#', uri).map(|mark| in_parameters(uri, mark + 1)).unwrap_or_default()
}

/// The URI with its secrets masked.
pub fn masked_uri(uri: &str) -> Cow<'_, str> {
    let secrets = in_uri(uri.as_bytes());
    if secrets.is_empty() {
        return Cow::Borrowed(uri);
    }
    let mut bytes = uri.as_bytes().to_vec();
    secrets.into_iter().for_each(|secret| bytes[secret].fill(MASK));
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
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
        let mut bytes = text.as_bytes().to_vec();
        in_body(text.as_bytes()).into_iter().for_each(|secret| bytes[secret].fill(MASK));
        String::from_utf8(bytes).expect("text")
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

    proptest! {
        #[test]
        fn any_bytes_are_searched(text: Vec<u8>) {
            for found in [in_json(&text), in_parameters(&text, 0), in_uri(&text)] {
                prop_assert!(found.iter().all(|range| range.end <= text.len()));
                prop_assert!(found.windows(2).all(|two| two[0].end <= two[1].start));
            }
        }
    }
}
