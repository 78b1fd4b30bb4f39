//! The panes: the contents of each screen, one file each. All are plain functions of the state.

pub mod all_servers;
pub mod bytes;
pub mod detail;
pub mod findings;
pub mod help;
pub mod json;
pub mod layers;
pub mod messages;
pub mod packets;
pub mod prompt;
pub mod replay;
pub mod sequence;
pub mod sessions;
pub mod statistics;
pub mod stderr;
pub mod steps;
pub mod summary;
pub mod tools;
pub mod value;
pub mod welcome;

use ratatui::layout::Rect;

use super::app::App;
use super::canvas::{Canvas, Cell, Column, TableView};
use super::theme::UiElement;
use crate::capture::PacketNumber;
use crate::view::paint::Tone;

/// Draws the table of a screen, or a sentence if it is empty.
fn table(
    app: &App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    columns: &[Column],
    empty: &str,
    row: impl Fn(usize) -> Option<Vec<Cell>>,
) {
    match app.rows(app.screen) {
        None => canvas.message(area, "…"),
        Some(0) => canvas.message(area, empty),
        Some(total) => {
            let list = TableView { cursor: *app.cursor(app.screen), total, active: true };
            canvas.table(area, columns, list, row);
        }
    }
}

/// Draws the title of a pane, in the line above it.
fn title(canvas: &mut Canvas<'_>, area: Rect, active: bool, text: &str) {
    let style = if active { canvas.element(UiElement::Tab) } else { canvas.tone(Tone::Dim) };
    let line = canvas.element(UiElement::Border);
    let (room, y) = (area.width.saturating_sub(2), area.y - 1);
    let x = canvas.put(area.x, y, 1, "─", line);
    canvas.put(x, y, room.saturating_sub(1), &format!(" {text} "), style);
}

/// Draws the names of panes of which only one is visible, in the line above it. The one with the
/// focus is highlighted.
fn pane_names<'n>(canvas: &mut Canvas<'_>, area: Rect, y: u16, names: impl Iterator<Item = (&'n str, bool)>) {
    let (dim, here) = (canvas.tone(Tone::Dim), canvas.element(UiElement::Tab));
    names.fold(area.x + 1, |x, (name, active)| {
        let x = canvas.put(x, y, area.right().saturating_sub(x), " ", dim);
        canvas.put(x, y, area.right().saturating_sub(x), name, if active { here } else { dim })
    });
}

/// A cell with a count. A zero is a dim dot, whatever the tone of other counts.
fn count_cell(count: u64, tone: Tone) -> Cell {
    if count == 0 { Cell::new("·", Tone::Dim) } else { Cell::new(count.to_string(), tone) }
}

/// Packets in few characters: `#18 #19`, `#18…#44`.
fn packets(packets: &[PacketNumber]) -> String {
    match packets {
        [] => String::new(),
        [one] => format!("#{one}"),
        [one, two] => format!("#{one} #{two}"),
        [first, .., last] => format!("#{first}…#{last}"),
    }
}
