//! Finds known values in a text, also where they are joined to other characters.
//!
//! ```text
//!  res://box/7f3a9c21?full=1
//!  └────────────────┘            a value begins and ends where it cuts no other identifier
//!            └──────┘
//! ```
//!
//! The characters of identifiers are letters, digits, `-` and `_`. A value must not stand next to a
//! letter or a digit. Next to `-` or `_` only a long value is found, since `7f3a9c21-x` can be an
//! identifier of its own.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::compare::rules::{bare, words};

/// The fewest characters of an identifier that is not part of the protocol.
const SHORTEST: usize = 6;

/// The longest value that is followed, in bytes.
pub(super) const LONGEST: usize = 4 << 10;

/// The fewest bytes of a value that may stand next to `-` or `_`. So long a value does not occur by
/// accident inside another one. Half a UUID has as many.
const DISTINCT: usize = 16;

/// The most places after its beginning at which a joined value may end. It bounds the work per
/// byte. A URI has two such places for each separator.
const ENDS: usize = 64;

/// The fewest digits of a number that counts as an identifier wherever it is a whole value.
const LONG_NUMBER: usize = 8;

/// Whether a text is specific enough that two occurrences mean the same thing: a URI; six or more
/// characters with a digit; or long random letters. Words and short numbers are not.
pub(super) fn is_identifier(text: &str) -> bool {
    let digits = || text.bytes().filter(u8::is_ascii_digit).count();
    !text.contains(is_hard)
        && (text.contains("://")
            || match is_number(text) {
                true => digits() >= LONG_NUMBER,
                false => text.len() >= SHORTEST && (digits() > 0 || is_random(text)),
            })
}

/// Whether a text may contain an identifier. Most do not, and are not split into words.
pub(super) fn may_hold_identifier(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        || text.contains("://")
        || text.split(|c: char| !c.is_alphanumeric()).any(is_random)
}

/// Whether a text is a plain number: digits, perhaps with a sign and a point. Numbers are equal by
/// accident, so they are replaced only where they are the whole value.
pub(super) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(fraction)
}

/// Whether a number is replaced where it is the whole value of a member of the same name.
pub(super) fn is_named_number(text: &str) -> bool {
    is_number(text) && text.len() >= SHORTEST
}

/// Whether letters look random: long, and two of five or more change between upper and lower case.
/// Names in camel case change less often.
fn is_random(text: &str) -> bool {
    let changes =
        text.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_lowercase() != pair[1].is_ascii_lowercase());
    text.len() >= DISTINCT
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
        && changes.count() * 5 >= text.len() * 2
}

/// Whether a character is in no identifier and in no URI.
fn is_hard(c: char) -> bool {
    c.is_whitespace() || "{}[]\"<>".contains(c)
}

/// Whether a character is one of identifiers.
fn is_inside(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

/// A word split into runs of characters of identifiers and the separators between them.
pub(super) fn tokens(word: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_inside(c) != is_inside(first)).unwrap_or(rest.len());
        let (token, tail) = rest.split_at(end);
        tokens.push(token);
        rest = tail;
    }
    tokens
}

/// Whether a token is one between identifiers.
pub(super) fn is_separator(token: &str) -> bool {
    !token.starts_with(is_inside)
}

/// Calls `visit` with each identifier in a text, the index of its word, and the index of its token
/// unless it is the whole word.
pub(super) fn for_each_identifier<'t>(text: &'t str, visit: &mut dyn FnMut(&'t str, usize, Option<usize>)) {
    for (index, word) in words(text).into_iter().enumerate() {
        let word = bare(word);
        if is_identifier(word) {
            visit(word, index, None);
        }
        if word.chars().all(is_inside) {
            continue;
        }
        for (token, part) in tokens(word).into_iter().enumerate().filter(|(_, part)| is_identifier(part)) {
            visit(part, index, Some(token));
        }
    }
}

/// A place where a value may begin or end.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// Any value may.
    Clear,
    /// Only a long value may: there is a `-` or `_`, which can be part of a longer identifier.
    Hyphen,
}

/// The cut at an offset; `None` between two letters or digits.
fn cut(text: &str, at: usize) -> Option<Cut> {
    let (before, after) = text.split_at(at);
    let (Some(last), Some(next)) = (before.chars().next_back(), after.chars().next()) else { return Some(Cut::Clear) };
    // A percent code of a URI, or a JSON escape in a text that contains JSON: %2FID, \nID.
    let is_code = |code: &[u8]| code[0] == b'%' && code[1].is_ascii_hexdigit() && code[2].is_ascii_hexdigit();
    let is_coded = before.as_bytes().last_chunk::<3>().is_some_and(|code| is_code(code))
        || ["\\n", "\\r", "\\t"].iter().any(|escape| before.ends_with(escape));
    match (is_inside(last) && is_inside(next), is_coded) {
        (false, _) | (_, true) => Some(Cut::Clear),
        _ if matches!(last, '-' | '_') || matches!(next, '-' | '_') => Some(Cut::Hyphen),
        _ => None,
    }
}

