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
use crate::capture::PacketNumber;

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

/// Packets in few characters: `#18 #19`, `#18…#44`.
fn packets(packets: &[PacketNumber]) -> String {
    match packets {
        [] => String::new(),
        [one] => format!("#{one}"),
        [one, two] => format!("#{one} #{two}"),
        [first, .., last] => format!("#{first}…#{last}"),
    }
}
