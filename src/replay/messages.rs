//! JSON-RPC texts as replay and mock read and write them.

use std::ops::Range;

use crate::capture::Limits;
use crate::decode::jsonrpc::{self, JsonRpcText};

/// The text is not JSON (JSON-RPC 2.0 section 5.1, like the codes below).
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// The receiver does not have this method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method does not take these parameters.
pub const INVALID_PARAMS: i64 = -32602;

/// Parses a text within the limits of the decoder.
pub fn parse(text: &[u8]) -> JsonRpcText {
    let limits = Limits::default();
    jsonrpc::parse(text, limits.json_depth, limits.batch)
}

/// The part of a text at a range that its envelope names.
pub fn slice<'a>(text: &'a [u8], range: &Option<Range<usize>>) -> Option<&'a str> {
    std::str::from_utf8(text.get(range.clone()?)?).ok()
}

/// A message as one line of a pipe. "Messages are delimited by newlines, and MUST NOT
/// contain embedded newlines" (basic/transports, stdio). Between members newlines have no
/// meaning and become blanks.
pub fn line(text: String) -> Vec<u8> {
    let mut line = text.into_bytes();
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    line
}
