//! Capabilities, and the tools, prompts and resources that the server lists.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::table;
use crate::view::paint::Tone;

const COLUMNS: &[Column] = &[
    Column::new("capability, tool", 18).grows(1),
    Column::new("value", 14).grows(4),
    Column::new("message", 7).right().shown_from(50),
];

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let rows =
        app.session.and_then(|session| app.cache.capabilities.of(session)).map(Vec::as_slice).unwrap_or_default();
    let empty = "no initialize message and no list of tools was captured: the capture began later, or the client asked for none";
    table(app, canvas, area, COLUMNS, empty, |row| {
        let row = rows.get(row)?;
        let (name, value) = if row.depth == 0 { (Tone::Strong, Tone::Dim) } else { (Tone::Client, Tone::Plain) };
        Some(vec![
            Cell::new(format!("{:1$}{2}", "", row.depth * 2, row.name), name),
            Cell::new(row.value.clone(), value),
            Cell::new(row.message.map(|message| message.0.to_string()).unwrap_or_default(), Tone::Dim),
        ])
    });
}
