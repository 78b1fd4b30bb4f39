//! One message: the list or the sequence above, and the three panes below.

use ratatui::layout::Rect;

use super::super::app::{App, Focus, drawn_detail, focus};
use super::super::canvas::Canvas;
use super::super::layout;
use super::super::screen::Screen;
use super::super::theme::UiElement;
use super::{all_servers, bytes, json, layers, messages, sequence};
use crate::view::paint::Tone;

/// Draws the messages, as a list or as arrows.
pub fn list(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    match app.screen {
        Screen::Sequence if app.all_servers => all_servers::draw(app, canvas, area),
        Screen::Sequence => sequence::draw(app, canvas, area),
        _ => messages::draw(app, canvas, area, focus(app) == Focus::List),
    }
}

/// Draws the messages and the panes.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let areas = layout::detail(app.size, app.screen);
    list(app, canvas, areas.list);
    let border = canvas.element(UiElement::Border);
    let y = areas.list.bottom();
    canvas.divide(area, y);
    let beside = areas.bytes.y == areas.layers.y;
    let down = |canvas: &mut Canvas<'_>, beside: Rect| {
        canvas.put(beside.right(), y, 1, "┬", border);
        canvas.vertical_line(beside.right(), beside, border);
    };
    down(canvas, areas.layers);
    if beside {
        down(canvas, areas.json);
    } else {
        let y = areas.bytes.y - 1;
        canvas.divide(area, y);
        canvas.put(areas.layers.right(), y, 1, "┴", border);
    }
    let Some(detail) = drawn_detail(app) else {
        title(app, canvas, areas.layers, Focus::Layers, "layers");
        return canvas.message(areas.layers, "…");
    };
    title(app, canvas, areas.layers, Focus::Layers, "layers");
    title(app, canvas, areas.json, Focus::Json, &json::title(app, &detail));
    title(app, canvas, areas.bytes, Focus::Bytes, &bytes::title(app, &detail));
    layers::draw(app, canvas, areas.layers, &detail);
    json::draw(app, canvas, areas.json, &detail);
    bytes::draw(app, canvas, areas.bytes, &detail);
}

/// Draws the title of a pane, in the line above it.
fn title(app: &App, canvas: &mut Canvas<'_>, area: Rect, pane: Focus, text: &str) {
    let active = focus(app) == pane;
    let style = if active { canvas.element(UiElement::Tab) } else { canvas.tone(Tone::Dim) };
    let room = area.width.saturating_sub(2);
    let y = area.y - 1;
    let dim = canvas.element(UiElement::Border);
    let x = canvas.put(area.x, y, 1, "─", dim);
    let x = canvas.put(x, y, 1, " ", dim);
    let x = canvas.put(x, y, room.saturating_sub(1), text, style);
    canvas.put(x, y, 1, " ", dim);
}
