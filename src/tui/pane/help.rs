//! The help: the keys, and a legend of all signs.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::Canvas;
use super::super::theme::UiElement;
use super::super::{help_text, layout};
use crate::view::paint::Tone;

/// Draws the help over the screen.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, top: usize) {
    let (area, columns) = layout::help(app.size);
    let width = help_text::column_width(app.size);
    let lines = help_text::lines(app.screen, width);
    let rows = usize::from(area.height.saturating_sub(2));
    let fits = lines.len() <= rows * usize::from(columns);
    canvas.draw_box(area, "keys and signs", if fits { "any key closes" } else { "↑ ↓ scroll · other keys close" });
    let key = canvas.element(UiElement::Key);
    let (plain, strong) = (canvas.tone(Tone::Plain), canvas.tone(Tone::Strong));
    let names = help_text::names_width(width) as u16;
    for (at, line) in lines.iter().skip(top).take(rows * usize::from(columns)).enumerate() {
        let (column, y) = ((at / rows) as u16, area.y + 1 + (at % rows) as u16);
        let x = area.x + 2 + column * layout::HELP;
        let is_heading = line.meaning.is_empty() && !line.name.starts_with(' ');
        canvas.put(x, y, width as u16, &line.name, if is_heading { strong } else { key });
        canvas.put(x + names + 1, y, (width as u16).saturating_sub(names + 1), &line.meaning, plain);
    }
    let bar = Rect { y: area.y + 1, height: rows as u16, width: area.width - 1, ..area };
    canvas.scroll_bar(bar, top, lines.len().div_ceil(columns.into()));
}
