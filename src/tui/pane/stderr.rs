//! The lines that a wrapped server wrote to stderr.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::table;
use crate::mcp::Transport;
use crate::view::paint::Tone;

const COLUMNS: &[Column] = &[Column::new("time", 11).right(), Column::new("stderr", 20).grows(1)];

pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let lines = app.session.and_then(|session| app.cache.stderr.of(&session));
    let pipe = app.session_row().is_some_and(|row| row.session.transport == Transport::Stdio);
    let empty = match pipe {
        true => "the server wrote nothing to stderr",
        false => {
            "this session came over the network, where nothing shows the server's stderr\nmcptap wrap records the stderr of a server on STDIO"
        }
    };
    table(app, canvas, area, COLUMNS, empty, |row| {
        let line = lines?.row(row)?;
        Some(vec![
            Cell::new(super::messages::relative(app, line.time), Tone::Dim),
            Cell::new(line.text.clone(), Tone::Plain),
        ])
    });
}
