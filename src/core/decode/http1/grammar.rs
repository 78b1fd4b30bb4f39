//! The grammar of RFC 9112, parsed leniently: heads, and the framing lines of chunks.
//!
//! Parsers take the available bytes and return `Incomplete` where more are needed. Their results
//! are slices of the input. The distance between two slices gives an offset.

use std::ops::Range;

use memchr::{memchr, memrchr};
use nom::bytes::{complete, streaming};
use nom::character::complete::satisfy;
use nom::combinator::{eof, map, map_opt, opt, rest, verify};
use nom::error::{Error, ErrorKind};
use nom::sequence::{preceded, separated_pair, terminated};
use nom::{IResult, Needed, Offset, Parser};

use super::sniff::METHOD;
use crate::decode::Direction;

/// The result of a parser of bytes.
type Parsed<'a, T> = IResult<&'a [u8], T>;

/// Name and value of a field, as ranges of the head's text.
pub(super) type FieldRanges = (Range<u32>, Range<u32>);

/// A start line, as slices of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// `method SP request-target SP HTTP-version`
    Request { method: &'a [u8], target: &'a [u8], version: &'static str },
    /// `HTTP-version SP status-code SP [ reason-phrase ]`
    Response { status: u16, reason: &'a [u8], version: &'static str },
}

/// The lines after the start line of a head. A reader reuses the struct, to reuse its memory.
#[derive(Debug, Default)]
pub(super) struct FieldLines {
    /// Name and value of each field, in order.
    pub(super) list: Vec<FieldRanges>,
    /// Offset of the first LF without CR.
    pub(super) bare_line_feed: Option<usize>,
    /// Offset of the first line that continues another.
    pub(super) folded: Option<usize>,
    /// Offset of the first line that is no field.
    pub(super) not_a_field: Option<usize>,
}

/// `tchar` of RFC 9110 section 5.6.2, as a table: names of fields are the greater part of a head.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
            | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

/// Whether a byte may be part of a token: a method, the name of a field.
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Whether a byte is optional whitespace.
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Parses a whole head: start line, fields, empty line. `text` begins with the start line.
pub(super) fn head<'a>(direction: Direction, text: &'a [u8], fields: &mut FieldLines) -> Parsed<'a, Start<'a>> {
    fields.clear();
    let (mut remaining, first) = fields.line(text, text)?;
    let (_, start) = start_line(direction, first)?;
    // Whether the previous line is a field, so that a folded line can continue it.
    let mut open = false;
    loop {
        let position = text.offset(remaining);
        let (after, content) = fields.line(text, remaining)?;
        remaining = after;
        match content.first() {
            None => return Ok((remaining, start)),
            Some(&byte) if is_blank(byte) => fields.fold(text, position, content, open),
            Some(_) => open = fields.push(text, position, content),
        }
    }
}

impl FieldLines {
    fn clear(&mut self) {
        self.list.clear();
        (self.bare_line_feed, self.folded, self.not_a_field) = (None, None, None);
    }

    /// Parses the next line and notes a bare line feed.
    fn line<'a>(&mut self, text: &'a [u8], input: &'a [u8]) -> Parsed<'a, &'a [u8]> {
        let (remaining, line) = line(input)?;
        if line.bare {
            self.bare_line_feed.get_or_insert_with(|| text.offset(remaining) - 1);
        }
        Ok((remaining, line.content))
    }

    /// Adds a line that should be a field. Returns whether it is one.
    fn push(&mut self, text: &[u8], position: usize, content: &[u8]) -> bool {
        match field(content) {
            Ok((_, (name, value))) => self.list.push((range_in(text, name), range_in(text, value))),
            Err(_) => {
                self.not_a_field.get_or_insert(position);
                return false;
            }
        }
        true
    }

    /// Adds a line that begins with whitespace. RFC 9112 section 5.2: a recipient "MUST either
    /// reject the message ... or replace each received obs-fold with one or more SP octets". Here
    /// the value is extended over the line end, so that its range stays true. Section 2.2, about
    /// such lines after the start line: "consume each whitespace-preceded line without further
    /// processing".
    fn fold(&mut self, text: &[u8], position: usize, content: &[u8], open: bool) {
        self.folded.get_or_insert(position);
        let added = range_in(text, trim(content));
        if let Some((_, value)) = self.list.last_mut().filter(|_| open && added.start < added.end) {
            let start = if value.start == value.end { added.start } else { value.start };
            *value = start..added.end;
        }
    }
}

/// The range of a slice in the head. A head is shorter than 4 GiB, see `Reader::new`.
fn range_in(text: &[u8], slice: &[u8]) -> Range<u32> {
    let start = text.offset(slice) as u32;
    start..start + slice.len() as u32
}

/// A line without its line end.
struct Line<'a> {
    content: &'a [u8],
    /// Whether it ended in LF without CR.
    bare: bool,
}

/// RFC 9112 section 2.2: "a recipient MAY recognize a single LF as a line terminator and ignore any
/// preceding CR".
fn line(input: &[u8]) -> Parsed<'_, Line<'_>> {
    let Some(end) = memchr(b'\n', input) else { return Err(nom::Err::Incomplete(Needed::Unknown)) };
    let line = match input[..end].strip_suffix(b"\r") {
        Some(content) => Line { content, bare: false },
        None => Line { content: &input[..end], bare: true },
    };
    Ok((&input[end + 1..], line))
}

