//! Three bytes of a text, with ASCII letters in lower case.
//!
//! A search ignores case (Unicode simple case folding). Of all other characters, only the Kelvin
//! sign and the long s are equal to ASCII letters. A text with one of them is not indexed. Other
//! letters with two cases are no part of a needed trigram.

/// Characters that fold to an ASCII letter. They are escapes, because they look like s and K.
const FOLDED: [&[u8]; 2] = ["\u{17F}".as_bytes(), "\u{212A}".as_bytes()];

/// The number of possible trigrams.
const ALL: usize = 1 << 24;

/// Whether a text has a character that is equal to an ASCII letter.
pub(super) fn is_indexable(text: &[u8]) -> bool {
    FOLDED.iter().all(|folded| memchr::memmem::find(text, folded).is_none())
}

/// The trigrams of a word that every text has which contains it in any case.
pub(super) fn of_word(word: &str) -> Vec<u32> {
    let (mut runs, mut buffer) = (vec![Vec::new()], [0; 4]);
    for character in word.chars() {
        let has_one_case = character.is_ascii()
            || (character.to_lowercase().eq([character]) && character.to_uppercase().eq([character]));
        match runs.last_mut() {
            Some(run) if has_one_case => run.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes()),
            _ => runs.push(Vec::new()),
        }
    }
    runs.iter().flat_map(|run| run.windows(3).map(trigram)).collect()
}

fn trigram(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |trigram, byte| trigram << 8 | u32::from(byte.to_ascii_lowercase()))
}

/// A set of trigrams that is emptied quickly.
pub(super) struct TrigramSet {
    bits: Vec<u64>,
    pub(super) members: Vec<u32>,
}

impl TrigramSet {
    pub(super) fn new() -> TrigramSet {
        TrigramSet { bits: vec![0; ALL / 64], members: Vec::new() }
    }

    pub(super) fn add_text(&mut self, text: &[u8]) {
        let Some((head, rest)) = text.split_at_checked(2) else { return };
        let mut last = trigram(head);
        for byte in rest {
            last = (last << 8 | u32::from(byte.to_ascii_lowercase())) & (ALL as u32 - 1);
            let (word, bit) = (&mut self.bits[last as usize / 64], 1 << (last % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.members.push(last);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.members.drain(..).for_each(|member| self.bits[member as usize / 64] = 0);
    }
}
