//! A line of text being written: the filter, a search, a command.

use unicode_width::UnicodeWidthStr;

/// Bytes of a line at most: as much as a filter may have.
const LONGEST: usize = 4_096;

/// A text and a cursor in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// Byte offset, always between two characters.
    cursor: usize,
}

impl Line {
    /// This text, the cursor behind it.
    pub fn new(text: &str) -> Line {
        Line { text: text.to_owned(), cursor: text.len() }
    }

    /// What is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The cursor: a byte offset.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Columns before the cursor.
    pub fn column(&self) -> usize {
        self.text[..self.cursor].width()
    }

    /// Does what a key does to a line; false where it does nothing.
    pub fn key(&mut self, key: &str) -> bool {
        match key {
            "left" => self.cursor = self.before(),
            "right" => self.cursor = self.behind(),
            "home" | "ctrl-a" => self.cursor = 0,
            "end" | "ctrl-e" => self.cursor = self.text.len(),
            "backspace" => self.remove(self.before(), self.cursor),
            "delete" => self.remove(self.cursor, self.behind()),
            "ctrl-u" => self.remove(0, self.cursor),
            "ctrl-k" => self.remove(self.cursor, self.text.len()),
            "ctrl-w" => {
                let written = self.text[..self.cursor].trim_end();
                let start = written.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.remove(start, self.cursor);
            }
            "space" => self.insert(" "),
            key if key.chars().count() == 1 => self.insert(key),
            _ => return false,
        }
        true
    }

    /// Puts `text` in place of what stands from byte `start` to the cursor.
    pub fn complete(&mut self, start: usize, text: &str) {
        if self.text.is_char_boundary(start) && start <= self.cursor {
            self.remove(start, self.cursor);
            self.insert(text);
        }
    }

    /// Writes at the cursor. Control characters (of a pasted text) become blanks.
    pub fn insert(&mut self, text: &str) {
        if self.text.len() + text.len() > LONGEST {
            return;
        }
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn behind(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[&str]) -> Line {
        let mut line = Line::default();
        for key in keys {
            line.key(key);
        }
        line
    }

    #[test]
    fn a_line_is_written_and_corrected() {
        assert_eq!(typed(&["a", "b", "left", "ü", "backspace", "backspace"]).text(), "b");
        assert_eq!(typed(&["天", "気", "left", "x"]).text(), "天x気");
        assert_eq!(typed(&["天", "気"]).column(), 4);
        assert_eq!(typed(&["a", "space", "b", "c", "ctrl-w"]).text(), "a ");
        assert_eq!(typed(&["a", "b", "ctrl-u", "c", "home", "delete"]).text(), "");
    }

    #[test]
    fn a_completion_replaces_the_word_begun() {
        let mut line = Line::new("kind = re");
        line.complete(7, "request");
        assert_eq!((line.text(), line.cursor()), ("kind = request", 14));
        line.insert("\n\u{1b}");
        assert_eq!(line.text(), "kind = request  ");
    }
}
