//! The JSON-RPC envelope, lossless: where each member stands in the text, never re-serialised.
//!
//! One pass checks the text and finds the members; of a text that is no JSON, serde_json says why. What a message is follows from which
//! members are there (JSON-RPC 2.0, sections 4 to 6), judged leniently: an analyzer has to show what was sent, and leaves blame to findings.

mod fuzz;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::json::scan::{JsonScanner, JsonType, Stop};
use super::json::{Index, member, string_lossy};
use super::raw::Raw;
pub use fuzz::fuzz_jsonrpc;

/// What a JSON value is as a JSON-RPC message, judged leniently: a missing `jsonrpc` member is a finding, not a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A method and an id.
    Request,
    /// A method without id.
    Notification,
    /// A result.
    Response,
    /// An error.
    Error,
    /// Anything else.
    Invalid,
}

impl Kind {
    /// The word of the JSON lines.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Request => "request",
            Kind::Notification => "notification",
            Kind::Response => "response",
            Kind::Error => "error",
            Kind::Invalid => "invalid",
        }
    }
}

/// Why a text is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidText {
    /// Not UTF-8 from this offset on.
    NotUtf8(usize),
    /// Not JSON: offset of the first error and what the parser said.
    NotJson(usize, String),
    /// JSON nested deeper than the limit.
    TooDeep,
    /// JSON, but not a request, notification or response.
    NotAMessage,
}

/// The members of one message, as ranges of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// What it is; `None` stands for [`Kind::Invalid`]. What [`parse`] gives out always has one.
    pub kind: Option<Kind>,
    /// `jsonrpc`.
    pub jsonrpc: Option<Range<usize>>,
    /// `id`, also where it is null.
    pub id: Option<Range<usize>>,
    /// `method`.
    pub method: Option<Range<usize>>,
    /// `method`, unescaped, where it is a string. Half a surrogate pair, which only an escape can spell, becomes U+FFFD.
    pub method_name: Option<Arc<str>>,
    /// `params`.
    pub params: Option<Range<usize>>,
    /// `result`.
    pub result: Option<Range<usize>>,
    /// `error`.
    pub error: Option<Range<usize>>,
    /// The members of `params`, of the `result` or of the `error`: whichever makes the message what it is.
    #[doc(hidden)]
    pub body: Index,
    /// A top-level member name occurs twice (the last one counts, as in JavaScript and Python). Of the names that JSON-RPC
    /// does not define the first `NAMES_COMPARED` are compared.
    pub duplicate: bool,
    /// Members that JSON-RPC does not define.
    pub unknown: u32,
}

impl Envelope {
    /// Where the value stands that makes the message what it is: `params`, `result` or `error`.
    pub fn place_of_body(&self) -> Option<Range<usize>> {
        match self.kind? {
            Kind::Request | Kind::Notification => self.params.clone(),
            Kind::Response => self.result.clone(),
            Kind::Error => self.error.clone(),
            Kind::Invalid => None,
        }
    }
}

/// Undefined member names of one message that are compared with each other. Real messages have a few at most; the bound
/// keeps the cost linear for one with a million.
pub const NAMES_COMPARED: usize = 32;

/// A text read as JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedText {
    /// One message.
    Single(Envelope),
    /// A batch: each member's range of the text, and its envelope or why it has none. Ranges in an envelope count from the
    /// start of its member, which is a message of its own. What exceeds the limit of members stands as one last
    /// [`InvalidText::NotAMessage`] that reaches to the end of the last member.
    Batch(Vec<(Range<usize>, Result<Envelope, InvalidText>)>),
    /// No message.
    Invalid(InvalidText),
}

/// Reads a text. Surrounding blanks are tolerated. Cost is linear; nesting never grows the stack.
///
/// `json_depth` is the nesting that is looked into, the message's own braces being the first level; `batch` bounds the
/// members of a batch. Both are members of `Limits`.
pub fn parse(text: &[u8], json_depth: usize, batch: usize) -> ParsedText {
    match simdutf8::compat::from_utf8(text) {
        Ok(text) => read_text(text, json_depth, batch),
        Err(error) => ParsedText::Invalid(InvalidText::NotUtf8(error.valid_up_to())),
    }
}

