//! Where the parts of a JSON value end. The text is known to be JSON: nothing is checked twice, and nothing runs past its end.

use std::ops::Range;

use super::{Kind, Name};

/// A child of a value.
pub(super) struct Child {
    pub(super) name: Name,
    pub(super) value: Range<usize>,
    pub(super) kind: Kind,
}

/// Where the value that begins at `start` ends, and what it is.
pub(super) fn value(text: &[u8], start: usize) -> (usize, Kind) {
    match text.get(start) {
        Some(b'"') => (string(text, start), Kind::String),
        Some(b'{') => container(text, start, Kind::Object),
        Some(b'[') => container(text, start, Kind::Array),
        _ => (start + text[start.min(text.len())..].iter().take_while(|byte| !ends_plain(**byte)).count(), Kind::Plain),
    }
}

/// The first children of the object or array that begins at `start`.
pub(super) fn children(text: &[u8], start: usize, most: usize) -> Vec<Child> {
    let mut children = Vec::new();
    let object = text.get(start) == Some(&b'{');
    let mut at = skip_blanks(text, start + 1);
    while children.len() < most && !matches!(text.get(at), None | Some(b'}' | b']')) {
        let name = if object {
            let end = string(text, at);
            let name = at..end;
            at = skip_blanks(text, skip_blanks(text, end) + 1);
            Name::Member(name)
        } else {
            Name::Element(children.len())
        };
        let (end, kind) = value(text, at);
        children.push(Child { name, value: at..end, kind });
        at = skip_blanks(text, end);
        if text.get(at) == Some(&b',') {
            at = skip_blanks(text, at + 1);
        }
    }
    children
}

/// Behind the closing quote of the string that begins at `start`.
fn string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Behind the closing bracket; how many values stand directly in it.
fn container(text: &[u8], start: usize, kind: impl Fn(usize) -> Kind) -> (usize, Kind) {
    let (mut depth, mut commas, mut empty) = (0usize, 0, true);
    let mut at = start;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                empty = false;
                at = string(text, at);
                continue;
            }
            b'{' | b'[' => {
                empty &= depth == 0;
                depth += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return (at + 1, kind(if empty { 0 } else { commas + 1 }));
                }
            }
            b',' => commas += usize::from(depth == 1),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => empty = false,
        }
        at += 1;
    }
    (text.len(), kind(commas))
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn ends_plain(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
}
