//! Attributes (`KeyValue`) in the JSON encoding of Protobuf.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::export::json::Object;

/// Maximum length of a text in bytes. Peers can send texts of any length.
pub(super) const LONGEST: usize = 1_024;

/// Attributes of a span, an event or a resource.
#[derive(Default)]
pub(super) struct Attributes<'a>(Vec<(&'static str, Value<'a>)>);

enum Value<'a> {
    Text(Cow<'a, str>),
    Number(i64),
    Fraction(f64),
    Words(BTreeSet<&'a str>),
}

impl<'a> Attributes<'a> {
    /// Adds a text if there is one.
    pub(super) fn text(&mut self, key: &'static str, text: Option<impl Into<Cow<'a, str>>>) {
        self.0.extend(text.map(|text| (key, Value::Text(text.into()))));
    }

    /// Adds a whole number.
    pub(super) fn number(&mut self, key: &'static str, number: impl Into<i64>) {
        self.0.push((key, Value::Number(number.into())));
    }

    /// Adds a fraction if there is one and it is finite.
    pub(super) fn fraction(&mut self, key: &'static str, number: Option<f64>) {
        self.0.extend(number.filter(|number| number.is_finite()).map(|number| (key, Value::Fraction(number))));
    }

    /// Adds a list of words unless it is empty.
    pub(super) fn words(&mut self, key: &'static str, words: BTreeSet<&'a str>) {
        if !words.is_empty() {
            self.0.push((key, Value::Words(words)));
        }
    }

    /// Writes the attributes as a member of `object`.
    pub(super) fn write(self, object: &mut Object<'_>) {
        object.array("attributes", self.0, |out, (key, value)| {
            let mut attribute = Object::inside(out);
            attribute.text("key", key);
            attribute.object("value", |object| value.write(object));
            attribute.end();
        });
    }
}

impl Value<'_> {
    fn write(&self, object: &mut Object<'_>) {
        match self {
            Value::Text(text) => object.text("stringValue", cut(text)),
            // 64-bit numbers are strings in this JSON.
            Value::Number(number) => object.display("intValue", number),
            Value::Fraction(number) => object.float("doubleValue", *number),
            Value::Words(words) => object.object("arrayValue", |object| {
                object.array("values", words, |out, word| {
                    let mut value = Object::inside(out);
                    value.text("stringValue", word);
                    value.end();
                });
            }),
        }
    }
}

/// The beginning of a text, at most [`LONGEST`] bytes.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
