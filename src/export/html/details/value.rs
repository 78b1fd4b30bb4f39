//! The value of a field, left out where the page can read it from the field's bytes.

use memchr::memmem;
use serde::Serialize;

/// Shorter texts are not worth a reference.
const SHORT: usize = 8;

/// A value, and how the page gets it. `page/data.js` reads the same forms.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// The text itself.
    Text(String),
    /// A part of the field's bytes: offset, `"text"`, length.
    Bytes(usize, &'static str, usize),
    /// Between two texts: the field's bytes as text (`"own"`) or as a number (`"decimal"`,
    /// `"hex"`), or the column "about" of the row (`"about"`).
    Between(String, &'static str, String),
}

impl Value {
    /// A value of a field with these bytes. `about` is the column of the row.
    pub(super) fn new(value: String, bytes: Option<&[u8]>, about: &str) -> Value {
        let number = bytes.and_then(number);
        if let Some((number, width)) = number {
            for (form, text) in [("decimal", number.to_string()), ("hex", format!("0x{number:0width$x}"))] {
                if let Some(rest) = value.strip_prefix(&text) {
                    return Value::Between(String::new(), form, rest.to_owned());
                }
            }
        }
        if let Some(rest) = bytes.and_then(|bytes| value.strip_prefix(std::str::from_utf8(bytes).ok()?))
            && rest.len() < value.len()
        {
            return Value::Between(String::new(), "own", rest.to_owned());
        }
        if value.len() < SHORT {
            return Value::Text(value);
        }
        if let Some(at) = bytes.and_then(|bytes| memmem::find(bytes, value.as_bytes())) {
            return Value::Bytes(at, "text", value.len());
        }
        match value.split_once(about).filter(|_| about.len() >= SHORT) {
            Some((before, after)) => Value::Between(before.to_owned(), "about", after.to_owned()),
            None => Value::Text(value),
        }
    }
}

/// Bytes as a number in network order, and its hexadecimal digits.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let fits = (1..=6).contains(&bytes.len());
    fits.then(|| (bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), bytes.len() * 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_stand_in_the_bytes_are_left_out() {
        let between = |before: &str, form, after: &str| Value::Between(before.into(), form, after.into());
        for (value, bytes, wanted) in [
            ("8080", &[0x1f, 0x90][..], between("", "decimal", "")),
            ("0x1f90 (correct)", &[0x1f, 0x90], between("", "hex", " (correct)")),
            ("0x1f91", &[0x1f, 0x90], Value::Text("0x1f91".into())),
            ("keep-alive", b"connection: keep-alive\r\n", Value::Bytes(12, "text", 10)),
            ("call of add a=1 b=2 here", b"", between("call of ", "about", " here")),
            ("7 (number)", b"7", between("", "own", " (number)")),
            ("short", b"", Value::Text("short".into())),
        ] {
            assert_eq!(Value::new(value.into(), Some(bytes), "add a=1 b=2"), wanted);
        }
    }
}
