//! The search for the end of a string: eight bytes at a time, then in vectors.

/// Words of a string that are looked at one by one, before a search over many at once is worth its start.
const PLAIN_WORDS: usize = 4;
/// As many where controls are looked for as well, whose search takes longer to start.
const CHECKED_WORDS: usize = 6;

/// The quotation mark that closes the string in which `at` is, or the end of a text that ends first; whether there are escapes before it.
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

/// The next quotation mark or backslash from `at` on.
fn quote_or_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match in_words(bytes, at, PLAIN_WORDS, quotes) {
        Ok(found) => Some(found),
        Err(at) => memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found),
    }
}

/// The next quotation mark, backslash or control from `at` on.
pub(super) fn quote_escape_or_control(bytes: &[u8], at: usize) -> Option<usize> {
    let controls = |word: u64| word.wrapping_sub(repeated(0x20)) & !word & repeated(0x80);
    let at = match in_words(bytes, at, CHECKED_WORDS, |word| quotes(word) | controls(word)) {
        Ok(found) => return Some(found),
        Err(at) => at,
    };
    let rest = bytes.get(at..)?;
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    // Written so that it compiles to comparisons of whole vectors: hardly ever is there one.
    let has_control = rest[..end].iter().fold(false, |any, byte| any | (*byte < 0x20));
    let found = if has_control { rest.iter().position(|byte| *byte < 0x20)? } else { end };
    (found < rest.len()).then_some(at + found)
}

/// The first byte from `at` on that `marks` finds in one of the next words, or where they end.
fn in_words(bytes: &[u8], mut at: usize, words: usize, marks: impl Fn(u64) -> u64) -> Result<usize, usize> {
    const WORD: usize = size_of::<u64>();
    for _ in 0..words {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WORD>) else { break };
        // The lowest byte that is marked is right; one above it may not be.
        let marked = marks(u64::from_le_bytes(*word));
        if marked != 0 {
            return Ok(at + marked.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    Err(at)
}

/// The high bit of each quotation mark and backslash.
const fn quotes(word: u64) -> u64 {
    zero_bytes(word ^ repeated(b'"')) | zero_bytes(word ^ repeated(b'\\'))
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The high bit of each byte that is zero, and perhaps of some above it.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}
