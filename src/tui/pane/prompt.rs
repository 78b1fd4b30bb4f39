//! The line at the bottom, and above it the completions or the error.

use unicode_width::UnicodeWidthStr;

use super::super::app::{App, Prompt, completions};
use super::super::canvas::Canvas;
use super::super::editor::Editor;
use super::super::theme::UiElement;
use crate::filter::Filter;
use crate::view::paint::Tone;

/// Limit of the completions shown at once.
const SHOWN: usize = 8;

/// Draws the line over the bottom of the screen. Returns the position of the terminal's cursor.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, prompt: Prompt, line: &Editor) -> (u16, u16) {
    let area = canvas.buffer.area;
    let y = area.bottom() - 1;
    let sign = match prompt {
        Prompt::Filter => "filter ",
        Prompt::Search => "search ",
        Prompt::Command => ":",
    };
    let start = sign.width() as u16 + 1;
    let room = area.width.saturating_sub(start + 1);
    // A long line is scrolled to its cursor.
    let column = line.position().1;
    let hidden = column.saturating_sub(usize::from(room.saturating_sub(1)));
    let seen = skip_columns(line.text(), hidden);
    blank(canvas, y);
    let (key, plain) = (canvas.element(UiElement::Key), canvas.tone(Tone::Plain));
    canvas.put(1, y, start, sign, key);
    canvas.put(start, y, room, seen, plain);
    above(app, canvas, prompt, line, y, start);
    (start + (column - hidden) as u16, y)
}

fn above(app: &App, canvas: &mut Canvas<'_>, prompt: Prompt, line: &Editor, y: u16, start: u16) {
    let area = canvas.buffer.area;
    let error = match prompt {
        Prompt::Filter if !line.text().trim().is_empty() => Filter::parse(line.text()).err(),
        _ => None,
    };
    let offered = completions(prompt, line.text(), line.cursor());
    // A filter that is being written is incomplete most of the time, so its error is dim.
    if let Some(error) = &error {
        let tone = if app.notice.is_some() || offered.is_empty() { Tone::Error } else { Tone::Dim };
        let style = canvas.tone(tone);
        blank(canvas, y - 1);
        let before = error.filter.chars().take(error.column.saturating_sub(1)).collect::<String>().width() as u16;
        let x = (start + before).min(area.width.saturating_sub(20));
        let marks = "^".repeat(error.length.clamp(1, 40));
        let x = canvas.put(x, y - 1, area.width.saturating_sub(x), &marks, style);
        canvas.put(x + 1, y - 1, area.width.saturating_sub(x + 2), &error.to_string(), style);
    }
    let bottom = if error.is_some() { y - 1 } else { y };
    let (name, dim) = (canvas.element(UiElement::Key), canvas.tone(Tone::Dim));
    let rows = offered.len().min(SHOWN).min(usize::from(bottom.saturating_sub(2)));
    for (row, completion) in offered.iter().take(rows).enumerate() {
        let y = bottom - rows as u16 + row as u16;
        blank(canvas, y);
        let style = if row == 0 { name } else { dim };
        let x = canvas.put(start, y, 24, &completion.text, style);
        let x = x.max(start + 20) + 2;
        canvas.put(x, y, area.width.saturating_sub(x + 1), completion.help, dim);
        if row == 0 {
            canvas.put_right(area.width - 6, y, 5, "tab", name);
        }
    }
}

fn blank(canvas: &mut Canvas<'_>, y: u16) {
    for x in 0..canvas.buffer.area.width {
        canvas.buffer[(x, y)].reset();
    }
}

/// `text` without its first columns.
fn skip_columns(text: &str, columns: usize) -> &str {
    let at = text.char_indices().find(|(at, _)| text[..*at].width() >= columns).map_or(text.len(), |(at, _)| at);
    &text[at..]
}
