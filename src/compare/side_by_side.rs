//! Two texts beside each other, line by line.

use std::fmt::Write;

use similar::{ChangeTag, TextDiff};

use super::text::Style;
use crate::view::paint::Tone;
use crate::view::safe::{self, Align};

/// Lines shown at most.
const SHOWN: usize = 200;

/// Writes `old` to the left of `new`, the lines that are the same in one row.
pub(super) fn write(out: &mut String, old: &str, new: &str, style: Style) {
    let columns = (style.width.saturating_sub(9) / 2).clamp(20, 120);
    let diff = TextDiff::from_lines(old, new);
    let (mut gone, mut come): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut rows: Vec<(Option<&str>, Option<&str>)> = Vec::new();
    for change in diff.iter_all_changes() {
        let text = change.value().trim_end_matches(['\r', '\n']);
        match change.tag() {
            ChangeTag::Delete => gone.push(text),
            ChangeTag::Insert => come.push(text),
            ChangeTag::Equal => {
                flush(&mut rows, &mut gone, &mut come);
                rows.push((Some(text), Some(text)));
            }
        }
    }
    flush(&mut rows, &mut gone, &mut come);
    for (old, new) in rows.iter().take(SHOWN) {
        let mark = match (old, new) {
            (Some(_), None) => '<',
            (None, Some(_)) => '>',
            (old, new) if old == new => ' ',
            _ => '|',
        };
        let tone = |tone| if mark == ' ' { Tone::Dim } else { tone };
        let left = safe::pad(&safe::fit(old.unwrap_or_default(), columns), columns, Align::Left);
        let right = safe::fit(new.unwrap_or_default(), columns);
        let row = format!(
            "      {} {mark} {}",
            style.paint.paint(tone(Tone::Error), &left),
            style.paint.paint(tone(Tone::Good), &right)
        );
        let _ = writeln!(out, "{}", row.trim_end());
    }
    if rows.len() > SHOWN {
        let _ = writeln!(out, "      … {} more lines", rows.len() - SHOWN);
    }
}

/// What went and what came in its place, in the same rows as far as both reach.
fn flush<'a>(rows: &mut Vec<(Option<&'a str>, Option<&'a str>)>, gone: &mut Vec<&'a str>, come: &mut Vec<&'a str>) {
    let length = gone.len().max(come.len());
    rows.extend((0..length).map(|index| (gone.get(index).copied(), come.get(index).copied())));
    gone.clear();
    come.clear();
}
