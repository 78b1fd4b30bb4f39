//! The step table of a session: what happened, layer by layer.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::{packets, table};
use crate::view::paint::Tone;

const COLUMNS: &[Column] = &[
    Column::new("step", 5).right(),
    Column::new("layer", 5),
    Column::new("direction", 20).grows(1),
    Column::new("port", 5).right().from(100),
    Column::new("packets", 9),
    Column::new("detail", 20).grows(4),
    Column::new("json-rpc", 12).grows(2).from(108),
];

/// Draws the table.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let tone = |tone| theme.tone(tone);
    let steps = app.session.and_then(|session| app.pages.steps(session));
    table(app, canvas, area, COLUMNS, "nothing yet", |row| {
        let step = steps?.row(row)?;
        let arrow = if step.both { "↔" } else { "→" };
        let (layer, detail) = match step.layer {
            "L7" => (Tone::Strong, Tone::Plain),
            "TLS" => (Tone::Warning, Tone::Plain),
            _ => (Tone::Dim, Tone::Dim),
        };
        // Where there is no room for the last column, its words come first.
        let detail_text = match area.width {
            0..108 if !step.about.is_empty() => format!("{}  {}", step.about, step.detail),
            _ => step.detail.clone(),
        };
        let role = step.role.map(|role| format!("{role}: {}", step.about)).unwrap_or_default();
        Some(vec![
            Cell::new(step.number.to_string(), tone(Tone::Dim)),
            Cell::new(step.layer, tone(layer)),
            Cell::new(format!("{} {arrow} {}", step.from, step.to), tone(Tone::Dim)),
            Cell::new(step.port.map(|port| port.to_string()).unwrap_or_default(), tone(Tone::Dim)),
            Cell::new(packets(&step.packets), tone(Tone::Plain)),
            Cell::new(detail_text, tone(detail)),
            Cell::new(role, tone(Tone::Client)),
        ])
    });
}