/// The prime 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

/// Hashes texts byte by byte: a polynomial modulo a prime, with a secret base. The hash of a text
/// that grows by one byte costs one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunHasher {
    base: u64,
}

impl Default for RunHasher {
    fn default() -> RunHasher {
        RunHasher { base: RandomState::new().hash_one(0) % (PRIME - (1 << 32)) + (1 << 32) }
    }
}

impl RunHasher {
    fn push(self, hash: u64, bytes: &[u8]) -> u64 {
        bytes.iter().fold(hash, |hash, byte| {
            let product = u128::from(hash) * u128::from(self.base) + u128::from(*byte) + 1;
            let folded = (product as u64 & PRIME) + (product >> 61) as u64;
            if folded >= PRIME { folded - PRIME } else { folded }
        })
    }

    /// The hash of a text.
    pub(super) fn hash(self, text: &str) -> u64 {
        self.push(0, text.as_bytes())
    }

    /// The hash of a value of a named member. It differs from that of the same text elsewhere.
    pub(super) fn hash_named(self, name: &str, text: &str) -> u64 {
        self.push(self.push(self.hash(name), &[0xFF]), text.as_bytes())
    }

    /// Calls `found` with the place of each known value in a text, from left to right. Of values
    /// that begin at the same place, the longest counts. `known` gets a hash and its text. No value
    /// has more than `most` bytes.
    pub(super) fn known_runs<T>(
        self,
        text: &str,
        most: usize,
        known: &mut dyn FnMut(u64, &str) -> Option<T>,
        found: &mut dyn FnMut(Range<usize>, T),
    ) {
        // No value extends over these characters.
        for part in text.split(is_hard).filter(|part| part.len() >= SHORTEST && may_hold_identifier(part)) {
            let start = part.as_ptr() as usize - text.as_ptr() as usize;
            let offsets = part.char_indices().map(|(at, _)| start + at).chain([start + part.len()]);
            let mut cuts = offsets.filter_map(|at| Some((at, cut(text, at)?)));
            let mut ahead: VecDeque<(usize, Cut)> = cuts.by_ref().take(ENDS + 1).collect();
            while let Some((begins, _)) = ahead.front().copied() {
                let steps = match self.longest_from(text, &ahead, most, known) {
                    Some((ends, value)) => {
                        found(begins..ahead[ends].0, value);
                        ends
                    }
                    None => 1,
                };
                ahead.drain(..steps);
                ahead.extend(cuts.by_ref().take(steps));
            }
        }
    }

    /// The longest known value from the first cut to one of the others: the index of that cut, and
    /// what `known` returned.
    fn longest_from<T>(
        self,
        text: &str,
        cuts: &VecDeque<(usize, Cut)>,
        most: usize,
        known: &mut dyn FnMut(u64, &str) -> Option<T>,
    ) -> Option<(usize, T)> {
        let (start, begins) = *cuts.front()?;
        let (mut hash, mut end, mut longest) = (0, start, None);
        for (index, (at, cut)) in cuts.iter().enumerate().skip(1) {
            let length = at - start;
            if length > most.min(LONGEST) {
                break;
            }
            hash = self.push(hash, &text.as_bytes()[end..*at]);
            end = *at;
            let is_clear = (begins, *cut) == (Cut::Clear, Cut::Clear);
            if length >= SHORTEST && (is_clear || length >= DISTINCT) {
                longest = known(hash, &text[start..end]).map(|value| (index, value)).or(longest);
            }
        }
        longest
    }
}

/// Recorded values with those that replace them.
#[derive(Debug, Default)]
pub struct Replacements {
    hasher: RunHasher,
    by_hash: FxHashMap<u64, (String, String)>,
    /// Bytes of the longest old value.
    longest: usize,
}

impl Replacements {
    /// Replacements of old values by new ones.
    pub fn new(pairs: impl Iterator<Item = (String, String)>) -> Replacements {
        let hasher = RunHasher::default();
        let pairs = pairs.filter(|(old, new)| old != new).map(|pair| (hasher.hash(&pair.0), pair));
        let by_hash: FxHashMap<u64, (String, String)> = pairs.collect();
        let longest = by_hash.values().map(|(old, _)| old.len()).max().unwrap_or_default();
        Replacements { hasher, by_hash, longest }
    }

    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// The new value of a text that is one of the values.
    pub fn whole(&self, text: &str) -> Option<&str> {
        self.at(self.hasher.hash(text), text).map(|(_, new)| new)
    }

    fn at(&self, hash: u64, text: &str) -> Option<(&str, &str)> {
        let (old, new) = self.by_hash.get(&hash)?;
        (old == text).then_some((old, new))
    }

