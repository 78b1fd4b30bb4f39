//! The whole text of a JSON string, over the screen. In the tree it has only one line.

use ratatui::layout::Rect;

use super::super::app::{App, selected_detail};
use super::super::canvas::Canvas;
use super::super::copy;
use super::super::keys::Motion;
use crate::view::paint::Tone;
use crate::view::{safe, units};

/// Limit of the shown bytes. A longer text is copied or exported.
const SHOWN: usize = 256 << 10;

/// The area of the box.
fn area(size: (u16, u16)) -> Rect {
    let (width, height) = size;
    Rect { x: 3, y: 3, width: width.saturating_sub(6), height: height.saturating_sub(5) }
}

/// The value's lines, wrapped to the width of the box, and its length in bytes.
fn lines(app: &App) -> (Vec<String>, usize) {
    let text = selected_detail(app).and_then(|detail| copy::value(&detail, &app.detail)).unwrap_or_default();
    let seen = &text[..text.floor_char_boundary(SHOWN)];
    let width = usize::from(area(app.size).width.saturating_sub(4)).max(1);
    (seen.lines().flat_map(|line| safe::wrap(line, width)).collect(), text.len())
}

/// The first line after a movement.
pub fn scrolled(app: &App, top: usize, motion: Motion) -> usize {
    let height = usize::from(area(app.size).height.saturating_sub(2)).max(1);
    motion.scrolled(top, height, lines(app).0.len())
}

/// Draws the value over the screen.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, top: usize) {
    let area = area(app.size).intersection(canvas.buffer.area);
    let (lines, length) = lines(app);
    let cut = if length > SHOWN { ", only the beginning is shown" } else { "" };
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
