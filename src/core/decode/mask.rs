//! The bytes that replace a secret: a star for each byte, and a tag at the end of a long one.
//!
//! ```text
//!  as sent   Authorization: Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a
//!  masked    Authorization: ***************************************1ta0e2ic
//! ```
//!
//! Lengths and offsets stay as they were. The tag is a keyed hash of the value. Equal values have
//! equal tags in one recording, and without the key nobody can find a value by trying. The key is
//! an input (decision 31). Without a key there are no tags.

use std::fmt;
use std::ops::Range;

/// The byte that replaces every byte of a secret before its tag.
pub const MASK: u8 = b'*';

/// `*` as a Huffman code (RFC 7541 appendix B). It has eight bits, so any number of them
/// is a string.
const HUFFMAN_MASK: u8 = 0xf9;

/// The characters of tags. Their Huffman codes are the five-bit numbers of their positions.
const LETTERS: &[u8; 8] = b"012aceio";

/// Characters of a tag: 24 bits of the hash, and five bytes as Huffman codes.
const TAG: usize = 8;
const HUFFMAN_TAG: usize = 5;

/// The shortest value that gets a tag, in bytes. A shorter one is perhaps a password. A peer that
/// puts guesses into the same recording could compare their tags with that of the password.
const TAGGED: usize = 16;

/// The stars before a tag, by which a masked value is recognised. A value of 16 bytes has ten as a
/// Huffman code, five of which are the tag.
const STARS: usize = 5;

/// The key of a recording's tags. Whoever has it can find short values by trying, so it is never
/// stored with them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MaskKey([u64; 2]);

impl MaskKey {
    /// A key of random bytes.
    pub fn new(bytes: [u8; 16]) -> MaskKey {
        let number = u128::from_le_bytes(bytes);
        MaskKey([number as u64, (number >> 64) as u64])
    }
}

impl MaskKey {
    /// The keyed hash of a value.
    pub(super) fn hash(self, value: &[u8]) -> u64 {
        siphash(self.0, value)
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaskKey")
    }
}

/// The bytes that replace a secret of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    fill: u8,
    /// The last bytes: the first `length` of `tail`.
    tail: [u8; TAG],
    length: u8,
}

impl Mask {
    /// The mask without a tag.
    pub const PLAIN: Mask = Mask { fill: MASK, tail: [0; TAG], length: 0 };

    /// The mask that replaces every byte by this one.
    pub(super) fn filled(fill: u8) -> Mask {
        Mask { fill, ..Mask::PLAIN }
    }

    /// The mask of a value. A masked value keeps its tag, so masking it again changes nothing.
    pub fn of(key: Option<MaskKey>, value: &[u8]) -> Mask {
        if let Some(start) = value.len().checked_sub(TAG)
            && let Ok(tag) = <[u8; TAG]>::try_from(&value[start..])
            && masked_end(value, 0) == value.len()
        {
            return Mask { tail: tag, length: TAG as u8, ..Mask::PLAIN };
        }
        let credential = without_scheme(value);
        match key.filter(|_| credential.len() >= TAGGED && !value.iter().all(|byte| *byte == MASK)) {
            Some(MaskKey(key)) => {
                let hash = siphash(key, credential);
                let tail = std::array::from_fn(|at| LETTERS[(hash >> (3 * at)) as usize % LETTERS.len()]);
                Mask { tail, length: TAG as u8, ..Mask::PLAIN }
            }
            None => Mask::PLAIN,
        }
    }

    /// The same mask for a value of which `length` bytes of Huffman codes were sent.
    pub(super) fn huffman(self, length: usize) -> Mask {
        let mut tail = [0; TAG];
        let has_tag = usize::from(self.length) == TAG && length >= STARS + HUFFMAN_TAG;
        if has_tag {
            let number = |letter: &u8| LETTERS.iter().position(|known| known == letter).unwrap_or_default() as u64;
            let bits = self.tail.iter().fold(0, |bits, letter| bits << 5 | number(letter));
            tail[..HUFFMAN_TAG].copy_from_slice(&bits.to_be_bytes()[8 - HUFFMAN_TAG..]);
        }
        Mask { fill: HUFFMAN_MASK, tail, length: if has_tag { HUFFMAN_TAG as u8 } else { 0 } }
    }

    /// The same mask without its tag.
    pub fn untagged(self) -> Mask {
        Mask { length: 0, tail: [0; TAG], ..self }
    }

    /// Whether all bytes are replaced by the same one.
    pub fn is_uniform(&self) -> bool {
        self.length == 0
    }

    /// The mask of a part of a secret, which has `length` bytes as a whole.
    pub(super) fn part(&self, length: usize, part: &Range<usize>) -> Mask {
        let start = length.saturating_sub(self.length.into());
        let (from, to) = (part.start.max(start) - start, part.end.max(start) - start);
        let mut tail = [0; TAG];
        tail[..to - from].copy_from_slice(&self.tail[from..to]);
        Mask { fill: self.fill, tail, length: (to - from) as u8 }
    }

    /// Masks a secret.
    pub fn cover(&self, secret: &mut [u8]) {
        self.cover_part(secret.len() as u64, 0, secret);
    }