    /// The text with all identifiers in it replaced, and the old values that were. Numbers inside
    /// a text are replaced only if `with_numbers` is set.
    pub fn joined(&self, text: &str, with_numbers: bool) -> (String, Vec<&str>) {
        let (mut renewed, mut done, mut replaced) = (String::with_capacity(text.len()), 0, Vec::new());
        let mut known = |hash: u64, run: &str| {
            self.at(hash, run).filter(|_| is_identifier(run) && (with_numbers || !is_number(run)))
        };
        self.hasher.known_runs(text, self.longest, &mut known, &mut |place, (old, new)| {
            renewed.push_str(&text[done..place.start]);
            renewed.push_str(new);
            done = place.end;
            replaced.push(old);
        });
        renewed.push_str(&text[done..]);
        (renewed, replaced)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn identifiers_are_no_words_and_no_short_numbers() {
        let identifiers = [
            "T-4711",
            "note://home",
            "12345678",
            "550e8400-e29b-41d4-a716-446655440000",
            "aGVsbG8gd29ybGQ1==",
            "kXbQzWpLmNvTrHaY",
            "box_17a",
        ];
        let others = [
            "success",
            "failed",
            "printer",
            "123456",
            "47.3769",
            "-1234.5",
            "a1",
            "in progress 17",
            "internationalization",
            "getUserInformationById",
            "RESOURCE_NOT_FOUND",
        ];
        assert_eq!(identifiers.into_iter().filter(|text| !is_identifier(text)).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(others.into_iter().filter(|text| is_identifier(text)).collect::<Vec<_>>(), [""; 0]);
    }

    fn renewed(pairs: &[(&str, &str)], text: &str) -> String {
        let pairs = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned()));
        Replacements::new(pairs).joined(text, false).0
    }

    #[test]
    fn a_value_is_found_where_it_cuts_no_other_identifier() {
        let pairs = [("a1b2c3", "NEW"), ("a1b2c3/x9", "LONG"), ("550e8400e29b41d4", "UUID"), ("12345678", "NUMBER")];
        let cases = [
            ("res://box/a1b2c3", "res://box/NEW"),
            ("a1b2c3/f", "NEW/f"),
            ("/v1/a1b2c3", "/v1/NEW"),
            ("x=a1b2c3&y=a1b2c3.", "x=NEW&y=NEW."),
            ("a1b2c3/x9 a1b2c3/x99", "LONG NEW/x99"),
            ("xa1b2c3 a1b2c3x a1b2c3-x x_a1b2c3", "xa1b2c3 a1b2c3x a1b2c3-x x_a1b2c3"),
            ("run_550e8400e29b41d4-2", "run_UUID-2"),
            ("res%3A%2F%2Fa1b2c3%2Ff", "res%3A%2F%2FNEW%2Ff"),
            (r#"{"id":"a1b2c3\na1b2c3"}"#, r#"{"id":"NEW\nNEW"}"#),
            ("order 12345678", "order 12345678"),
            ("äa1b2c3 (a1b2c3) →a1b2c3←", "äa1b2c3 (NEW) →NEW←"),
        ];
        for (text, wanted) in cases {
            assert_eq!(renewed(&pairs, text), wanted);
        }
    }

    #[test]
    fn a_new_value_is_not_replaced_again() {
        assert_eq!(renewed(&[("a1b2c3", "d4e5f6"), ("d4e5f6", "a1b2c3")], "a1b2c3/d4e5f6"), "d4e5f6/a1b2c3");
    }

    proptest! {
        /// The law: wherever a value stands between other characters, only the new one is left.
        #[test]
        fn joined_values_are_replaced(
            ids in prop::collection::vec(("[a-z][a-z0-9]{2,9}[0-9][a-z0-9-]{2,20}[a-z]", "[A-Z]{8,20}"), 1..4),
            pieces in prop::collection::vec((any::<prop::sample::Index>(), "[/:=?&#%.,;()|@+* \"\\]\\[{}<>'!~^$→€]{1,3}"), 0..12),
        ) {
            let (mut text, mut wanted) = (String::new(), String::new());
            for (id, joint) in pieces {
                let (old, new) = &ids[id.index(ids.len())];
                text += &format!("{old}{joint}");
                wanted += &format!("{new}{joint}");
            }
            // Two ids in this test may be equal, or one may contain the other.
            let is_distinct = |at: usize| ids.iter().enumerate().all(|(other, (old, _))| other == at || !old.contains(&*ids[at].0));
            prop_assume!((0..ids.len()).all(is_distinct));
            let pairs: Vec<(&str, &str)> = ids.iter().map(|(old, new)| (&**old, &**new)).collect();
            prop_assert_eq!(renewed(&pairs, &text), wanted);
        }

        #[test]
        fn tokens_make_up_the_word(word in "\\PC{0,20}") {
            prop_assert_eq!(tokens(&word).concat(), word);
        }
    }
}
