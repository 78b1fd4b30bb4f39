//! Finds the values to redact in a JSON text, in one walk.

use super::path::Child;
use super::{Part, Redaction, is_redacted_value, is_replacement, kind_name};
use crate::decode::json::scan::{JsonScanner, JsonType, Stop};
use crate::decode::json::{self, string_lossy};

/// The deepest nesting that is walked. A deeper object or array is redacted as a whole.
const DEPTH: usize = 128;

/// The deepest nesting of JSON in strings of JSON.
const EMBEDDED: usize = 8;

/// The parts of a JSON text that are to be replaced, in order.
pub(super) fn parts(redaction: &Redaction, text: &str) -> Vec<Part> {
    let positions = vec![vec![0]; redaction.rules.paths.len()];
    parts_from(redaction, text, &positions, 0)
}

fn parts_from(redaction: &Redaction, text: &str, positions: &[Vec<usize>], embedded: usize) -> Vec<Part> {
    let mut walk =
        Walk { redaction, text, json: JsonScanner::trusting(text, 0), parts: Vec::new(), embedded, schemas: 0 };
    walk.json.blanks();
    let is_batch = walk.json.kind() == Some(JsonType::Array);
    // The text was checked, so the walk reaches its end. If it did not, the rest could have values.
    let result = match is_batch && embedded == 0 {
        true => walk.batch(positions),
        false => walk.value(positions, 0),
    };
    if result.is_err() {
        let replacement = redaction.replacement("text", text.as_bytes());
        return vec![Part { range: 0..text.len(), is_value: true, replacement: quoted(&replacement) }];
    }
    walk.parts
}

struct Walk<'a> {
    redaction: &'a Redaction,
    text: &'a str,
    json: JsonScanner<'a, false>,
    parts: Vec<Part>,
    /// How many strings the text is inside of.
    embedded: usize,
    /// How many schemas the cursor is inside of. An object there describes a value and is not
    /// redacted. A text or a number is a value, such as a default, and is redacted.
    schemas: usize,
}

impl<'a> Walk<'a> {
    /// Walks the messages of a batch.
    fn batch(&mut self, positions: &[Vec<usize>]) -> Result<(), Stop> {
        self.json.enter(b'[')?;
        while self.json.element()? {
            self.json.blanks();
            self.value(positions, 0)?;
        }
        Ok(())
    }

    /// Walks the value at the cursor. `positions` are those in each path.
    fn value(&mut self, positions: &[Vec<usize>], depth: usize) -> Result<(), Stop> {
        self.json.blanks();
        match self.json.kind().ok_or(Stop::NotJson)? {
            JsonType::Object if depth < DEPTH => {
                self.json.enter(b'{')?;
                while let Some((token, _)) = self.json.name()? {
                    let name = string_lossy(token).unwrap_or_default();
                    let start = token.as_ptr() as usize - self.text.as_ptr() as usize;
                    self.string(start..start + token.len());
                    let is_envelope = depth == 0 && self.embedded == 0;
                    let is_fixed = is_envelope && matches!(&*name, "jsonrpc" | "method");
                    self.json.blanks();
                    let is_described =
                        self.schemas > 0 && !matches!(self.json.kind(), Some(JsonType::String | JsonType::Number));
                    let is_named =
                        !is_described && self.redaction.is_named(name.as_bytes()) && !(is_envelope && name == "id");
                    let is_schema = matches!(&*name, "inputSchema" | "outputSchema" | "requestedSchema");
                    self.schemas += usize::from(is_schema);
                    self.child(positions, depth, Child::Member(&name), is_named, is_fixed)?;
                    self.schemas -= usize::from(is_schema);
                }
                Ok(())
            }
            JsonType::Array if depth < DEPTH => {
                self.json.enter(b'[')?;
                let mut index = 0;
                while self.json.element()? {
                    self.child(positions, depth, Child::Element(index), false, false)?;
                    index += 1;
                }
                Ok(())
            }
            JsonType::Object | JsonType::Array => {
                let range = self.json.value()?;
                self.replace(range);
                Ok(())
            }
            JsonType::String => {
                let range = self.json.value()?;
                self.string(range);
                Ok(())
            }
            JsonType::Number => {
                let range = self.json.value()?;
                if !self.redaction.in_plain(self.text[range.clone()].as_bytes()).is_empty() {
                    self.replace(range);
                }
                Ok(())
            }
            JsonType::Boolean | JsonType::Null => self.json.value().map(drop),
        }
    }

