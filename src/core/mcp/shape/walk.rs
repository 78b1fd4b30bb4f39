//! Compares the text of a value with its shape in one walk. Nothing is built, and a valid value
//! causes no allocation.
//!
//! The walk recurses along the shape, which the compiler guarantees to be finite, and never along
//! the input. Parts without a shape are skipped in one pass. The members of a union are read once
//! more to find the discriminator. So the time is linear, multiplied by the few nested unions.

use std::borrow::Cow;
use std::ops::Range;

use super::compile::{Arena, Format, Id, Object, Shape, Union};
use super::{MISMATCHES, Mismatch, MismatchKind};
use crate::decode::json::scan::{JsonScanner, JsonType, Stop};
use crate::decode::{json, redact};

/// Limit of the characters of a value or member name in a mismatch: enough to recognise it.
const QUOTED: usize = 60;

/// A cursor in a text that is known to be JSON.
pub type ValueCursor<'a> = JsonScanner<'a, false>;

/// Compares the value at an offset with a shape.
pub fn walk(arena: &Arena, shape: Id, text: &str, at: usize) -> Vec<Mismatch> {
    let json = ValueCursor::trusting(text, at);
    let mut walk = Walk { arena, text, json, quiet: false, count: 0, most: MISMATCHES, found: Vec::new() };
    // The walk ends early if the limit of mismatches is reached or the text is not JSON.
    let _ = walk.value(shape, &ValuePath::Root);
    walk.found
}

/// Finds a member of the object at the cursor, and returns a cursor at its value.
pub fn find<'a>(mut json: ValueCursor<'a>, name: &str) -> Option<ValueCursor<'a>> {
    json.enter(b'{').ok()?;
    while let Some((token, escaped)) = json.name().ok()? {
        if content_of_name(token, escaped) == name {
            return Some(json);
        }
        json.value().ok()?;
    }
    None
}

/// The path from the root to a value, as a linked list on the stack.
enum ValuePath<'a> {
    Root,
    Member(&'a ValuePath<'a>, &'a str),
    Index(&'a ValuePath<'a>, usize),
}

impl ValuePath<'_> {
    /// The path as a JSON Pointer (RFC 6901).
    fn pointer(&self) -> String {
        match self {
            ValuePath::Root => String::new(),
            ValuePath::Index(above, index) => format!("{}/{index}", above.pointer()),
            ValuePath::Member(above, name) => {
                format!("{}/{}", above.pointer(), shortened(name).replace('~', "~0").replace('/', "~1"))
            }
        }
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// The decoded name of a member. Most names have no escapes and are not scanned.
fn content_of_name(token: &str, escaped: bool) -> Cow<'_, str> {
    match token.get(1..token.len().saturating_sub(1)) {
        Some(plain) if !escaped => Cow::Borrowed(plain),
        _ => content(token),
    }
}

/// The decoded content of a string. `token` includes the quotes.
pub fn content(token: &str) -> Cow<'_, str> {
    json::string(token).unwrap_or(Cow::Borrowed(token))
}

struct Walk<'a> {
    arena: &'a Arena,
    text: &'a str,
    /// The cursor: at the value to check, then after it.
    json: ValueCursor<'a>,
    /// Whether mismatches are only counted, because a branch of a union is being tried.
    quiet: bool,
    count: usize,
    /// The number of mismatches that ends the walk.
    most: usize,
    found: Vec<Mismatch>,
}

/// The result of a step of the walk. `Err` ends the walk.
type WalkResult = Result<(), Stop>;

