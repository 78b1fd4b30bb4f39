//! Finds the end of a JSON string: first in words of eight bytes, then with vector instructions.

/// Words that are searched first, because starting a vector search costs more than searching
/// a short string.
const PLAIN_WORDS: usize = 4;
/// The same for a search that also finds control characters. Starting it costs more.
const CHECKED_WORDS: usize = 6;

/// The closing quotation mark of the string that contains offset `at`, or the length of the text if
/// it is missing. Also returns whether escapes precede the mark.
pub fn closing_quote(bytes: &[u8], mut at: usize) -> (usize, bool) {
    let mut escaped = false;
    while let Some(found) = quote_or_escape(bytes, at) {
        if bytes[found] == b'"' {
            return (found, escaped);
        }
        escaped = true;
        at = found + 2;
    }
    (bytes.len(), escaped)
}

/// The offset of the next quotation mark or backslash, at `at` or later.
fn quote_or_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match in_words(bytes, at, PLAIN_WORDS, quotes) {
        Ok(found) => Some(found),
        Err(at) => memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found),
    }
}

/// The offset of the next quotation mark, backslash or control character, at `at` or later.
pub(super) fn quote_escape_or_control(bytes: &[u8], at: usize) -> Option<usize> {
    let controls = |word: u64| word.wrapping_sub(repeated(0x20)) & !word & repeated(0x80);
    let at = match in_words(bytes, at, CHECKED_WORDS, |word| quotes(word) | controls(word)) {
        Ok(found) => return Some(found),
        Err(at) => at,
    };
    let rest = bytes.get(at..)?;
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    // A loop without branches compiles to vector comparisons. Control characters are rare.
    let has_control = rest[..end].iter().fold(false, |any, byte| any | (*byte < 0x20));
    let found = if has_control { rest.iter().position(|byte| *byte < 0x20)? } else { end };
    (found < rest.len()).then_some(at + found)
}

/// Searches the next `words` words. `marks` sets a bit in each byte that matches. Returns the
/// offset of the first match, or the offset at which the search stopped.
fn in_words(bytes: &[u8], mut at: usize, words: usize, marks: impl Fn(u64) -> u64) -> Result<usize, usize> {
    const WORD: usize = size_of::<u64>();
    for _ in 0..words {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WORD>) else { break };
        // The lowest marked byte is a match; a higher one may be a false match.
        let marked = marks(u64::from_le_bytes(*word));
        if marked != 0 {
            return Ok(at + marked.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    Err(at)
}

/// Sets the high bit of each quotation mark and backslash.
const fn quotes(word: u64) -> u64 {
    zero_bytes(word ^ repeated(b'"')) | zero_bytes(word ^ repeated(b'\\'))
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Sets the high bit of each byte that is zero, and possibly of bytes above it.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}
