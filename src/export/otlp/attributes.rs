//! Attributes (`KeyValue`) in the JSON encoding of Protobuf.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::export::json::Object;

/// Bytes of a text: what somebody else chose may be of any length.
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
    /// A text, where there is one.
    pub(super) fn text(&mut self, key: &'static str, text: Option<impl Into<Cow<'a, str>>>) {
        self.0.extend(text.map(|text| (key, Value::Text(text.into()))));
    }

    pub(super) fn number(&mut self, key: &'static str, number: impl Into<i64>) {
        self.0.push((key, Value::Number(number.into())));
    }

    /// A fraction, where there is one and it is a number.
    pub(super) fn fraction(&mut self, key: &'static str, number: Option<f64>) {
        self.0.extend(number.filter(|number| number.is_finite()).map(|number| (key, Value::Fraction(number))));
    }

    /// Words, where there are some.
    pub(super) fn words(&mut self, key: &'static str, words: BTreeSet<&'a str>) {
        if !words.is_empty() {
            self.0.push((key, Value::Words(words)));
        }
    }

    /// Writes them as a member of `object`.
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
            // 64-bit numbers are strings in JSON.
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

/// The text, or as much of it as is written.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
