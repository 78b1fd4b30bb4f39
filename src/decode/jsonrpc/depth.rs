//! How deep a JSON text is nested, without parsing it again.

use memchr::memchr2;

/// Whether arrays and objects of this text, which has to be JSON, are nested deeper than `limit`.
///
/// Hardly any text has as many opening brackets as the limit: counting them, which runs at memory speed, settles it.
pub(super) fn exceeds(json: &str, limit: usize) -> bool {
    let bytes = json.as_bytes();
    bytes.len() > limit && opening_brackets(bytes) > limit && depth_passes(bytes, limit)
}

/// Opening brackets, those inside strings too.
fn opening_brackets(bytes: &[u8]) -> usize {
    // Blocks are short enough for a byte to count, so that the compiler adds up whole vectors of bytes.
    const BLOCK: usize = 192;
    // `[` and `{` differ in one bit.
    let count = |block: &[u8]| block.iter().fold(0u8, |sum, byte| sum.wrapping_add(u8::from(byte | 0x20 == b'{')));
    bytes.chunks(BLOCK).map(|block| usize::from(count(block))).sum()
}

fn depth_passes(bytes: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(bytes, at + 1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The offset of the quote that ends the string whose first character is at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return at + found;
        }
        at += found + 2;
    }
    bytes.len()
}
