//! The JSON-RPC envelope as positions in the text. The text is never serialised again.
//!
//! One pass checks the text and finds the members. If the text is not JSON, serde_json explains
//! why. The kind of a message follows from its members (JSON-RPC 2.0, sections 4 to 6). It is
//! decided leniently: an analyzer has to show what was sent, and findings report the errors.

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

words! {
    /// The kind of a JSON-RPC message. It is decided leniently: a message without `jsonrpc` has a
    /// kind, and a finding reports the missing member.
    #[derive(Default)]
    pub enum Kind {
        /// A message with a method and an id.
        Request = "request",
        /// A message with a method and no id.
        Notification = "notification",
        /// A message with a result.
        Response = "response",
        /// A message with an error.
        Error = "error",
        /// A message of none of these kinds.
        #[default]
        Invalid = "invalid",
    }
}

/// The reason why a text is not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidText {
    /// The text is not UTF-8 from this offset on.
    NotUtf8(usize),
    /// The text is not JSON: offset of the first error, and the parser's message.
    NotJson(usize, String),
    /// The JSON is nested deeper than the limit.
    TooDeep,
    /// The JSON is not a request, notification, response or error.
    NotAMessage,
}

/// The positions of one message's members, as ranges of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The kind of the message; `None` means [`Kind::Invalid`]. Envelopes from [`parse`] always
    /// have a kind.
    pub kind: Option<Kind>,
    /// The range of the value of `jsonrpc`.
    pub jsonrpc: Option<Range<usize>>,
    /// The range of the value of `id`, which may be null.
    pub id: Option<Range<usize>>,
    /// The range of the value of `method`.
    pub method: Option<Range<usize>>,
    /// The unescaped `method`, if it is a string. Half a surrogate pair, which only an escape can
    /// express, becomes U+FFFD.
    pub method_name: Option<Arc<str>>,
    /// The range of the value of `params`.
    pub params: Option<Range<usize>>,
    /// The range of the value of `result`.
    pub result: Option<Range<usize>>,
    /// The range of the value of `error`.
    pub error: Option<Range<usize>>,
    /// The members of the `params`, `result` or `error` that decides the kind.
    #[doc(hidden)]
    pub body: Index,
    /// Whether a top-level member occurs twice. The last one counts, as in JavaScript and Python.
    /// Of names unknown to JSON-RPC, the first `NAMES_COMPARED` are compared.
    pub duplicate: bool,
    /// Number of members that JSON-RPC does not define.
    pub unknown: u32,
}

impl Envelope {
    /// The range of the value that decides the kind: `params`, `result` or `error`.
    pub fn place_of_body(&self) -> Option<Range<usize>> {
        match self.kind? {
            Kind::Request | Kind::Notification => self.params.clone(),
            Kind::Response => self.result.clone(),
            Kind::Error => self.error.clone(),
            Kind::Invalid => None,
        }
    }
}

/// The most unknown names of one message that are compared with each other. Real messages have a
/// few. The bound keeps the cost linear for a message with a million.
pub const NAMES_COMPARED: usize = 32;

/// The result of parsing a text as JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonRpcText {
    /// A text with one message.
    Single(Envelope),
    /// A batch: the range of each member in the text, and its envelope or the reason why
    /// it has none.
    ///
    /// Each member is a message of its own: ranges in its envelope start at the member. Members
    /// over the limit are merged to one last [`InvalidText::NotAMessage`], which extends to the end
    /// of the last member.
    Batch(Vec<(Range<usize>, Result<Envelope, InvalidText>)>),
    /// A text that is neither a message nor a batch.
    Invalid(InvalidText),
}

/// Parses a text. Surrounding blanks are allowed. The cost is linear, and nesting never
/// grows the stack.
///
/// `json_depth` is the deepest nesting that is read; the message's own braces are the first level.
/// `batch` is the most members of a batch. Both are members of `Limits`.
pub fn parse(text: &[u8], json_depth: usize, batch: usize) -> JsonRpcText {
    match simdutf8::compat::from_utf8(text) {
        Ok(text) => read_text(text, json_depth, batch),
        Err(error) => JsonRpcText::Invalid(InvalidText::NotUtf8(error.valid_up_to())),
    }
}

