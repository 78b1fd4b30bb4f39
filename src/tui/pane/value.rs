//! The whole text of a JSON string, over the screen. In the tree it has only one line.

use ratatui::layout::Rect;

use super::super::app::{App, selected_detail, value_lines};
use super::super::canvas::Canvas;
use super::super::layout;
use crate::view::paint::Tone;
use crate::view::units;

/// Draws the value over the screen.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, top: usize) {
    let area = layout::value(app.size).intersection(canvas.buffer.area);
    let (lines, length, is_cut) = value_lines(app);
    let cut = if is_cut { ", only the beginning is shown" } else { "" };
    let path = selected_detail(app)
        .map(|detail| app.detail.tree.path(detail.text(), app.detail.json.selected))
        .unwrap_or_default();
    let title = format!("{path}  {}{cut}", units::size(length as u64));
    canvas.draw_box(area, &title, "↑ ↓ scroll · v copy · any other key closes");
    let plain = canvas.tone(Tone::Plain);
    for (line, text) in lines.iter().skip(top).take(area.height.saturating_sub(2).into()).enumerate() {
        canvas.put(area.x + 2, area.y + 1 + line as u16, area.width.saturating_sub(4), text, plain);
    }
    let rows =
        Rect { y: area.y + 1, width: area.width.saturating_sub(1), height: area.height.saturating_sub(2), ..area };
    canvas.scroll_bar(rows, top, lines.len());
}
