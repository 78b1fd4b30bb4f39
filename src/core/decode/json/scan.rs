//! Steps over JSON that was read before: where a string, a number or a whole value ends. Nesting is counted, not followed.
//!
//! Nothing is checked twice: on a text that is no JSON a step lands somewhere at or before its end, and that is all.

/// What a value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or `-`.
    Number,
    /// `t` or `f`.
    Boolean,
    /// `n`
    Null,
}

impl Kind {
    /// With its article.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Boolean => "a boolean",
            Kind::Null => "null",
        }
    }
}

/// What begins here; `None` where no value does.
pub fn kind(text: &str, at: usize) -> Option<Kind> {
    match text.as_bytes().get(at)? {
        b'{' => Some(Kind::Object),
        b'[' => Some(Kind::Array),
        b'"' => Some(Kind::String),
        b'-' | b'0'..=b'9' => Some(Kind::Number),
        b't' | b'f' => Some(Kind::Boolean),
        b'n' => Some(Kind::Null),
        _ => None,
    }
}

/// The next byte that is no blank (RFC 8259 section 2), from `at` on.
pub fn blanks(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = at;
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`, in one pass; the end of the text where it does not end.
pub fn end_of_value(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    match bytes.get(at) {
        Some(b'"') => end_of_string(text, at),
        Some(b'{' | b'[') => {
            let mut depth = 0_usize;
            let mut at = at;
            while let Some(byte) = bytes.get(at) {
                at += 1;
                match byte {
                    b'"' => at = end_of_string(text, at - 1),
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return at;
                        }
                    }
                    _ => {}
                }
            }
            at
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            bytes.get(at..).and_then(|rest| rest.iter().position(ends)).map_or(bytes.len(), |length| at + length)
        }
    }
}

/// The end of the string whose opening quote stands at `at`.
pub fn end_of_string(text: &str, at: usize) -> usize {
    string(text, at).0
}

/// The end of the string whose opening quote stands at `at`, and whether it has escapes.
pub fn string(text: &str, at: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let (mut at, mut escaped) = (at + 1, false);
    while let Some(mark) = mark(bytes, at) {
        if bytes[mark] == b'"' {
            return (mark + 1, escaped);
        }
        escaped = true;
        at = mark + 2;
    }
    (bytes.len(), escaped)
}

/// Words of a string that are looked at one by one, before a search over many at once is worth its start.
const WORDS: usize = 4;

/// The next quotation mark or backslash from `at` on.
fn mark(bytes: &[u8], at: usize) -> Option<usize> {
    match in_words(bytes, at, WORDS, quotes) {
        Ok(found) => Some(found),
        Err(at) => memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found),
    }
}

/// The first byte from `at` on that `marks` finds in one of the next words, or where they end.
pub(super) fn in_words(bytes: &[u8], at: usize, words: usize, marks: impl Fn(u64) -> u64) -> Result<usize, usize> {
    const WORD: usize = size_of::<u64>();
    let mut at = at;
    for _ in 0..words {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WORD>) else { break };
        // The lowest byte that is marked is right; one above it may not be.
        let marked = marks(u64::from_le_bytes(*word));
        if marked != 0 {
            return Ok(at + marked.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    Err(at)
}

/// The high bit of each quotation mark and backslash.
pub(super) const fn quotes(word: u64) -> u64 {
    zeros(word ^ repeated(b'"')) | zeros(word ^ repeated(b'\\'))
}

pub(super) const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The high bit of each byte that is zero, and perhaps of some above it.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

/// The members of an object, one by one; whoever asks for the next one first moves `at` behind the value.
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a str,
    /// Where to go on.
    pub at: usize,
    /// The closing brace was read.
    pub closed: bool,
}

impl<'a> Members<'a> {
    /// Of the object at `at`; `None` where none begins.
    pub fn of(text: &'a str, at: usize) -> Option<Members<'a>> {
        (kind(text, at) == Some(Kind::Object)).then_some(Members { text, at: at + 1, closed: false })
    }

    /// The name with its quotes, whether it has escapes, and where the value begins.
    pub fn next_member(&mut self) -> Option<(&'a str, bool, usize)> {
        let bytes = self.text.as_bytes();
        self.at = blanks(self.text, self.at);
        if bytes.get(self.at) == Some(&b',') {
            self.at = blanks(self.text, self.at + 1);
        }
        match bytes.get(self.at)? {
            b'"' => {
                let (end, escaped) = string(self.text, self.at);
                let name = self.text.get(self.at..end)?;
                self.at = blanks(self.text, end);
                if bytes.get(self.at)? != &b':' {
                    return None;
                }
                self.at = blanks(self.text, self.at + 1);
                Some((name, escaped, self.at))
            }
            b'}' => {
                self.at += 1;
                self.closed = true;
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    #[test]
    fn values_end_where_they_end() {
        for value in [r#""a\"b\\""#, r#"{"a}":["]",{}],"b":1}"#, "[]", "-1.5e3", "true", "null"] {
            assert_eq!(end_of_value(&format!("{value} ,1"), 0), value.len(), "{value}");
            assert_eq!(end_of_value(value, 0), value.len(), "{value}");
        }
        assert_eq!(end_of_value(r#"["never"#, 0), 7);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(end_of_value(&deep, 0), deep.len());
    }

    proptest! {
        #[test]
        fn no_step_leaves_the_text(text in r#"[\[\]{}"\\,:a1é ]{0,40}"#) {
            for at in 0..text.len() {
                prop_assert!(end_of_value(&text, at) <= text.len());
                if text.is_char_boundary(at) && serde_json::from_str::<&RawValue>(&text[at..]).is_ok() {
                    let start = blanks(&text, at);
                    prop_assert_eq!(text[start..].trim_end().len(), end_of_value(&text, start) - start);
                }
            }
        }
    }
}
