//! What serde_json says of an object that is none, and the elements of an array as slices of the text.
//!
//! `RawValue` keeps what a value is spelled like, so numbers of any size, lone surrogates and null come through as sent, and
//! serde_json passes over nested values without recursion.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What is wrong with the text of an object.
pub(super) fn check_object(object: &str) -> serde_json::Result<()> {
    struct Members;

    impl<'a> Visitor<'a> for Members {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<&'a RawValue, &'a RawValue>()?.is_some() {}
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(object);
    deserializer.deserialize_map(Members)?;
    deserializer.end()
}

/// Calls `element` with the text of each element of an array.
pub(super) fn each_element<'a>(array: &'a str, element: impl FnMut(&'a str)) -> serde_json::Result<()> {
    struct Elements<F>(F);

    impl<'a, F: FnMut(&'a str)> Visitor<'a> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'a>>(mut self, mut elements: A) -> Result<(), A::Error> {
            while let Some(value) = elements.next_element::<&'a RawValue>()? {
                (self.0)(value.get());
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(array);
    deserializer.deserialize_seq(Elements(element))?;
    deserializer.end()
}

/// What a JSON string says; `None` where the text is another JSON value.
pub(super) fn unescaped(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inside));
    }
    // RFC 8259 section 8.2: the grammar allows "\uDEAD", half a character. serde_json refuses it as a `str`, and gives it as
    // bytes that are no UTF-8.
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    serde_json::Deserializer::from_str(json).deserialize_bytes(Bytes).ok().map(Cow::Owned)
}

/// Where `part` stands in `whole`, by address: serde_json gives out slices of what it was given.
pub(super) fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}
