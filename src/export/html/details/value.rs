//! The value of a field, without the parts that the page knows from elsewhere.

use memchr::memmem;
use serde::{Serialize, Serializer};

/// Shorter texts are not worth a reference.
const SHORT: usize = 3;

/// Numbers of one digit are equal by chance.
const DIGITS: usize = 2;

/// Bytes in which numbers are searched: those of the options of TCP.
const MOST_BYTES: usize = 40;

/// Smaller numbers are in some bytes by chance.
const LARGE: u32 = 1 << 16;

/// A value as its parts. `page/data.js` reads the same forms.
#[derive(Debug, PartialEq)]
pub(super) struct Value(Vec<ValuePart>);

/// A part of a value.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum ValuePart {
    /// The text itself.
    Text(String),
    /// A fact about the message, by its name. Also: `"decimal"` and `"hex"` are the field's bytes
    /// as a number.
    Known((&'static str,)),
    /// `"number"`: the four bytes at this offset as a number. `"minus"`: the field's bytes as a
    /// number, less this number.
    Number(&'static str, u32),
    /// `"text"`: the field's bytes as text, without this many at its start and at its end.
    Bytes(&'static str, usize, usize),
}

/// The texts that the page knows about a message and a field, by their names.
pub(super) type Known<'a> = [(&'static str, &'a str)];

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => "".serialize(serializer),
            [ValuePart::Text(text)] => text.serialize(serializer),
            parts => parts.serialize(serializer),
        }
    }
}

impl Value {
    /// A value of a field with these bytes. `about` is the column of the row.
    pub(super) fn new(value: &str, bytes: Option<&[u8]>, about: &str, known: &Known<'_>) -> Value {
        let bytes = bytes.filter(|bytes| !bytes.is_empty()).unwrap_or_default();
        let mut parts = Vec::new();
        let rest = of_bytes(value, bytes, &mut parts);
        match rest.split_once(about).filter(|_| about.len() >= SHORT) {
            Some((before, after)) => {
                of_numbers(before, bytes, known, &mut parts);
                parts.push(ValuePart::Known(("about",)));
                of_numbers(after, bytes, known, &mut parts);
            }
            None => of_numbers(rest, bytes, known, &mut parts),
        }
        Value(parts)
    }
}

/// Adds what the field's bytes say as a whole. Returns the rest of the value.
fn of_bytes<'v>(value: &'v str, bytes: &[u8], parts: &mut Vec<ValuePart>) -> &'v str {
    if let Some((number, width)) = number(bytes) {
        for (form, text) in [("decimal", number.to_string()), ("hex", format!("0x{number:0width$x}"))] {
            if let Some(rest) =
                value.strip_prefix(&text).filter(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
            {
                parts.push(ValuePart::Known((form,)));
                return rest;
            }
        }
        // A sequence number counts from the first one of its connection.
        if let (4, Ok(own)) = (bytes.len(), value.parse::<u32>())
            && own.to_string() == value
        {
            parts.push(ValuePart::Number("minus", (number as u32).wrapping_sub(own)));
            return "";
        }
    }
    let own = std::str::from_utf8(bytes).ok().filter(|own| !own.is_empty());
    if let Some(rest) = own.and_then(|own| value.strip_prefix(own)) {
        parts.push(ValuePart::Bytes("text", 0, 0));
        return rest;
    }
    if value.len() >= SHORT
        && let Some(at) = memmem::find(bytes, value.as_bytes())
    {
        parts.push(ValuePart::Bytes("text", at, bytes.len() - at - value.len()));
        return "";
    }
    value
}

/// Adds a text. Its numbers that are known or in the field's bytes become references.
fn of_numbers(text: &str, bytes: &[u8], known: &Known<'_>, parts: &mut Vec<ValuePart>) {
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let length = text.as_bytes()[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &text.as_bytes()[at..at + length];
        let reference = std::str::from_utf8(digits).ok().filter(|_| length >= DIGITS).and_then(|digits| {
            let fact = known.iter().find(|(_, text)| *text == digits);
            fact.map(|(name, _)| ValuePart::Known((name,))).or_else(|| number_at(digits, bytes))
        });
        if let Some(reference) = reference {
            if start < at {
                parts.push(ValuePart::Text(text[start..at].to_owned()));
            }
            parts.push(reference);
            start = at + length;
        }
        at += length.max(1);
    }
    if start < text.len() {
        parts.push(ValuePart::Text(text[start..].to_owned()));
    }
}

/// Where four bytes are this number.
fn number_at(digits: &str, bytes: &[u8]) -> Option<ValuePart> {
    let wanted = digits.parse::<u32>().ok().filter(|number| *number >= LARGE && number.to_string() == digits)?;
    let bytes = bytes.get(..MOST_BYTES).unwrap_or(bytes);
    let at = memmem::find(bytes, &wanted.to_be_bytes())?;
    Some(ValuePart::Number("number", u32::try_from(at).ok()?))
}

/// Bytes as a number in network order, and its hexadecimal digits.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let fits = (1..=6).contains(&bytes.len());
    fits.then(|| (bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), bytes.len() * 2))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_that_the_page_knows_are_left_out() {
        let options = [1, 1, 8, 10, 0, 1, 0, 2, 0, 1, 0, 1];
        for (value, bytes, wanted) in [
            ("8080", &[0x1f, 0x90][..], json!([["decimal"]])),
            ("80801", &[0x1f, 0x90], json!("80801")),
            ("0x1f90 (correct)", &[0x1f, 0x90], json!([["hex"], " (correct)"])),
            ("0x1f91", &[0x1f, 0x90], json!("0x1f91")),
            ("15", &[0, 0, 0, 10], json!([["minus", 4_294_967_291_u32]])),
            ("NOP, TSval 65538 TSecr 65537", &options, json!(["NOP, TSval ", ["number", 4], " TSecr ", ["number", 8]])),
            ("keep-alive", b"connection: keep-alive\r\n", json!([["text", 12, 2]])),
            ("call of add a=1 b=2 here", b"", json!(["call of ", ["about"], " here"])),
            ("7 (number)", b"7", json!([["text", 0, 0], " (number)"])),
            ("142 B, bytes 57..199 é", b"", json!([["length"], " B, bytes ", ["start"], "..199 é"])),
            ("a1b2", b"", json!("a1b2")),
            ("", b"", json!("")),
        ] {
            let made = Value::new(value, Some(bytes), "add a=1 b=2", &[("length", "142"), ("start", "57")]);
            assert_eq!(serde_json::to_value(made).unwrap(), wanted, "{value}");
        }
    }
}
