//! Findings, grouped by rule, the worst first.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::FindingLine;
use super::{packets, severity_tone, table};
use crate::view::paint::Tone;
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("rule, finding", 30).grows(1),
    Column::new("messages", 12),
    Column::new("packets", 12).from(100),
];

/// Draws the groups.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let tone = |tone| theme.tone(tone);
    let lines = app.session.and_then(|session| app.pages.findings(session)).unwrap_or_default();
    table(app, canvas, area, COLUMNS, "no findings: nothing odd was seen", |row| match lines.get(row)? {
        FindingLine::Rule { id, severity, title, count } => Some(vec![
            Cell::new("!", tone(severity_tone(*severity))),
            Cell::new(format!("{id}  {title}"), tone(severity_tone(*severity))),
            Cell::new(units::count(*count as u64, "finding"), tone(Tone::Dim)),
            Cell::default(),
        ]),
        FindingLine::Finding(finding) => {
            let numbers: Vec<String> = finding.messages.iter().take(4).map(|message| message.0.to_string()).collect();
            Some(vec![
                Cell::default(),
                Cell::new(format!("  {}", finding.text), tone(Tone::Plain)),
                Cell::new(numbers.join(" "), tone(Tone::Client)),
                Cell::new(packets(&finding.packets), tone(Tone::Dim)),
            ])
        }
    });
}
