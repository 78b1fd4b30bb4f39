//! An editor for a text of one line (a filter, a search, a command) or several
//! (arguments, header fields).

use crate::view::safe;

/// Limit of a text in bytes: more than anybody edits by hand. A longer text is sent as
/// it was recorded.
pub const LONGEST: usize = 64 << 10;

/// Limit of a single-line text in bytes: the limit of a filter.
const LONGEST_LINE: usize = 4_096;

/// Lines that a page key moves.
const PAGE: isize = 10;

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Editor {
    text: String,
    /// Byte offset, always between two characters.
    cursor: usize,
    /// Whether the text may have more than one line.
    is_multiline: bool,
}

impl Editor {
    /// A single-line text, with the cursor at its end.
    pub fn line(text: &str) -> Editor {
        Editor { text: text.to_owned(), cursor: text.len(), is_multiline: false }
    }

    /// A text of any number of lines, with the cursor at its start.
    pub fn lines(text: &str) -> Editor {
        Editor { text: text.to_owned(), cursor: 0, is_multiline: true }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Moves the cursor to the end of the text.
    pub fn with_cursor_at_end(mut self) -> Editor {
        self.cursor = self.text.len();
        self
    }

    /// The byte offset of the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The cursor's line, and its column in columns of the screen.
    pub fn position(&self) -> (usize, usize) {
        let before = &self.text[..self.cursor];
        let line = before.matches('\n').count();
        (line, safe::width(&safe::visible(&before[self.line_start()..])))
    }

    /// Applies a key. Returns false if the key has no effect on a text.
    pub fn key(&mut self, key: &str) -> bool {
        match key {
            "up" | "down" | "pgup" | "pgdn" | "enter" if !self.is_multiline => return false,
            "left" => self.cursor = self.previous_char(),
            "right" => self.cursor = self.next_char(),
            "up" => self.move_lines(-1),
            "down" => self.move_lines(1),
            "pgup" => self.move_lines(-PAGE),
            "pgdn" => self.move_lines(PAGE),
            "home" | "ctrl-a" => self.cursor = self.line_start(),
            "end" | "ctrl-e" => self.cursor = self.line_end(),
            "enter" => {
                // The new line gets the indentation of the line before.
                let line = &self.text[self.line_start()..self.cursor];
                let blanks = line.len() - line.trim_start_matches(' ').len();
                self.insert(&format!("\n{}", " ".repeat(blanks)));
            }
            "backspace" => self.remove(self.previous_char(), self.cursor),
            "delete" => self.remove(self.cursor, self.next_char()),
            "ctrl-u" => self.remove(self.line_start(), self.cursor),
            "ctrl-k" => self.remove(self.cursor, self.line_end()),
            "ctrl-w" => {
                let written = self.text[self.line_start()..self.cursor].trim_end();
                let word = written.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.remove(self.line_start() + word, self.cursor);
            }
            "space" => self.insert(" "),
            key if key.chars().count() == 1 => self.insert(key),
            _ => return false,
        }
        true
    }

    /// Replaces the text from byte `start` to the cursor.
    pub fn complete(&mut self, start: usize, text: &str) {
        if self.text.is_char_boundary(start) && start <= self.cursor {
            self.remove(start, self.cursor);
            self.insert(text);
        }
    }

    /// Inserts text at the cursor. Control characters, as in a pasted text, become blanks. Line
    /// ends stay where several lines are allowed. Text beyond the limit is refused.
    pub fn insert(&mut self, text: &str) {
        if self.text.len() + text.len() > if self.is_multiline { LONGEST } else { LONGEST_LINE } {
            return;
        }
        let is_allowed = |c: char| !c.is_control() || self.is_multiline && c == '\n';
        let text: String = text.replace("\r\n", "\n").chars().map(|c| if is_allowed(c) { c } else { ' ' }).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    /// Offset at which the cursor's line begins.
    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    /// Offset at which the cursor's line ends.
    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn previous_char(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn next_char(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }

    /// Moves up (negative) or down by lines, and stays in its column if the line is long enough.
    fn move_lines(&mut self, by: isize) {
        let column = self.text[self.line_start()..self.cursor].chars().count();
        for _ in 0..by.unsigned_abs() {
            match by > 0 {
                true if self.line_end() < self.text.len() => self.cursor = self.line_end() + 1,
                false if self.line_start() > 0 => self.cursor = self.line_start() - 1,
                _ => break,
            }
        }
        self.cursor = self.line_start();
        let line = &self.text[self.cursor..self.line_end()];
        self.cursor += line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, keys: &[&str]) -> Editor {
        let mut editor = Editor::lines(text);
        for key in keys {
            editor.key(key);
        }
        editor
    }

    #[test]
    fn lines_are_written_and_corrected() {
        assert_eq!(typed("{\n  \"a\": 1\n}", &["down", "end", ",", "enter", "b"]).text(), "{\n  \"a\": 1,\n  b\n}");
        assert_eq!(typed("ab\nc", &["end", "delete"]).text(), "abc");
        assert_eq!(typed("ab\nc", &["down", "backspace"]).text(), "abc");
        assert_eq!(typed("天気\nüb", &["end", "down"]).position(), (1, 2));
        assert_eq!(typed("天気\nüb", &["down", "end", "up"]).position(), (0, 4));
        assert_eq!(typed("a\nb\nc", &["pgdn", "x", "pgup", "y"]).text(), "ay\nb\nxc");
        assert_eq!(typed("abc\ndef", &["down", "right", "ctrl-k", "ctrl-u"]).text(), "abc\n");
    }

    #[test]
    fn pasted_text_keeps_its_lines_and_loses_control_characters() {
        let mut editor = Editor::lines("");
        editor.insert("a\r\n\u{1b}b");
        assert_eq!(editor.text(), "a\n b");
        editor.insert(&"x".repeat(LONGEST));
        assert_eq!(editor.text(), "a\n b", "too long");
    }

    fn line(keys: &[&str]) -> Editor {
        let mut line = Editor::line("");
        for key in keys {
            line.key(key);
        }
        line
    }

    #[test]
    fn a_line_is_written_and_corrected() {
        assert_eq!(line(&["a", "b", "left", "ü", "backspace", "backspace"]).text(), "b");
        assert_eq!(line(&["天", "気", "left", "x"]).text(), "天x気");
        assert_eq!(line(&["天", "気"]).position().1, 4);
        assert_eq!(line(&["a", "space", "b", "c", "ctrl-w"]).text(), "a ");
        assert_eq!(line(&["a", "b", "ctrl-u", "c", "home", "delete"]).text(), "");
    }

    #[test]
    fn a_completion_replaces_the_word_begun() {
        let mut line = Editor::line("kind = re");
        line.complete(7, "request");
        assert_eq!((line.text(), line.cursor()), ("kind = request", 14));
        line.insert("\n\u{1b}");
        assert_eq!(line.text(), "kind = request  ");
    }
}
