//! All sessions: peers, results, and how much was captured.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::canvas::{Canvas, Cell, Column};
use super::super::data::worst;
use super::super::layout;
use super::super::screen::Screen;
use super::{count_cell, summary, table, welcome};
use crate::mcp::Session;
use crate::view::paint::Tone;
use crate::view::parties::{party, server};
use crate::view::units;

const COLUMNS: &[Column] = &[
    Column::new(" ", 1),
    Column::new("#", 3).right(),
    Column::new("server", 14).grows(3),
    Column::new("client", 10).grows(2).shown_from(90),
    Column::new("transport", 15).shown_from(60),
    Column::new("revision", 10).shown_from(76),
    Column::new("calls", 5).right(),
    Column::new("errors", 6).right(),
    Column::new("findings", 8).right(),
    Column::new("captured", 8).right().shown_from(100),
    Column::new("p50", 8).right().shown_from(112),
    Column::new("p95", 8).right().shown_from(76),
    Column::new("last activity", 19).shown_from(130),
];

/// Draws the list, and the summary of the selected session.
pub fn draw(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    if app.rows(Screen::Sessions) == Some(0) {
        return welcome::draw(app, canvas, area);
    }
    let own = layout::sessions(area);
    list(app, canvas, own);
    if own.height < area.height {
        canvas.divide(area, own.bottom());
        summary::draw(app, canvas, Rect { y: own.bottom() + 1, height: area.bottom() - own.bottom() - 1, ..area });
    }
}

fn list(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = canvas.theme;
    let tone = |tone| theme.tone(tone);
    let largest = app.cache.sessions().and_then(|rows| rows.iter().map(|row| row.session.number.0).max());
    let digits = largest.and_then(u32::checked_ilog10).unwrap_or(0) as u16 + 1;
    let column = |column: &Column| if column.title() == "#" { column.widened_to(digits) } else { *column };
    let columns: Vec<Column> = COLUMNS.iter().map(column).collect();
    table(app, canvas, area, &columns, "", |row| {
        let row = app.cache.sessions()?.get(row)?;
        let session = &row.session;
        let (seen, sent) = session.bytes;
        let seen_tone = if seen < sent { Tone::Warning } else { Tone::Dim };
        let findings: u64 = row.findings.iter().sum();
        let latency =
            |pick: fn((i64, i64)) -> i64| row.latency.map(|both| units::duration(pick(both))).unwrap_or_default();
        Some(vec![
            Cell::new(if row.live { "●" } else { "" }, tone(Tone::Good)),
            Cell::new(session.number.0.to_string(), tone(Tone::Dim)),
            Cell::new(server(session), tone(Tone::Strong)),
            Cell::new(party(&session.client).unwrap_or_default(), tone(Tone::Plain)),
            Cell::new(session.transport.name(), tone(Tone::Plain)),
            Cell::new(session.protocol_version.clone().unwrap_or_default(), tone(Tone::Dim)),
            Cell::new(session.outcomes.requests().to_string(), tone(Tone::Plain)),
            count_cell(theme, session.outcomes.failed(), Tone::Error),
            count_cell(theme, findings, worst(&row.findings).map_or(Tone::Dim, Tone::from)),
            Cell::new(percent(session), tone(seen_tone)),
            Cell::new(latency(|both| both.0), tone(Tone::Plain)),
            Cell::new(latency(|both| both.1), tone(Tone::Plain)),
            Cell::new(clock(session.ended), tone(Tone::Dim)),
        ])
    });
}

/// The captured share of the bytes. Rounding never makes it 100 %.
fn percent(session: &Session) -> String {
    let (seen, sent) = session.bytes;
    let percent = session.completeness() * 100.0;
    if seen < sent { format!("{:.1} %", percent.min(99.9)) } else { "100 %".to_owned() }
}

/// A time on the wall clock, UTC.
pub fn clock(time: crate::capture::Time) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(time.0));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}
