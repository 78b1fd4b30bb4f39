//! The explanation that a server gives in the body of a response that refuses a request.

use super::json::Object;
use super::mask::Mask;
use super::secrets;

/// Bytes of a body that are read. An explanation stands at the start.
pub const READ: usize = 4 << 10;

/// Characters of an explanation that are kept. It is one line for people.
const LENGTH: usize = 300;

/// Members of a JSON body that explain a refusal, the most precise first (RFC 6749 section 5.2,
/// RFC 9457, JSON-RPC, and what web frameworks send).
const MEMBERS: [&str; 6] = ["error_description", "message", "detail", "error", "title", "reason"];

/// Reads the explanation from the first bytes of a body: a member of a JSON object, the title of an
/// HTML page, or the first line of a text. Tokens in it are masked.
pub fn explanation(body: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        // Only the last character is cut.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&body[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let text = text.trim();
    let found = match text.as_bytes().first()? {
        b'{' => of_object(text)?,
        b'<' => of_page(text)?,
        _ => text.trim_matches('"').lines().next()?.to_owned(),
    };
    let found: String = found.trim().chars().take(LENGTH).collect();
    let masked = secrets::masked(&found, secrets::in_text(found.as_bytes()), |_| Mask::PLAIN);
    (!masked.is_empty()).then(|| masked.into_owned())
}

fn of_object(text: &str) -> Option<String> {
    let object = Object::read(text);
    let own = |object: &Object<'_>| MEMBERS.iter().find_map(|name| object.text(name)).map(|text| text.into_owned());
    // A JSON-RPC error and many web frameworks put the explanation into `error`.
    own(&object.object("error")).or_else(|| own(&object))
}

fn of_page(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower.get(start..)?.find("</title>")?;
    Some(text.get(start..end)?.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained_in_one_line() {
        for (body, expected) in [
            ("Session not found", Some("Session not found")),
            ("\n  first\nsecond", Some("first")),
            (r#"{"error":"invalid_token","error_description":"The token expired"}"#, Some("The token expired")),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"No session"}}"#, Some("No session")),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"error":"nope"}"#, Some("nope")),
            (r#"{"status":404}"#, None),
            ("<!doctype html><html><TITLE>404\n Not  Found</TITLE></html>", Some("404 Not Found")),
            ("<p>x", None),
            ("", None),
        ] {
            assert_eq!(explanation(body.as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(explanation(b"caf\xc3").as_deref(), Some("caf"), "a character that is cut");
        assert_eq!(explanation(b"\xff\xfe"), None);
        assert_eq!(explanation("x".repeat(READ).as_bytes()).unwrap().len(), LENGTH);
    }
}
