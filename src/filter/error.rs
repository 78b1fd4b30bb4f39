//! Errors in a filter, with their position.

use std::fmt;

use unicode_width::UnicodeWidthChar;

/// A syntax error in a filter: its column, the message and the expected words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The text of the filter.
    pub filter: String,
    /// The column of the error in characters, 1-based; one more than the length where the filter
    /// ends too early.
    pub column: usize,
    /// The number of characters that are wrong; 0 at the end of the filter.
    pub length: usize,
    /// The error in a few words.
    pub message: String,
    /// The words that would be correct here; empty where the message already names them.
    pub expected: Vec<String>,
}

impl FilterError {
    /// The message, below it the filter, and a caret under the wrong part.
    ///
    /// Lines are at most `width` columns wide, except for the message. Of a long filter the part
    /// around the column is shown.
    ///
    /// ```text
    /// no field is called "metod"
    ///   metod = tools/call
    ///   ^^^^^ expected method
    /// ```
    pub fn render(&self, width: usize) -> String {
        const MARGIN: usize = 2;
        let room = width.saturating_sub(MARGIN).max(8);
        let shown: Vec<char> = self.filter.chars().map(visible).collect();
        let column = self.column.saturating_sub(1).min(shown.len());
        let (start, end) = window(&shown, column, room);
        let ellipsis = |cut: bool| if cut { "…" } else { "" };
        let line: String = shown[start..end].iter().collect();
        let caret = usize::from(start > 0) + columns(&shown[start..column]);
        let meant = &shown[column..(column + self.length).clamp(column, end.max(column))];
        let mut text = self.message.clone();
        text.push_str(&format!("\n{:MARGIN$}{}{line}{}", "", ellipsis(start > 0), ellipsis(end < shown.len())));
        text.push_str(&format!("\n{:indent$}{}", "", "^".repeat(columns(meant).max(1)), indent = MARGIN + caret));
        if !self.expected.is_empty() {
            text.push_str(&format!(" expected {}", alternatives(&self.expected)));
        }
        text
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", alternatives(&self.expected))?;
        }
        Ok(())
    }
}

impl std::error::Error for FilterError {}

/// The words as a list: `a, b or c`.
fn alternatives(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A character as it is shown in a line. One without a width would move the caret, so
/// U+FFFD replaces it.
fn visible(c: char) -> char {
    if c.width().unwrap_or(0) == 0 { '\u{fffd}' } else { c }
}

fn columns(text: &[char]) -> usize {
    text.iter().map(|c| c.width().unwrap_or(0)).sum()
}

/// The range of characters to show: all of them, or as many around `column` as fit
/// between two ellipses.
fn window(text: &[char], column: usize, room: usize) -> (usize, usize) {
    if columns(text) <= room {
        return (0, text.len());
    }
    let (mut start, mut end, mut left) = (column, column, room - 2);
    loop {
        let before = (start > 0).then(|| columns(&text[start - 1..start])).filter(|&width| width <= left);
        if let Some(width) = before {
            (start, left) = (start - 1, left - width);
        }
        let after = (end < text.len()).then(|| columns(&text[end..=end])).filter(|&width| width <= left);
        if let Some(width) = after {
            (end, left) = (end + 1, left - width);
        }
        if before.is_none() && after.is_none() {
            return (start, end);
        }
    }
}

/// The names most similar to a misspelt word, best first: at most three. None needs changes to more
/// than a third of its letters.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    const LONGEST: usize = 48;
    if word.chars().count() > LONGEST {
        return Vec::new();
    }
    let lower = word.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| {
            // People often remember half of a name: `port` for `tcp.port`.
            let part = name.rsplit_once('.').is_some_and(|(_, last)| last == lower);
            let steps = if part { 1 } else { strsim::levenshtein(&lower, &name.to_lowercase()) };
            (steps <= (name.chars().count() / 3).max(1)).then_some((steps, name))
        })
        .collect();
    near.sort_by_key(|(steps, _)| *steps);
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = || ["method", "tool", "latency", "tcp.port"].into_iter();
        assert_eq!(nearest("metod", names()), ["method"]);
        assert_eq!(nearest("Tool", names()), ["tool"]);
        assert_eq!(nearest("port", names()), ["tcp.port"]);
        assert!(nearest("quito", names()).is_empty());
    }

    #[test]
    fn the_caret_is_under_wide_characters_and_long_filters_are_cut() {
        let error = |filter: &str, column, length| FilterError {
            filter: filter.into(),
            column,
            length,
            message: "no".into(),
            expected: vec!["a".into(), "b".into(), "c".into()],
        };
        assert_eq!(error("天気 = x", 4, 1).render(80), "no\n  天気 = x\n       ^ expected a, b or c");
        assert_eq!(error("天気", 1, 2).render(80), "no\n  天気\n  ^^^^ expected a, b or c");
        let long = format!("{} = x", "w".repeat(200));
        assert_eq!(error(&long, 202, 1).render(20), "no\n  …wwwwwwwwwwww = x\n                ^ expected a, b or c");
        assert_eq!(error("a\tb", 3, 1).render(80), "no\n  a\u{fffd}b\n    ^ expected a, b or c");
    }
}
