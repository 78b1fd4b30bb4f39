//! Hostile text made safe for a terminal, and fitted into columns.
//!
//! Text from a server can contain escape sequences that rewrite the screen, and bidirectional
//! controls that show `exe.txt` for `txt.exe`. It can contain invisible characters that smuggle
//! instructions, and line breaks that forge a line of mcptap. None of these reaches the terminal. A
//! character that only acts or hides is shown as a symbol:
//!
//! ```text
//!    ESC [ 2 J       ␛[2J            control characters: their Control Pictures
//!    U+009B          ⟦U+009B⟧        C1 and bidirectional controls, invisible characters
//!    U+2028          ⟦U+2028⟧        line and paragraph separators
//!    byte FF         ⟦FF⟧            bytes that are not UTF-8
//! ```
//!
//! Emoji sequences are split into single emoji, because terminals disagree about the width of a
//! sequence. A variation selector behind a character and a joiner between two wide characters
//! are left out.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum number of combining marks on one character. No script needs more than four, and hundreds
/// paint over the lines around.
const MARKS: usize = 4;

/// The position of text in its column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// On the left: for words.
    #[default]
    Left,
    /// On the right: for numbers.
    Right,
}

/// The text with a symbol in place of every character that acts or hides.
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut line = VisibleText::new(usize::MAX);
    line.push_str(text);
    Cow::Owned(line.text)
}

/// Whether bytes are characters of one column each, of which none acts or hides.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The same as [`visible`] for bytes that may not be UTF-8.
pub fn visible_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => visible(text),
        Err(_) => Cow::Owned(bytes_line(bytes, usize::MAX).finish()),
    }
}

/// The columns that a visible text takes.
pub fn width(text: &str) -> usize {
    if is_plain(text.as_bytes()) { text.len() } else { text.width() }
}

/// The visible text in at most `limit` columns. A longer text ends in `…`. The limit bounds the
/// work, however long the text is.
pub fn fit(text: &str, limit: usize) -> String {
    // Most texts take this short way.
    match text.as_bytes().get(..=limit) {
        None if is_plain(text.as_bytes()) => return text.to_owned(),
        Some(start) if limit > 0 && is_plain(start) => return format!("{}…", &text[..limit - 1]),
        _ => {}
    }
    let mut line = VisibleText::new(limit);
    line.push_str(text);
    line.finish()
}

/// The visible text in at most `limit` columns. A longer text loses its middle, for ids that differ
/// at both ends: `8b56…930f`.
pub fn fit_middle(text: &str, limit: usize) -> String {
    /// More bytes than any column shows, at either end.
    const END: usize = 4_096;
    let text = match text.len() > 2 * END {
        true => {
            let (head, tail) = (text.floor_char_boundary(END), text.ceil_char_boundary(text.len() - END));
            Cow::Owned(format!("{}{}", &text[..head], &text[tail..]))
        }
        false => Cow::Borrowed(text),
    };
    let text = visible(&text);
    if width(&text) <= limit {
        return text.into_owned();
    }
    let tail_limit = limit.saturating_sub(1) / 2;
    let mut tail = text.len();
    for (at, _) in text.char_indices().rev() {
        if width(&text[at..]) > tail_limit {
            break;
        }
        tail = at;
    }
    // A mark without its character would go to the `…`.
    let is_mark = |c: char| c.width().unwrap_or(0) == 0;
    let tail = text.len() - text[tail..].trim_start_matches(is_mark).len();
    format!("{}{}", fit(&text, limit - width(&text[tail..])), &text[tail..])
}

/// The same as [`fit`] for bytes that may not be UTF-8.
pub fn fit_bytes(bytes: &[u8], limit: usize) -> String {
    bytes_line(bytes, limit).finish()
}

/// The visible text in lines of at most `columns` columns. A wider character has a line of its own.
///
/// A line breaks at a blank if there is one in its second half. Combining marks and joined
/// characters stay with their base character.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let (mut taken, mut joined) = (0, false);
    for c in visible(text).chars() {
        let wide = c.width().unwrap_or(1);
        if wide > 0 && !joined && taken > 0 && taken + wide > columns {
            let full = lines.last_mut().map(|line| {
                let blank = line.rfind(' ').map(|at| at + 1).filter(|at| c != ' ' && line[*at..].width() < columns / 2);
                blank.map(|at| line.split_off(at)).unwrap_or_default()
            });
            let rest = full.unwrap_or_default();
            taken = rest.width();
            lines.push(rest);
        }
        taken += wide;
        joined = c == '\u{200d}';
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
    }
    lines
}

/// The visible text in exactly `columns` columns: cut, or filled with blanks.
pub fn pad(text: &str, columns: usize, align: Align) -> String {
    let text = fit(text, columns);
    let blanks = " ".repeat(columns.saturating_sub(width(&text)));
    match align {
        Align::Left => text + &blanks,
        Align::Right => blanks + &text,
    }
}

