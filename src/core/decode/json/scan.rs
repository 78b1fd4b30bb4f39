//! A scanner of JSON text: it returns the positions of members, elements and strings.
//!
//! Nothing is built or copied, and nesting never grows the stack. One [`JsonScanner`]
//! serves two purposes:
//!
//! * [`JsonScanner::checking`] reads a text for the first time and checks the grammar of RFC 8259.
//! * [`JsonScanner::trusting`] reads a text that was checked before. It only skips values,
//!   which takes half the instructions. If the text is not JSON after all, the scanner stops
//!   somewhere inside it.
//!
//! The scanner does not report what is wrong with a text. serde_json is asked for that.

use std::ops::Range;

use super::open_brackets::OpenBrackets;
use super::quotes::{closing_quote, quote_escape_or_control};

/// The reason why scanning stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The text is not JSON.
    NotJson,
    /// The text is nested deeper than allowed. The rest was not read.
    TooDeep,
}

words! {
    /// The type of a JSON value, recognised by its first byte. Its name has an article.
    pub enum JsonType {
        /// A value that begins with `{`.
        Object = "an object",
        /// A value that begins with `[`.
        Array = "an array",
        /// A value that begins with `"`.
        String = "a string",
        /// A value that begins with a digit or `-`.
        Number = "a number",
        /// A value that begins with `t` or `f`.
        Boolean = "a boolean",
        /// A value that begins with `n`.
        Null = "null",
    }
}

impl JsonType {
    /// The type of the value at the start of `text`; `None` if no value begins there.
    pub fn of(text: &str) -> Option<JsonType> {
        JsonScanner::trusting(text, 0).kind()
    }
}

/// The ranges of an object's members: names with quotes, and values, as offsets in
/// the object's text.
///
/// At most 1,024 members are listed. What the protocol defines has few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index(pub(super) Vec<(Range<u32>, Range<u32>)>);

impl Index {
    const MEMBERS: usize = 1_024;

    /// Adds a member of the object that begins at offset `start`.
    fn add(&mut self, start: usize, name: Range<usize>, value: Range<usize>) {
        let place = |range: Range<usize>| {
            Some(u32::try_from(range.start - start).ok()?..u32::try_from(range.end - start).ok()?)
        };
        if let (Some(name), Some(value)) = (place(name), place(value))
            && self.0.len() < Self::MEMBERS
        {
            self.0.push((name, value));
        }
    }

    /// The members of `text`, found in one pass. Empty if the text is not an object.
    pub fn of(text: &str) -> Index {
        let mut reader = JsonScanner::trusting(text, 0);
        match reader.object() {
            Ok((_, index)) if reader.end().is_ok() => index,
            _ => Index::default(),
        }
    }
}

/// The name of a member with its quotes, and whether it has escapes; `None` at the end
/// of the object.
type MemberName<'a> = Option<(&'a str, bool)>;

/// Reads a text value by value. `CHECKED` is part of the type, so each kind of scanner is compiled
/// without the code of the other.
#[derive(Debug)]
pub struct JsonScanner<'a, const CHECKED: bool> {
    text: &'a str,
    /// Offset of the next byte.
    pub at: usize,
    /// Number of objects and arrays that were entered and have not ended.
    depth: usize,
    /// The deepest nesting that is allowed.
    max_depth: usize,
    /// Closing brackets of the open objects and arrays inside the value that is being checked.
    /// Reused from value to value.
    open: OpenBrackets,
}

impl<'a> JsonScanner<'a, true> {
    /// A scanner at the first value of a text that was not checked before. Arrays and objects may
    /// be nested `max_depth` levels deep.
    pub fn checking(text: &'a str, max_depth: usize) -> Self {
        let mut reader = JsonScanner { text, at: 0, depth: 0, max_depth, open: OpenBrackets::default() };
        reader.blanks();
        reader
    }
}

impl<'a> JsonScanner<'a, false> {
    /// A scanner at offset `at` of a text that was checked before.
    pub fn trusting(text: &'a str, at: usize) -> Self {
        JsonScanner { text, at, depth: 0, max_depth: usize::MAX, open: OpenBrackets::default() }
    }
}

impl<'a, const CHECKED: bool> JsonScanner<'a, CHECKED> {
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

    /// Skips blanks (RFC 8259 section 2).
    pub fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The type of the next value; `None` if no value begins here.
    pub fn kind(&self) -> Option<JsonType> {
        match self.peek()? {
            b'{' => Some(JsonType::Object),
            b'[' => Some(JsonType::Array),
            b'"' => Some(JsonType::String),
            b'-' | b'0'..=b'9' => Some(JsonType::Number),
            b't' | b'f' => Some(JsonType::Boolean),
            b'n' => Some(JsonType::Null),
            _ => None,
        }
    }