    /// Masks the bytes of a secret from its index `from` on. As a whole it has `length` bytes.
    pub fn cover_part(&self, length: u64, from: u64, bytes: &mut [u8]) {
        bytes.fill(self.fill);
        let start = length.saturating_sub(self.length.into());
        for (at, letter) in (start..length).zip(self.tail) {
            if let Some(byte) = at.checked_sub(from).and_then(|at| bytes.get_mut(usize::try_from(at).ok()?)) {
                *byte = letter;
            }
        }
    }
}

/// Whether a value was masked: stars, or stars and a tag.
pub fn is_masked(value: &[u8]) -> bool {
    value.len() > 2 && (value.iter().all(|byte| *byte == MASK) || masked_end(value, 0) == value.len())
}

/// The ranges of tagged masks in a text.
pub(super) fn tagged(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = memchr::memchr(MASK, &text[at..]).map(|star| at + star) {
        let end = masked_end(text, start);
        if end > start {
            found.push(start..end);
        }
        at = end.max(start + 1 + text[start + 1..].iter().take_while(|byte| **byte == MASK).count());
    }
    found
}

/// The end of the tagged mask that begins at `start`; `start` if there is none.
fn masked_end(text: &[u8], start: usize) -> usize {
    let stars = text[start..].iter().take_while(|byte| **byte == MASK).count();
    let tag = start + stars;
    let is_tag = |tag: &[u8]| tag.iter().all(|letter| LETTERS.contains(letter));
    if stars >= STARS && text.get(tag..tag + TAG).is_some_and(is_tag) { tag + TAG } else { start }
}

/// A field's value without the name of an authentication scheme. So a token has the same tag where
/// it is given and where it is used: `Bearer abc` and `abc`.
fn without_scheme(value: &[u8]) -> &[u8] {
    let Some(blank) = memchr::memchr(b' ', value) else { return value };
    let is_scheme = value[..blank].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    if is_scheme { value[blank..].trim_ascii_start() } else { value }
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012), a keyed hash that is made for short inputs.
fn siphash(key: [u64; 2], text: &[u8]) -> u64 {
    let [k0, k1] = key;
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    };
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| take(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = text.len() as u8;
    take(u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state.into_iter().fold(0, |all, word| all ^ word)
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    let add = |a: &mut u64, b: &mut u64, bits: u32| {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(bits) ^ *a;
    };
    add(a, b, 13);
    *a = a.rotate_left(32);
    add(c, d, 16);
    add(a, d, 21);
    add(c, b, 17);
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: Option<MaskKey> = Some(MaskKey([1, 2]));

    fn masked(key: Option<MaskKey>, value: &str) -> String {
        let mut bytes = value.as_bytes().to_vec();
        Mask::of(key, value.as_bytes()).cover(&mut bytes);
        String::from_utf8(bytes).expect("ASCII")
    }

    #[test]
    fn the_hash_is_that_of_its_authors() {
        // From the reference implementation: the key is 00..0f, the input 00..0e.
        let key = MaskKey::new(std::array::from_fn(|at| at as u8));
        let text: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key.0, &text), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn equal_values_have_equal_tags_under_one_key() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let tag = |text: &str| text[text.len() - TAG..].to_owned();
        let first = masked(KEY, token);
        assert!(first.starts_with("**********") && first.len() == token.len(), "{first}");
        assert_eq!(tag(&first), tag(&masked(KEY, &format!("Bearer {token}"))));
        assert_ne!(tag(&first), tag(&masked(KEY, &token.replace('6', "7"))));
        assert_ne!(tag(&first), tag(&masked(Some(MaskKey([1, 3])), token)));
        assert_eq!(masked(None, token), "*".repeat(token.len()));
        // A name before `=` is no scheme.
        assert_ne!(tag(&masked(KEY, &format!("a=1; {token}"))), tag(&first));
    }

    #[test]
    fn short_values_have_no_tag() {
        assert_eq!(masked(KEY, "Bearer fifteen-letters"), "*".repeat(22));
        assert_eq!(masked(KEY, ""), "");
        assert!(!masked(KEY, "sixteen--letters").ends_with('*'));
    }

    #[test]
    fn masked_values_are_found() {
        assert_eq!(tagged(b"***** ****012aceio *****012aceio*x *****012aceix *****00000000"), [19..32, 49..62]);
        assert!(is_masked(b"***") && is_masked(b"*****012aceio"));
        assert!(!is_masked(b"**") && !is_masked(b"***012aceio") && !is_masked(b"**bold**"));
    }

    proptest! {
        /// Masking a masked value changes nothing, whatever the key and the pieces.
        #[test]
        fn a_mask_is_stable(value in "[ -~]{0,60}", other: [u8; 16], cut: prop::sample::Index) {
            let once = masked(KEY, &value);
            prop_assert_eq!(&masked(Some(MaskKey::new(other)), &once), &once);
            prop_assert_eq!(&masked(None, &once), &once);
            let mask = Mask::of(KEY, value.as_bytes());
            let cut = cut.index(value.len() + 1);
            let mut bytes = value.clone().into_bytes();
            for part in [0..cut, cut..value.len()] {
                mask.part(value.len(), &part).cover(&mut bytes[part]);
            }
            prop_assert_eq!(&bytes, once.as_bytes());
            mask.cover_part(bytes.len() as u64, cut as u64, &mut bytes[cut..]);
            prop_assert_eq!(&bytes, once.as_bytes());
        }
    }
}