fn bytes_line(bytes: &[u8], limit: usize) -> VisibleText {
    let mut line = VisibleText::new(limit);
    for chunk in bytes.utf8_chunks() {
        line.push_str(chunk.valid());
        for byte in chunk.invalid() {
            line.symbol(format_args!("⟦{byte:02X}⟧"));
        }
        if line.full {
            break;
        }
    }
    line
}

/// Builds a visible text of limited width.
struct VisibleText {
    text: String,
    limit: usize,
    /// Columns taken by the single characters. The whole text may take fewer, because letters that
    /// join become narrower.
    columns: usize,
    /// The length in bytes up to which an ellipsis still fits behind the text.
    cut: usize,
    /// Combining marks on the last character; `None` where no character can carry them.
    marks: Option<usize>,
    /// Whether something did not fit.
    full: bool,
}

impl VisibleText {
    fn new(limit: usize) -> VisibleText {
        VisibleText { text: String::new(), limit, columns: 0, cut: 0, marks: None, full: false }
    }

    fn push_str(&mut self, text: &str) {
        let mut characters = text.chars().peekable();
        let mut before = None;
        while !self.full
            && let Some(c) = characters.next()
        {
            let wide = |c: Option<char>| c.is_some_and(|c| c.width() == Some(2));
            match c {
                '\0'..='\u{1f}' => self.picture(char::from_u32(0x2400 + c as u32)),
                '\u{7f}' => self.picture(Some('␡')),
                // The selectors of text and emoji presentation.
                '\u{fe0e}' | '\u{fe0f}' if self.marks == Some(0) => {}
                // The zero width joiner.
                '\u{200d}' if wide(before) && wide(characters.peek().copied()) => {}
                c if is_hidden(c) => self.symbol(format_args!("⟦U+{:04X}⟧", c as u32)),
                c => self.character(c),
            }
            before = Some(c);
        }
    }

    fn picture(&mut self, picture: Option<char>) {
        self.put(picture.unwrap_or('\u{fffd}'), 1);
        self.marks = None;
    }

    /// Adds a symbol as a whole, or not at all.
    fn symbol(&mut self, symbol: std::fmt::Arguments<'_>) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text.write_fmt(symbol);
        if self.columns.saturating_add(text.width()) > self.limit {
            self.full = true;
        } else {
            text.chars().for_each(|c| self.put(c, 1));
        }
        self.marks = None;
    }

    fn character(&mut self, c: char) {
        match (c.width(), self.marks) {
            (Some(0), Some(marks)) if marks < MARKS => {
                self.put(c, 0);
                self.marks = Some(marks + 1);
            }
            (Some(0), Some(_)) => {
                self.symbol(format_args!("⟦U+{:04X}⟧", c as u32));
            }
            // A mark without a base character would go onto the text before it, so a dotted
            // circle carries it.
            (Some(0), None) => {
                self.put('◌', 1);
                self.put(c, 0);
                self.marks = Some(1);
            }
            (width, _) => {
                self.put(c, width.unwrap_or(1));
                self.marks = Some(0);
            }
        }
    }

    fn put(&mut self, c: char, columns: usize) {
        if self.full || self.columns.saturating_add(columns) > self.limit {
            self.full = true;
            return;
        }
        self.text.push(c);
        self.columns += columns;
        if self.columns < self.limit {
            self.cut = self.text.len();
        }
    }

    fn finish(mut self) -> String {
        if self.full {
            self.text.truncate(self.cut);
            if self.limit > 0 {
                self.text.push('…');
            }
        }
        self.text
    }
}

