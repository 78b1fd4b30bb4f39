//! JSON that is read for the first time: one pass that holds it to the grammar of RFC 8259 and finds where values stand.
//!
//! Why a text is no JSON is not said: whoever wants to know asks a reader that is not in a hurry.

use std::ops::Range;

use super::Index;
use super::scan::{blanks, in_words, quotes, repeated};

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The text is no JSON from here on.
    NotJson,
    /// It is nested deeper than it may be; what follows was not looked at.
    TooDeep,
}

/// A name with its quotes, whether it has escapes, and nothing once the object is over.
type Name<'a> = Option<(&'a str, bool)>;

/// Goes through a text, value by value.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    /// The next byte to look at.
    at: usize,
    /// Objects that were entered and are not over.
    depth: usize,
    /// Nesting that is followed.
    most: usize,
    /// Brackets that are open inside a value that is passed over, by what closes them. It is kept from value to value for its memory.
    open: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// At the start of a text, of which arrays and objects may be nested `most` levels deep.
    pub fn new(text: &'a str, most: usize) -> Reader<'a> {
        Reader { text, at: blanks(text, 0), depth: 0, most, open: Vec::new() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek() != Some(byte) {
            return Err(Stop::NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn blanks(&mut self) {
        self.at = blanks(self.text, self.at);
    }

    /// Enters an object; its members follow.
    pub fn enter(&mut self) -> Result<(), Stop> {
        self.expect(b'{')?;
        self.depth += 1;
        if self.depth > self.most { Err(Stop::TooDeep) } else { Ok(()) }
    }

    /// The name of the next member of the object that was entered last, which is left behind the last one. The value follows.
    pub fn name(&mut self, is_first: bool) -> Result<Name<'a>, Stop> {
        self.blanks();
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                self.depth -= 1;
                return Ok(None);
            }
            Some(b',') if !is_first => {
                self.at += 1;
                self.blanks();
            }
            _ if is_first => {}
            _ => return Err(Stop::NotJson),
        }
        let start = self.at;
        let escaped = self.string()?;
        let name = self.text.get(start..self.at).ok_or(Stop::NotJson)?;
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Ok(Some((name, escaped)))
    }

    /// A whole value, and where it stands.
    pub fn value(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        self.open.clear();
        loop {
            self.begin()?;
            // Behind a value come the ends of what it is in, and then the next.
            loop {
                let Some(closing) = self.open.last().copied() else { return Ok(start..self.at) };
                self.blanks();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.blanks();
                        if closing == b'}' {
                            self.key()?;
                        }
                        break;
                    }
                    Some(byte) if byte == closing => {
                        self.at += 1;
                        self.open.pop();
                    }
                    _ => return Err(Stop::NotJson),
                }
            }
        }
    }

    /// The start of a value, up to the end of the first that has none inside it.
    fn begin(&mut self) -> Result<(), Stop> {
        loop {
            let closing = match self.peek() {
                Some(b'"') => return self.string().map(drop),
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.word("true"),
                Some(b'f') => return self.word("false"),
                Some(b'n') => return self.word("null"),
                Some(b'{') => b'}',
                Some(b'[') => b']',
                _ => return Err(Stop::NotJson),
            };
            if self.depth + self.open.len() >= self.most {
                return Err(Stop::TooDeep);
            }
            self.at += 1;
            self.blanks();
            if self.peek() == Some(closing) {
                self.at += 1;
                return Ok(());
            }
            self.open.push(closing);
            if closing == b'}' {
                self.key()?;
            }
        }
    }

    /// The name of a member of an object that is passed over.
    fn key(&mut self) -> Result<(), Stop> {
        self.string()?;
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Ok(())
    }

    /// An object, where it stands and where its members do.
    pub fn object(&mut self) -> Result<(Range<usize>, Index), Stop> {
        let (start, mut index) = (self.at, Index::default());
        self.enter()?;
        let mut is_first = true;
        while let Some((name, _)) = self.name(is_first)? {
            is_first = false;
            let end = name.as_ptr() as usize - self.text.as_ptr() as usize + name.len();
            let value = self.value()?;
            index.note(start, end - name.len()..end, value);
        }
        Ok((start..self.at, index))
    }

    /// Whether an object comes next.
    pub fn is_at_object(&self) -> bool {
        self.peek() == Some(b'{')
    }

    /// The end of the text: only blanks may follow.
    pub fn end(&mut self) -> Result<(), Stop> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(Stop::NotJson) }
    }

    fn word(&mut self, word: &str) -> Result<(), Stop> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(Stop::NotJson);
        }
        self.at += word.len();
        Ok(())
    }

    /// `[ minus ] int [ frac ] [ exp ]` (RFC 8259 section 6).
    fn number(&mut self) -> Result<(), Stop> {
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Stop::NotJson) }
    }

    /// A string; whether it has escapes.
    fn string(&mut self) -> Result<bool, Stop> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            self.at = special(bytes, self.at).ok_or(Stop::NotJson)?;
            match bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += match bytes.get(self.at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') if is_hexadecimal(bytes.get(self.at + 2..self.at + 6)) => 6,
                        _ => return Err(Stop::NotJson),
                    };
                }
                // "All Unicode characters may be placed within the quotation marks, except for […] the control characters" (section 7).
                _ => return Err(Stop::NotJson),
            }
        }
    }
}