impl<'a> Walk<'a> {
    fn value(&mut self, id: Id, path: &ValuePath<'_>) -> WalkResult {
        let arena = self.arena;
        let shape = &arena.shapes[id];
        let kind = self.json.kind().ok_or(Stop::NotJson)?;
        if kind == JsonType::String && self.text[self.json.at..].starts_with(redact::QUOTED_START) {
            // Its type before redaction is unknown.
            let range = ValueCursor::trusting(self.text, self.json.at).value()?;
            if self.text.get(range).is_some_and(redact::is_redacted_value) {
                return self.json.value().map(drop);
            }
        }
        if !accepts(shape, kind, arena) {
            let range = self.json.value()?;
            return self.report(path, range, MismatchKind::Type, || (describe(arena, id), kind.name().to_owned()));
        }
        match shape {
            Shape::Object(object) => self.object(object, path),
            Shape::List { element, most } => self.list(*element, *most, path),
            Shape::Union(union) => self.union(id, union, kind, path),
            Shape::String(Format::Plain) | Shape::Any | Shape::Null | Shape::Boolean => self.json.value().map(drop),
            Shape::String(_) | Shape::Texts(_) | Shape::Code(_) | Shape::Number { .. } => {
                let range = self.json.value()?;
                let token = self.text.get(range.clone()).unwrap_or_default();
                match fault(shape, token) {
                    Some(fault) => {
                        self.report(path, range, fault, || (describe(arena, id), shortened(token).into_owned()))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn object(&mut self, object: &Object, path: &ValuePath<'_>) -> WalkResult {
        if object.members.is_empty() && object.others.is_none() {
            return self.json.value().map(drop);
        }
        let start = self.json.at;
        self.json.enter(b'{')?;
        let mut seen = 0_u64;
        while let Some((token, escaped)) = self.json.name()? {
            let name = content_of_name(token, escaped);
            let known = object.members.iter().position(|member| *member.name == *name);
            if let Some(place) = known {
                seen |= 1 << place;
            }
            match known.map(|place| object.members[place].value).or(object.others) {
                Some(shape) => self.value(shape, &ValuePath::Member(path, &name))?,
                None => _ = self.json.value()?,
            }
        }
        let arena = self.arena;
        for (place, member) in object.members.iter().enumerate() {
            if member.required && seen & (1 << place) == 0 {
                let path = ValuePath::Member(path, member.name);
                let range = start..self.json.at;
                self.report(&path, range, MismatchKind::Missing, || {
                    (describe(arena, member.value), "nothing".to_owned())
                })?;
            }
        }
        Ok(())
    }

    fn list(&mut self, element: Id, most: Option<usize>, path: &ValuePath<'_>) -> WalkResult {
        let start = self.json.at;
        self.json.enter(b'[')?;
        let mut count = 0;
        while self.json.element()? {
            self.value(element, &ValuePath::Index(path, count))?;
            count += 1;
        }
        match most.filter(|most| count > *most) {
            Some(most) => {
                let range = start..self.json.at;
                self.report(path, range, MismatchKind::Value, || {
                    (format!("at most {most} elements"), count.to_string())
                })
            }
            None => Ok(()),
        }
    }

    /// Walks along the only possible branch, or else along the first that fits. If none fits, the
    /// branch with the fewest mismatches is reported.
    fn union(&mut self, id: Id, union: &Union, kind: JsonType, path: &ValuePath<'_>) -> WalkResult {
        let arena = self.arena;
        let start = self.json.at;
        let tag = union.tag.filter(|_| kind == JsonType::Object);
        let tag_at = tag.and_then(|tag| find(ValueCursor::trusting(self.text, start), tag)?.value().ok());
        let tag_value = tag_at.clone().map(|range| self.text.get(range).unwrap_or_default());
        let fits = |branch: &&Id| {
            let shape = &arena.shapes[**branch];
            let member = tag.and_then(|tag| if let Shape::Object(object) = shape { object.member(tag) } else { None });
            accepts(shape, kind, arena)
                && member.is_none_or(|member| match tag_value {
                    Some(tag_value) => fault(&arena.shapes[member.value], tag_value).is_none(),
                    None => !member.required,
                })
        };
        let mut branches = union.branches.iter().filter(fits);
        match (branches.next(), branches.next()) {
            (None, _) => {
                let range = self.json.value()?;
                let Some(tag) = tag else { return Ok(()) };
                let path = ValuePath::Member(path, tag);
                let expected = || tags(arena, union, tag);
                match (tag_at, tag_value) {
                    (Some(range), Some(tag_value)) => {
                        let fault = if tag_value.starts_with('"') { MismatchKind::Value } else { MismatchKind::Type };
                        self.report(&path, range, fault, || (expected(), shortened(tag_value).into_owned()))
                    }
                    _ => self.report(&path, range, MismatchKind::Missing, || (expected(), "nothing".to_owned())),
                }
            }
            (Some(only), None) => self.value(*only, path),
            (Some(first), Some(second)) => {
                let mut closest = (usize::MAX, first);
                for branch in [first, second].into_iter().chain(branches) {
                    let count = self.count_mismatches(*branch, path, closest.0);
                    if count < closest.0 {
                        closest = (count, branch);
                    }
                    if count == 0 {
                        break;
                    }
                }
                if closest.0 > 0 && kind != JsonType::Object && kind != JsonType::Array {
                    let range = self.json.value()?;
                    let token = self.text.get(range.clone()).unwrap_or_default();
                    return self.report(path, range, MismatchKind::Value, || {
                        (describe(arena, id), shortened(token).into_owned())
                    });
                }
                self.value(*closest.1, path)
            }
        }
    }

    /// Counts the mismatches of the current value with a branch, up to `enough`.
    fn count_mismatches(&mut self, branch: Id, path: &ValuePath<'_>, enough: usize) -> usize {
        let before = (self.json.at, self.quiet, self.count, self.most);
        self.quiet = true;
        self.count = 0;
        self.most = enough.min(MISMATCHES);
        // If the branch does not fit, the walk may end inside the value. The cursor
        // is restored below.
        let _ = self.value(branch, path);
        let count = self.count;
        (self.json.at, self.quiet, self.count, self.most) = before;
        count
    }

    fn report(
        &mut self,
        path: &ValuePath<'_>,
        range: Range<usize>,
        fault: MismatchKind,
        words: impl FnOnce() -> (String, String),
    ) -> WalkResult {
        self.count += 1;
        if self.quiet && fault == MismatchKind::Missing {
            // A missing member counts twice: a branch whose member is present but wrong is more
            // probably the intended one.
            self.count += 1;
        }
        if !self.quiet {
            let (expected, found) = words();
            self.found.push(Mismatch { path: path.pointer(), range, kind: fault, expected, found });
        }
        if self.count >= self.most { Err(Stop::NotJson) } else { Ok(()) }
    }
}

/// Whether a value of this JSON type can have this shape.
fn accepts(shape: &Shape, kind: JsonType, arena: &Arena) -> bool {
    match shape {
        Shape::Any => true,
        Shape::Null => kind == JsonType::Null,
        Shape::Boolean => kind == JsonType::Boolean,
        Shape::Number { .. } | Shape::Code(_) => kind == JsonType::Number,
        Shape::String(_) | Shape::Texts(_) => kind == JsonType::String,
        Shape::List { .. } => kind == JsonType::Array,
        Shape::Object(_) => kind == JsonType::Object,
        Shape::Union(union) => union.branches.iter().any(|branch| accepts(&arena.shapes[*branch], kind, arena)),
    }
}

/// The fault of a string or number whose JSON type is correct.
fn fault(shape: &Shape, token: &str) -> Option<MismatchKind> {
    let (holds, fault) = match shape {
        Shape::String(format) => (format.holds(&content(token)), MismatchKind::Format),
        Shape::Texts(texts) => (token.starts_with('"') && texts.contains(&&*content(token)), MismatchKind::Value),
        Shape::Code(code) => (number(token).is_some_and(|number| number == *code as f64), MismatchKind::Value),
        Shape::Number { whole, .. } if *whole && !is_whole(token) => (false, MismatchKind::Type),
        Shape::Number { low: None, high: None, .. } => (true, MismatchKind::Value),
        Shape::Number { low, high, .. } => {
            let within = |number: f64| {
                low.is_none_or(|low| number >= low as f64) && high.is_none_or(|high| number <= high as f64)
            };
            (number(token).is_none_or(within), MismatchKind::Value)
        }
        _ => (true, MismatchKind::Value),
    };
    (!holds).then_some(fault)
}

fn number(token: &str) -> Option<f64> {
    token.parse().ok()
}

/// JSON Schema 2020-12 section 6.1.1: "integer" matches "any number with a zero fractional part".
fn is_whole(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.bytes().all(|byte| byte.is_ascii_digit()) || number(token).is_some_and(|number| number.fract() == 0.0)
}

fn describe(arena: &Arena, id: Id) -> String {
    match &arena.shapes[id] {
        Shape::Any => "a value".to_owned(),
        Shape::Null => JsonType::Null.name().to_owned(),
        Shape::Boolean => JsonType::Boolean.name().to_owned(),
        Shape::Code(code) => code.to_string(),
        Shape::Texts(texts) => one_of(texts.iter().map(|text| format!("\"{text}\"")).collect()),
        Shape::String(format) => format.name().to_owned(),
        Shape::List { .. } => JsonType::Array.name().to_owned(),
        Shape::Object(_) => JsonType::Object.name().to_owned(),
        Shape::Number { whole, low, high } => {
            let noun = if *whole { "an integer" } else { "a number" };
            match (low, high) {
                (Some(low), Some(high)) => format!("{noun} from {low} to {high}"),
                (Some(low), None) => format!("{noun} of at least {low}"),
                _ => noun.to_owned(),
            }
        }
        Shape::Union(union) => one_of(union.branches.iter().map(|branch| describe(arena, *branch)).collect()),
    }
}

/// The values that the branches prescribe for the discriminator.
fn tags(arena: &Arena, union: &Union, tag: &str) -> String {
    let members = union.branches.iter().filter_map(|branch| match &arena.shapes[*branch] {
        Shape::Object(object) => object.member(tag),
        _ => None,
    });
    one_of(members.map(|member| describe(arena, member.value)).collect())
}

/// Joins names to `a, b or c`, without duplicates.
fn one_of(mut names: Vec<String>) -> String {
    let mut known = std::collections::BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}