/// Parses a text that was already validated as UTF-8, or failed to be.
pub fn parse_raw(raw: &Raw<'_>, json_depth: usize, batch: usize) -> JsonRpcText {
    match raw {
        Raw::Text(text) => read_text(text, json_depth, batch),
        Raw::Bytes(bytes) => parse(bytes, json_depth, batch),
    }
}

/// Parses a text that is valid UTF-8.
fn read_text(text: &str, json_depth: usize, batch: usize) -> JsonRpcText {
    // RFC 8259 section 8.1: "implementations that parse JSON texts MAY ignore the presence of a
    // byte order mark rather than treating it as an error."
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = match JsonScanner::checking(json, 0).kind() {
        Some(JsonType::Array) => read_batch(text, json, json_depth, batch),
        Some(JsonType::Object) => read_object(text, json, json_depth).map(JsonRpcText::Single),
        _ => Err(not_json(text, json).unwrap_or(InvalidText::NotAMessage)),
    };
    parsed.unwrap_or_else(JsonRpcText::Invalid)
}

/// Whether a text from an unknown context is JSON-RPC beyond doubt. It must be complete, and each
/// message must have an `id` or a `jsonrpc`, which other JSON seldom has.
///
/// A part of a larger JSON text is not mistaken for a message: inside a string, each quotation mark
/// has a backslash before it.
pub fn is_unmistakable(text: &[u8], json_depth: usize, batch: usize) -> bool {
    let is_typical = |envelope: &Envelope| envelope.jsonrpc.is_some() || envelope.id.is_some();
    match parse(text, json_depth, batch) {
        JsonRpcText::Single(envelope) => is_typical(&envelope),
        JsonRpcText::Batch(members) => {
            !members.is_empty() && members.iter().all(|(_, member)| member.as_ref().is_ok_and(is_typical))
        }
        JsonRpcText::Invalid(_) => false,
    }
}

/// Parses a batch. JSON-RPC 2.0 section 6: "To send several Request objects at the same time, the
/// Client MAY send an Array filled with Request objects."
///
/// An empty array is an error, but it is still parsed as a batch.
fn read_batch(text: &str, json: &str, json_depth: usize, batch: usize) -> Result<JsonRpcText, InvalidText> {
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
    Ok(JsonRpcText::Batch(members))
}

/// Parses the object `json`. Ranges are offsets in `text`, which contains `json`.
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

/// Finds the members of an object, and the members of its `params`, `result` and `error`. `place`
/// is added to all offsets.
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

/// The kind of a message by its members. `error` is the text of that member.
fn kind_of(envelope: &Envelope, error: Option<&str>) -> Option<Kind> {
    if envelope.method_name.is_some() {
        // Section 4.1: "A Notification is a Request object without an "id" member." One with a null
        // id is a Request.
        return Some(if envelope.id.is_some() { Kind::Request } else { Kind::Notification });
    }
    if envelope.method.is_some() {
        return None;
    }
    // Other JSON has members called `error` or `result` too, for example OAuth's
    // {"error":"invalid_request"}. So another member must show that it answers a request.
    let answers = envelope.id.is_some() || envelope.jsonrpc.is_some();
    match (envelope.result.is_some(), error) {
        // JSON-RPC 1.0 section 1.2: error "must be null if there was no error".
        (true, None | Some("null")) => answers.then_some(Kind::Response),
        (_, Some(error)) => (answers || has_code(error)).then_some(Kind::Error),
        (false, None) => None,
    }
}

/// Whether this is an error object: section 5.1 requires a member `code`.
fn has_code(error: &str) -> bool {
    member(error, "code").is_some()
}

/// The reason why serde_json rejects `json`, with an offset in `text`, which contains `json`.
/// `None` if it is JSON.
fn not_json(text: &str, json: &str) -> Option<InvalidText> {
    // Reading the parts one by one makes serde_json's message about a surplus comma more precise.
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

/// Reads members or elements and discards them. Raw values are skipped without recursion, and may
/// contain half a surrogate pair (RFC 8259 section 8.2).
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

/// The range of `part` in `whole`. `part` must be a slice of it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// The offset of a line and column. Both start at 1 and count bytes.
fn offset_of(json: &str, line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(line_feed) => memchr::memchr_iter(b'\n', json.as_bytes()).nth(line_feed).map_or(json.len(), |at| at + 1),
    };
    start.saturating_add(column.saturating_sub(1)).min(json.len())
}
