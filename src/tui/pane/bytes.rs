//! Bytes in hexadecimal and as text. Bytes that the other panes point at are highlighted.

use std::ops::Range;

use ratatui::layout::Rect;

use super::super::app::{App, ByteCursor, focus};
use super::super::canvas::Canvas;
use super::super::data::Detail;
use super::super::layout;
use super::super::screen::Focus;
use super::super::theme::UiElement;
use crate::view::paint::Tone;
use crate::view::units;

/// The title: `bytes: packet #41, 285 B`.
pub fn title(app: &App, detail: &Detail) -> String {
    detail.sources.get(app.detail.source).map_or("bytes".to_owned(), |source| {
        format!("bytes: {}, {}", source.title, units::size(source.bytes.len() as u64))
    })
}

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect, detail: &Detail) {
    let view = &app.detail;
    let Some(source) = detail.sources.get(view.source) else { return };
    rows(canvas, area, &source.bytes, view.byte, &view.linked, focus(app) == Focus::Bytes);
}

/// Draws bytes from the first visible row on. Those in `linked` are highlighted. The cursor is
/// visible in the pane that receives the keys.
pub(super) fn rows(
    canvas: &mut Canvas<'_>,
    area: Rect,
    bytes: &[u8],
    byte: ByteCursor,
    linked: &[Range<usize>],
    active: bool,
) {
    let row = layout::bytes_per_row(area);
    canvas.scroll_bar(area, byte.top, bytes.len().div_ceil(row));
    let is_lit = |offset: usize| linked.iter().any(|range| range.contains(&offset));
    let cursor = Some(byte.offset).filter(|_| active);
    let top = byte.top;
    let (dim, plain, linked) = (canvas.tone(Tone::Dim), canvas.tone(Tone::Plain), canvas.element(UiElement::Linked));
    let selected = canvas.element(UiElement::Selected);
    let hex = area.x + 1 + layout::OFFSET + 2;
    let text = hex + row as u16 * 3 + 1;
    for line in 0..area.height {
        let start = (top + usize::from(line)) * row;
        let Some(seen) = bytes.get(start..(start + row).min(bytes.len())).filter(|seen| !seen.is_empty()) else {
            break;
        };
        let y = area.y + line;
        canvas.put(area.x + 1, y, layout::OFFSET, &format!("{start:06x}"), dim);
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
