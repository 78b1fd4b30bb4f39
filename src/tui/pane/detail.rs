//! One message: the list or the sequence above, and the three panes below.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::app::{App, drawn_detail, focus};
use super::super::canvas::Canvas;
use super::super::data::{NoteLine, NoteTarget};
use super::super::layout::{self, DetailAreas};
use super::super::screen::{Focus, Screen};
use super::super::theme::UiElement;
use super::{all_servers, bytes, json, layers, messages, pane_names, sequence, title};
use crate::view::paint::Tone;
use crate::view::safe;

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
    let focus = focus(app);
    let areas = layout::detail(app.size, app.screen, focus);
    list(app, canvas, areas.list);
    let y = areas.list.bottom();
    canvas.divide(area, y);
    if let Some(note) = app.selected_note() {
        return note_text(canvas, Rect { y: y + 1, height: area.bottom().saturating_sub(y + 1), ..area }, note);
    }
    let detail = drawn_detail(app);
    let is_single = [areas.layers, areas.json, areas.bytes].iter().filter(|area| area.height > 0).count() == 1;
    if is_single {
        let names = ["messages", "layers", "json", "bytes"].into_iter().zip(Focus::DETAIL.map(|pane| pane == focus));
        pane_names(canvas, area, y, names);
    } else {
        lines_between(canvas, area, &areas);
        let titles = detail.as_ref().map(|detail| (json::title(app, detail), bytes::title(app, detail)));
        let (json, bytes) = titles.unwrap_or_default();
        for (pane, area, text) in [
            (Focus::Layers, areas.layers, "layers"),
            (Focus::Json, areas.json, &json),
            (Focus::Bytes, areas.bytes, &bytes),
        ] {
            title(canvas, area, focus == pane, text);
        }
    }
    let Some(detail) = detail else { return canvas.message(areas.layers, "…") };
    if areas.layers.height > 0 {
        layers::draw(app, canvas, areas.layers, &detail);
    }
    if areas.json.height > 0 {
        json::draw(app, canvas, areas.json, &detail);
    }
    if areas.bytes.height > 0 {
        bytes::draw(app, canvas, areas.bytes, &detail);
    }
}

/// Draws the whole text of a note, in place of the panes of a message.
fn note_text(canvas: &mut Canvas<'_>, area: Rect, note: &NoteLine) {
    let (tone, plain, dim) = (canvas.tone(note.words.tone), canvas.tone(Tone::Plain), canvas.tone(Tone::Dim));
    let room = area.width.saturating_sub(4);
    canvas.put(area.x + 2, area.y, room, &format!("{}  {}", note.words.sign, note.words.what), tone);
    let mut lines: Vec<(String, Style)> = Vec::new();
    for (text, style) in [(&note.words.about, plain), (&note.words.messages, dim)] {
        lines.extend(safe::wrap(text, usize::from(room).max(1)).into_iter().map(|line| (line, style)));
    }
    let more = match note.target {
        Some(NoteTarget::Message(message)) => format!("enter opens message {}", message.0),
        Some(NoteTarget::Stderr) => "enter shows the whole stderr".to_owned(),
        None => String::new(),
    };
    lines.push((more, dim));
    for (y, (line, style)) in (area.y + 1..area.bottom()).zip(lines) {
        canvas.put(area.x + 2, y, room, &line, style);
    }
}

/// Draws the lines between the panes.
fn lines_between(canvas: &mut Canvas<'_>, area: Rect, areas: &DetailAreas) {
    let border = canvas.element(UiElement::Border);
    let y = areas.list.bottom();
    let down = |canvas: &mut Canvas<'_>, beside: Rect| {
        canvas.put(beside.right(), y, 1, "┬", border);
        canvas.vertical_line(beside.right(), beside, border);
    };
    down(canvas, areas.layers);
    if areas.bytes.y == areas.layers.y {
        down(canvas, areas.json);
    } else {
        let y = areas.bytes.y - 1;
        canvas.divide(area, y);
        canvas.put(areas.layers.right(), y, 1, "┴", border);
    }
}