    fn child(
        &mut self,
        positions: &[Vec<usize>],
        depth: usize,
        child: Child<'_>,
        is_named: bool,
        is_fixed: bool,
    ) -> Result<(), Stop> {
        let mut is_hit = is_named;
        let mut next = Vec::with_capacity(positions.len());
        for (path, positions) in self.redaction.rules.paths.iter().zip(positions) {
            let mut after = Vec::new();
            for position in positions {
                is_hit |= path.enter(*position, child, &mut after);
            }
            next.push(after);
        }
        if is_hit && !is_fixed {
            self.json.blanks();
            let range = self.json.value()?;
            self.replace(range);
            return Ok(());
        }
        self.value(&next, depth + 1)
    }

    /// Replaces a whole value.
    fn replace(&mut self, range: std::ops::Range<usize>) {
        let value = &self.text[range.clone()];
        if is_redacted_value(value) {
            return;
        }
        let kind = kind_name(JsonType::of(value).unwrap_or(JsonType::Null));
        let content = string_lossy(value);
        let content = content.as_deref().unwrap_or(value);
        let replacement = quoted(&self.redaction.replacement(kind, content.as_bytes()));
        self.parts.push(Part { range, is_value: true, replacement });
    }

    /// Replaces what patterns match in a string, or in the JSON that a string contains.
    fn string(&mut self, range: std::ops::Range<usize>) {
        let token = &self.text[range.clone()];
        let Some(content) = string_lossy(token) else { return };
        if is_replacement(content.as_bytes()) {
            return;
        }
        let trimmed = content.trim_start_matches(json::BLANK);
        if trimmed.starts_with(['{', '[']) && json::is_json(trimmed) {
            if self.embedded == EMBEDDED {
                return self.replace(range);
            }
            let positions = vec![Vec::new(); self.redaction.rules.paths.len()];
            let inside = parts_from(self.redaction, trimmed, &positions, self.embedded + 1);
            if !inside.is_empty() {
                let mut text = content[..content.len() - trimmed.len()].to_owned();
                let mut at = 0;
                for part in inside {
                    text += &trimmed[at..part.range.start];
                    text += &part.replacement;
                    at = part.range.end;
                }
                text += &trimmed[at..];
                return self.parts.push(Part { range, is_value: true, replacement: quoted(&text) });
            }
        }
        let found = self.redaction.in_plain(content.as_bytes());
        if found.is_empty() {
            return;
        }
        let replacement =
            |found: &std::ops::Range<usize>| self.redaction.replacement("string", &content.as_bytes()[found.clone()]);
        // Without escapes the content lies in the text as it is.
        let is_plain = content.len() + 2 == token.len();
        let cuts = |at: usize| !content.is_char_boundary(at);
        if is_plain && !found.iter().any(|found| cuts(found.start) || cuts(found.end)) {
            let start = range.start + 1;
            let part = |found: &std::ops::Range<usize>| Part {
                range: start + found.start..start + found.end,
                is_value: false,
                replacement: replacement(found),
            };
            let parts: Vec<Part> = found.iter().map(part).collect();
            return self.parts.extend(parts);
        }
        let mut text = Vec::new();
        let mut at = 0;
        for found in &found {
            text.extend_from_slice(&content.as_bytes()[at..found.start]);
            text.extend_from_slice(replacement(found).as_bytes());
            at = found.end;
        }
        text.extend_from_slice(&content.as_bytes()[at..]);
        self.parts.push(Part { range, is_value: true, replacement: quoted(&String::from_utf8_lossy(&text)) });
    }
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
