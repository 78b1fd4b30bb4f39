//! New answers that differ from the recorded ones, stored until they are compared. The latest ones
//! stay in memory, earlier ones are in a temporary file without a name. So memory does not grow
//! with the number of differing answers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::compare::{Answer, AnswerText};
use crate::source::overflow::nameless;

/// The most bytes of answers in memory.
const MEMORY: usize = 1 << 20;

/// Texts of answers in the order in which they were added.
#[derive(Debug, Default)]
pub struct NewAnswers {
    file: Option<File>,
    /// Bytes in the file. The bytes in memory follow them.
    written: u64,
    memory: Vec<u8>,
}

/// The position of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange {
    start: u64,
    length: usize,
}

impl NewAnswers {
    /// Stores the text of an answer.
    pub fn add(&mut self, answer: &AnswerText) -> Answer<TextRange> {
        answer.try_map(|text| {
            let range = TextRange { start: self.written + self.memory.len() as u64, length: text.len() };
            self.memory.extend_from_slice(text.as_bytes());
            if self.memory.len() > MEMORY {
                // If the disk cannot be written, the texts stay in memory and none is lost.
                let _ = self.write(&std::env::temp_dir());
            }
            Ok(range)
        })
    }

    fn write(&mut self, folder: &Path) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless(folder)?),
        };
        file.write_all_at(&self.memory, self.written)?;
        self.written += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// Reads a stored answer.
    pub fn answer(&self, answers: &Answer<TextRange>) -> Answer {
        let lost = |error| Answer::Nothing(format!("the new answer cannot be read back: {error}"));
        answers.try_map(|range| self.text(*range).map_err(lost)).read()
    }

    fn text(&self, TextRange { start, length }: TextRange) -> io::Result<Box<str>> {
        let bytes = match (start.checked_sub(self.written), &self.file) {
            (Some(start), _) => self.memory[start as usize..start as usize + length].to_vec(),
            (None, None) => Vec::new(),
            (None, Some(file)) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                bytes
            }
        };
        String::from_utf8(bytes).map(String::into_boxed_str).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_back_from_memory_and_file() {
        let mut store = NewAnswers::default();
        let long = "x".repeat(MEMORY / 3);
        let answers: Vec<_> =
            (0..10).map(|at| store.add(&Answer::Result(format!("[{at},\"{long}\"]").into()))).collect();
        assert!(store.written > 0 && !store.memory.is_empty() && store.memory.len() <= MEMORY);
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(store.answer(answer), Answer::Result(json!([at, long])));
        }
        let nothing = store.add(&Answer::Nothing("gone".into()));
        assert_eq!(store.answer(&nothing), Answer::Nothing("gone".into()));
    }

    #[test]
    fn without_a_disk_answers_stay_in_memory() {
        let mut store = NewAnswers::default();
        let answer = store.add(&Answer::Error("{}".into()));
        assert!(store.write(Path::new("/nowhere/at/all")).is_err());
        assert_eq!(store.answer(&answer), Answer::Error(json!({})));
    }
}
