//! One JSON object, written member by member into a buffer.

use std::fmt::Display;
use std::io::Write;

use super::text::{write_digits, write_json, write_string, write_time, write_value};
use crate::capture::Time;

/// An object that is being written.
pub(in crate::export) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl Object<'_> {
    /// Begins an object that is a line, with its `type`. [`Object::end_line`] ends it.
    pub(in crate::export) fn line<'a>(out: &'a mut Vec<u8>, kind: &str) -> Object<'a> {
        out.push(b'{');
        let mut object = Object { out, empty: true };
        object.word("type", kind);
        object
    }

    /// Begins an object in the place of a value. [`Object::end`] ends it.
    pub(in crate::export) fn inside(out: &mut Vec<u8>) -> Object<'_> {
        out.push(b'{');
        Object { out, empty: true }
    }

    /// Ends the object.
    pub(in crate::export) fn end(self) {
        self.out.push(b'}');
    }

    /// Ends the object and its line.
    pub(in crate::export) fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn comma(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    /// Writes a member with any name. `write` writes its value.
    pub(in crate::export) fn entry(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.comma();
        write_string(self.out, name);
        self.out.push(b':');
        write(self.out);
    }

    /// Writes the name of a member. The names of all other members are constants that
    /// need no escapes.
    ///
    /// Their lengths are known where this is called, and writing so few bytes is cheaper
    /// than a call.
    #[inline(always)]
    fn name(&mut self, name: &'static str) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Calls `write` for a value if there is one.
    #[inline]
    pub(in crate::export) fn maybe<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Self, &T)) {
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Writes a word of the program's own, which needs no escapes.
    #[inline]
    pub(in crate::export) fn word(&mut self, name: &'static str, word: &str) {
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    /// Writes any text.
    #[inline]
    pub(in crate::export) fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        write_string(self.out, text);
    }

    /// Writes a value that displays as plain words and digits, such as an address.
    pub(in crate::export) fn display(&mut self, name: &'static str, value: &impl Display) {
        self.text(name, &value.to_string());
    }

    /// Writes a time.
    #[inline]
    pub(in crate::export) fn time(&mut self, name: &'static str, time: Time) {
        self.name(name);
        self.out.push(b'"');
        write_time(self.out, time);
        self.out.push(b'"');
    }

    /// Writes a JSON text as it is, or nothing if it is not JSON.
    pub(in crate::export) fn json(&mut self, name: &'static str, json: &str) {
        // Most ids are small numbers.
        let is_count = matches!(json.as_bytes(), [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit));
        if is_count || serde_json::from_str::<&serde_json::value::RawValue>(json).is_ok() {
            self.name(name);
            write_json(self.out, json);
        }
    }

    /// Writes a count or another number that is not negative.
    #[inline]
    pub(in crate::export) fn number(&mut self, name: &'static str, number: impl Into<u64>) {
        self.name(name);
        write_digits(self.out, number.into());
    }

    /// Writes a number that may be negative.
    #[inline]
    pub(in crate::export) fn signed(&mut self, name: &'static str, number: impl Into<i64>) {
        self.name(name);
        write_value(self.out, &number.into());
    }

    /// Writes a fraction, or nothing if it is not finite.
    pub(in crate::export) fn float(&mut self, name: &'static str, number: f64) {
        if number.is_finite() {
            self.name(name);
            // Writing into a vector cannot fail.
            let _ = write!(self.out, "{number}");
        }
    }

    /// Writes `true` or `false`.
    pub(in crate::export) fn truth(&mut self, name: &'static str, truth: bool) {
        self.name(name);
        self.out.extend_from_slice(if truth { b"true" } else { b"false" });
    }

    /// Writes bytes as hexadecimal digits.
    pub(in crate::export) fn hexadecimal(&mut self, name: &'static str, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.name(name);
        self.out.push(b'"');
        for byte in bytes {
            self.out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        self.out.push(b'"');
    }

    /// Writes a list of numbers.
    #[inline]
    pub(in crate::export) fn numbers(&mut self, name: &'static str, numbers: impl IntoIterator<Item = u64>) {
        self.array(name, numbers, write_digits);
    }

    /// Writes a list. `write` writes each element.
    pub(in crate::export) fn array<T>(
        &mut self,
        name: &'static str,
        elements: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Vec<u8>, T),
    ) {
        self.name(name);
        self.out.push(b'[');
        for (index, element) in elements.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write(self.out, element);
        }
        self.out.push(b']');
    }

    /// Writes a list of objects. `write` writes the members of each.
    pub(in crate::export) fn objects<T>(
        &mut self,
        name: &'static str,
        elements: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Object<'_>, T),
    ) {
        self.array(name, elements, |out, element| {
            let mut object = Object::inside(out);
            write(&mut object, element);
            object.end();
        });
    }

    /// Writes an object inside this one. `write` writes its members.
    pub(in crate::export) fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        self.out.push(b'{');
        write(&mut Object { out: self.out, empty: true });
        self.out.push(b'}');
    }
}