/// Whether a character has no shape of its own but acts on others or hides.
///
/// These are C1 controls, Default_Ignorable_Code_Point (Unicode,
/// DerivedCoreProperties.txt; it includes the bidirectional controls), line and paragraph
/// separators, and interlinear annotations.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_texts_are_fitted_as_others_are() {
        for text in ["", "a", "plain text", "plain text\u{301}", "tab\there", "4 wide 漢", "0123456789~"] {
            for limit in 0..14 {
                let mut line = VisibleText::new(limit);
                line.push_str(text);
                assert_eq!(fit(text, limit), line.finish(), "{text:?} in {limit}");
            }
            assert_eq!(width(text), text.width());
        }
    }

    #[test]
    fn characters_that_act_or_hide_become_symbols() {
        let cases = [
            ("plain", "plain"),
            ("\u{1b}[2J\r\n\t\0\u{7f}", "␛[2J␍␊␉␀␡"),
            ("a\u{9b}31m", "a⟦U+009B⟧31m"),
            ("\u{202e}txt.exe\u{2069}", "⟦U+202E⟧txt.exe⟦U+2069⟧"),
            ("a\u{200b}b\u{feff}\u{2028}", "a⟦U+200B⟧b⟦U+FEFF⟧⟦U+2028⟧"),
            ("\u{e0041}", "⟦U+E0041⟧"),
            ("❤\u{fe0f} 👨\u{200d}👩\u{200d}👧 天気", "❤ 👨👩👧 天気"),
            ("a\u{200d}b\u{fe0f}\u{fe0f}", "a⟦U+200D⟧b"),
            ("\u{fe0f}", "⟦U+FE0F⟧"),
            ("e\u{301}", "e\u{301}"),
            ("\u{301}x", "◌\u{301}x"),
            ("\n\u{301}", "␊◌\u{301}"),
        ];
        for (hostile, safe) in cases {
            assert_eq!(visible(hostile), safe);
        }
        let zalgo = format!("e{}", "\u{301}".repeat(6));
        assert_eq!(visible(&zalgo), format!("e{}⟦U+0301⟧◌\u{301}", "\u{301}".repeat(4)));
        assert_eq!(visible_bytes(b"a\xff\xc3("), "a⟦FF⟧⟦C3⟧(");
    }

    #[test]
    fn text_is_cut_and_aligned_by_columns() {
        assert_eq!(fit("weather", 7), "weather");
        assert_eq!(fit("weather", 6), "weath…");
        assert_eq!(["7", "sd-2001", "8b56aa0f-04e2-930f"].map(|id| fit_middle(id, 7)), ["7", "sd-2001", "8b5…30f"]);
        assert_eq!([fit_middle("weather", 2), fit_middle("weather", 0)], ["w…", ""]);
        assert_eq!(fit("天気予報", 8), "天気予報");
        assert_eq!(fit("天気予報", 7), "天気予…");
        assert_eq!(fit("天気予報", 6), "天気…");
        assert_eq!(fit("ab\u{202e}", 5), "ab…");
        assert_eq!(fit("ab", 1), "…");
        assert_eq!(fit("ab", 0), "");
        assert_eq!(fit_bytes(b"\xff\xff", 5), "⟦FF⟧…");
        assert_eq!(pad("天気", 6, Align::Left), "天気  ");
        assert_eq!(pad("天気予報", 6, Align::Right), " 天気…");
        assert_eq!(pad("12", 4, Align::Right), "  12");
    }

    #[test]
    fn work_is_bounded_by_the_limit() {
        let huge = "\u{301}".repeat(1 << 20) + &"x".repeat(1 << 20);
        assert!(fit(&huge, 10).len() < 200);
    }

    fn hostile() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            (0..0xa0_u8).prop_map(char::from),
            prop::sample::select(
                "e\u{301}\u{fe0f}\u{200d}👩👍🏽🇺🇳天\u{202e}ｶﾞ가\u{1161}लाالله\u{e0001}◌".chars().collect::<Vec<_>>()
            ),
        ];
        prop::collection::vec(c, 0..40).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn nothing_hidden_gets_through_and_no_column_is_passed(
            text in hostile(),
            limit in 0..30_usize,
            bytes in any::<Vec<u8>>(),
        ) {
            let (whole, whole_bytes) = (visible(&text).into_owned(), visible_bytes(&bytes).into_owned());
            for safe in [whole, whole_bytes, fit(&text, limit), fit_bytes(&bytes, limit), fit_middle(&text, limit)] {
                prop_assert!(!safe.chars().any(|c| c.is_control() || is_hidden(c)), "{:?}", safe);
                prop_assert_eq!(&visible(&safe), &safe, "safe text is left alone");
            }
            prop_assert!(width(&fit(&text, limit)) <= limit && width(&fit_middle(&text, limit)) <= limit);
            prop_assert!(width(&fit_bytes(&bytes, limit)) <= limit);
            prop_assert_eq!(width(&pad(&text, limit, Align::Left)), limit);
            prop_assert_eq!(width(&pad(&text, limit, Align::Right)), limit);
        }
    }

    #[test]
    fn lines_break_at_blanks_where_there_are_some() {
        assert_eq!(wrap("one two three", 9), ["one two ", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("天気天気", 5), ["天気", "天気"]);
        assert_eq!(wrap("", 5), [""]);
    }

    proptest! {
        /// Nothing is lost, and no line is too wide.
        #[test]
        fn wrapped_lines_are_the_text(text in any::<String>(), words in "[a-z天 ]{0,60}", columns in 2usize..20) {
            prop_assert_eq!(wrap(&text, columns).concat(), visible(&text));
            let lines = wrap(&words, columns);
            prop_assert_eq!(lines.concat(), words);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{:?}", lines);
        }
    }
}
