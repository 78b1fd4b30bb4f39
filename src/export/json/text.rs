//! Strings, JSON texts, times and digits.
//!
//! RFC 8259 section 7 requires escapes for the quotation mark, the backslash and U+0000 to U+001F.
//! json-escape-simd and serde_json write them alike. Further characters are escaped because they
//! could mislead a terminal or a reader. DEL and the C1 controls (U+007F to U+009F) begin escape
//! sequences. Some readers take the line and paragraph separators (U+2028, U+2029) as the end of a
//! line. The bidirectional controls (U+202A to U+202E, U+2066 to U+2069) reverse text. A parser
//! reads the same string.

use std::io::Write;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::Serialize;

use crate::capture::Time;

/// Bytes of a text up to which a string is escaped with vector instructions. That needs room for
/// the worst case, six times the text, and `out` keeps what it once had.
const ESCAPED_AT_ONCE: usize = 64 << 10;

/// Writes a JSON string, quotes included.
pub(in crate::export) fn write_string(out: &mut Vec<u8>, text: &str) {
    if may_mislead(text.as_bytes()) {
        write_json(out, &serde_json::to_string(text).unwrap_or_default());
    } else if text.len() > ESCAPED_AT_ONCE {
        write_value(out, text);
    } else {
        json_escape_simd::escape_into(text, out);
    }
}

/// Whether a text may have characters that serde_json does not escape.
fn may_mislead(text: &[u8]) -> bool {
    // 0xC2 leads U+0080 to U+00BF, and 0xE2 leads U+2000 to U+2FFF.
    let any =
        |bytes: &[u8]| bytes.iter().fold(0, |any, byte| any | u8::from(*byte == 0x7f || byte & 0xdf == 0xc2)) != 0;
    // Blocks of a fixed length compile to comparisons of whole vectors.
    let (blocks, rest) = text.as_chunks::<32>();
    blocks.iter().any(|block| any(block)) || any(rest)
}

/// Writes a value in the form of serde_json.
pub(super) fn write_value(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("writing numbers and strings into a vector cannot fail");
}

/// Writes a JSON text on one line. Outside its strings a control can only be a blank. Inside them
/// only DEL and characters beyond ASCII are unescaped.
pub(in crate::export) fn write_json(out: &mut Vec<u8>, json: &str) {
    for character in json.chars() {
        match character {
            '\n' | '\r' | '\t' => out.push(b' '),
            '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("writing into a vector cannot fail");
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Writes a decimal number.
pub(in crate::export) fn write_digits(out: &mut Vec<u8>, number: u64) {
    write_value(out, &number);
}

/// Writes a time as RFC 3339 in UTC with nanoseconds: `2026-11-20T07:14:13.123456789Z`.
pub(in crate::export) fn write_time(out: &mut Vec<u8>, time: Time) {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(9));
    // 64-bit nanoseconds end in the year 2262, well inside the range of `Timestamp`.
    let moment = Timestamp::from_nanosecond(time.0.into()).unwrap_or_default();
    PRINTER.print_timestamp(&moment, out).expect("writing into a vector cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Texts of all lengths around a block, with and without what has to be escaped.
        #[test]
        fn a_string_is_that_of_serde_json(text in prop_oneof![r#"[a-z"\\]{0,70}"#, r"[ -~\x00-\x1f\u{e9}\u{4e2d}\u{1f680}]{0,70}"]) {
            let mut out = Vec::new();
            write_string(&mut out, &text);
            let expected = serde_json::to_string(&text).unwrap_or_default();
            prop_assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
