//! Secrets in texts of this program itself: what it prints, and the command lines that it records.

use std::borrow::Cow;
use std::env;
use std::ops::Range;
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use super::safe;
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::secrets;

/// The variable that sets the key, so that several recordings have comparable tags.
const VARIABLE: &str = "MCPTAP_MASK_KEY";

/// The key of the tags of this run. It is random unless the variable sets it, and is never written.
/// `None` if the system gives no random bytes: then masked values have no tags.
pub fn key() -> Option<MaskKey> {
    static KEY: OnceLock<Option<MaskKey>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut bytes = [0; 16];
        match env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
            Some(text) => bytes.copy_from_slice(&digest(&SHA256, text.as_encoded_bytes()).as_ref()[..16]),
            // Tests compare what several runs show.
            None if cfg!(test) => {}
            None => SystemRandom::new().fill(&mut bytes).ok()?,
        }
        Some(MaskKey::new(bytes))
    })
}

/// A URI with its secrets masked.
pub fn masked_uri(uri: &str) -> Cow<'_, str> {
    secrets::masked_uri(uri, |value| Mask::of(key(), value))
}

/// A line for people: tokens, and secrets of URIs in it, are masked.
pub fn masked_text(text: &str) -> Cow<'_, str> {
    secrets::masked(text, in_line(text), |value| Mask::of(key(), value))
}

/// A line that may contain text of others. Secrets are masked, and characters that act on a
/// terminal are shown as symbols.
pub fn shown(line: &str) -> Cow<'_, str> {
    match masked_text(line) {
        Cow::Borrowed(line) => safe::visible(line),
        Cow::Owned(line) => Cow::Owned(safe::visible(&line).into_owned()),
    }
}

/// The ranges of secrets in a line.
fn in_line(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    for uri in line.split(ends).filter(|word| word.contains("://") || word.contains('?')) {
        // The mark after a URI belongs to the sentence.
        let uri = uri.trim_end_matches([';', ',', '.', ':', ')']);
        let start = uri.as_ptr() as usize - line.as_ptr() as usize;
        let inside = secrets::union(Vec::from_iter(password_of_uri(uri)), secrets::in_uri(uri.as_bytes()));
        found.extend(inside.into_iter().map(|range| start + range.start..start + range.end));
    }
    secrets::union(found, secrets::in_text(line.as_bytes()))
}

/// The password in the userinfo of a URI. RFC 3986 section 3.2.1: "the use of the format
/// 'user:password' in the userinfo field is deprecated. Applications should not render as clear
/// text any data after the first colon character found within a userinfo subcomponent".
pub(super) fn password_of_uri(uri: &str) -> Option<Range<usize>> {
    let start = uri.find("://")? + 3;
    let authority = uri[start..].split(['/', '?', '#']).next().unwrap_or_default();
    let userinfo = &authority[..authority.rfind('@')?];
    let colon = userinfo.find(':')?;
    Some(start + colon + 1..start + userinfo.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_masked_in_their_uris_and_tokens() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        for (line, expected) in [
            ("cannot reach \"http://me:abc@h/mcp?token=d&x=1\": refused", "http://me:***@h/mcp?token=*&x=1\": refused"),
            ("is it /cb?code=abc&state=1 ? no: token=abc", "/cb?code=***&state=1 ? no: token=abc"),
            ("it redirects to http://h/mcp?code=***; http://h/?key=abc, too", "?code=***; http://h/?key=***, too"),
            ("give it SSLKEYLOGFILE=FILE, ü?key=ü", "give it SSLKEYLOGFILE=FILE, ü?key=**"),
        ] {
            assert!(masked_text(line).ends_with(expected), "{}", masked_text(line));
        }
        let line = format!("\u{1b}the server said {token}.");
        assert!(shown(&line).starts_with("␛the server said ********") && !shown(&line).contains("ghp_"));
        assert!(matches!(shown("plain"), Cow::Borrowed("plain")));
    }
}
