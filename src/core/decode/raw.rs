//! The bytes of a message as they were sent. They are validated as UTF-8 only once.

use std::borrow::Cow;
use std::ops::{Deref, Range};

/// The bytes of a message, borrowed or owned. Most are valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Raw<'a> {
    /// Valid UTF-8.
    Text(Cow<'a, str>),
    /// Bytes that are not valid UTF-8.
    Bytes(Cow<'a, [u8]>),
}

impl Raw<'_> {
    /// The text; `None` if the bytes are not UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) => Some(text),
            Raw::Bytes(_) => None,
        }
    }

    /// A part of the text; `None` if the bytes are not UTF-8 or the range cuts a character.
    pub fn part(&self, range: Range<usize>) -> Option<&str> {
        self.text()?.get(range)
    }

    /// Borrows these bytes without a copy.
    pub fn borrowed(&self) -> Raw<'_> {
        match self {
            Raw::Text(text) => Raw::Text(Cow::Borrowed(text)),
            Raw::Bytes(bytes) => Raw::Bytes(Cow::Borrowed(bytes)),
        }
    }

    /// An owned copy, for use after the buffer of the source is gone.
    pub fn into_owned(self) -> Raw<'static> {
        match self {
            Raw::Text(text) => Raw::Text(Cow::Owned(text.into_owned())),
            Raw::Bytes(bytes) => Raw::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }

    /// The bytes as a vector, copied if they are borrowed.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Raw::Text(text) => text.into_owned().into_bytes(),
            Raw::Bytes(bytes) => bytes.into_owned(),
        }
    }
}

impl Default for Raw<'_> {
    fn default() -> Self {
        Raw::Text(Cow::Borrowed(""))
    }
}

impl Deref for Raw<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Raw::Text(text) => text.as_bytes(),
            Raw::Bytes(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for Raw<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => Raw::Text(Cow::Borrowed(text)),
            Err(_) => Raw::Bytes(Cow::Borrowed(bytes)),
        }
    }
}

impl From<Vec<u8>> for Raw<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Raw::Text(Cow::Owned(text)),
            Err(error) => Raw::Bytes(Cow::Owned(error.into_bytes())),
        }
    }
}

impl From<String> for Raw<'_> {
    fn from(text: String) -> Self {
        Raw::Text(Cow::Owned(text))
    }
}