/// The same of a text that was looked at before.
pub fn read(raw: &Raw<'_>, json_depth: usize, batch: usize) -> ParsedText {
    match raw {
        Raw::Text(text) => read_text(text, json_depth, batch),
        Raw::Bytes(bytes) => parse(bytes, json_depth, batch),
    }
}

fn read_text(text: &str, json_depth: usize, batch: usize) -> ParsedText {
    // RFC 8259 section 8.1: "implementations that parse JSON texts MAY ignore the presence of a byte order mark rather
    // than treating it as an error."
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = match JsonScanner::checking(json, 0).kind() {
        Some(JsonType::Array) => read_batch(text, json, json_depth, batch),
        Some(JsonType::Object) => read_object(text, json, json_depth).map(ParsedText::Single),
        _ => Err(not_json(text, json).unwrap_or(InvalidText::NotAMessage)),
    };
    parsed.unwrap_or_else(ParsedText::Invalid)
}

/// Whether a text whose surroundings are not known is JSON-RPC beyond doubt: whole, and each message with what other JSON seldom has. Part of another
/// text is none, for in a string each quotation mark has a backslash before it.
pub fn is_certain(text: &[u8], json_depth: usize, batch: usize) -> bool {
    let is_typical = |envelope: &Envelope| envelope.jsonrpc.is_some() || envelope.id.is_some();
    match parse(text, json_depth, batch) {
        ParsedText::Single(envelope) => is_typical(&envelope),
        ParsedText::Batch(members) => {
            !members.is_empty() && members.iter().all(|(_, member)| member.as_ref().is_ok_and(is_typical))
        }
        ParsedText::Invalid(_) => false,
    }
}

/// JSON-RPC 2.0 section 6: "To send several Request objects at the same time, the Client MAY send an Array filled with
/// Request objects." An empty one is an error to answer, yet what was sent is a batch.
fn read_batch(text: &str, json: &str, json_depth: usize, batch: usize) -> Result<ParsedText, InvalidText> {
    let mut members = Vec::new();
    let mut excess: Option<Range<usize>> = None;
    let place = range_in(text, json).start;
    let mut reader = JsonScanner::checking(json, usize::MAX);
    let mut read = || {
        reader.enter(b'[')?;
        while reader.element()? {
            let value = reader.value()?;
            let element = json.get(value.clone()).ok_or(Stop::NotJson)?;
            let range = place + value.start..place + value.end;
            if members.len() == batch {
                excess.get_or_insert(range.clone()).end = range.end;
            } else if element.starts_with('{') {
                members.push((range, read_object(element, element, json_depth)));
            } else {
                members.push((range, Err(InvalidText::NotAMessage)));
            }
        }
        reader.end()
    };
    read().or_else(|_| not_json(text, json).map_or(Ok(()), Err))?;
    members.extend(excess.map(|range| (range, Err(InvalidText::NotAMessage))));
    Ok(ParsedText::Batch(members))
}

/// Reads `json`, an object; ranges count from the start of `text`, which `json` is a part of.
fn read_object(text: &str, json: &str, json_depth: usize) -> Result<Envelope, InvalidText> {
    let place = range_in(text, json).start;
    let (mut envelope, bodies) = scan_members(json, place, json_depth).map_err(|stop| {
        not_json(text, json).unwrap_or_else(|| {
            debug_assert_eq!(stop, Stop::TooDeep);
            InvalidText::TooDeep
        })
    })?;
    let value = |range: &Option<Range<usize>>| range.clone().and_then(|range| text.get(range));
    envelope.method_name = value(&envelope.method).and_then(string_lossy).map(Arc::from);
    let kind = kind_of(&envelope, value(&envelope.error)).ok_or(InvalidText::NotAMessage)?;
    let [params, result, error] = bodies;
    envelope.body = match kind {
        Kind::Request | Kind::Notification => params,
        Kind::Response => result,
        Kind::Error => error,
        Kind::Invalid => Index::default(),
    };
    envelope.kind = Some(kind);
    Ok(envelope)
}

