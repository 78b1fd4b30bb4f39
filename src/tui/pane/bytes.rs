//! Bytes in hexadecimal and as text. Bytes that the other panes point at are highlighted.

use ratatui::layout::Rect;

use super::super::app::{App, Focus, focus};
use super::super::canvas::Canvas;
use super::super::data::Detail;
use super::super::layout;
use super::super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::units;

/// Width of the pane for rows of this many bytes: offset, hexadecimal, text.
pub const fn width(row: u16) -> u16 {
    1 + OFFSET + 2 + row * 3 + 1 + row + 1
}

const OFFSET: u16 = 6;

/// The byte of a row at a column of the pane, in hexadecimal or as text.
pub fn column_at(x: u16, row: usize) -> Option<usize> {
    let hex = usize::from(x).checked_sub(usize::from(1 + OFFSET + 2))?;
    let text = hex.checked_sub(row * 3 + 1);
    Some(text.unwrap_or(hex / 3)).filter(|column| *column < row)
}

/// The title: `bytes: packet #41, 285 B`.
pub fn title(app: &App, detail: &Detail) -> String {
    detail.sources.get(app.detail.source).map_or("bytes".to_owned(), |source| {
        format!("bytes: {}, {}", source.title, units::size(source.bytes.len() as u64))
    })
}

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, detail: &Detail) {
    let view = &app.detail;
    let Some(source) = detail.sources.get(view.source) else { return };
    let row = layout::bytes_per_row(app.size);
    canvas.scroll_bar(area, view.top, source.bytes.len().div_ceil(row));
    let lit = |offset: usize| view.linked.iter().any(|range| range.contains(&offset));
    let cursor = Some(view.offset).filter(|_| focus(app) == Focus::Bytes);
    rows(canvas, area, &source.bytes, row, view.top, lit, cursor);
}

/// Draws rows of `row` bytes from row `top` on, with highlighted bytes and a cursor.
pub(super) fn rows(
    canvas: &mut Canvas<'_>,
    area: Rect,
    bytes: &[u8],
    row: usize,
    top: usize,
    is_lit: impl Fn(usize) -> bool,
    cursor: Option<usize>,
) {
    let (dim, plain, linked) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Plain), canvas.element(UiElement::Linked));
    let selected = canvas.element(UiElement::Selected);
    let hex = area.x + 1 + OFFSET + 2;
    let text = hex + row as u16 * 3 + 1;
    for line in 0..area.height {
        let start = (top + usize::from(line)) * row;
        let Some(seen) = bytes.get(start..(start + row).min(bytes.len())).filter(|seen| !seen.is_empty()) else {
            break;
        };
        let y = area.y + line;
        canvas.put(area.x + 1, y, OFFSET, &format!("{start:06x}"), dim);
        for (column, byte) in seen.iter().enumerate() {
            let offset = start + column;
            let visible = byte.is_ascii_graphic() || *byte == b' ';
            let lit = is_lit(offset);
            let mut style = if visible { plain } else { dim };
            if lit {
                style = style.patch(linked);
            }
            if cursor == Some(offset) {
                style = style.patch(selected);
            }
            let x = hex + column as u16 * 3;
            let shown = if visible { char::from(*byte) } else { '·' };
            canvas.put(x, y, 2, &format!("{byte:02x}"), style);
            canvas.put(text + column as u16, y, 1, shown.encode_utf8(&mut [0; 4]), style);
            // Adjacent highlighted bytes form one bar.
            if lit && column + 1 < seen.len() && is_lit(offset + 1) {
                canvas.put(x + 2, y, 1, " ", linked);
            }
        }
    }
}
