//! Strings, JSON texts and digits.
//!
//! RFC 8259 section 7 wants quotation mark, backslash and U+0000 to U+001F escaped. Escaped as well is what a terminal or a
//! reader could be misled by: DEL and the C1 controls (U+007F to U+009F), which begin escape sequences; the line and
//! paragraph separators (U+2028, U+2029), which end a line for some readers; and the controls that turn text around (U+202A
//! to U+202E, U+2066 to U+2069). The string stays the same when parsed.

/// How a byte is written, wherever it stands in UTF-8.
#[derive(Clone, Copy)]
struct Written {
    /// The byte itself, or the letter of its two-character escape.
    byte: u8,
    /// Backslashes before it: 0 or 1.
    backslash: u8,
    /// Whether more has to be known: it is a control without such an escape, or may begin a character to be escaped. 0xC2
    /// leads U+0080 to U+00BF, 0xE2 leads U+2000 to U+2FFF.
    careful: bool,
}

const WRITTEN: [Written; 256] = {
    let mut written = [Written { byte: 0, backslash: 0, careful: false }; 256];
    let mut byte = 0;
    while byte < 256 {
        written[byte].byte = byte as u8;
        written[byte].careful = byte < 0x20 || matches!(byte, 0x7f | 0xc2 | 0xe2);
        byte += 1;
    }
    let escapes = [(b'"', b'"'), (b'\\', b'\\'), (b'\n', b'n'), (b'\r', b'r'), (b'\t', b't')];
    let mut index = 0;
    while index < escapes.len() {
        let (byte, letter) = escapes[index];
        written[byte as usize] = Written { byte: letter, backslash: 1, careful: false };
        index += 1;
    }
    written
};

/// Bytes that are looked at together.
const BLOCK: usize = 32;

/// Writes a JSON string, quotes included.
pub(in crate::export) fn write_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk::<BLOCK>() {
        if is_plain(block) {
            out.extend_from_slice(block);
            at += BLOCK;
        } else {
            at = write_block(out, bytes, at, at + BLOCK);
        }
    }
    // What is left is most often all there was: a name, an address, an id.
    let rest = &bytes[at..];
    let block = padded(rest);
    if is_plain(&block) {
        write_start(out, &block, rest.len());
    } else {
        write_block(out, bytes, at, bytes.len());
    }
    out.push(b'"');
}

/// Fewer bytes than a block, with blanks behind them. To copy as many as is known when this is compiled takes an instruction or two, and
/// any other number a call: so they are copied from both ends, which may overlap.
fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    if !(put_ends::<16>(&mut block, bytes) || put_ends::<8>(&mut block, bytes) || put_ends::<4>(&mut block, bytes)) {
        block.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    }
    block
}

/// Copies the first and the last `N` bytes, where there are so many.
#[inline(always)]
fn put_ends<const N: usize>(block: &mut [u8; BLOCK], bytes: &[u8]) -> bool {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else { return false };
    block[..N].copy_from_slice(first);
    block[bytes.len() - N..bytes.len()].copy_from_slice(last);
    true
}

/// Writes the first `length` bytes, all of them being cheaper to write than some.
fn write_start<const N: usize>(out: &mut Vec<u8>, bytes: &[u8; N], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(bytes);
    out.truncate(end);
}

/// Whether nothing in a block has to be escaped; written so that it compiles to comparisons of whole vectors.
fn is_plain(block: &[u8; BLOCK]) -> bool {
    let odd = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\' || byte == 0x7f || byte & 0xdf == 0xc2;
    block.iter().fold(0, |any, &byte| any | u8::from(odd(byte))) == 0
}

/// Writes the bytes from `at` to `end`, a block at most. Gives back the offset of the next byte.
///
/// Messages are JSON themselves, with a quote every few bytes, which no processor can foresee: they are written without a
/// branch, and again with care where that was not enough.
#[inline(always)]
fn write_block(out: &mut Vec<u8>, bytes: &[u8], at: usize, end: usize) -> usize {
    let mut escaped = [0; 2 * BLOCK];
    let mut length = 0;
    let mut careful = false;
    for &byte in &bytes[at..end] {
        let written = WRITTEN[usize::from(byte)];
        escaped[length] = b'\\';
        length += usize::from(written.backslash);
        escaped[length] = written.byte;
        length += 1;
        careful |= written.careful;
    }
    if careful {
        return write_carefully(out, bytes, at, end);
    }
    write_start(out, &escaped, length);
    end
}

/// Writes the bytes from `at` to `end`, and the rest of a character to be escaped that begins before `end`. Gives back the
/// offset of the next.
fn write_carefully(out: &mut Vec<u8>, bytes: &[u8], mut at: usize, end: usize) -> usize {
    while at < end {
        let (unit, length) = match bytes[at..] {
            [byte @ (..0x20 | 0x7f), ..] if WRITTEN[usize::from(byte)].backslash == 0 => (u16::from(byte), 1),
            [0xc2, last @ 0x80..=0x9f, ..] => (u16::from(last), 2),
            [0xe2, 0x80, last @ 0xa8..=0xae, ..] => (0x2000 | u16::from(last & 0x3f), 3),
            [0xe2, 0x81, last @ 0xa6..=0xa9, ..] => (0x2040 | u16::from(last & 0x3f), 3),
            [byte, ..] => {
                let written = WRITTEN[usize::from(byte)];
                if written.backslash > 0 {
                    out.push(b'\\');
                }
                out.push(written.byte);
                at += 1;
                continue;
            }
            [] => break,
        };
        write_unit(out, unit);
        at += length;
    }
    at
}

/// Writes a JSON text on one line. Outside its strings a control can only be a blank; inside, only DEL and what is no ASCII
/// stand unescaped.
pub(in crate::export) fn write_json(out: &mut Vec<u8>, json: &str) {
    for character in json.chars() {
        match character {
            '\n' | '\r' | '\t' => out.push(b' '),
            '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write_unit(out, character as u16)
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Writes `\uXXXX`.
fn write_unit(out: &mut Vec<u8>, unit: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |shift: u16| DIGITS[usize::from(unit >> shift & 15)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

/// Writes a decimal number.
pub(in crate::export) fn write_digits(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