/// Where the members of an object stand, counted from `place` bytes before it, and those of its `params`, `result` and `error`.
fn scan_members(json: &str, place: usize, json_depth: usize) -> Result<(Envelope, [Index; 3]), Stop> {
    let mut envelope = Envelope::default();
    let mut bodies: [Index; 3] = Default::default();
    let mut others: Vec<Cow<'_, str>> = Vec::new();
    let mut reader = JsonScanner::checking(json, json_depth);
    reader.enter(b'{')?;
    while let Some((token, escaped)) = reader.name()? {
        let name = match token.get(1..token.len() - 1) {
            Some(name) if !escaped => Cow::Borrowed(name),
            _ => string_lossy(token).unwrap_or_default(),
        };
        let (member, body) = match &*name {
            "jsonrpc" => (&mut envelope.jsonrpc, None),
            "id" => (&mut envelope.id, None),
            "method" => (&mut envelope.method, None),
            "params" => (&mut envelope.params, Some(&mut bodies[0])),
            "result" => (&mut envelope.result, Some(&mut bodies[1])),
            "error" => (&mut envelope.error, Some(&mut bodies[2])),
            _ => {
                envelope.unknown = envelope.unknown.saturating_add(1);
                if others.contains(&name) {
                    envelope.duplicate = true;
                } else if others.len() < NAMES_COMPARED {
                    others.push(name);
                }
                reader.value()?;
                continue;
            }
        };
        let (range, index) = if body.is_some() && reader.kind() == Some(JsonType::Object) {
            reader.object()?
        } else {
            (reader.value()?, Index::default())
        };
        if let Some(body) = body {
            *body = index;
        }
        envelope.duplicate |= member.replace(place + range.start..place + range.end).is_some();
    }
    reader.end()?;
    Ok((envelope, bodies))
}

/// What a message is, by the members it has; `error` is the text of that member.
fn kind_of(envelope: &Envelope, error: Option<&str>) -> Option<Kind> {
    if envelope.method_name.is_some() {
        // Section 4.1: "A Notification is a Request object without an "id" member." One with a null id is a Request.
        return Some(if envelope.id.is_some() { Kind::Request } else { Kind::Notification });
    }
    if envelope.method.is_some() {
        return None;
    }
    // Any JSON may have a member `error` or `result`, OAuth's {"error":"invalid_request"} for one: something else has to
    // say that it answers a request.
    let answers = envelope.id.is_some() || envelope.jsonrpc.is_some();
    match (envelope.result.is_some(), error) {
        // JSON-RPC 1.0 section 1.2: error "must be null if there was no error".
        (true, None | Some("null")) => answers.then_some(Kind::Response),
        (_, Some(error)) => (answers || has_code(error)).then_some(Kind::Error),
        (false, None) => None,
    }
}

/// Whether this is an error object: section 5.1 gives it a member `code`.
fn has_code(error: &str) -> bool {
    member(error, "code").is_some()
}

/// Why serde_json refuses `json`, at an offset of `text`, which `json` is a part of; `None` where it does not.
fn not_json(text: &str, json: &str) -> Option<InvalidText> {
    // Of an object or array its parts are read one by one: then serde_json says more of a comma too many.
    let error = match JsonScanner::checking(json, 0).kind() {
        Some(JsonType::Object | JsonType::Array) => {
            let mut deserializer = serde_json::Deserializer::from_str(json);
            deserializer.deserialize_any(MembersOrElements).and_then(|()| deserializer.end()).err()?
        }
        _ => serde_json::from_str::<&RawValue>(json).err()?,
    };
    let offset = if error.is_eof() { json.len() } else { offset_of(json, error.line(), error.column()) };
    let message = error.to_string();
    let why = message.split(" at line ").next().unwrap_or_default().to_owned();
    Some(InvalidText::NotJson(range_in(text, json).start + offset, why))
}

/// Reads the members of an object or the elements of an array, and keeps nothing. Raw values are passed over without recursion, and half a
/// surrogate pair in them is legal (RFC 8259 section 8.2).
struct MembersOrElements;

impl<'a> Visitor<'a> for MembersOrElements {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_entry::<&RawValue, &RawValue>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element::<&RawValue>()?.is_some() {}
        Ok(())
    }
}

/// Where `part` stands in `whole`, which it is a slice of.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// The offset of a line and column, both 1-based and counted in bytes.
fn offset_of(json: &str, line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(line_feed) => memchr::memchr_iter(b'\n', json.as_bytes()).nth(line_feed).map_or(json.len(), |at| at + 1),
    };
    start.saturating_add(column.saturating_sub(1)).min(json.len())
}