    /// Enters an object (`{`) or an array (`[`). Its members or elements follow.
    pub fn enter(&mut self, bracket: u8) -> Result<(), Stop> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > self.max_depth { Err(Stop::TooDeep) } else { Ok(()) }
    }

    /// The name of the next member of the innermost object. Its value follows. `None` at the end,
    /// where the object is left.
    pub fn name(&mut self) -> Result<MemberName<'a>, Stop> {
        if !self.next(b'}')? {
            return Ok(None);
        }
        let start = self.at;
        let escaped = self.string()?;
        let name = self.text.get(start..self.at).ok_or(Stop::NotJson)?;
        self.colon()?;
        Ok(Some((name, escaped)))
    }

    /// Whether the innermost array has another element, which follows. At the end the
    /// array is left.
    pub fn element(&mut self) -> Result<bool, Stop> {
        self.next(b']')
    }

    fn next(&mut self, closing: u8) -> Result<bool, Stop> {
        let start = self.at;
        self.blanks();
        // No value ends with an opening bracket.
        let is_first = || matches!(self.text.as_bytes().get(start.wrapping_sub(1)), Some(b'{' | b'['));
        match self.peek() {
            Some(byte) if byte == closing => {
                self.at += 1;
                self.depth = self.depth.saturating_sub(1);
                return Ok(false);
            }
            Some(b',') if !is_first() => {
                self.at += 1;
                self.blanks();
            }
            _ if is_first() => {}
            _ => return Err(Stop::NotJson),
        }
        Ok(true)
    }

    fn colon(&mut self) -> Result<(), Stop> {
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Ok(())
    }

    /// Reads an object. Returns its range and the ranges of its members.
    pub fn object(&mut self) -> Result<(Range<usize>, Index), Stop> {
        let (start, mut index) = (self.at, Index::default());
        self.enter(b'{')?;
        while let Some((name, _)) = self.name()? {
            let end = name.as_ptr() as usize - self.text.as_ptr() as usize + name.len();
            let value = self.value()?;
            index.add(start, end - name.len()..end, value);
        }
        Ok((start..self.at, index))
    }

    /// Reads a whole value and returns its range.
    pub fn value(&mut self) -> Result<Range<usize>, Stop> {
        let start = self.at;
        if CHECKED {
            self.checked_value()?
        } else {
            self.trusted_value()?
        }
        Ok(start..self.at)
    }

    /// Checks that only blanks follow.
    pub fn end(&mut self) -> Result<(), Stop> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(Stop::NotJson) }
    }

    /// Skips a value by counting the brackets outside of strings.
    fn trusted_value(&mut self) -> Result<(), Stop> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.at) {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') => {
                let (mut depth, mut at) = (0_usize, self.at);
                while let Some(byte) = bytes.get(at) {
                    at += 1;
                    match byte {
                        b'"' => at = closing_quote(bytes, at).0 + 1,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => {
                            depth -= 1;
                            if depth == 0 {
                                self.at = at;
                                return Ok(());
                            }
                        }
                        _ => {}
                    }
                }
                Err(Stop::NotJson)
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let rest = bytes.get(self.at..).unwrap_or_default();
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += length;
                if length > 0 { Ok(()) } else { Err(Stop::NotJson) }
            }
        }
    }

    /// Checks a value of any nesting without recursion.
    fn checked_value(&mut self) -> Result<(), Stop> {
        self.open.clear();
        loop {
            self.begin()?;
            // After a value, enclosing objects and arrays may end; then the next value follows.
            loop {
                let Some(closing) = self.open.closing() else { return Ok(()) };
                self.blanks();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.blanks();
                        if closing == b'}' {
                            self.string()?;
                            self.colon()?;
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

    /// Reads the start of a value: opening brackets, up to the end of the first value that
    /// contains no other.
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
            if self.depth + self.open.depth() >= self.max_depth {
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
                self.string()?;
                self.colon()?;
            }
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Stop> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(Stop::NotJson);
        }
        self.at += word.len();
        Ok(())
    }

    /// The grammar of numbers: `[ minus ] int [ frac ] [ exp ]` (RFC 8259 section 6).
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

    /// Reads a string. Returns whether it has escapes.
    pub fn string(&mut self) -> Result<bool, Stop> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        if !CHECKED {
            let (quote, escaped) = closing_quote(bytes, self.at);
            self.at = quote + 1;
            return if quote < bytes.len() { Ok(escaped) } else { Err(Stop::NotJson) };
        }
        let mut escaped = false;
        loop {
            self.at = quote_escape_or_control(bytes, self.at).ok_or(Stop::NotJson)?;
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
                // Section 7: "All Unicode characters may be placed within the quotation marks,
                // except for [...] the control characters".
                _ => return Err(Stop::NotJson),
            }
        }
    }
}

fn is_hexadecimal(digits: Option<&[u8]>) -> bool {
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// The nesting of a JSON text that arrives in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nesting {
    /// Number of objects and arrays that are open.
    pub depth: u32,
    /// Whether the last byte is inside a string.
    pub in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Updates the state for one more byte.
    pub fn step(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => self.depth = self.depth.saturating_add(1),
            b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
