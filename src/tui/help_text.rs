//! The text of the help: the keys of the key table, and a legend of all signs.

use super::keys::{KEYS, KeyScope, Motion, sign};
use super::layout;
use super::screen::Screen;
use crate::view::safe;

/// Columns of the keys or signs, before their meaning.
const NAMES: usize = 18;

/// A line of the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpLine {
    /// A key or a sign, or a heading. Empty where the meaning above continues.
    pub name: String,
    /// Its meaning; empty for a heading.
    pub meaning: String,
}

/// The signs on the screens, each with its meaning.
const SIGNS: &[(&str, &str)] = &[
    ("→ ←", "from the client, from the server"),
    ("⇢ ⇠", "a notification, which has no answer"),
    ("┌ │", "members of a batch"),
    ("▸ ▾", "folded, unfolded"),
    ("↳5", "belongs to the operation that message 5 began"),
    ("!", "a finding: a rule is broken"),
    ("✗", "answered by an error of JSON-RPC, or refused by HTTP"),
    ("⊘", "a tool error: the result says isError"),
    ("∅", "negative: the tool worked, its data says no (\"found\": false)"),
    ("↻", "delivered again, by a resumed stream"),
    ("8.1 s…", "waits for its answer, or has never got one"),
    ("█▌", "latency: each column is a factor of ten, from 100 µs on"),
    ("◆", "a mark that you set"),
    ("●", "a session that is being recorded"),
    ("×", "refused by HTTP; or a connection that was refused or reset"),
    ("↪", "an HTTP redirect"),
    ("◌", "a request without an answer, and how its wait ended; a session whose recorder was killed"),
    ("┊", "a line that the server wrote to stderr"),
    ("■", "the server ended; a session whose server failed"),
    ("┏ ┃ ┗", "in the sequence: a call begins, is open, is answered"),
    ("≠ - +", "in a replay: a value differs, is gone, is new"),
    ("~", "in a replay: differs by nature, as times and ids do"),
    ("·", "none; or a row that is being read"),
    ("…", "cut for lack of room: enter shows the whole"),
];

/// The lines of the help for a screen, at most `width` columns wide. The keys of the
/// screen come first.
pub fn lines(screen: Screen, width: usize) -> Vec<HelpLine> {
    const GENERAL: [KeyScope; 2] = [KeyScope::Lists, KeyScope::Everywhere];
    const SPECIAL: [KeyScope; 7] = [
        KeyScope::Sessions,
        KeyScope::Messages,
        KeyScope::Sequence,
        KeyScope::Detail,
        KeyScope::Panes,
        KeyScope::Packets,
        KeyScope::Replay,
    ];
    let (here, elsewhere): (Vec<KeyScope>, Vec<KeyScope>) =
        SPECIAL.into_iter().partition(|place| place.includes(screen));
    let mut lines = Vec::new();
    for place in here.into_iter().chain(GENERAL).chain(elsewhere) {
        heading(&mut lines, place.title());
        for binding in KEYS.iter().filter(|binding| binding.scope == place) {
            let keys: Vec<&str> = binding.keys.iter().map(|key| sign(key)).collect();
            entry(&mut lines, &keys.join(" "), binding.help, width);
        }
    }
    heading(&mut lines, "signs");
    SIGNS.iter().for_each(|(sign, meaning)| entry(&mut lines, sign, meaning, width));
    lines
}

fn heading(lines: &mut Vec<HelpLine>, title: &str) {
    let line = |name: &str| HelpLine { name: name.to_owned(), meaning: String::new() };
    if !lines.is_empty() {
        lines.push(line(""));
    }
    lines.push(line(title));
}

/// Adds a key or a sign with its meaning, in as many lines as it takes.
fn entry(lines: &mut Vec<HelpLine>, name: &str, meaning: &str, width: usize) {
    let names = names_width(width);
    let mut name = format!("  {name}");
    let meanings = safe::wrap(meaning, width.saturating_sub(names + 1).max(1));
    if safe::width(&name) > names {
        lines.push(HelpLine { name: std::mem::take(&mut name), meaning: String::new() });
    }
    for meaning in meanings {
        lines.push(HelpLine { name: std::mem::take(&mut name), meaning: meaning.trim().to_owned() });
    }
}

/// Columns of the names in a help of this width.
pub fn names_width(width: usize) -> usize {
    NAMES.min(width / 3)
}

/// The first line after a movement.
pub fn scrolled(size: (u16, u16), screen: Screen, top: usize, motion: Motion) -> usize {
    let (area, columns) = layout::help(size);
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    // The text continues from column to column, so all columns scroll.
    motion.scrolled(top, height * usize::from(columns), lines(screen, column_width(size)).len())
}

/// The columns of text in one column of the help.
pub fn column_width(size: (u16, u16)) -> usize {
    let (area, columns) = layout::help(size);
    usize::from((area.width.saturating_sub(2) / columns).saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_cut_at_any_size() {
        for size in [(40, 12), (80, 24), (160, 48), (300, 100)] {
            for screen in Screen::ALL {
                let width = column_width(size);
                for line in lines(screen, width) {
                    assert!(line.meaning.is_empty() || safe::width(&line.name) <= names_width(width), "{line:?}");
                    assert!(safe::width(&line.meaning) + names_width(width) < width, "{line:?} at {size:?}");
                    assert!(safe::width(&line.name) <= width, "{line:?} at {size:?}");
                }
            }
        }
    }
}
