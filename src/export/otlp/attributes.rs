//! Attributes of spans, events and resources.

use super::proto::{AnyValue, ArrayValue, KeyValue, Value};

/// Maximum length of a text in bytes. Peers can send texts of any length.
pub(super) const LONGEST: usize = 1_024;

/// Attributes of a span, an event or a resource.
#[derive(Default)]
pub(super) struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn push(&mut self, key: &'static str, value: Value) {
        self.0.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) });
    }

    /// Adds a text if there is one, cut to [`LONGEST`].
    pub(super) fn text(&mut self, key: &'static str, text: Option<impl AsRef<str>>) {
        if let Some(text) = text {
            self.push(key, Value::Text(cut(text.as_ref()).to_owned()));
        }
    }

    /// Adds a text that was cut before, if there is one.
    pub(super) fn content(&mut self, key: &'static str, text: Option<&String>) {
        if let Some(text) = text {
            self.push(key, Value::Text(text.clone()));
        }
    }

    /// Adds a whole number.
    pub(super) fn number(&mut self, key: &'static str, number: impl Into<i64>) {
        self.push(key, Value::Number(number.into()));
    }

    /// Adds a fraction if there is one and it is finite.
    pub(super) fn fraction(&mut self, key: &'static str, number: Option<f64>) {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            self.push(key, Value::Fraction(number));
        }
    }

    /// Adds a list of words unless it is empty.
    pub(super) fn words<'w>(&mut self, key: &'static str, words: impl IntoIterator<Item = &'w str>) {
        let words = words.into_iter().map(|word| AnyValue { value: Some(Value::Text(word.to_owned())) });
        let values: Vec<AnyValue> = words.collect();
        if !values.is_empty() {
            self.push(key, Value::List(ArrayValue { values }));
        }
    }

    /// The attributes, in the order in which they were added.
    pub(super) fn finish(self) -> Vec<KeyValue> {
        self.0
    }
}

/// The beginning of a text, at most [`LONGEST`] bytes.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