fn is_hexadecimal(digits: Option<&[u8]>) -> bool {
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Words of a string that are looked at one by one, before a search over many at once is worth its start.
const WORDS: usize = 6;

/// The next quotation mark, backslash or control from `at` on.
fn special(bytes: &[u8], at: usize) -> Option<usize> {
    let controls = |word: u64| word.wrapping_sub(repeated(0x20)) & !word & repeated(0x80);
    let at = match in_words(bytes, at, WORDS, |word| quotes(word) | controls(word)) {
        Ok(found) => return Some(found),
        Err(at) => at,
    };
    let rest = bytes.get(at..)?;
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    // Written so that it compiles to comparisons of whole vectors: hardly ever is there one.
    let has_control = rest[..end].iter().fold(false, |any, byte| any | (*byte < 0x20));
    let found = if has_control { rest.iter().position(|byte| *byte < 0x20)? } else { end };
    (found < rest.len()).then_some(at + found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::json::is_json;

    fn value(text: &str, most: usize) -> Result<Range<usize>, Stop> {
        let mut reader = Reader::new(text, most);
        let value = reader.value()?;
        reader.end().map(|()| value)
    }

    #[test]
    fn what_is_json_and_what_is_not() {
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
    fn nesting_is_followed_as_deep_as_it_may_be() {
        assert_eq!(value("[[[]]]", 3), Ok(0..6));
        assert_eq!(value("[[{}]]", 2), Err(Stop::TooDeep));
        assert_eq!(value(&"[".repeat(1_000_000), 512), Err(Stop::TooDeep));
        let mut reader = Reader::new(r#"{"a":{"b":[]}}"#, 2);
        assert_eq!((reader.enter(), reader.name(true)), (Ok(()), Ok(Some(("\"a\"", false)))));
        assert_eq!(reader.object(), Err(Stop::TooDeep));
    }

    #[test]
    fn the_members_of_an_object_stand_where_another_pass_finds_them() {
        let text = r#" {"a" : 1 , "b\"" :[2, {}] ,"c":{"d":"}"}}"#;
        let (range, index) = Reader::new(text, 8).object().unwrap();
        assert_eq!(index, Index::of(&text[range]));
    }

    proptest! {
        #[test]
        fn another_reader_agrees(text in r#"[\[\]{}"\\,:0-2.eE+a\-tu é\n]{0,16}"#) {
            prop_assert_eq!(value(&text, 64).is_ok(), is_json(&text), "{}", text);
        }

        #[test]
        fn another_reader_agrees_on_what_is_nearly_json(
            text in r#"\{"a":\[?(-?[0-9]{1,3}(\.[0-9]+)?|"[a-z\\"é ]{0,60}"|true|\{\}|\{"b":null\})\]?,?("c":[01]+)?\}"#,
        ) {
            prop_assert_eq!(value(&text, 64).is_ok(), is_json(&text), "{}", text);
        }
    }
}
