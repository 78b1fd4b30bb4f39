//! Checks of the string formats that the definitions name: `uri`, `uri-template` and `byte`.

use super::compile::Format;

impl Format {
    /// Whether a text has this format.
    pub fn holds(self, text: &str) -> bool {
        match self {
            Format::Plain => true,
            Format::Uri => is_uri(text),
            Format::UriTemplate => is_uri_template(text),
            Format::Base64 => is_base64(text.as_bytes()),
        }
    }
}

/// Whether a text is a URI. RFC 3986 section 3: `URI = scheme ":" hier-part [ "?" query ] [
/// "#" fragment ]`.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    // Section 3.1: scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match hierarchy.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", hierarchy),
    };
    named
        && is_written_in(authority, b"-._~!$&'()*+,;=:@[]")
        && is_written_in(path, b"-._~!$&'()*+,;=:@/")
        && is_written_in(query, b"-._~!$&'()*+,;=:@/?")
        && is_written_in(fragment, b"-._~!$&'()*+,;=:@/?")
}

/// Whether a text consists of letters, digits, these signs, and `%` with two hexadecimal digits
/// (RFC 3986 section 2.1).
fn is_written_in(text: &str, signs: &[u8]) -> bool {
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
            _ if byte.is_ascii_alphanumeric() || signs.contains(byte) => after,
            _ => return false,
        };
    }
    true
}

/// Whether a text is a URI template. RFC 6570 section 2: `URI-Template = *( literals
/// / expression )`.
fn is_uri_template(text: &str) -> bool {
    let mut rest = text;
    while let Some(brace) = rest.find(['{', '}']) {
        let (literals, from) = rest.split_at(brace);
        let Some((expression, after)) = from.strip_prefix('{').and_then(|inside| inside.split_once('}')) else {
            return false;
        };
        if !are_literals(literals) || !is_expression(expression) {
            return false;
        }
        rest = after;
    }
    are_literals(rest)
}

/// Section 2.1: any character "except: CTL, SP, DQUOTE, "'", "%" (aside from pct-encoded), "<",
/// ">", "\", "^", "`", "{", "|", "}"". The apostrophe is let pass: RFC 6570's own errata allow it.
fn are_literals(text: &str) -> bool {
    let plain: String = text.chars().filter(char::is_ascii).collect();
    !text.chars().any(char::is_control) && is_written_in(&plain, b"-._~!$&'()*+,;=:@/?#[]")
}

/// Whether a text is an expression (sections 2.2 to 2.4): an operator, then variables with a prefix
/// length or `*`.
fn is_expression(text: &str) -> bool {
    let variables = text.strip_prefix(|c: char| "+#./;?&=,!@|".contains(c)).unwrap_or(text);
    variables.split(',').all(|variable| {
        let name = match variable.split_once(':') {
            Some((name, length)) => {
                // max-length = %x31-39 0*3DIGIT: positive, below 10000.
                let digits = length.bytes().all(|byte| byte.is_ascii_digit());
                if !digits || length.is_empty() || length.len() > 4 || length.starts_with('0') {
                    return false;
                }
                name
            }
            None => variable.strip_suffix('*').unwrap_or(variable),
        };
        !name.is_empty() && is_written_in(name, b"._")
    })
}

/// Whether a text is base64 with padding (RFC 4648 section 4).
fn is_base64(text: &[u8]) -> bool {
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    text.len().is_multiple_of(4)
        && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_follow_their_grammar() {
        let cases: &[(Format, &[&str], &[&str])] = &[
            (
                Format::Uri,
                &["file:///a%20b", "urn:x:y", "http://[::1]:80/?q=1#f", "test://x", "ui:", "data:text/plain,a"],
                &["", "no", "/path", "file:///a b", "1http://x", "http://x/%zz", "http://x#a#b", "http://é/", "x:[a]"],
            ),
            (
                Format::UriTemplate,
                &["file:///{path}", "{+a,b:3,c*}", "{?q}", "", "plain", "http://é/{x}", "{a.b_c%20}"],
                &["{", "}", "a{}b", "{a b}", "{a:0}", "{a{b}}", "x y"],
            ),
            (Format::Base64, &["", "YQ==", "YWI=", "YWJj"], &["YQ", "YQ=", "Y===", "Y*==", "YW-_", "YQ==YQ=="]),
        ];
        for (format, good, bad) in cases {
            good.iter().for_each(|text| assert!(format.holds(text), "{format:?} {text}"));
            bad.iter().for_each(|text| assert!(!format.holds(text), "{format:?} {text}"));
        }
    }
}