/// `token` of RFC 9110 section 5.6.2.
fn token(input: &[u8]) -> Parsed<'_, &[u8]> {
    match input.iter().position(|byte| !is_token(*byte)).unwrap_or(input.len()) {
        0 => Err(nom::Err::Error(Error::new(input, ErrorKind::TakeWhile1))),
        end => Ok((&input[end..], &input[..end])),
    }
}

/// A line without its LF or CR LF.
pub(super) fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Parses a start line (without its line end) of a message in this direction.
pub(super) fn start_line(direction: Direction, line: &[u8]) -> Parsed<'_, Start<'_>> {
    match direction {
        Direction::ClientToServer => request_line(line),
        Direction::ServerToClient => status_line(line),
    }
}

/// RFC 9112 section 3: "recipients MAY instead parse on whitespace-delimited word boundaries".
fn request_line(line: &[u8]) -> Parsed<'_, Start<'_>> {
    let method = verify(token, |method: &[u8]| method.len() <= METHOD);
    let parts = (method, spaces, target, version, eof);
    map(parts, |(method, _, target, version, _)| Start::Request { method, target, version }).parse(trim(line))
}

/// The target ends at the last space: some clients send spaces in it.
fn target(input: &[u8]) -> Parsed<'_, &[u8]> {
    match memrchr(b' ', input) {
        Some(at) if at > 0 => Ok((&input[at + 1..], trim(&input[..at]))),
        _ => Err(nom::Err::Error(Error::new(input, ErrorKind::TakeUntil))),
    }
}

/// RFC 9112 section 4: the reason phrase may be empty. Some servers then also omit the
/// space before it.
fn status_line(line: &[u8]) -> Parsed<'_, Start<'_>> {
    let reason = verify(rest, |reason: &[u8]| reason.first().is_none_or(|&byte| is_blank(byte)));
    map((version, spaces, status, reason), |(version, _, status, reason)| {
        let reason = trim(reason);
        Start::Response { status, reason, version }
    })
    .parse(line)
}

fn status(input: &[u8]) -> Parsed<'_, u16> {
    map_opt(complete::take(3usize), |digits: &[u8]| {
        let status = decimal(digits)?;
        u16::try_from(status).ok().filter(|status| *status >= 100)
    })
    .parse(input)
}

/// RFC 9110 section 2.5: a message of a higher minor version is processed "as if it was in the
/// highest minor version" that the recipient supports.
fn version(input: &[u8]) -> Parsed<'_, &'static str> {
    let digit = satisfy(|byte| byte.is_ascii_digit());
    map(preceded(complete::tag("HTTP/1."), digit), |digit| if digit == '0' { "1.0" } else { "1.1" }).parse(input)
}

fn spaces(input: &[u8]) -> Parsed<'_, &[u8]> {
    complete::take_while1(|byte| byte == b' ').parse(input)
}

fn blanks(input: &[u8]) -> Parsed<'_, &[u8]> {
    let end = input.iter().position(|byte| !is_blank(*byte)).unwrap_or(input.len());
    Ok((&input[end..], &input[..end]))
}

/// Parses a field line (without its line end) to name and value. RFC 9112 section 5.1 forbids
/// whitespace before the colon; `framing` reports it where it matters.
pub(super) fn field(line: &[u8]) -> Parsed<'_, (&[u8], &[u8])> {
    let name = terminated(token, blanks);
    separated_pair(name, complete::tag(":"), map(rest, trim)).parse(line)
}

/// The bytes without surrounding whitespace.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, remaining @ ..] = bytes
        && is_blank(*first)
    {
        bytes = remaining;
    }
    while let [remaining @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = remaining;
    }
    bytes
}

/// A number of decimal digits. `None` for anything else and above 64 bits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// `chunk-size [ chunk-ext ]` (without the line end), RFC 9112 section 7.1. `None` for a size
/// above 64 bits.
///
/// "A recipient MUST ignore unrecognized chunk extensions": all of them are skipped.
pub(super) fn chunk_size(line: &[u8]) -> Parsed<'_, Option<u64>> {
    let digits = complete::take_while1(|byte: u8| byte.is_ascii_hexdigit());
    let extension = opt((complete::tag(";"), rest));
    map((digits, blanks, extension, eof), |(digits, ..): (&[u8], _, _, _)| {
        digits.iter().try_fold(0u64, |value, digit| {
            let digit = char::from(*digit).to_digit(16)?;
            Some(value.checked_mul(16)? + u64::from(digit))
        })
    })
    .parse(line)
}

/// Parses a whole chunk: size line, data and line end. Together they prove that a chunk begins
/// here. A chunk with more than `most` bytes of data is rejected.
pub(super) fn chunk(input: &[u8], most: usize) -> Parsed<'_, ()> {
    /// A longer size line proves nothing.
    const SIZE_LINE: usize = 64;
    let unfit = || nom::Err::Error(Error::new(input, ErrorKind::TooLarge));
    let (data, line) = match line(input) {
        Err(nom::Err::Incomplete(_)) if input.len() >= SIZE_LINE => return Err(unfit()),
        parsed => parsed?,
    };
    let (_, size) = chunk_size(line.content)?;
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= most).ok_or_else(unfit)?;
    map((streaming::take(size), streaming::tag("\r\n")), drop).parse(data)
}
