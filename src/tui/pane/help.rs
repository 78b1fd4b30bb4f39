//! The help: the key table.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::Canvas;
use super::super::keys::{KEYS, KeyScope, Motion, sign};
use super::super::screen::Screen;
use super::super::theme::UiElement;
use crate::view::paint::Tone;

/// Width of a column of keys and their help.
const COLUMN: u16 = 78;

/// The lines of the help: headings, and keys with their help. The keys of the screen come first.
fn lines(screen: Screen) -> Vec<(String, &'static str)> {
    const GENERAL: [KeyScope; 2] = [KeyScope::Lists, KeyScope::Everywhere];
    const SPECIAL: [KeyScope; 5] =
        [KeyScope::Messages, KeyScope::Sequence, KeyScope::Detail, KeyScope::Packets, KeyScope::Replay];
    let (here, elsewhere): (Vec<KeyScope>, Vec<KeyScope>) =
        SPECIAL.into_iter().partition(|place| place.includes(screen));
    let mut lines = Vec::new();
    for place in here.into_iter().chain(GENERAL).chain(elsewhere) {
        if !lines.is_empty() {
            lines.push((String::new(), ""));
        }
        lines.push((place.title().to_owned(), ""));
        for binding in KEYS.iter().filter(|binding| binding.scope == place) {
            let keys: Vec<&str> = binding.keys.iter().map(|key| sign(key)).collect();
            lines.push((format!("  {}", keys.join(" ")), binding.help));
        }
    }
    lines
}

/// The area of the help, and its number of columns.
fn area((width, height): (u16, u16)) -> (Rect, u16) {
    let columns = (width.saturating_sub(6) / COLUMN).clamp(1, 3);
    let own = (columns * COLUMN + 2).min(width.saturating_sub(4));
    (Rect { x: (width - own) / 2, y: 1, width: own, height: height.saturating_sub(2) }, columns)
}

/// The first line after a movement.
pub fn scrolled(app: &App, top: usize, motion: Motion) -> usize {
    let (area, columns) = area(app.size);
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    // The text continues from column to column, so all columns scroll.
    motion.scrolled(top, height * usize::from(columns), lines(app.screen).len())
}

/// Draws the help over the screen.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, top: usize) {
    let (area, columns) = area(app.size);
    let lines = lines(app.screen);
    let rows = usize::from(area.height.saturating_sub(2));
    let fits = lines.len() <= rows * usize::from(columns);
    canvas.draw_box(area, "keys", if fits { "any key closes" } else { "↑ ↓ scroll · any other key closes" });
    let key = canvas.element(UiElement::Key);
    let (plain, strong) = (canvas.tone(Tone::Plain), canvas.tone(Tone::Strong));
    for (at, (keys, help)) in lines.iter().skip(top).take(rows * usize::from(columns)).enumerate() {
        let (column, y) = ((at / rows) as u16, area.y + 1 + (at % rows) as u16);
        let x = area.x + 2 + column * COLUMN;
        canvas.put(x, y, 18, keys, if help.is_empty() { strong } else { key });
        canvas.put(x + 19, y, COLUMN.min(area.width - 2).saturating_sub(21), help, plain);
    }
    canvas.scroll_bar(
        Rect { y: area.y + 1, height: rows as u16, width: area.width - 1, ..area },
        top,
        lines.len().div_ceil(columns.into()),
    );
}
